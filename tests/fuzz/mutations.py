"""Mutations of models: arrays and trees changed as by somebody who knows the format and wishes harm."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np

from phimap.io.encoding import TRANSFORMERS, public_classes
from phimap.records import Record
from tests.fuzz.samples import Sample

_INTEGERS = (
    0,
    1,
    -1,
    2,
    3,
    7,
    63,
    64,
    65,
    255,
    1000,
    2**31 - 1,
    -(2**31),
    2**31,
    2**40,
    2**63 - 1,
    -(2**63),
    2**64,
    10**30,
)
_FLOATS = (
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    1e-320,
    1e-30,
    1e30,
    -1e30,
    1e308,
    -1e308,
    float("nan"),
    float("inf"),
    -float("inf"),
)
_TEXTS = (
    "",
    "x",
    "float64",
    "<U2000000",
    "O",
    "V9",
    "model.coef",
    "../x",
    "record",
    "estimator",
    "[/y]",
    "\ud7ff" * 3,
    "a" * 5000,
)
_DTYPES = ("float16", "float32", "float64", "int8", "uint8", "int16", "int32", "uint32", "int64", "uint64", "bool")


def mutated(sample: Sample, others: tuple[Sample, ...], rng: np.random.Generator) -> Sample:
    """A sample with one to three changes."""
    tree, arrays = copy.deepcopy(sample.tree), dict(sample.arrays)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if arrays and rng.random() < 0.5:
            _change_array(arrays, rng)
        else:
            try:
                tree = _change_tree(tree, arrays, others[rng.integers(len(others))], rng)
            except RecursionError:
                # A change before made the tree so deep that Python cannot copy it.
                break
    return Sample(sample.name, tree, arrays)


def _change_array(arrays: dict[str, np.ndarray], rng: np.random.Generator) -> None:
    keys = sorted(arrays)
    key = keys[rng.integers(len(keys))]
    array = arrays[key].copy()
    change = rng.integers(11)
    if change <= 3 and array.size:
        flat = array.reshape(-1)
        for _ in range(rng.choice((1, 1, 2, 5))):
            flat[rng.integers(flat.size)] = _entry(array.dtype, rng)
    elif change == 4:
        array[...] = _entry(array.dtype, rng)
    elif change == 5:
        array = np.ascontiguousarray(array.T)
    elif change == 6 and array.size > 1:
        array = array.reshape(-1)[: rng.integers(1, array.size)]
    elif change == 7 and array.ndim:
        axis = rng.integers(array.ndim)
        array = (
            np.take(array, np.arange(array.shape[axis] + rng.choice((-1, 1))), axis, mode="wrap")
            if array.size
            else array
        )
    elif change == 8 and array.ndim:
        axis = rng.integers(array.ndim)
        array = np.repeat(array, rng.choice((0, 2, 3)), axis)
    elif change == 9:
        with np.errstate(all="ignore"):
            array = array.astype(_DTYPES[rng.integers(len(_DTYPES))])
    else:
        array = arrays[keys[rng.integers(len(keys))]]
    arrays[key] = np.array(array, order="C")


def _entry(dtype: np.dtype, rng: np.random.Generator) -> Any:
    if dtype.kind == "f":
        with np.errstate(all="ignore"):
            return np.float64(_FLOATS[rng.integers(len(_FLOATS))]).astype(dtype)
    if dtype.kind == "b":
        return bool(rng.integers(2))
    limits = np.iinfo(dtype)
    return max(int(limits.min), min(int(limits.max), _INTEGERS[rng.integers(len(_INTEGERS))]))


def _places(node: Any, within: Any = None, key: Any = None) -> Iterator[tuple[Any, Any, Any]]:
    """All values of a tree, each with what holds it and under which key."""
    yield node, within, key
    pairs = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for name, item in pairs:
        yield from _places(item, node, name)


def _change_tree(tree: Any, arrays: dict[str, np.ndarray], other: Sample, rng: np.random.Generator) -> Any:
    places = list(_places(tree))
    node, within, key = places[rng.integers(len(places))]
    change = rng.integers(9)
    if change <= 2:
        # Scalars are most of the tree, and few of its nodes by chance.
        scalars = [place for place in places if not isinstance(place[0], dict | list)]
        if not scalars:
            return tree
        node, within, key = scalars[rng.integers(len(scalars))]
        new: Any = _scalar(node, rng)
    elif change == 3:
        new = _scalar(node, rng)
    elif change == 4:
        named = [place for place in places if isinstance(place[0], dict) and "name" in place[0]]
        if not named:
            return tree
        one = named[rng.integers(len(named))][0]
        names = sorted(Record.registry if one.get("kind") == "record" else public_classes() | TRANSFORMERS)
        one["name"] = names[rng.integers(len(names))]
        return tree
    elif change == 5:
        new = copy.deepcopy(places[rng.integers(len(places))][0])
    elif change == 6:
        found = list(_places(other.tree))
        new = copy.deepcopy(found[rng.integers(len(found))][0])
        arrays |= {name: array for name, array in other.arrays.items() if name not in arrays}
    elif change == 7:
        new = copy.deepcopy(node)
        for _ in range(rng.choice((1, 2, 90, 200))):
            new = {"kind": "tuple", "items": [new]}
    else:
        if isinstance(within, dict):
            del within[key]
        elif isinstance(within, list):
            within[key : key + 1] = [node] * rng.choice((0, 2, 3))
        return tree
    if within is None:
        return new
    within[key] = new
    return tree


def _scalar(old: Any, rng: np.random.Generator) -> Any:
    kinds = {bool: 0, int: 1, float: 2, str: 3}
    kind = kinds.get(type(old), 4) if rng.random() < 0.7 else rng.integers(5)
    if kind == 0:
        return bool(rng.integers(2))
    if kind == 1:
        near = isinstance(old, int) and rng.random() < 0.3
        return int(old) + int(rng.choice((-1, 1))) if near else _INTEGERS[rng.integers(len(_INTEGERS))]
    if kind == 2:
        return _FLOATS[rng.integers(len(_FLOATS))]
    if kind == 3:
        return _TEXTS[rng.integers(len(_TEXTS))]
    return None
