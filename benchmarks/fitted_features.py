"""The features that a fitted learner makes of rows, for scripts that measure them alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from phimap.learn.settings import Compute


def features_of(model: Any) -> Callable[[Any], Any]:
    """Return a function from rows to their block of features."""
    fitted = model._fitted
    features = fitted.map.features(Compute(model.device, None))
    return lambda X: features(fitted.inputs.rows(X))
