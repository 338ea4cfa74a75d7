"""A trial of a kernel: the held-out error of ridge regression on a small map of this kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from phimap.config import thread_count
from phimap.learn.search.sample import SearchSample
from phimap.ops import Array, ops_for, run_tasks, to_host
from phimap.ops.blas import factorise, gram, solve_factored
from phimap.random_map import MapRecord, RandomMap, evaluate

# Number of rows that one task adds to the Gram matrix, and number of rows that are summed in the dtype of the features
# before sums are added in float64.
_GRAM_ROWS = 2048
#: Values of alpha that are tried, as multiples of the trace of the Gram matrix. The range begins below the rounding of
#: float32 products, and ends where all coefficients are close to zero.
ALPHAS = np.geomspace(1e-9, 1.0, 19)
# A further step along the alphas is made only if the slope of the loss predicts that the loss falls by this share.
_LEAST_STEP = 2e-3
#: Index in `ALPHAS` of the alpha that is tried first: 1e-6 times the trace.
FIRST_ALPHA = 6


@dataclass(frozen=True)
class FoldFit:
    """The fit of one fold.

    Attributes
    ----------
    record : MapRecord
    coefs : ndarray of shape (m, t)
        Coefficients at the regularisation that is best over all folds.
    """

    record: MapRecord
    coefs: np.ndarray


@dataclass(frozen=True)
class TrialResult:
    """Held-out error of a map, and the fit of each fold.

    Attributes
    ----------
    error : float
        Mean squared held-out error, divided by the variance of the targets.
    alpha : int
        Index in `ALPHAS` of the best regularisation.
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
    n_jobs: int | None = None,
) -> TrialResult:
    """Fit a map and ridge regression to the training rows of every fold, and compute the error on the held-out rows.

    Parameters
    ----------
    make : callable
        Returns the unfitted map, which is the same draw in each call.
    roots : sequence of ndarray or None
        For each fold, the root of the metric by which the rows are multiplied.
    sample : SearchSample
    first_alpha : int
        Index in `ALPHAS` at which the search for the best alpha starts.
    n_jobs : int or None
        Threads; the result does not depend on them.

    Returns
    -------
    TrialResult

    Notes
    -----
    The error as a function of alpha is followed downhill on a grid of half decades, in the direction of its slope. The
    features of held-out rows are not whitened, because whitening the coefficients takes less time.

    **Cost.** The features, ``n m^2`` flops and about ``m^3`` for each fold.
    """

    def learn(fold: int) -> _RidgePath:
        (training, held_out), root = sample.folds()[fold], roots[fold]
        X = rooted(sample.X[training], root)
        feature_map = make().fit(X)
        rows = np.asarray(to_host(feature_map.transform(X))), sample.Y[training], sample.weights[training]
        others = rooted(sample.X[held_out], root), sample.Y[held_out], sample.weights[held_out]
        return _RidgePath(feature_map.record_, rows, others, n_jobs)

    folds = run_tasks(learn, range(len(roots)), n_jobs)

    def loss_and_slope(alpha: int) -> tuple[float, float]:
        found = run_tasks(lambda path: path.loss_and_slope(alpha), folds, n_jobs)
        return sum(loss for loss, _ in found), sum(slope for _, slope in found)

    best, loss = descend_along(loss_and_slope, first_alpha, ALPHAS)
    total = sum(sample.weights[held_out].sum() for _, held_out in sample.folds())
    fits = [FoldFit(path.record, path.coefs[best]) for path in folds]
    return TrialResult(float(loss / total / sample.spread()), best, fits)


def features_of(record: MapRecord, X: Array) -> np.ndarray:
    """Features (n, m) of the scaled rows `X` (n, d), on the host and in the dtype of `X`."""
    ops = ops_for(X)
    out = ops.empty((X.shape[0], record.n_components))
    evaluate(record.bind(ops), ops, X, out, None)
    return np.asarray(to_host(out))


def descend_along(
    loss_and_slope: Callable[[int], tuple[float, float]], first: int, alphas: np.ndarray
) -> tuple[int, float]:
    """Go downhill on a geometric grid of alphas; return the index of the least loss found, and this loss.

    Parameters
    ----------
    loss_and_slope : callable
        Returns the loss at an index, and its derivative with respect to log alpha.
    first : int
        Index at which the search starts. The slope gives the direction.
    alphas : ndarray of shape (g,)

    Notes
    -----
    A step is not tried if the slope predicts that it lowers the loss by less than 0.2 %.
    """
    best, (least, slope) = first, loss_and_slope(first)
    step, length = (-1 if slope > 0 else 1), float(np.log(alphas[1] / alphas[0]))
    while 0 <= best + step < alphas.size and not abs(slope) * length < _LEAST_STEP * least:
        loss, slope_there = loss_and_slope(best + step)
        if loss >= least:
            break
        best, least, slope = best + step, loss, slope_there
        if slope * step > 0:
            break
    return best, least


def rooted(X: Array, root: np.ndarray | None) -> Array:
    """Rows multiplied by the root of a metric: factors of the columns (d,), or a matrix (d, k)."""
    if root is None:
        return X
    ops = ops_for(X)
    if root.ndim == 1:
        return ops.scale_columns(X, ops.constant(root)) if ops.is_sparse(X) else X * ops.constant(root)
    return ops.dense(X) @ ops.constant(root)


class _RidgePath:
    """Ridge regression on training rows for several alphas, and the errors on held-out rows.

    Parameters
    ----------
    record : MapRecord
    training : tuple of features (n, m), targets (n, t) and weights (n,)
    held_out : tuple of scaled rows (n, d), targets (n, t) and weights (n,)
    n_jobs : int or None
        Threads; the result does not depend on them.
    """

    def __init__(
        self, record: MapRecord, training: tuple[np.ndarray, ...], held_out: tuple[Array, ...], n_jobs: int | None
    ):
        Z, Y, weights = training
        self.record = record
        self._mean_y = weights @ Y / weights.sum()
        # The features are overwritten, because they are not used afterwards.
        self._mean_z, self._gram, centred = centred_gram(Z, weights, n_jobs, out=Z)
        roots = np.sqrt(weights)[:, None]
        self._cross = (centred.T @ ((Y - self._mean_y) * roots).astype(Z.dtype)).astype(np.float64)
        trace = max(float(np.trace(self._gram)), np.finfo(np.float64).tiny)
        # Smaller alphas would be below the rounding errors of the Gram matrix.
        self._alphas = np.maximum(ALPHAS, np.finfo(Z.dtype).eps) * trace
        self.coefs: dict[int, np.ndarray] = {}
        plain, _ = record.unwhitened(np.empty((record.n_components, 0)))
        self._held_out = features_of(plain, held_out[0]), *held_out[1:]

    def loss_and_slope(self, index: int) -> tuple[float, float]:
        """Weighted sum of the squared errors on the held-out rows, and its derivative with respect to log alpha."""
        Z, Y, weights = self._held_out
        factor, alpha = self._gram.copy(), self._alphas[index]
        factor[np.diag_indices_from(factor)] += alpha
        if not factorise(factor):
            # Rounding has given the Gram matrix an eigenvalue below -alpha, so a larger alpha is needed.
            self.coefs[index] = np.zeros_like(self._cross)
            return np.inf, -np.inf
        coefs = self.coefs[index] = solve_factored(factor, self._cross)
        moved = solve_factored(factor, -alpha * coefs)
        both = np.concatenate([coefs, moved], axis=1)
        _, of_plain = self.record.unwhitened(both)
        # These products are summed in float64, because features that are not whitened are nearly dependent.
        products = [
            Z[start : start + _GRAM_ROWS].astype(np.float64) @ of_plain for start in range(0, len(Z), _GRAM_ROWS)
        ]
        outputs, changes = np.split(np.concatenate(products) - self._mean_z @ both, 2, axis=1)
        errors = outputs + self._mean_y - Y
        return float(weights @ np.square(errors).sum(axis=1)), float(2 * weights @ (errors * changes).sum(axis=1))


def centred_gram(
    Z: np.ndarray, weights: np.ndarray, n_jobs: int | None, out: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the weighted mean (m,) of features (n, m), the Gram matrix (m, m) of centred features, and these features.

    Only the upper triangle of the Gram matrix is set. The centred features are multiplied by the roots of the weights,
    and written to `out` if it is given, which may be `Z`.
    """
    # The weights get the dtype of the features, because a product of float64 and float32 would copy the features. Sums
    # over blocks of rows lose few digits.
    counted, starts = weights.astype(Z.dtype), range(0, len(Z), _GRAM_ROWS)
    sums = [counted[start : start + _GRAM_ROWS] @ Z[start : start + _GRAM_ROWS] for start in starts]
    mean = (np.sum(sums, axis=0, dtype=np.float64) / weights.sum()).astype(Z.dtype)
    centred = np.subtract(Z, mean, out=out)
    if (weights != 1).any():
        centred *= np.sqrt(weights)[:, None].astype(Z.dtype)
    return mean, _gram(centred, n_jobs), centred


def _gram(Z: np.ndarray, n_jobs: int | None) -> np.ndarray:
    """``Z^T Z`` (m, m) in float64, summed over blocks of rows; only its upper triangle is set."""
    starts, at_once = range(0, Z.shape[0], _GRAM_ROWS), thread_count(n_jobs)
    total = np.zeros((Z.shape[1], Z.shape[1]))
    for first in range(0, len(starts), at_once):
        blocks = run_tasks(lambda start: gram(Z[start : start + _GRAM_ROWS]), starts[first : first + at_once], n_jobs)
        for block in blocks:
            total += block
    return total
