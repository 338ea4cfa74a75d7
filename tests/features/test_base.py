"""The choice among candidate constructions of a feature map."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from phimap.features.base import draw_best
from phimap.features.defaults import MAPS, map_of_kernel
from phimap.kernels import CNTK, NNGP, NTK, ArcCosine, Gaussian, Laplacian, Polynomial


@dataclass
class Candidate:
    """A plan whose record is its name."""

    name: str
    error: float
    drawn: bool = False

    def predicted_error(self) -> float:
        return self.error

    def draw(self, streams: dict[str, np.random.Generator]) -> Any:
        self.drawn = True
        return self.name


@pytest.mark.parametrize(
    ("errors", "fallback", "measured", "expected", "drawn"),
    [
        # The first plan serves where the fallback is not predicted to err less, whatever it has measured.
        ((1.0,), 1.0, None, "0", {"0"}),
        ((1.1,), 1.0, None, "fallback", {"fallback"}),
        ((np.inf, 0.5), 1.0, {}, "1", {"1"}),
        ((np.inf, 2.0), 1.0, {}, "fallback", {"fallback"}),
        # Predictions within a factor of 3 are doubted, where there is something to measure on.
        ((1.0, 2.9), 5.0, {"0": 2, "1": 1}, "1", {"0", "1"}),
        ((1.0, 2.9), 5.0, {"0": 1, "1": 2}, "0", {"0", "1"}),
        ((1.0, 2.9), 5.0, {"0": 1, "1": 1}, "1", {"0", "1"}),
        ((1.0, 3.1), 5.0, {"0": 2, "1": 1}, "0", {"0"}),
        ((1.0, 2.9), 5.0, None, "0", {"0"}),
        ((1.0, 0.9), 5.0, None, "1", {"1"}),
    ],
)
def test_the_plan_that_errs_least_is_drawn(errors, fallback, measured, expected, drawn):
    plans = [Candidate(str(i), error) for i, error in enumerate(errors)]
    last = Candidate("fallback", fallback)
    measure: Any = None if measured is None else measured.__getitem__
    assert draw_best(plans, last, {}, measure) == expected
    assert {plan.name for plan in (*plans, last) if plan.drawn} == drawn


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (Gaussian(), "FourierFeatures"),
        (Laplacian(), "FourierFeatures"),
        (ArcCosine(2), "ArcCosineFeatures"),
        (ArcCosine(1, depth=2), "NystroemFeatures"),
        (NTK(2), "NTKFeatures"),
        (NNGP(2), "DotProductFeatures"),
        (CNTK(2), "CNTKSketch"),
        (Polynomial(2), "NystroemFeatures"),
    ],
    ids=repr,
)
def test_map_of_a_kernel(kernel, expected):
    found = map_of_kernel(kernel, 64, random_state=3, n_jobs=1)
    assert (type(found).__name__, found.n_components, found.random_state, found.n_jobs) == (expected, 64, 3, 1)


def test_the_nearest_class_counts(monkeypatch):
    class Own(Gaussian):
        pass

    monkeypatch.setitem(MAPS, Own, lambda kernel, **common: (kernel, common))
    kernel = Own()
    common = {"n_components": 8, "random_state": None, "n_jobs": None}
    found: Any = map_of_kernel(kernel, 8, random_state=None, n_jobs=None)
    assert found == (kernel, common)
    assert type(map_of_kernel(Gaussian(), 8, random_state=None, n_jobs=None)).__name__ == "FourierFeatures"
