"""What a kernel is worth on some rows: the held-out error of a small map of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from phimap.learn.search.sample import SearchSample
from phimap.ops import Array, ops_for
from phimap.random_map import MapRecord, RandomMap

# Regularisations tried, as multiples of the largest eigenvalue: down to the rounding of products in float32, and up to
# where all is shrunk.
_ALPHAS = np.geomspace(1e-8, 10.0, 37)
# Curves are summed over folds at equal multiples; below this many roundings a factor is noise.
_ROUNDINGS = 4.0


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
    fits : list of FoldFit
    """

    error: float
    fits: list[FoldFit]


def run_trial(
    make: Callable[[], RandomMap], roots: Sequence[np.ndarray | None], sample: SearchSample
) -> TrialResult:
    """Fit a map and ridge regression on it in every fold, and judge them on the rest.

    Parameters
    ----------
    make : callable
        Gives the unfitted map; the same draw each time.
    roots : sequence of ndarray or None
        Root of the metric of each fold, by which its rows are multiplied.
    sample : SearchSample

    Returns
    -------
    TrialResult

    Notes
    -----
    With w and V the eigenvalues and vectors of the centred Gram matrix of a fold, ``B = V^T Z^T Y`` and P the
    projections of the held-out rows, predictions at alpha are ``P (B / (w + alpha))``: all alphas cost one
    eigendecomposition.

    **Cost.** The features, ``n m^2`` flops and about ``9 m^3`` for each fold.
    """
    curves, paths = [], []
    for (learned, judged), root in zip(sample.folds(), roots, strict=True):
        feature_map = make()
        rows = rooted(sample.X, root)
        feature_map.fit(rows[learned])
        path = _RidgePath(_features(feature_map, rows[learned]), sample.Y[learned], sample.weights[learned])
        curves.append(path.losses(_features(feature_map, rows[judged]), sample.Y[judged], sample.weights[judged]))
        paths.append((feature_map.record_, path))
    curve = np.sum(curves, axis=0)
    best = int(np.argmin(curve))
    judged_weight = sum(sample.weights[judged].sum() for _, judged in sample.folds())
    fits = [FoldFit(record, path.coefs(best)) for record, path in paths]
    return TrialResult(float(curve[best] / judged_weight / sample.spread()), fits)


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
    """Ridge regression for every alpha, from one eigendecomposition."""

    def __init__(self, Z: np.ndarray, Y: np.ndarray, weights: np.ndarray):
        total = weights.sum()
        self._mean_z, self._mean_y = (weights @ Z / total).astype(Z.dtype), weights @ Y / total
        roots = np.sqrt(weights)[:, None]
        centred = (Z - self._mean_z) * roots.astype(Z.dtype)
        gram = (centred.T @ centred).astype(np.float64)
        cross = centred.T @ ((Y - self._mean_y) * roots).astype(Z.dtype)
        eigenvalues, self._vectors = np.linalg.eigh(gram)
        top = max(float(eigenvalues[-1]), np.finfo(np.float64).tiny)
        noise = max(_ROUNDINGS * np.finfo(Z.dtype).eps * top, -2 * float(eigenvalues[0]))
        self._alphas = np.maximum(_ALPHAS * top, noise)
        self._eigenvalues = np.maximum(eigenvalues, 0)
        self._rotated = self._vectors.T @ cross.astype(np.float64)

    def losses(self, Z: np.ndarray, Y: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Weighted sums of squared errors at each alpha (g,)."""
        projected = (Z - self._mean_z) @ self._vectors.astype(Z.dtype)
        wanted = Y - self._mean_y
        return np.array(
            [weights @ np.square(projected @ self._shrunk(alpha) - wanted).sum(axis=1) for alpha in self._alphas]
        )

    def coefs(self, index: int) -> np.ndarray:
        """Coefficients (m, t) at an alpha of the grid."""
        return self._vectors @ self._shrunk(self._alphas[index])

    def _shrunk(self, alpha: float) -> np.ndarray:
        return self._rotated / (self._eigenvalues + alpha)[:, None]
