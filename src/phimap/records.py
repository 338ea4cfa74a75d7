"""Frozen records: the random draws of `fit`, and declarations of what a model file may hold in their fields."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

if TYPE_CHECKING:
    from phimap.ops.base import Ops


#: Metadata key of fields that are not written to model files. Such a field has a default.
NOT_SAVED = "not_saved"
#: Metadata key under which a field declares which values a model file may hold for it.
DECLARED = "declared"


@dataclass(frozen=True)
class Entries:
    """The values that a model file may hold for a field that is an array or a tuple of arrays.

    Attributes
    ----------
    shape : tuple of (int, str or None)
        Length of each axis: a number, a name, or None for any length. Axes with the same name have the same length in
        all fields of a record. Lengths are at least 1, except those whose name starts with "?", which may be 0. An
        empty tuple allows any number of axes.
    kind : str
        ``"float"``, ``"index"`` (int32, int64), ``"sign"`` (int8, -1 or 1), ``"byte"`` (uint8), ``"word"`` (uint64) or
        ``"any"``, which includes labels.
    least, most : float or None
        Smallest and largest value allowed.
    below : str or None
        Name of a length or number that all entries must be less than.
    permutation : bool
        Whether the entries along the last axis must be 0, 1, ... in some order.
    ascending : bool
        Whether the entries must not decrease.
    finite : bool
        Whether all entries must be finite.
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
    """The values that a model file may hold for a field that is a number or a tuple of numbers.

    Attributes
    ----------
    least, most : float or None
        Smallest and largest value allowed.
    above : float or None
        The number must be greater than this.
    length : str or None
        Name of the axis length that equals this number; the number is then at least 1.
    finite : bool
        Whether the number must be finite.
    """

    least: float | None = None
    most: float | None = None
    above: float | None = None
    length: str | None = None
    finite: bool = True


@dataclass(frozen=True)
class AllowedTexts:
    """The values that a model file may hold for a field that is one of a few texts."""

    options: tuple[str, ...]


@dataclass(frozen=True)
class Part:
    """A field that is itself a record.

    Each pair of `lengths` is an attribute of that record, and the name of the axis length that the attribute gives.
    """

    lengths: tuple[tuple[str, str], ...]


def of_floats(*shape: int | str | None, **facts: Any) -> dict[str, Entries]:
    """Metadata of a field of floats, which must be finite unless ``finite=False``."""
    return {DECLARED: Entries(shape, **facts)}


def of_indices(*shape: int | str | None, below: str | None = None, **facts: Any) -> dict[str, Entries]:
    """Metadata of a field of indices, at least 0 and less than the length `below`."""
    return {DECLARED: Entries(shape, "index", least=0, below=below, **facts)}


def of_signs(*shape: int | str | None) -> dict[str, Entries]:
    """Metadata of an int8 field of entries -1 and 1."""
    return {DECLARED: Entries(shape, "sign")}


def of_entries(kind: str, *shape: int | str | None, **facts: Any) -> dict[str, Entries]:
    """Metadata of an array field whose entries are of the given `kind`, see `Entries`."""
    return {DECLARED: Entries(shape, kind, **facts)}


def of_number(**facts: Any) -> dict[str, Number]:
    """Metadata of a field that is a number."""
    return {DECLARED: Number(**facts)}


def one_of(*options: str) -> dict[str, AllowedTexts]:
    """Metadata of a field that is one of a few texts."""
    return {DECLARED: AllowedTexts(options)}


def with_lengths(**lengths: str) -> dict[str, Part]:
    """Metadata of a field that is a record: ``attribute="name"`` sets the length "name" to that attribute's value."""
    return {DECLARED: Part(tuple(lengths.items()))}


class Record:
    """Base of the dataclasses that make up a fitted object; records of a map's random draws are frozen.

    Fields are host arrays (float64 values, ``intp`` indices, ``int8`` signs), CSR matrices, numbers, text, None,
    kernels, other records, or tuples of these. Maps never write to them. A subclass is registered under its class
    name; model files refer to classes by these names and cannot name any other class.

    The metadata of a field declare what a file may hold in it, and `requirements` lists further conditions.
    `phimap.io.schema` checks both for records read from files; records made by `fit` are not checked.
    """

    registry: ClassVar[dict[str, type[Record]]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.__name__ in Record.registry and Record.registry[cls.__name__].__module__ != cls.__module__:
            raise TypeError(f"a record named {cls.__name__} exists already; records need distinct names.")
        Record.registry[cls.__name__] = cls

    def requirements(self) -> Iterator[tuple[bool, str]]:
        """Yield each further condition on the record: whether it holds, and its text for an error message."""
        return iter(())

    def for_prediction(self) -> Self:
        """The record without data that no prediction needs, as in model files that keep no statistics."""
        return self

    @property
    def n_bytes(self) -> int:
        """Bytes of the arrays on the host. Floats take 8 bytes there, and 4 bytes once bound to float32."""
        if not is_dataclass(self):
            raise TypeError(f"{type(self).__name__} must be a frozen dataclass.")
        return sum(_n_bytes(getattr(self, f.name)) for f in fields(self))

    def bind(self, ops: Ops) -> Self:
        """The same record with its arrays as constants of `ops`, in the dtype and on the device of `ops`."""
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
    """Whether two records, or two values of their fields, are equal."""
    if isinstance(one, Record):
        return type(one) is type(other) and equal_records(tuple(vars(one).values()), tuple(vars(other).values()))
    if isinstance(one, np.ndarray):
        return isinstance(other, np.ndarray) and np.array_equal(one, other)
    if isinstance(one, tuple):
        return isinstance(other, tuple) and len(one) == len(other) and all(map(equal_records, one, other))
    return repr(one) == repr(other)
