"""Frozen records: what `fit` drew, and the pure functions of it."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

if TYPE_CHECKING:
    from phimap.ops.base import Ops


#: Key in the metadata of a record's field that model files leave out; such a field has a default.
NOT_SAVED = "not_saved"


class Record:
    """Base of the dataclasses that a fitted object is made of; those that hold the randomness of a map are frozen.

    Fields are host arrays (float64 values, ``intp`` indices, ``int8`` signs), CSR matrices, numbers, text, None,
    kernels, other records, or tuples of these. Maps never write to them. A subclass is registered under its class
    name, by which model files refer to it; no other class can be named in a file.
    """

    registry: ClassVar[dict[str, type[Record]]] = {}

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        if cls.__name__ in Record.registry and Record.registry[cls.__name__].__module__ != cls.__module__:
            raise TypeError(f"a record named {cls.__name__} exists already; records need distinct names.")
        Record.registry[cls.__name__] = cls

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
