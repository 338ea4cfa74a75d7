"""Sketches of tensor powers, by any of the methods of `DotProductFeatures`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from phimap.ops import Array, Ops
from phimap.random_map import MapRecord
from phimap.sketches import SRHT, CountSketch, PolySketch, TensorSketch
from phimap.sketches.complex_to_real import ComplexToRealRecord
from phimap.sketches.maclaurin import MaclaurinRecord
from phimap.sketches.polysketch import is_wide
from phimap.sketches.srht import SRHTRecord


@dataclass(frozen=True)
class StackedRecord(MapRecord):
    """Several maps of the same rows, whose features are put side by side.

    Attributes
    ----------
    parts : tuple of MapRecord
        The maps.
    """

    parts: tuple[MapRecord, ...]

    def requirements(self) -> Iterator[tuple[bool, str]]:
        yield len(self.parts) > 0, "a part"
        yield len({part.n_features for part in self.parts}) == 1, "parts of the same inputs"

    @property
    def n_features(self) -> int:
        return self.parts[0].n_features

    @property
    def n_components(self) -> int:
        return sum(part.n_components for part in self.parts)

    @property
    def n_flops(self) -> int | None:
        counts = [part.n_flops for part in self.parts]
        return None if None in counts else sum(count for count in counts if count is not None)

    @property
    def scratch_width(self) -> int:
        return max(part.scratch_width for part in self.parts)

    @property
    def signature(self) -> np.ndarray | None:
        signs = [part.signature for part in self.parts]
        if all(one is None for one in signs):
            return None
        whole = zip(self.parts, signs, strict=True)
        return np.concatenate([np.ones(part.n_components, np.int8) if one is None else one for part, one in whole])

    def apply(self, ops: Ops, X: Array, out: Array, first: int = 0) -> None:
        for part in self.parts:
            part.apply(ops, X, out, first)
            first += part.n_components


@dataclass(frozen=True)
class ReducedRecord(MapRecord):
    """A wide map whose features are reduced to fewer features by a sketch."""

    wide: MapRecord
    reduction: SRHTRecord

    def requirements(self) -> Iterator[tuple[bool, str]]:
        yield self.reduction.n_features == self.wide.n_components, "a reduction of the features of its map"

    @property
    def n_features(self) -> int:
        return self.wide.n_features

    @property
    def n_components(self) -> int:
        return self.reduction.n_components

    @property
    def scratch_width(self) -> int:
        return self.wide.scratch_width + self.reduction.scratch_width

    def apply(self, ops: Ops, X: Array, out: Array, first: int = 0) -> None:
        features = ops.empty((X.shape[0], self.wide.n_components))
        self.wide.apply(ops, X, features)
        self.reduction.apply(ops, features, out, first)


# The width of the inner nodes of a tree is `_INNER_SHARE` times the mean squared cosine of rows times the largest
# output width, because the error of inner nodes is proportional to the squared cosine. It is at least `_INNER_WIDTH`,
# and at most the largest output width.
_INNER_SHARE = 4
_INNER_WIDTH = 1024
# Number of features that compact Maclaurin maps draw for each feature that they keep.
_OVERSAMPLING = 4


def _compact(n_features: int, degree: int, width: int, rng: np.random.Generator) -> MapRecord:
    wide_rng, reduction_rng = rng.spawn(2)
    wide = MaclaurinRecord.draw(n_features, degree, _OVERSAMPLING * width, wide_rng)
    return ReducedRecord(wide, SRHT(width).sample(wide.n_components, reduction_rng))


def _tensor_sketch(n_features: int, degree: int, width: int, rng: np.random.Generator) -> MapRecord:
    return TensorSketch(width, degree=degree).sample(n_features, rng)


# Functions that draw the sketch of one power, with the arguments (n_features, degree, width, generator).
_SINGLE: dict[str, Callable[[int, int, int, np.random.Generator], MapRecord]] = {
    "tensorsketch": _tensor_sketch,
    "maclaurin": MaclaurinRecord.draw,
    "compact-maclaurin": _compact,
}

METHODS = ("polysketch", "complex-to-real", *_SINGLE)
"""Names of the sketches of powers."""


def draw_powers(
    method: str,
    n_features: int,
    degrees: Sequence[int],
    widths: Sequence[int],
    squared_cosine: float,
    rng: np.random.Generator,
) -> MapRecord:
    """Draw sketches of the tensor powers of `degrees` (ascending), with `widths`, side by side.

    `squared_cosine` is the mean squared cosine of pairs of rows.
    """
    if method == "polysketch":
        return _draw_tree(n_features, degrees, widths, squared_cosine, rng)
    if method == "complex-to-real":
        return ComplexToRealRecord.draw(n_features, degrees, widths, rng)
    draw = _SINGLE[method]
    children = rng.spawn(len(degrees))
    return StackedRecord(
        tuple(
            draw(n_features, degree, width, child)
            for degree, width, child in zip(degrees, widths, children, strict=True)
        )
    )


def _draw_tree(
    n_features: int, degrees: Sequence[int], widths: Sequence[int], squared_cosine: float, rng: np.random.Generator
) -> MapRecord:
    """Sketches of all powers above 1 from one tree, and of the first power by SRHT.

    Rows that are wide compared with the tree are hashed instead, in O(nnz) time. Each leaf, and the first power, has
    its own hash.
    """
    linear_rng, tree_rng = rng.spawn(2)
    higher = {degree: width for degree, width in zip(degrees, widths, strict=True) if degree > 1}
    widest = max(higher.values(), default=widths[0])
    inner = min(widest, max(_INNER_WIDTH, int(_INNER_SHARE * squared_cosine * widest)))
    wide = is_wide(n_features, inner)
    parts: list[MapRecord] = []
    if degrees[0] == 1:
        parts.append((CountSketch if wide else SRHT)(widths[0]).sample(n_features, linear_rng))
    if higher:
        sketch = PolySketch(inner_components=inner, leaf="countsketch" if wide else "none")
        parts.append(sketch.sample_powers(n_features, higher, tree_rng))
    return StackedRecord(tuple(parts))


def unit_variance(method: str, degree: int, squared_cosine: np.ndarray) -> np.ndarray:
    """Approximate variance of a sketch with a single feature, for a power of unit vectors and each squared cosine.

    The variance is ``(1 + c s^2)^j - s^(2 j)`` for products of j factors and a cosine s, with c = 2 for real signs and
    1 for complex samples. For a tree it is ``1 + s^(2 j)``, for any number of factors. With m features it is divided by
    m.
    """
    if method == "polysketch":
        return 1 + squared_cosine**degree
    spread = 1 if method == "complex-to-real" else 2
    return (1 + spread * squared_cosine) ** degree - squared_cosine**degree
