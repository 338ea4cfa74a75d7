"""Compiled loops read and write where they are told to: what would lead them out of bounds is refused before."""

from __future__ import annotations

import numpy as np
import pytest

from phimap.ops import host
from phimap.ops.primitives.activation import interpolate, rectify
from phimap.ops.primitives.boosting import BinnedRows, TreeLimits, class_derivatives, grow_tree
from phimap.ops.primitives.convolutions import convolution_transforms, convolutions
from phimap.ops.primitives.cosines import cos_shift, cos_sin
from phimap.ops.primitives.fastfood_blocks import fastfood_blocks
from phimap.ops.primitives.fourier_blocks import fourier_blocks
from phimap.ops.primitives.fourier_products import fourier_product, next_product_factor, product_factor
from phimap.ops.primitives.gather_product import gather_product
from phimap.ops.primitives.hadamard_blocks import hadamard_blocks
from phimap.ops.primitives.partitions import grid_cells, mondrian_leaves, write_cells
from phimap.ops.primitives.rounding import pack_nearest, pack_rounded
from phimap.ops.primitives.trees import add_tree_values

OPS = host()


def ones(*shape: int, dtype: type = np.float64) -> np.ndarray:
    return np.ones(shape, dtype)


def signs(*shape: int) -> np.ndarray:
    return ones(*shape, dtype=np.int8)


def places(*values: int) -> np.ndarray:
    return np.array(values, np.intp)


def samples(columns: np.ndarray, width: int = 8) -> tuple:
    """What products of Fourier transforms are made of."""
    transforms = product_factor(OPS, ones(3, width), signs(width))
    orientations = signs(columns.size)
    return transforms, columns, orientations, transforms, columns, orientations, 1.0


KEYS = np.zeros(2, np.uint64)
LIMITS = TreeLimits(2, 1, 0.0, 0.1, 0.1)
LABELS = np.array([0, 1, 1], np.int32)
THREE_ROWS = BinnedRows.of(np.zeros((1, 3), np.uint8), places(1))

CALLS = {
    "trees: a column outside": lambda: add_tree_values(
        OPS, ones(2, 3), places(3), ones(1), places(-1, -2)[None], ones(2, 1), places(0), ones(2, 1)
    ),
    "trees: few rows of outputs": lambda: add_tree_values(
        OPS, ones(2, 3), places(0), ones(1), places(-1, -2)[None], ones(2, 1), places(0), ones(1, 1)
    ),
    "trees: outputs of other targets": lambda: add_tree_values(
        OPS, ones(2, 3), places(0), ones(1), places(-1, -2)[None], ones(2, 1), places(0), ones(2, 2)
    ),
    "boosting: few slopes": lambda: grow_tree(OPS, THREE_ROWS, ones(2), ones(3), *[ones(3, 1)] * 2, LIMITS, ones(3, 1)),
    "boosting: few gradients": lambda: grow_tree(
        OPS, THREE_ROWS, ones(3), ones(3), ones(2, 1), ones(3, 1), LIMITS, ones(3, 1)
    ),
    "boosting: sums of other targets": lambda: grow_tree(
        OPS, THREE_ROWS, ones(3), ones(3), *[ones(3, 2)] * 2, LIMITS, ones(3, 1)
    ),
    "boosting: a code outside": lambda: BinnedRows.of(np.full((1, 3), 2, np.uint8), places(2)),
    "boosting: few labels": lambda: class_derivatives(OPS, ones(3, 2), ones(3), LABELS[:2], *[ones(3, 2)] * 2),
    "boosting: few totals": lambda: class_derivatives(OPS, ones(3, 2), ones(2), LABELS, *[ones(3, 2)] * 2),
    "boosting: narrow derivatives": lambda: class_derivatives(OPS, ones(3, 2), ones(3), LABELS, *[ones(3, 1)] * 2),
    "boosting: a label outside": lambda: class_derivatives(OPS, ones(3, 1), ones(3), LABELS, *[ones(3, 1)] * 2),
    "boosting: a negative label": lambda: class_derivatives(OPS, ones(3, 2), ones(3), -LABELS, *[ones(3, 2)] * 2),
    "cells: many partitions": lambda: write_cells(OPS, KEYS[None], 4, 4, 1.0, ones(1, 4)),
    "cells: a narrow output": lambda: write_cells(OPS, KEYS[None], 4, 8, 1.0, ones(1, 7)),
    "mondrian: a box of more columns": lambda: mondrian_leaves(OPS, ones(2, 3), ones(4), ones(4), KEYS),
    "mondrian: an open box": lambda: mondrian_leaves(OPS, ones(2, 3), ones(3), ones(2), KEYS),
    "grids: few grids": lambda: grid_cells(OPS, ones(2, 3), ones(1, 3), ones(1, 3), KEYS),
    "grids: few shifts": lambda: grid_cells(OPS, ones(2, 3), ones(2, 3), ones(2, 2), KEYS),
    "hadamard: a wide row": lambda: hadamard_blocks(OPS, ones(2, 9), signs(1, 2, 8), ones(8)),
    "hadamard: no power of two": lambda: hadamard_blocks(OPS, ones(2, 6), signs(1, 2, 6), ones(6)),
    "hadamard: many results": lambda: hadamard_blocks(OPS, ones(2, 8), signs(1, 2, 8), ones(9)),
    "fastfood: a wide row": lambda: fastfood_blocks(
        OPS, ones(2, 9), signs(1, 8), np.arange(8)[None], ones(1, 8), ones(8)
    ),
    "fastfood: few gains": lambda: fastfood_blocks(
        OPS, ones(2, 8), signs(1, 8), np.arange(8)[None], ones(1, 7), ones(8)
    ),
    "fastfood: a place outside": lambda: fastfood_blocks(
        OPS, ones(2, 8), signs(1, 8), np.arange(1, 9)[None], ones(1, 8), ones(8)
    ),
    "convolutions: a long row": lambda: convolution_transforms(OPS, ones(2, 9), ones(9), 8),
    "convolutions: many results": lambda: convolutions(
        OPS, convolution_transforms(OPS, ones(2, 8), ones(8), 8), 2, ones(1, 8), 0, ones(9)
    ),
    "convolutions: a far offset": lambda: convolutions(
        OPS, convolution_transforms(OPS, ones(2, 8), ones(8), 8), 2, ones(1, 8), 8, ones(0)
    ),
    "fourier blocks: a frequency outside": lambda: fourier_blocks(
        OPS, ones(2, 8), ones(8), ones(1, 2, 4, 2), np.array([[0, 1, 2, 6]]), 6, ones(12)
    ),
    "fourier blocks: many results": lambda: fourier_blocks(
        OPS, ones(2, 8), ones(8), ones(1, 2, 4, 2), np.array([[0, 1, 2, 3]]), 6, ones(13)
    ),
    "fourier blocks: a wide row": lambda: fourier_blocks(
        OPS, ones(2, 9), ones(9), ones(1, 2, 4, 2), np.array([[0, 1, 2, 3]]), 6, ones(12)
    ),
    "gather: a column outside": lambda: gather_product(
        OPS, ones(2, 4), places(0, 4), ones(2, 4), places(0, 1), 1.0, ones(2, 2)
    ),
    "gather: a negative column": lambda: gather_product(
        OPS, ones(2, 4), places(0, 1), ones(2, 4), places(0, -1), 1.0, ones(2, 2)
    ),
    "gather: a narrow result": lambda: gather_product(
        OPS, ones(2, 4), places(0, 1), ones(2, 4), places(0, 1), 1.0, ones(2, 1)
    ),
    "fourier product: a column outside": lambda: fourier_product(OPS, samples(places(0, 5)), ones(3, 4)),
    "fourier product: a narrow result": lambda: fourier_product(OPS, samples(places(0, 4)), ones(3, 3)),
    "next product: a column outside": lambda: next_product_factor(OPS, samples(places(0, 5)), signs(4)),
    "next product: few signs": lambda: next_product_factor(OPS, samples(places(0, 1, 2)), signs(4)),
    "product factor: few signs": lambda: product_factor(OPS, ones(3, 9), signs(8)),
    "rectify: few scales": lambda: rectify(OPS, ones(2, 4), 1, ones(3), ones(2, 4), 0),
    "rectify: a narrow result": lambda: rectify(OPS, ones(2, 4), 1, ones(4), ones(2, 4), 1),
    "interpolate: few scales": lambda: interpolate(OPS, ones(2, 4), ones(9), 1.0, ones(3), ones(2, 4), 0),
    "cosines: few scales": lambda: cos_sin(OPS, ones(2, 4), ones(3), ones(2, 8), 0, 4),
    "cosines: a narrow result": lambda: cos_sin(OPS, ones(2, 4), ones(4), ones(2, 7), 0, 4),
    "shifted cosines: few shifts": lambda: cos_shift(OPS, ones(2, 4), ones(3), ones(4), ones(2, 4), 0),
    "rounding: few keys of columns": lambda: pack_rounded(
        OPS, ones(2, 4), ones(2, dtype=np.uint64), ones(3, dtype=np.uint64), 1.0, np.zeros((2, 2, 1), np.uint64)
    ),
    "rounding: few words": lambda: pack_rounded(
        OPS, ones(2, 65), ones(2, dtype=np.uint64), ones(65, dtype=np.uint64), 1.0, np.zeros((2, 2, 1), np.uint64)
    ),
    "rounding to the nearest: few words": lambda: pack_nearest(OPS, ones(2, 65), 1.0, np.zeros((2, 2, 1), np.uint64)),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_what_would_lead_out_of_bounds_is_refused(call):
    with pytest.raises(ValueError, match=r"must .* Fit the (map|model) again\."):
        call()
