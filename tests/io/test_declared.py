"""Records of model files: what each class declares is looked at, and a mutant of every declaration is refused."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from inspect import isabstract
from typing import Any, get_type_hints

import numpy as np
import pytest

import phimap as pm
from phimap._files import DataError
from phimap.io.declared import BadRecordError, check_record
from phimap.io.decoding import Decoder
from phimap.records import DECLARED, Choice, Entries, Number, Part, Record, of_floats, of_indices, of_number
from tests.fuzz.samples import samples

#: Fields that hold arrays, or tuples of them, must say what a file may hold there.
ARRAYS = ("ndarray", "Array")
#: Classes of which no saved model here has one: learned corrections need thousands of rows, and others are not saved.
UNSEEN = {"Corrections", "Partition", "HeldOutScores", "Squash", "RobustTargets", "Stage", "SearchLog", "Calibration"}


def nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """The records of a tree."""
    if isinstance(tree, dict):
        if tree.get("kind") in ("record", "packed"):
            yield tree
        tree = list(tree.values())
    if isinstance(tree, list):
        for item in tree:
            yield from nodes(item)


def keys_of(tree: Any) -> set[str]:
    """The arrays that a tree names."""
    if isinstance(tree, dict):
        own = {tree["key"]} if tree.get("kind") == "array" else set()
        return own.union(*map(keys_of, tree.values()))
    return set().union(*map(keys_of, tree)) if isinstance(tree, list) else set()


def one_of_each() -> dict[str, Any]:
    """A record of every class that is in a sample, by the class's name; two of each, where there are two."""
    found: dict[str, list[Any]] = {}
    for sample in samples():
        for node in nodes(sample.tree):
            name = node.get("name", "PackedArray")
            if len(found.setdefault(name, [])) < 2:
                arrays = {key: sample.arrays[key] for key in keys_of(node)}
                found[name].append(Decoder(arrays, 10**6).decode(copy.deepcopy(node)))
    return {f"{name}-{i}": record for name, records in found.items() for i, record in enumerate(records)}


RECORDS = one_of_each()


def replaced(record: Any, name: str, value: Any) -> Any:
    """The record with another value in a field, whatever that is."""
    other = copy.copy(record)
    object.__setattr__(other, name, value)
    return other


def bad_arrays(array: np.ndarray, declared: Entries, record: Any) -> Iterator[tuple[str, np.ndarray]]:
    """Arrays that break each declaration about one, one at a time."""
    yield "axes", array[None]
    yield "dtype", array.astype(np.complex128)
    for axis, length in enumerate(declared.shape):
        if isinstance(length, int):
            yield f"axis {axis}", np.repeat(array, 2, axis)
    if not array.size:
        return

    def with_entry(value: Any) -> np.ndarray:
        changed = array.copy()
        changed.reshape(-1)[-1] = value
        return changed

    if declared.kind == "float" and declared.finite:
        yield "NaN", with_entry(np.nan)
        yield "infinite", with_entry(np.inf)
    if declared.kind == "sign":
        yield "zero", with_entry(0)
    if declared.least is not None and np.isfinite(declared.least):
        yield "least", with_entry(2 * min(declared.least, -1))
    if declared.most is not None:
        yield "most", with_entry(declared.most + 1 if array.dtype.kind in "iu" else 2 * declared.most)
    if declared.below is not None:
        yield "below", with_entry(np.iinfo(array.dtype).max)
    if declared.permutation and array.shape[-1] > 1:
        changed = array.copy()
        changed[..., 0] = changed[..., -1]
        yield "permutation", changed
    if declared.ascending and array.size > 1 and array.max() > array.min():
        yield "ascending", array[::-1].copy()


def bad_numbers(value: Any, declared: Number, is_float: bool) -> Iterator[tuple[str, Any]]:
    """Numbers that break each declaration about one."""
    if is_float and declared.finite:
        yield "NaN", float("nan")
    if not is_float:
        yield "bits", 2**64
    if declared.least is not None:
        yield "least", declared.least - 1
    if declared.most is not None:
        yield "most", declared.most + 1
    if declared.above is not None:
        yield "above", declared.above
    if declared.length is not None:
        yield "length", 0


def mutants(record: Any) -> Iterator[tuple[str, Any]]:
    """Copies of a record, each of which breaks one declaration, by what it breaks."""
    hints = get_type_hints(type(record))
    for one in fields(record):
        value, declared = getattr(record, one.name), one.metadata.get(DECLARED)
        if value is None:
            continue
        yield f"{one.name}: type", replaced(record, one.name, object())
        items = list(value) if isinstance(value, tuple) else [value]
        for place, item in enumerate(items[:2]):

            def put(new: Any, name: str = one.name, value: Any = value, place: int = place) -> Any:
                whole = (*value[:place], new, *value[place + 1 :]) if isinstance(value, tuple) else new
                return replaced(record, name, whole)

            if isinstance(item, np.ndarray) and isinstance(declared, Entries) and declared.kind != "any":
                for what, array in bad_arrays(item, declared, record):
                    if declared.shape or what != "axes":
                        yield f"{one.name}: {what}", put(array)
            elif isinstance(declared, Choice):
                yield f"{one.name}: choice", put("no such choice")
            elif isinstance(item, int | float) and not isinstance(item, bool):
                is_float = hints[one.name] is float or isinstance(item, float)
                for what, number in bad_numbers(item, declared or Number(), is_float):
                    yield f"{one.name}: {what}", put(number)
    yield from uneven_mutants(record)


def uneven_mutants(record: Any) -> Iterator[tuple[str, Any]]:
    """Copies whose arrays disagree about a length that two fields share."""
    shared: dict[str, list[tuple[str, int]]] = {}
    for one in fields(record):
        declared = one.metadata.get(DECLARED)
        if isinstance(declared, Entries) and isinstance(getattr(record, one.name), np.ndarray):
            for axis, length in enumerate(declared.shape):
                if isinstance(length, str):
                    shared.setdefault(length, []).append((one.name, axis))
        elif isinstance(declared, Part) and getattr(record, one.name) is not None:
            for _, length in declared.lengths:
                shared.setdefault(length, []).append((one.name, -1))
        elif isinstance(declared, Number) and declared.length:
            shared.setdefault(declared.length, []).append((one.name, -1))
    for length, places in shared.items():
        for name, axis in places if len(places) > 1 else ():
            if axis >= 0:
                array = getattr(record, name)
                longer = np.concatenate([array, np.take(array, [0], axis)], axis) if array.size else array[None]
                yield f"{name}: length {length}", replaced(record, name, longer)


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_is_taken_as_it_is_and_refused_where_a_declaration_is_broken(name):
    record = RECORDS[name]
    check_record(record)
    seen = set()
    for what, mutant in mutants(record):
        with pytest.raises(BadRecordError) as caught:
            check_record(mutant)
        assert "\n" not in str(caught.value)
        seen.add(what)
    assert seen


def test_every_class_with_arrays_says_what_a_file_may_hold():
    classes = {cls for cls in Record.registry.values() if is_dataclass(cls) and cls.__module__.startswith("phimap.")}
    classes.add(pm.packed.PackedArray)
    for cls in classes:
        for one in fields(cls):
            holds_arrays = any(word in str(one.type) for word in ARRAYS) and "PackedArray" not in str(one.type)
            declared = one.metadata.get(DECLARED)
            assert not holds_arrays or isinstance(declared, Entries), f"{cls.__name__}.{one.name} declares nothing"
    named = {cls.__name__ for cls in classes if not isabstract(cls)}
    assert named - {name.rpartition("-")[0] for name in RECORDS} <= UNSEEN


def grown(record: Any) -> Iterator[Any]:
    """Copies that are changed without breaking a declaration of one field, where that can be done."""
    lengths: dict[str, list[tuple[str, int]]] = {}
    for one in fields(record):
        value, declared = getattr(record, one.name), one.metadata.get(DECLARED)
        if isinstance(value, bool) or value is None:
            continue
        if isinstance(value, int):
            yield from (replaced(record, one.name, value + step) for step in (-1, 1, 3, -value, 1 - value))
        elif isinstance(value, tuple):
            yield replaced(record, one.name, value[:-1])
            yield replaced(record, one.name, ())
            yield replaced(record, one.name, (*value, *value[-1:]))
            if value and isinstance(value[0], np.ndarray):
                yield replaced(record, one.name, tuple(np.concatenate([part, part]) for part in value))
                if value[0].dtype == np.int64:
                    yield replaced(record, one.name, tuple(part + 10**6 for part in value))
                yield replaced(record, one.name, (*value[:-1], value[-1][:-1]))
        elif isinstance(declared, Entries) and isinstance(value, np.ndarray):
            for axis, length in enumerate(declared.shape):
                lengths.setdefault(str(length), []).append((one.name, axis))
            if value.dtype.kind == "i" and declared.kind == "index":
                yield replaced(record, one.name, value + 1)
        elif isinstance(value, str):
            yield replaced(record, one.name, "no such name")
    for places in lengths.values():
        for change in (lambda array, axis: np.take(array, [0], axis), lambda array, axis: np.repeat(array, 3, axis)):
            other = record
            for name, axis in places:
                if getattr(record, name).shape[axis]:
                    other = replaced(other, name, change(getattr(other, name), axis))
            yield other
    for one in fields(record):
        if is_dataclass(part := getattr(record, one.name)):
            for change in grown(part):
                yield replaced(record, one.name, change)
        elif isinstance(part, tuple) and part and is_dataclass(part[0]):
            for place, item in enumerate(part[:3]):
                for change in grown(item):
                    yield replaced(record, one.name, (*part[:place], change, *part[place + 1 :]))


def requirements(record: Any) -> set[str]:
    """What a record requires, in words."""
    return {words for _, words in record.requirements()}


def test_every_requirement_is_broken_by_a_mutant():
    wanted: dict[str, set[str]] = {}
    met: dict[str, set[str]] = {}
    for record in RECORDS.values():
        name = type(record).__name__
        wanted.setdefault(name, set()).update(requirements(record))
        for mutant in grown(record):
            try:
                check_record(mutant)
            except BadRecordError as error:
                message = str(error)
                found = {words for words in wanted[name] if message.endswith(f"{name} must have {words}")}
                met.setdefault(name, set()).update(found or ({"the parts"} if "do not fit" in message else set()))
    missing = {name: words - met.get(name, set()) for name, words in wanted.items()}
    assert {name: words for name, words in missing.items() if words} == {}
