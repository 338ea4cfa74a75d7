"""Least squares with bounded coefficients: the fit of random kitchen sinks."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

# Largest number of steps. The iteration ends earlier if the relative decrease of the objective in a step, or the
# projected gradient, is below _TOLERANCE.
_MOST_STEPS, _TOLERANCE = 2000, 1e-10


def bounded_coefficients(columns: np.ndarray, targets: np.ndarray, bound: float) -> np.ndarray:
    """Minimiser (m, t) of ``|columns A - targets|_F^2`` over matrices A with all ``|A_jk| <= bound``."""
    shape = (columns.shape[1], targets.shape[1])

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        residuals = columns @ flat.reshape(shape) - targets
        return float(np.square(residuals).sum()) / (2 * len(columns)), (columns.T @ residuals).ravel() / len(columns)

    options = {"maxiter": _MOST_STEPS, "maxfun": 2 * _MOST_STEPS, "ftol": _TOLERANCE, "gtol": _TOLERANCE}
    size = shape[0] * shape[1]
    found = minimize(objective, np.zeros(size), jac=True, bounds=[(-bound, bound)] * size, options=options)
    return found.x.reshape(shape)
