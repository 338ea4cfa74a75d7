"""The choice among candidate constructions of a feature map."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from phimap.features.base import draw_best


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
