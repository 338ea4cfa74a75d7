"""Settings of learners for tests that are not about the search of kernel, width and metric."""

from __future__ import annotations

from typing import Any

import numpy as np

from phimap.learn.settings import Compute

#: A kernel of the median width as it is, whichever it may be.
FIXED: dict[str, Any] = {"length_scale": "median", "metric": None}
#: The Gaussian one.
GAUSSIAN: dict[str, Any] = {"kernel": "gaussian", **FIXED}


def features_of(model: Any, X: Any) -> np.ndarray:
    """The features (n, m) that a fitted learner makes of rows."""
    fitted = model._fitted
    return fitted.map.features(Compute(model.device, None))(fitted.inputs.rows(X)).to_host().copy()
