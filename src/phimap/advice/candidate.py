"""Measure a map's error at two small widths and predict the width that it needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import clone

from phimap.advice.error_law import ErrorLaw, measured_rate
from phimap.advice.speed import transform_seconds
from phimap.config import size_text
from phimap.features import NystroemFeatures
from phimap.metrics import relative_error
from phimap.random_map import RandomMap

#: Larger of the two widths at which errors are measured, unless the sample has fewer rows.
WIDE = 512
# The larger width divided by the smaller.
_NARROWING = 4
# Least exponent with which the error of Nystroem features is extrapolated.
_LEAST_RATE = 0.05


@dataclass(frozen=True)
class Candidate:
    """A map with its measured errors and the width advised for it.

    Attributes
    ----------
    feature_map : RandomMap
        The map with the advised width, not fitted. Ignored by ``==``.
    method : str
        Class name of the map.
    widths : tuple of int
        The two small widths at which the map was measured.
    errors : tuple of float
        Relative errors at these widths: root mean squares over draws.
    rate : float
        Exponent b with which the error falls as 1/m^b between the two widths; 1/2 for independent features.
    n_components : int
        Advised width.
    predicted_error : float
        Relative error predicted at the advised width.
    n_bytes : int
        Size of the features of all rows.
    operations : float
        Multiplications and additions for the features of all rows and for their Gram matrix.
    seconds : float
        Time to compute the features of all rows, scaled from a measurement on this machine. Ignored by ``==``.
    """

    feature_map: RandomMap = field(compare=False, repr=False)
    method: str
    widths: tuple[int, int]
    errors: tuple[float, float]
    rate: float
    n_components: int
    predicted_error: float
    n_bytes: int
    operations: float
    seconds: float = field(compare=False)

    def __str__(self) -> str:
        measured = ", ".join(f"{e:.2g} at {w:,}" for w, e in zip(self.widths, self.errors, strict=True))
        return (
            f"{self.method}: {self.n_components:,} components, relative error {self.predicted_error:.2g}, "
            f"{size_text(self.n_bytes)}, about {self.seconds:.2g} s (measured {measured}; rate m^-{self.rate:.2f})"
        )


def measure(
    feature_map: RandomMap, fitting: Any, measuring: Any, seeds: list[int], error: float, widest: int, n_rows: int
) -> Candidate:
    """Measure the map at two small widths and find the width, at most `widest`, that reaches `error`.

    For each seed the map is fitted to the rows `fitting`, and its relative error is measured on the rows `measuring`.
    Time and bytes are predicted for `n_rows` rows.
    """
    # Nystroem landmarks are rows. With more components than rows, the map would be narrower than requested.
    wide = min(WIDE, fitting.shape[0])
    widths = (max(wide // _NARROWING, 1), wide)
    errors, counts, seconds = [], [], 0.0
    for width in widths:
        squares = []
        drawn = feature_map
        for seed in seeds:
            drawn = variant(feature_map, n_components=width, random_state=seed).fit(fitting)
            squares.append(relative_error(drawn, measuring, n_subset=measuring.shape[0]) ** 2)
            # Only the time of the last draw at the larger width is kept, because earlier times may include compilation.
            seconds = transform_seconds(drawn, measuring)
        errors.append(float(np.sqrt(np.mean(squares))))
        counts.append(drawn.record_.n_flops)
    rate = measured_rate(widths, (errors[0], errors[1]))
    nystroem = isinstance(feature_map, NystroemFeatures)
    # A rate of zero would need infinitely many components, so the rate is kept above zero. Nystroem features need at
    # most as many components as there are rows.
    law = ErrorLaw(widths, (errors[0], errors[1]), min(max(rate, _LEAST_RATE), 0.5) if nystroem else 0.5)
    needed = law.needed_width(error)
    most = min(widest, n_rows) if nystroem else widest
    n_components = min(needed + needed % 2, most)
    per_row = _operations(widths, counts, fitting.shape[1])
    features = n_rows * per_row(n_components)
    return Candidate(
        feature_map=variant(feature_map, n_components=n_components),
        method=type(feature_map).__name__,
        widths=widths,
        errors=law.errors,
        rate=rate,
        n_components=n_components,
        predicted_error=law.predicted_error(n_components),
        n_bytes=n_rows * n_components * fitting.dtype.itemsize,
        operations=features + float(n_rows) * n_components**2,
        seconds=seconds * features / (measuring.shape[0] * per_row(wide)),
    )


def variant(feature_map: RandomMap, **parameters: Any) -> RandomMap:
    """Return an unfitted clone of a map with some parameters replaced."""
    copy: Any = clone(feature_map)
    return copy.set_params(**parameters)


def _operations(widths: tuple[int, int], counts: list[int | None], n_features: int) -> Callable[[int], float]:
    """Return the operations for one dense row as a function of the width, fitted to the map's counts at two widths.

    The function is ``slope * width + bend * width^2``. The square is for maps that multiply their features by one more
    square matrix. A map without a count is assumed to multiply by a dense matrix.
    """
    (narrow, wide), (few, many) = widths, counts
    if few is None or many is None:
        return lambda width: 2.0 * n_features * width
    # Without `max`, the quadratic term could be negative for widths that are padded to a power of two.
    bend = max(0.0, (many / wide - few / narrow) / (wide - narrow)) if wide > narrow else 0.0
    slope = max(many / wide - bend * wide, 0.0)
    return lambda width: slope * width + bend * width**2
