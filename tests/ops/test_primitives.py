"""Every primitive: its generic body, its override and its value on tensors agree, on shapes that are awkward."""

from __future__ import annotations

import importlib
import pkgutil
from functools import partial
from typing import Any

import numpy as np
import pytest

from phimap.ops import Ops, host, ops_for, primitives, to_host
from phimap.ops.primitive import PRIMITIVES, Primitive, primitive
from tests.ops.primitive_examples import EXAMPLES, OWN, TRANSFORMED, Draw, Example, Run

for module in pkgutil.iter_modules(primitives.__path__):
    importlib.import_module(f"{primitives.__name__}.{module.name}")

DTYPES = [np.float32, np.float64]
# Rows: none, one, fewer and more than a vector has lanes, and no multiple of them.
ROWS = [0, 1, 5, 19]
# Results may differ by so many eps of the largest result of the array, for sums of some hundred terms.
MULTIPLE = 64


def cases() -> list[Any]:
    """Examples, dtypes and numbers of rows."""
    return [
        pytest.param(names, dtype, rows, id=f"{' '.join(names)}-{np.dtype(dtype)}-{rows}")
        for names in EXAMPLES
        # Images are float64 on the host.
        for dtype in (DTYPES if names != ("pixel_pairs",) else [np.float64])
        for rows in ROWS
        if rows or names not in TRANSFORMED
    ]


def results(run: Run, function: Example, rows: int, dtype: type) -> list[np.ndarray]:
    return [np.asarray(to_host(part)) for part in function(run, Draw(rows, dtype))]


def agree(found: list[np.ndarray], expected: list[np.ndarray], dtype: type) -> bool:
    """Whether floats agree to a multiple of eps of the largest, and integers are the same."""
    for one, other in zip(found, expected, strict=True):
        if one.shape != other.shape or (one.dtype.kind == "f") != (other.dtype.kind == "f"):
            return False
        if one.dtype.kind != "f":
            if not np.array_equal(one, other):
                return False
            continue
        written = ~np.isnan(other)
        if not np.array_equal(written, ~np.isnan(one)):
            return False
        largest = np.abs(other[written]).max(initial=0)
        if not np.abs(one[written] - other[written]).max(initial=0) <= MULTIPLE * np.finfo(dtype).eps * largest:
            return False
    return True


def test_a_new_backend_costs_a_small_core():
    assert len(Ops.__abstractmethods__) <= 30


def test_every_primitive_has_an_example():
    assert {name for names in EXAMPLES for name in names} == set(PRIMITIVES)


def test_a_name_is_given_once():
    with pytest.raises(ValueError, match="`outer` must be the name of one primitive"):
        primitive(PRIMITIVES["outer"].generic)


@pytest.mark.parametrize("names", OWN, ids=" ".join)
def test_of_values_that_are_a_backends_own_all_primitives_have_an_override(names):
    assert len({frozenset(PRIMITIVES[name].overrides) for name in names}) == 1
    assert names in EXAMPLES


@pytest.mark.parametrize(("names", "dtype", "rows"), cases())
def test_generic_override_and_tensors_agree(names, dtype, rows):
    expected = results(Run(host(dtype), generic=True), EXAMPLES[names], rows, dtype)
    assert expected
    # All but the shape is lost where there are no rows.
    assert not rows or any(np.nan_to_num(part.astype(float)).any() for part in expected)
    assert agree(results(Run(host(dtype), generic=False), EXAMPLES[names], rows, dtype), expected, dtype)
    torch = pytest.importorskip("torch")
    ops = ops_for(torch.empty(0, dtype=getattr(torch, np.dtype(dtype).name)))
    found = results(Run(ops, generic=False), EXAMPLES[names], rows, dtype)
    if "countsketch" in names:
        # Tensors are dense.
        expected = expected[::2]
    if "row_keys" in names:
        del expected[1]
    assert agree(found, expected, dtype)


def _next_to_right(right, ops, *arguments):
    return right(ops, *arguments) * (1 + 2 * MULTIPLE * np.finfo(ops.dtype).eps)


def _without_signs(right, ops, X, buckets, signs, *arguments):
    right(ops, X, buckets, abs(signs), *arguments)


def _one_column_off(right, ops, *arguments):
    right(ops, *arguments[:-1], arguments[-1] - 1)


def _open(right, ops, projected, lower, upper, closed, *arguments):
    right(ops, projected, lower, upper, False, *arguments)


@pytest.mark.parametrize(
    ("name", "mutant"),
    [
        ("hadamard_blocks", _next_to_right),
        ("countsketch", _without_signs),
        ("gather_product", _one_column_off),
        ("pack_ternary", _open),
    ],
)
def test_a_wrong_override_is_rejected(name, mutant):
    [names] = [names for names in EXAMPLES if name in names]
    wrong = Primitive(PRIMITIVES[name].generic)
    wrong.override("numpy")(partial(mutant, PRIMITIVES[name].overrides["numpy"]))
    expected = results(Run(host(), generic=True), EXAMPLES[names], 5, np.float64)
    for replaced in ({}, {name: wrong}):
        found = results(Run(host(), False, replaced), EXAMPLES[names], 5, np.float64)
        assert agree(found, expected, np.float64) == (not replaced)
