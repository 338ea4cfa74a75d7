"""What a kernel is worth on some rows: the held-out error of a small map of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import linalg

from phimap.learn.search.sample import SearchSample
from phimap.ops import Array, ops_for
from phimap.random_map import MapRecord, RandomMap

# Regularisations tried, as multiples of the trace of the Gram matrix: from below the rounding of products in float32 to
# where all is shrunk.
_ALPHAS = np.geomspace(1e-9, 1.0, 19)
#: The alpha, by its index, that is tried first where nothing is known.
FIRST_ALPHA = 6


@dataclass(frozen=True)
class FoldFit:
    """What a fold learned.

    Attributes
    ----------
    record : MapRecord
    coefs : ndarray of shape (m, t)
        At the alpha that is best over all folds.
    """

    record: MapRecord
    coefs: np.ndarray


@dataclass(frozen=True)
class TrialResult:
    """Held-out error of a map, and what each fold learned.

    Attributes
    ----------
    error : float
        Mean squared held-out error, in shares of the spread of the targets.
    alpha : int
        Index of the best regularisation.
    fits : list of FoldFit
    """

    error: float
    alpha: int
    fits: list[FoldFit]


def run_trial(
    make: Callable[[], RandomMap],
    roots: Sequence[np.ndarray | None],
    sample: SearchSample,
    first_alpha: int = FIRST_ALPHA,
) -> TrialResult:
    """Fit a map and ridge regression on it in every fold, and judge them on the rest.

    Parameters
    ----------
    make : callable
        Gives the unfitted map; the same draw each time.
    roots : sequence of ndarray or None
        Root of the metric of each fold, by which its rows are multiplied.
    sample : SearchSample
    first_alpha : int
        Index of the regularisation from which the best is looked for.

    Returns
    -------
    TrialResult

    Notes
    -----
    The curve over alpha is followed downhill, on a grid of half decades.

    **Cost.** The features, ``n m^2`` flops and about ``m^3`` for each fold.
    """
    folds = []
    for (learned, judged), root in zip(sample.folds(), roots, strict=True):
        feature_map = make()
        rows = rooted(sample.X, root)
        feature_map.fit(rows[learned])
        Z = _features(feature_map, rows[learned]), _features(feature_map, rows[judged])
        parts = (
            (part, sample.Y[index], sample.weights[index]) for part, index in zip(Z, (learned, judged), strict=True)
        )
        folds.append((feature_map.record_, _RidgePath(*parts)))
    best, loss = _descend(lambda index: sum(path.loss(index) for _, path in folds), first_alpha)
    total = sum(sample.weights[judged].sum() for _, judged in sample.folds())
    fits = [FoldFit(record, path.coefs[best]) for record, path in folds]
    return TrialResult(float(loss / total / sample.spread()), best, fits)


def _descend(loss: Callable[[int], float], first: int) -> tuple[int, float]:
    """The alpha of least loss, by its index, and the loss there, on the way downhill from `first`."""
    losses = {first: loss(first)}
    while True:
        best = min(losses, key=lambda index: losses[index])
        beside = [index for index in (best - 1, best + 1) if index not in losses and 0 <= index < _ALPHAS.size]
        if not beside:
            return best, losses[best]
        losses |= {index: loss(index) for index in beside}


def rooted(X: Array, root: np.ndarray | None) -> Array:
    """Rows times the root of a metric: factors of the columns (d,), or a matrix (d, k)."""
    if root is None:
        return X
    ops = ops_for(X)
    if root.ndim == 1:
        return ops.scale_columns(X, ops.constant(root)) if ops.is_sparse(X) else X * ops.constant(root)
    return ops.dense(X) @ ops.constant(root)


def _features(feature_map: RandomMap, rows: Array) -> np.ndarray:
    ops = ops_for(rows)
    return np.asarray(ops.to_host(feature_map.transform(rows)))


class _RidgePath:
    """Ridge regression on some rows at the alphas that are asked for, judged on other rows.

    Parameters
    ----------
    learned, judged : tuple of features (n, m), targets (n, t) and weights (n,)
    """

    def __init__(self, learned: tuple[np.ndarray, ...], judged: tuple[np.ndarray, ...]):
        Z, Y, weights = learned
        total = weights.sum()
        mean_z, self._mean_y = (weights @ Z / total).astype(Z.dtype), weights @ Y / total
        roots = np.sqrt(weights)[:, None]
        centred = (Z - mean_z) * roots.astype(Z.dtype)
        self._gram = (centred.T @ centred).astype(np.float64)
        self._cross = (centred.T @ ((Y - self._mean_y) * roots).astype(Z.dtype)).astype(np.float64)
        trace = max(float(np.trace(self._gram)), np.finfo(np.float64).tiny)
        # Below the rounding of the Gram matrix there is nothing to be told.
        self._alphas = np.maximum(_ALPHAS, np.finfo(Z.dtype).eps) * trace
        self._judged, self._mean_z = judged, mean_z
        self.coefs: dict[int, np.ndarray] = {}

    def loss(self, index: int) -> float:
        """Weighted sum of squared errors on the rows that judge, at an alpha of the grid."""
        Z, Y, weights = self._judged
        shifted = self._gram.copy()
        shifted[np.diag_indices_from(shifted)] += self._alphas[index]
        try:
            factor = linalg.cho_factor(shifted, lower=True, overwrite_a=True, check_finite=False)
        except linalg.LinAlgError:
            # Rounding has made the Gram matrix more indefinite than alpha can mend.
            self.coefs[index] = np.zeros_like(self._cross)
            return np.inf
        coefs = self.coefs[index] = linalg.cho_solve(factor, self._cross, check_finite=False)
        predictions = Z @ coefs.astype(Z.dtype) - (self._mean_z @ coefs) + self._mean_y
        return float(weights @ np.square(predictions - Y).sum(axis=1))
