"""Gradients of a linear model on features, with respect to the rows."""

from __future__ import annotations

import numpy as np

from phimap.ops import ops_for
from phimap.random_map import MapRecord

# Half the step, for standardised rows. A smaller one would miss the jumps of maps that have them.
_STEP = 1e-3
# Floats of features in memory at a time.
_MOST_FLOATS = 2**22


def gradients(record: MapRecord, X: np.ndarray, coefs: np.ndarray) -> np.ndarray:
    """Gradients (n, d, t) of ``phi(x)^T coefs`` at rows `X` (n, d), in float64.

    The map computes them if it can; otherwise they are central differences.

    Parameters
    ----------
    record : MapRecord
    X : ndarray of shape (n, d)
    coefs : ndarray of shape (m, t)

    Returns
    -------
    ndarray of shape (n, d, t)

    Notes
    -----
    At a kink, which the Laplacian kernel has at every landmark, the result is the mean of both slopes.

    **Error.** Differences: about 2e-7 of the third derivative, and 1e-13 of the size of the function.

    **Cost.** Landmarks of a stationary kernel: about n m d t flops. Differences: the outputs at 2 n d rows.
    """
    X = np.asarray(X, dtype=np.float64)
    exact = record.output_gradients(X, coefs)
    return _differences(record, X, coefs) if exact is None else exact


def _differences(record: MapRecord, X: np.ndarray, coefs: np.ndarray) -> np.ndarray:
    """Central differences (n, d, t)."""
    ops = ops_for(X)
    bound = record.bind(ops)
    n, d = X.shape
    result = np.empty((n, d, coefs.shape[1]))
    height = max(1, _MOST_FLOATS // (record.n_components * 2 * d))
    steps = np.concatenate([np.eye(d), -np.eye(d)]) * _STEP
    for start in range(0, n, height):
        rows = X[start : start + height]
        moved = (rows[:, None, :] + steps).reshape(-1, d)
        outputs = bound.linear_outputs(ops, moved, coefs).reshape(len(rows), 2, d, -1)
        result[start : start + height] = (outputs[:, 0] - outputs[:, 1]) / (2 * _STEP)
    return result
