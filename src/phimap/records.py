"""Frozen records: what `fit` drew, and the pure functions of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

if TYPE_CHECKING:
    from phimap.ops.base import Ops


#: Key in the metadata of a record's field that model files leave out; such a field has a default.
NOT_SAVED = "not_saved"
#: Key in the metadata of a record's field of what a file may hold there.
DECLARED = "declared"


@dataclass(frozen=True)
class Entries:
    """What a model file may hold in a field that is an array, or in each array of a field that is a tuple of such.

    Attributes
    ----------
    shape : tuple of (int, str or None)
        Length of each axis: a number, the name of a length that is common to the fields of a record, or None for any;
        empty for any number of axes.
        A name with a leading "?" is of a length that may be 0; all others are at least 1.
    kind : str
        ``"float"``, ``"index"`` (int32, int64), ``"sign"`` (int8, -1 or 1), ``"byte"`` (uint8), ``"word"`` (uint64) or
        ``"any"``, labels too.
    least, most : float or None
        Bounds of the entries, which are finite in any case unless `finite` says otherwise.
    below : str or None
        Name of a length or of a number that all entries are below.
    permutation : bool
        Whether the entries along the last axis are 0, 1, ... in some order.
    ascending : bool
        Whether no entry is below the one before it.
    finite : bool
    """

    shape: tuple[int | str | None, ...]
    kind: str = "float"
    least: float | None = None
    most: float | None = None
    below: str | None = None
    permutation: bool = False
    ascending: bool = False
    finite: bool = True


@dataclass(frozen=True)
class Number:
    """What a model file may hold in a field that is a number, or in each number of a field that is a tuple of such.

    Attributes
    ----------
    least, most : float or None
    above : float or None
        What it is greater than.
    length : str or None
        Name of the length of axes that the number gives; it is at least 1.
    finite : bool
    """

    least: float | None = None
    most: float | None = None
    above: float | None = None
    length: str | None = None
    finite: bool = True


@dataclass(frozen=True)
class AllowedTexts:
    """What a model file may hold in a field that is one of a few texts."""

    options: tuple[str, ...]


@dataclass(frozen=True)
class Part:
    """What a record in a field of another says of the lengths in that one: names of attributes, and of the lengths."""

    lengths: tuple[tuple[str, str], ...]


def of_floats(*shape: int | str | None, **facts: Any) -> dict[str, Entries]:
    """Metadata of a field of finite numbers; ``finite=False`` for others."""
    return {DECLARED: Entries(shape, **facts)}


def of_indices(*shape: int | str | None, below: str | None = None, **facts: Any) -> dict[str, Entries]:
    """Metadata of a field of places, from 0 on and below a length."""
    return {DECLARED: Entries(shape, "index", least=0, below=below, **facts)}


def of_signs(*shape: int | str | None) -> dict[str, Entries]:
    """Metadata of a field of ones and minus ones, int8."""
    return {DECLARED: Entries(shape, "sign")}


def of_entries(kind: str, *shape: int | str | None, **facts: Any) -> dict[str, Entries]:
    """Metadata of a field of entries of another kind: see `Entries`."""
    return {DECLARED: Entries(shape, kind, **facts)}


def of_number(**facts: Any) -> dict[str, Number]:
    """Metadata of a field that is a number."""
    return {DECLARED: Number(**facts)}


def one_of(*options: str) -> dict[str, AllowedTexts]:
    """Metadata of a field that is one of a few texts."""
    return {DECLARED: AllowedTexts(options)}


def with_lengths(**lengths: str) -> dict[str, Part]:
    """Metadata of a field that is a record: names of lengths by its attributes."""
    return {DECLARED: Part(tuple(lengths.items()))}


class Record:
    """Base of the dataclasses that a fitted object is made of; those that hold the randomness of a map are frozen.

    Fields are host arrays (float64 values, ``intp`` indices, ``int8`` signs), CSR matrices, numbers, text, None,
    kernels, other records, or tuples of these. Maps never write to them. A subclass is registered under its class
    name, by which model files refer to it; no other class can be named in a file.

    The metadata of a field declare what a file may hold there, and `requirements` what else must be true of a record
    from a file. `fit` makes records that are right, so that nothing is looked at there: `phimap.io.schema` does it
    for those that are read.
    """

    registry: ClassVar[dict[str, type[Record]]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.__name__ in Record.registry and Record.registry[cls.__name__].__module__ != cls.__module__:
            raise TypeError(f"a record named {cls.__name__} exists already; records need distinct names.")
        Record.registry[cls.__name__] = cls

    def requirements(self) -> Iterator[tuple[bool, str]]:
        """What must be true of a record whose fields are as declared: whether it is, and in words; in order."""
        return iter(())

    @property
    def n_bytes(self) -> int:
        """Bytes of the arrays held, on the host; bound to float32, floats take half."""
        if not is_dataclass(self):
            raise TypeError(f"{type(self).__name__} must be a frozen dataclass.")
        return sum(_n_bytes(getattr(self, f.name)) for f in fields(self))

    def bind(self, ops: Ops) -> Self:
        """The same record with its arrays as constants of a backend, in the backend's dtype and on its device."""
        if not is_dataclass(self):
            raise TypeError(f"{type(self).__name__} must be a frozen dataclass.")
        return replace(self, **{f.name: _bind(getattr(self, f.name), ops) for f in fields(self)})


def _bind(value: Any, ops: Ops) -> Any:
    if isinstance(value, Record):
        return value.bind(ops)
    if isinstance(value, np.ndarray):
        return ops.constant(value)
    if isinstance(value, tuple):
        return tuple(_bind(item, ops) for item in value)
    return value


def _n_bytes(value: Any) -> int:
    if isinstance(value, Record):
        return value.n_bytes
    if isinstance(value, tuple):
        return sum(map(_n_bytes, value))
    if hasattr(value, "indptr"):
        return value.data.nbytes + value.indices.nbytes + value.indptr.nbytes
    return getattr(value, "nbytes", 0)


def equal_records(one: Any, other: Any) -> bool:
    """Whether two records, or parts of records, hold the same values."""
    if isinstance(one, Record):
        return type(one) is type(other) and equal_records(tuple(vars(one).values()), tuple(vars(other).values()))
    if isinstance(one, np.ndarray):
        return isinstance(other, np.ndarray) and np.array_equal(one, other)
    if isinstance(one, tuple):
        return isinstance(other, tuple) and len(one) == len(other) and all(map(equal_records, one, other))
    return repr(one) == repr(other)
