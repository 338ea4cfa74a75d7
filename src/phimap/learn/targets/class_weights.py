"""Weights of classes, by the conventions of scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.class_weight import compute_class_weight

from phimap.learn.rows.weights import LEAST_WEIGHT, MOST_WEIGHT


def class_factors(class_weight: Any, classes: np.ndarray, counts: np.ndarray | None) -> np.ndarray | None:
    """Weights of the `classes`, whose rows count `counts` altogether; None where all are one."""
    if class_weight is None:
        return None
    if class_weight == "balanced" and counts is not None:
        factors = counts.sum() / (classes.size * counts)
    elif isinstance(class_weight, dict):
        factors = compute_class_weight(class_weight, classes=classes, y=classes)
        for label, factor in zip(classes.tolist(), factors.tolist(), strict=True):
            if not LEAST_WEIGHT <= factor <= MOST_WEIGHT:
                raise ValueError(
                    f"`class_weight` must lie between {LEAST_WEIGHT:g} and {MOST_WEIGHT:g}, got {factor:g} for "
                    f"{label!r}. Leave out the rows of a class that is not to count."
                )
    else:
        raise ValueError(
            f"`class_weight` must be None, 'balanced' or a dict of weights by class, got {class_weight!r}. "
            "Use 'balanced' where classes are of unequal size."
        )
    return None if (factors == 1).all() else factors
