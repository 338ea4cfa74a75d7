"""The base class of feature maps, and the choice in `fit` between several constructions of one map."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from phimap.random_map import MapRecord, RandomMap

# A plan is a candidate only if its predicted error is at most this many times the predicted error of the first
# candidate. Predictions can be wrong by this factor: for sketches of few inputs they are too low.
_DOUBT = 3.0


class FeatureMap(RandomMap):
    """Base class of feature maps: `fit` also sets ``kernel_``, the exact kernel that the features estimate."""

    @property
    def signature_(self) -> np.ndarray | None:
        """Signs (n_components,) of the features in the estimate ``Z @ diag(signature_) @ Z.T``; None if all are 1."""
        return self.record_.signature


class Plan(Protocol):
    """A candidate construction of a feature map."""

    def predicted_error(self) -> float:
        """Root mean square error of the kernel estimate over pairs of rows; infinite if the width is too small."""
        ...

    def draw(self, streams: dict[str, np.random.Generator]) -> MapRecord:
        """Draw the map with the generators in `streams`."""
        ...


def draw_best(
    plans: Sequence[Plan],
    fallback: Plan,
    streams: dict[str, np.random.Generator],
    measured_error: Callable[[MapRecord], float] | None,
) -> MapRecord:
    """Draw the plan with the least error, or the fallback if its predicted error is less than that of every plan.

    Plans are ordered by the reliability of their predictions, the most reliable first. If several plans have similar
    predictions, all of them are drawn, and the map with the least `measured_error` is returned. If `measured_error` is
    None, the plan with the least predicted error is drawn. Among equally good plans, the last is taken.
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
