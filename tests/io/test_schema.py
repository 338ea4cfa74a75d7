"""Records of model files: what each class declares is looked at, and a mutant of every declaration is refused."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from inspect import isabstract
from typing import Any, get_type_hints

import numpy as np
import pandas as pd
import pytest

import phimap as pm
from phimap.features.power_series.norms import NormFunctions
from phimap.features.power_series.terms import SeriesRecord, SeriesTerm
from phimap.io.decoding import Decoder
from phimap.io.schema import BadRecordError, check_record
from phimap.learn.conformal import Conformal, ErrorScale
from phimap.learn.corrections.corrections import Corrections, PartitionModel
from phimap.learn.corrections.partition import Partition
from phimap.learn.rows.column_forms import Ranks, Squash
from phimap.learn.targets.base import TargetUnits
from phimap.records import DECLARED, AllowedTexts, Entries, Number, Part, Record
from tests.fuzz.samples import samples

#: Fields that hold arrays, or tuples of them, must say what a file may hold there.
ARRAYS = ("ndarray", "Array")
#: Classes of which no saved model here has one: learned corrections need thousands of rows, and others are not saved.
UNSEEN = {
    "Corrections",
    "Partition",
    "HeldOutScores",
    "SimilarityRecord",
    "Ranks",
    "Squash",
    "RobustTargets",
    "Stage",
    "SearchLog",
    "Calibration",
    "ErrorScale",
    "LogMeans",
    "Quantiles",
}
# What checkpoints alone hold.
UNSEEN |= {"RowSummary", "ColumnMoments", "ExtremeTargets", "Labels"}
# What exports make while they trace a model, and no file holds.
UNSEEN |= {"WholeMatrix"}


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
            elif isinstance(declared, AllowedTexts):
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


def is_right(record: Any) -> bool:
    """Whether a record passes: parts of a record are looked at before it is."""
    try:
        check_record(record)
    except BadRecordError:
        return False
    return True


def grown(record: Any) -> Iterator[Any]:
    """Copies that are changed without breaking a declaration of one field, where that can be done."""
    lengths: dict[str, list[tuple[str, int]]] = {}
    for one in fields(record):
        value, declared = getattr(record, one.name), one.metadata.get(DECLARED)
        if isinstance(value, bool) or value is None:
            continue
        yield replaced(record, one.name, None)
        if isinstance(value, int):
            yield from (replaced(record, one.name, value + step) for step in (-1, 1, 3, -value, 1 - value, 10**6))
        elif isinstance(value, float):
            yield replaced(record, one.name, 1e200)
        elif isinstance(value, np.dtype):
            yield replaced(record, one.name, np.dtype(np.float16))
        elif isinstance(value, tuple):
            yield replaced(record, one.name, value[:-1])
            yield replaced(record, one.name, ())
            yield replaced(record, one.name, (*value, *value[-1:]))
            if value and isinstance(value[0], str):
                yield replaced(record, one.name, ("no such name",) * len(value))
            if value and isinstance(value[0], tuple):
                Z, Y, weights = value[0]
                wrong = (np.ones(3), Y, weights), (Z, Y[1:], weights), (Z, Y, np.ones(1))
                yield from (replaced(record, one.name, (rows,)) for rows in wrong)
            if value and isinstance(value[0], np.ndarray):
                yield replaced(record, one.name, tuple(np.concatenate([part, part]) for part in value))
                if value[0].dtype == np.int64:
                    yield replaced(record, one.name, tuple(part + 10**6 for part in value))
                yield replaced(record, one.name, (*value[:-1], value[-1][:-1]))
        elif isinstance(declared, Entries) and isinstance(value, np.ndarray):
            for axis, length in enumerate(declared.shape):
                lengths.setdefault(str(length), []).append((one.name, axis))
            if None in declared.shape or not declared.shape:
                yield replaced(record, one.name, value[:-1])
            if value.dtype.kind == "i" and declared.kind == "index":
                yield replaced(record, one.name, value + 1)
        elif isinstance(value, str):
            yield replaced(record, one.name, "no such name")
    for places in lengths.values():
        for length in (1, 7, 14, 61, 62):
            other = record
            for name, axis in places:
                if size := getattr(record, name).shape[axis]:
                    other = replaced(other, name, np.take(getattr(other, name), np.arange(length) % size, axis))
            yield other
    for one in fields(record):
        if is_dataclass(part := getattr(record, one.name)):
            for change in filter(is_right, grown(part)):
                yield replaced(record, one.name, change)
        elif isinstance(part, tuple) and part and is_dataclass(part[0]):
            for place, item in enumerate(part[:3]):
                for change in filter(is_right, grown(item)):
                    yield replaced(record, one.name, (*part[:place], change, *part[place + 1 :]))


def _sketch(n_features: int, n_components: int = 3) -> Any:
    return pm.sketches.CountSketch(n_components).sample(n_features, np.random.default_rng(0))


def _leaves(record: Any, *leaves: Any) -> Any:
    return replaced(record, "leaves", leaves)


def _even_filters(record: Any) -> Any:
    filters = tuple(np.ones((4 * W.shape[0] // record.filter_size**2, W.shape[1])) for W in record.filters)
    return replaced(replaced(record, "filter_size", 2), "filters", filters)


def _other_window(record: Any) -> Any:
    size = record.pixel_window.filter_size + 2
    window = replaced(replaced(record.pixel_window, "filter_size", size), "signs", np.ones((size**2, 0)))
    return replaced(record, "pixel_window", window)


def _other_entrance(record: Any) -> Any:
    tangent = pm.sketches.SRHT(4).sample(7, np.random.default_rng(0))
    return replaced(replaced(record, "entrance", _sketch(record.n_features, 7)), "tangent", tangent)


def _two_forms(record: Any) -> Any:
    form = pm.sketches.TensorSRHT(4, form="hadamard").sample(5, np.random.default_rng(0)).samples
    return replaced(record, "nodes", (replaced(record.nodes[0], "samples", form), *record.nodes[1:]))


def applies(words: str, record: Any) -> bool:
    """Whether the mutant by hand can be made of a record of that class."""
    name = type(record).__name__
    return {
        "nodes of one form": lambda: len(record.nodes) > 1,
        "leaves of one width": lambda: record.n_leaves > 1,
        "layers that follow each other": lambda: name == "NTKSketchRecord",
        "a scale for each direction": lambda: name == "SparseSignRecord",
        "units for its targets": lambda: not record.targets.has_labels,
    }.get(words, lambda: True)()


#: Mutants of what the changes of `grown` do not reach, by what is required.
def _with_norms(record: Any, n_functions: int, weight: str) -> Any:
    return replaced(replaced(record, "norms", NormFunctions(1.0, -0.5, 0.5, n_functions)), "weight", weight)


def _sketch_of(n_features: int, entrance: Any) -> Any:
    return pm.sketches.SRHT(entrance.n_components).sample(n_features, np.random.default_rng(0))


def _with_corrections(fitted: Any, more_columns: int = 0, more_outputs: int = 1) -> Any:
    d, t = fitted.map.record.n_features + more_columns, fitted.targets.n_outputs + more_outputs
    rows, outputs = np.zeros((1, d)), np.zeros((1, t))
    partition = Partition(np.zeros((0, d)), np.zeros(0))
    models = (PartitionModel(partition, np.array([0]), np.array([1]), outputs),)
    corrections = Corrections(pm.kernels.Gaussian(), None, 1.0, rows, models, np.array([0.5]), outputs, 0.0)
    return replaced(fitted, "corrections", corrections)


def _without_kernel(mapped: Any) -> Any:
    sketch = pm.sketches.CountSketch(3, random_state=0).fit(np.ones((4, mapped.record.n_features)))
    del sketch.kernel_
    return replaced(mapped, "feature_map", sketch)


def _with_other_units(fitted: Any) -> Any:
    units = TargetUnits(np.zeros(fitted.targets.n_outputs + 2), 0)
    return replaced(fitted, "targets", replaced(fitted.targets, "units", units))


def _with_other_encoder(inputs: Any) -> Any:
    encoder = pm.TableEncoder().fit(pd.DataFrame({"only": ["a", "b", "a", "c"]}))
    return replaced(replaced(inputs, "names", None), "encoder", encoder)


def _with_other_width(fitted: Any) -> Any:
    inputs = fitted.inputs
    for name in ("fill", "names", "image_shape", "encoder"):
        inputs = replaced(inputs, name, None)
    return replaced(fitted, "inputs", replaced(inputs, "n_features", fitted.map.scaling.shift.size + 1))


def _with_other_scale(fitted: Any) -> Any:
    m, t = fitted.solution.coef.shape
    scale = ErrorScale(np.ones((m + 1, t)), np.ones(t), np.ones((2, t)))
    scores = np.ones((1, getattr(fitted.targets, "n_targets", 1)))
    return replaced(fitted, "conformal", Conformal(scores, scores, scale))


def _with_trees(fitted: Any, **fields: Any) -> Any:
    trees = next(record for name, record in RECORDS.items() if name.startswith("BoostedTrees"))
    for name, value in fields.items():
        trees = replaced(trees, name, value)
    return replaced(fitted, "trees", trees)


def _with_child(trees: Any, child: int) -> Any:
    return replaced(trees, "children", np.concatenate([trees.children[:-1], [[child, -1]]]))


BY_HAND = {
    "trees of its targets": lambda r: _with_trees(r, baseline=np.zeros(r.targets.n_outputs + 1)),
    "trees of labels for labels": lambda r: _with_trees(
        r, baseline=np.zeros(r.targets.n_outputs), has_labels=not r.targets.has_labels
    ),
    "trees of its columns": lambda r: _with_trees(
        r, baseline=np.zeros(r.targets.n_outputs), has_labels=r.targets.has_labels, columns=np.array([r.inputs.width])
    ),
    "splits that lead to later splits": lambda r: _with_child(r, 0),
    "splits and leaves that exist": lambda r: _with_child(r, -1 - r.values.size),
    "a scaling of its rows": _with_other_width,
    "a scale of the errors of its targets": _with_other_scale,
    "corrections of its scaled rows": lambda r: _with_corrections(r, 1, 0),
    "a log loss for each loss": lambda r: replaced(r, "log_losses", np.ones(len(r.losses) + 1)),
    "a stationary kernel": lambda r: replaced(r, "kernel", pm.kernels.Polynomial()),
    "a complete tree: regions that are a power of two": lambda r: replaced(
        replaced(r, "directions", np.zeros((2, r.directions.shape[1]))), "thresholds", np.zeros(2)
    ),
    "keys without signs": lambda r: replaced(r, "keys", r.keys.astype(np.int64)),
    "a box of finite size": lambda r: replaced(r, "lower", r.upper + 1.0),
    "corrections of its targets": _with_corrections,
    "units for its targets": _with_other_units,
    "a name for each column": lambda r: replaced(r, "names", np.array(["a"] * (r.n_features + 1))),
    "images of its rows": lambda r: replaced(r, "image_shape", (1, 1, r.n_features + 1)),
    "an encoder of its columns": _with_other_encoder,
    "the kernel of its feature map": _without_kernel,
    "a scaling by columns alone": lambda r: replaced(
        r, "scaling", replaced(r.scaling, "root", np.eye(r.scaling.shift.size))
    ),
    "no more phases than directions": lambda r: replaced(r, "shift", np.zeros(10**4)),
    "a scale for each direction": lambda r: replaced(r, "scale", np.ones(3)),
    "a direction for its powers": lambda r: replaced(
        replaced(r, "direction", None),
        "terms",
        tuple(replaced(term, "polynomials", np.ones((2, term.polynomials.shape[1]))) for term in r.terms),
    ),
    "a sketch for each leaf, or none": lambda r: _leaves(r, *[_sketch(r.n_features)] * (r.n_leaves + 1)),
    "leaves of its inputs": lambda r: _leaves(r, *[_sketch(r.n_features + 1)] * r.n_leaves),
    "leaves of one width": lambda r: _leaves(r, *(_sketch(r.n_features, 3 + i) for i in range(r.n_leaves))),
    "nodes of one form": _two_forms,
    "a reduction of its last layer": lambda r: replaced(r, "reduction", _sketch(10**4)),
    "layers that follow each other": _other_entrance,
    "a factor before the next": lambda r: replaced(r, "counts", (1, r.matrix.shape[1] - 1)),
    "a positive or a negative part": lambda r: replaced(replaced(r, "positive", None), "negative", None),
    "two parts of the same inputs": lambda r: replaced(
        r,
        "negative",
        SeriesRecord(r.n_features + 1, "one", None, None, None, (SeriesTerm(np.ones((1, 1)), None),)),
    ),
    "filters of an odd size": _even_filters,
    "windows of one size": _other_window,
    "one form of its columns": lambda r: replaced(
        replaced(r, "squash", Squash(r.shift, r.factor)), "ranks", Ranks.of_sample(np.ones((2, r.shift.size)))
    ),
    "an interval of norms": lambda r: replaced(r, "low", r.high),
    "rows that its norms are divided by": lambda r: _with_norms(r, 1, "one"),
    "all functions of the norm for each power": lambda r: _with_norms(r, r.terms[0].polynomials.shape[0] + 1, "unit"),
    "a first layer without products": lambda r: replaced(
        r, "layers", (replaced(r.layers[0], "reduction", r.layers[1].reduction), *r.layers[1:])
    ),
    "an entrance of the channels": lambda r: replaced(r, "entrance", _sketch_of(r.image_shape[2] + 1, r.entrance)),
    "generators whose length is an even product of 2, 3 and 5": lambda r: replaced(
        replaced(r, "generators", np.ones((1, 62))), "scale", np.ones(62 - r.offset)
    ),
}


def requirements(record: Any) -> set[str]:
    """What a record requires, in words."""
    return {words for _, words in record.requirements()}


def test_every_requirement_is_broken_by_a_mutant():
    wanted: dict[str, set[str]] = {}
    met: dict[str, set[str]] = {}
    for record in RECORDS.values():
        name = type(record).__name__
        wanted.setdefault(name, set()).update(required := requirements(record))
        by_hand = [BY_HAND[words](record) for words in required & BY_HAND.keys() if applies(words, record)]
        for mutant in (*grown(record), *by_hand):
            try:
                check_record(mutant)
            except BadRecordError as error:
                met.setdefault(name, set()).update(words for words in required if str(error).endswith(f"have {words}"))
    missing = {name: words - met.get(name, set()) for name, words in wanted.items()}
    left = {name: words for name, words in missing.items() if words}
    assert not left, str(left)
