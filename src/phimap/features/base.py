"""What a feature map is, and what the constructions are among which `fit` of one may choose."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from phimap.random_map import MapRecord, RandomMap

# How far predictions may lie apart where the errors do not: a plan is drawn and measured only if its prediction is
# below this many times that of the first, which for sketches of few inputs is too low.
_DOUBT = 3.0


class FeatureMap(RandomMap):
    """Base of the feature maps: `fit` also sets ``kernel_``, the exact kernel that the features estimate."""

    @property
    def signature_(self) -> np.ndarray | None:
        """Signs (n_components,) of the features in the estimate ``Z @ diag(signature_) @ Z.T``; None if all are 1."""
        return self.record_.signature


class Plan(Protocol):
    """A candidate construction of a feature map."""

    def predicted_error(self) -> float:
        """Root mean square error of the kernel estimate over pairs of rows; infinite where the width has no room."""
        ...

    def draw(self, streams: dict[str, np.random.Generator]) -> MapRecord:
        """Draw the map, from the streams of the roles that the construction has."""
        ...


def draw_best(
    plans: Sequence[Plan],
    fallback: Plan,
    streams: dict[str, np.random.Generator],
    measured_error: Callable[[MapRecord], float] | None,
) -> MapRecord:
    """Draw the plan that errs least, or the fallback where no plan is predicted to err as little.

    Plans come in the order in which their predictions are trusted. Those that predictions do not tell apart are drawn
    and measured, where there is something to measure them on; of equal ones the last is taken.
    """
    kept: list[Plan] = []
    for plan in plans:
        allowed = _DOUBT * kept[0].predicted_error() if kept else fallback.predicted_error()
        if plan.predicted_error() <= allowed:
            kept.append(plan)
    if not kept:
        return fallback.draw(streams)
    if len(kept) > 1 and measured_error is not None:
        return min((plan.draw(streams) for plan in reversed(kept)), key=measured_error)
    return min(reversed(kept), key=lambda plan: plan.predicted_error()).draw(streams)
