"""Checks whether records from a file match the declarations of their classes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import cache
from math import isfinite
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np
from scipy import sparse

from phimap._files import DataError, one_line
from phimap.packed import PackedArray
from phimap.records import DECLARED, AllowedTexts, Entries, Number, Part

# Largest length that a record may declare.
_LONGEST = 2**40
_KINDS = {
    "float": (np.float16, np.float32, np.float64),
    "index": (np.int32, np.int64),
    "sign": (np.int8,),
    "byte": (np.uint8,),
    # The oldest model files store unsigned words as signed integers.
    "word": (np.int64, np.uint64),
    "any": (),
}


class BadRecordError(DataError):
    """A record of a file does not match the declarations of its class."""


def check_record(record: Any) -> None:
    """Raise `BadRecordError` unless a record matches the declarations of its fields and meets its requirements.

    Numbers are checked first, because they may be lengths of arrays. The other fields follow in order.
    """
    lengths: dict[str, int] = {}
    name = type(record).__name__
    for field, hint, declared in _declarations(type(record)):
        value, where = getattr(record, field), f"{name}.{field}"
        if not is_of(value, hint):
            raise BadRecordError(f"{where} must be {_words(hint)}, got {quoted(value)}")
        if value is not None:
            _check_value(where, value, declared, lengths)
    check_requirements(record, name)


def check_requirements(one: Any, name: str) -> None:
    """Raise `BadRecordError` unless an object meets all conditions of its method `requirements`."""
    try:
        unmet = next((words for met, words in one.requirements() if not met), None)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
        # The requirements are computed from the parts of the object, which fails if the parts are inconsistent.
        raise BadRecordError(f"the parts of {name} do not fit each other: {one_line(error)}") from error
    if unmet is not None:
        raise BadRecordError(f"{name} must have {unmet}")


def _check_value(where: str, value: Any, declared: Any, lengths: dict[str, int]) -> None:
    if isinstance(value, tuple | list) and not isinstance(declared, Part):
        for item in value:
            if item is not None:
                _check_value(where, item, declared, lengths)
    elif isinstance(declared, Entries):
        _check_entries(where, value, declared, lengths)
    elif isinstance(declared, Part):
        for attribute, length in declared.lengths:
            _check_length(where, f"{attribute} of", getattr(value, attribute), length, lengths)
    elif isinstance(declared, AllowedTexts):
        if value not in declared.options:
            raise BadRecordError(f"{where} must be one of {', '.join(declared.options)}, got {quoted(value)}")
    elif isinstance(value, bool | int | float | np.number):
        _check_number(where, value, declared or Number(), lengths)
    elif isinstance(value, np.ndarray):
        raise BadRecordError(f"{where} is an array of which nothing is declared")


def _check_number(where: str, value: Any, declared: Number, lengths: dict[str, int]) -> None:
    if isinstance(value, int) and abs(value) >= 2**64:
        raise BadRecordError(f"{where} must be a number of 64 bits, got one of {value.bit_length()}")
    if declared.finite and not isfinite(value):
        raise BadRecordError(f"{where} must be finite, got {value}")
    bounds = (
        (declared.least is None or value >= declared.least, f"at least {declared.least}"),
        (declared.most is None or value <= declared.most, f"at most {declared.most}"),
        (declared.above is None or value > declared.above, f"above {declared.above}"),
    )
    for met, words in bounds:
        if not met:
            raise BadRecordError(f"{where} must be {words}, got {quoted(value)}")
    if declared.length is not None:
        _check_length(where, "", value, declared.length, lengths)


def _check_length(where: str, what: str, value: int, name: str, lengths: dict[str, int]) -> None:
    if not (not name.startswith("?")) <= value <= _LONGEST:
        raise BadRecordError(f"{what} {where} must be a length, got {quoted(value)}".strip())
    known = lengths.setdefault(name, int(value))
    if value != known:
        raise BadRecordError(f"{what} {where} must be {known}, as fields before it say, got {value}".strip())


def _check_entries(where: str, value: Any, declared: Entries, lengths: dict[str, int]) -> None:
    if isinstance(value, PackedArray):
        return
    if sparse.issparse(value):
        value = value.data
    if not isinstance(value, np.ndarray):
        raise BadRecordError(f"{where} must be an array, got {quoted(value)}")
    if declared.kind == "any":
        _check_any(where, value)
    elif value.dtype not in _KINDS[declared.kind]:
        raise BadRecordError(f"{where} must be of {_KINDS[declared.kind][-1].__name__}, got {value.dtype}")
    if declared.shape and value.ndim != len(declared.shape):
        raise BadRecordError(f"{where} must have {len(declared.shape)} axes, got shape {value.shape}")
    for length, expected in zip(value.shape, declared.shape, strict=bool(declared.shape)):
        if isinstance(expected, str):
            _check_length(where, "an axis of", length, expected, lengths)
        elif expected is not None and length != expected:
            raise BadRecordError(f"{where} must have an axis of {expected}, got shape {value.shape}")
    if not value.size or declared.kind == "any":
        return
    low, high = value.min(), value.max()
    below = None if declared.below is None else lengths[declared.below]
    checks: tuple[tuple[Callable[[], bool], str], ...] = (
        (lambda: not declared.finite or bool(np.isfinite(low) and np.isfinite(high)), "finite"),
        (lambda: declared.kind != "sign" or bool((np.abs(value) == 1).all()), "-1 or 1"),
        (lambda: declared.least is None or low >= declared.least, f"at least {declared.least}"),
        (lambda: declared.most is None or high <= declared.most, f"at most {declared.most}"),
        (lambda: below is None or high < below, f"below {below}"),
        (lambda: not declared.ascending or bool((np.diff(value, axis=-1) >= 0).all()), "in ascending order"),
        (lambda: not declared.permutation or _are_permutations(value), "each place once"),
    )
    for met, words in checks:
        if not met():
            raise BadRecordError(f"entries of {where} must be {words}, got some from {low} to {high}")


def _check_any(where: str, value: np.ndarray) -> None:
    if value.dtype.kind == "f" and not np.isfinite(value).all():
        raise BadRecordError(f"entries of {where} must be finite")


def _are_permutations(places: np.ndarray) -> bool:
    return bool((np.sort(places, axis=-1) == np.arange(places.shape[-1])).all())


@cache
def _declarations(cls: type) -> tuple[tuple[str, Any, Any], ...]:
    """Name, annotated type and declaration of each field of a dataclass; fields declared as numbers come first."""
    hints = get_type_hints(cls)
    declared = [(f.name, hints[f.name], f.metadata.get(DECLARED)) for f in fields(cls)]
    return tuple(sorted(declared, key=lambda one: not isinstance(one[2], Number)))


def is_of(value: Any, hint: Any) -> bool:
    """Whether a value is of the annotated type `hint`; items of tuples and lists are checked, too."""
    if hint is Any:
        return True
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return any(is_of(value, part) for part in parts)
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        if parts[-1] is Ellipsis:
            return all(is_of(item, parts[0]) for item in value)
        return len(value) == len(parts) and all(map(is_of, value, parts))
    if origin is list:
        return isinstance(value, list) and all(is_of(item, parts[0]) for item in value)
    if hint is float:
        return isinstance(value, float | int | np.floating | np.integer) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int | np.integer) and not isinstance(value, bool)
    if hint is None or hint is NoneType:
        return value is None
    # Other annotations, such as of functions, match no value, because a file cannot contain functions.
    return isinstance(hint, type) and isinstance(value, hint)


def _words(hint: Any) -> str:
    return (
        getattr(hint, "__name__", str(hint)) if get_origin(hint) is None else one_line(str(hint).replace("phimap.", ""))
    )


def quoted(value: Any) -> str:
    """A value as text for a message. Long values are replaced by their type."""
    text = repr(value) if isinstance(value, str | int | float | bool | NoneType) else type(value).__name__
    return text if len(text) <= 60 else text[:57] + "..."
