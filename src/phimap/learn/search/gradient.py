"""Metrics learned by the gradient of a held-out loss."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike
from scipy import optimize

from phimap.kernels import StationaryKernel
from phimap.learn.search.effort import Effort
from phimap.learn.search.sample import SearchSample
from phimap.ops import ops_for, run_tasks, to_host
from phimap.ops.blas import factorise, gram, solve_factored, subtract_gram
from phimap.ops.primitives.cosines import cos_sin, cos_sin_slopes

# Least and largest number of directions of the Fourier map. Between these bounds, there are half as many directions as
# training rows, and so as many features as training rows.
_LEAST_DIRECTIONS, _MOST_DIRECTIONS = 32, 128
# Number of rows of a stage. One half of them is the training part, the other half the held-out part. Later stages have
# twice as many rows and directions.
_ROWS = 2500
# Least number of rows from which the Gram matrix is the sum of two parts, which two threads compute.
_DIVIDED_ROWS = 1000
# Number of rows whose derivatives are computed together: few enough for the cache to hold them.
_BLOCK = 512
# A stage may evaluate the loss this many times more than it has steps, because line searches need evaluations, too.
_SPARE = 3
# A further stage follows only if the last stage has lowered the squared error by the first share, measured on the rows
# of the further stage, or if this gain plus its standard error is at least the second share. A few rows with large
# errors may hide such a gain.
_LEAST_GAIN, _HIDDEN_GAIN = 0.005, 0.02
# A learner gets no later stages if its error exceeds the least error by more than this number of standard errors. On
# ten of eleven tables, two splits each, the errors were the same as with a bound higher by a tenth of the error.
_DEVIATIONS = 2.0
# Number of first stages, which have fewer rows and directions than later stages.
_SMALL_STAGES = 6
# Number of further stages without a test of the gain for labels. Squared errors of rare classes vary more, so a single
# large stage shows less.
_MORE_OF_LABELS = 1
# Number of last stages whose roots are averaged, and number of first stages that never are.
_AVERAGED, _NOT_AVERAGED = 5, 2
# Least number of rows for a mean of roots. With fewer rows, the comparison of the mean with the last root is so noisy
# that nothing was gained: on 18 tables with at most 1,000 rows the errors were 1.002 of those without means.
_AVERAGED_ROWS = 1000
# Least alpha in units of the number of training rows. The rounding of float32 sums is of this size.
_LEAST_ALPHA = 4 * float(np.finfo(np.float32).eps)
# Largest alpha in these units. In them, the eigenvalues of the Gram matrix are at most 1.
_MOST_ALPHA = 1e3
# Value of the loss at a root whose Gram matrix rounding has made indefinite. No fit has such a large loss.
_NO_FIT = 1e3


class FourierBuffers(NamedTuple):
    """Features (n, 2 k) and Gram matrices (2, 2 k, 2 k) of two parts, and a factor (2 k, 2 k) in float64."""

    features: np.ndarray
    grams: np.ndarray
    factor: np.ndarray

    @classmethod
    def of_shape(cls, n: int, k: int, dtype: DTypeLike = np.float32) -> FourierBuffers:
        """Return buffers for n rows and k directions."""
        return cls(np.empty((n, 2 * k), dtype), np.zeros((2, 2 * k, 2 * k), dtype), np.zeros((2 * k, 2 * k)))


class _FourierFit(NamedTuple):
    """Ridge regression on features without the factor k^(-1/2).

    Attributes
    ----------
    coef : ndarray of shape (2 k, t)
    factor : ndarray of shape (2 k, 2 k)
        Upper Cholesky factor of M in the notes of `FourierLoss`.
    mean : ndarray of shape (2 k,)
        Mean of the features over the training part.
    total : float
        Sum of the weights of the training part.
    errors : ndarray of shape (n, t)
        Outputs minus targets.
    squared : float
        Weighted sum of the squares of the held-out errors, at least the smallest normal number.
    """

    coef: np.ndarray
    factor: np.ndarray
    mean: np.ndarray
    total: float
    errors: np.ndarray
    squared: float


def _solved(factor: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return ``M^{-1} right`` for features without the factor k^(-1/2), given `right` without it."""
    return solve_factored(factor, right) / (len(factor) // 2)


@dataclass(frozen=True)
class FourierLoss:
    r"""The held-out loss of ridge regression on Fourier features, as a function of a metric and of alpha.

    Attributes
    ----------
    X : ndarray of shape (n, d), float32
        Rows; the rows of the training part come first.
    Y : ndarray of shape (n, t), float32
        Targets minus their weighted mean over the training part.
    weights : ndarray of shape (n,), float32
    n_training : int
    directions : ndarray of shape (p, k), float32
        Frequencies of the kernel; p is the number of columns of the rows after multiplication by the root.
    buffers : FourierBuffers
        Memory that each call overwrites. New memory would take as much time as the computation.
    n_jobs : int or None
        Threads; the result does not depend on them.

    Notes
    -----
    For a root R (d,) or (d, p) of the metric and directions W, the features are ``[cos(X R W), sin(X R W)] / sqrt(k)``
    minus their weighted mean over the training part. Let F and G be the features of the training and held-out parts, y
    and y_G their targets, D and E the diagonal matrices of their weights, ``M = F^T D F + alpha I``,
    ``c = M^{-1} F^T D y``, ``e = G c - y_G`` and

    .. math:: L = \log (e^\top E e / \operatorname{tr} E).

    With ``g = 2 E e / (e^T E e)``, ``v = M^{-1} G^T g`` and ``r = D (y - F c)`` the derivatives are ``dL/dG = g c^T``,
    ``dL/dF = r v^T - D F v c^T`` and ``dL/d log alpha = -alpha tr(v^T c)``. The derivative with respect to R follows by
    the chain rule through the mean, the cosine and the sine.

    **Cost.** ``2 n_training k^2`` multiply-adds in float32 for the Gram matrix, ``(2 k)^3 / 3`` in float64 for its
    factor, and ``n d k`` for the products with rows.
    """

    X: np.ndarray
    Y: np.ndarray
    weights: np.ndarray
    n_training: int
    directions: np.ndarray
    buffers: FourierBuffers
    n_jobs: int | None = None

    @property
    def is_uniform(self) -> bool:
        """Whether all weights are 1."""
        return bool((self.weights == 1).all())

    @classmethod
    def of_rows(
        cls,
        X: np.ndarray,
        Y: np.ndarray,
        weights: np.ndarray,
        directions: np.ndarray,
        n_training: int | None = None,
        n_jobs: int | None = None,
    ) -> FourierLoss:
        """Return the loss for rows whose first `n_training`, by default the first half, are the training part."""
        half = len(X) // 2 if n_training is None else n_training
        weights = weights / weights.mean()
        Y = Y - weights[:half] @ Y[:half] / weights[:half].sum()
        X, Y, weights, directions = (np.ascontiguousarray(part, np.float32) for part in (X, Y, weights, directions))
        buffers = FourierBuffers.of_shape(len(X), directions.shape[1])
        return cls(X, Y, weights, half, directions, buffers, n_jobs)

    def __call__(self, root: np.ndarray, alpha: float) -> tuple[float, np.ndarray, float]:
        """Return the loss and its derivatives with respect to `root` and to the logarithm of `alpha`."""
        fit = self._fit(root, alpha)
        if fit is None:
            return _NO_FIT, np.zeros(root.shape), 0.0
        X, n, W = self.X, self.n_training, self.directions
        features, k, t = self.buffers.features, W.shape[1], self.Y.shape[1]
        F, G, weights, mean = features[:n], features[n:], self.weights[:, None], fit.mean
        g = fit.errors[n:] * weights[n:] * X.dtype.type(2 / fit.squared)
        v = _solved(fit.factor, G.T @ g - np.outer(mean, g.sum(axis=0)))
        r = -fit.errors[:n] * weights[:n]
        u = (F @ v.astype(X.dtype) - (mean @ v).astype(X.dtype)) * weights[:n]

        of_mean = v @ r.sum(axis=0) + fit.coef @ (g.sum(axis=0) - u.sum(axis=0))
        left = np.zeros((len(X), 2 * t + 1), X.dtype)
        left[:n, :t], left[:n, t:-1], left[n:, t:-1] = r, -u, g
        left[:n, -1:] = -weights[:n] / np.float32(fit.total)
        right = np.concatenate([v, fit.coef, of_mean[:, None]], axis=1).astype(X.dtype).T
        ops = ops_for(X)

        def of_products_in(rows: slice) -> np.ndarray:
            of_projections = np.empty((len(X[rows]), k), X.dtype)
            cos_sin_slopes(ops, features[rows], left[rows] @ right, of_projections)
            return X[rows].T @ of_projections

        of_products = np.sum(run_tasks(of_products_in, self._blocks(), self.n_jobs), axis=0)
        of_root = np.einsum("ij,ij->i", of_products, W) if root.ndim == 1 else of_products @ W.T
        return self._loss(fit), of_root.astype(np.float64), -alpha * k * float(np.sum(v * fit.coef))

    def squares(self, root: np.ndarray, alpha: float) -> np.ndarray | None:
        """Return the weighted squared errors (n - n_training,) of the held-out rows; None if the loss is `_NO_FIT`.

        This takes less time than the loss with its derivatives.
        """
        fit, n = self._fit(root, alpha), self.n_training
        return None if fit is None else self.weights[n:] * np.square(fit.errors[n:], dtype=np.float64).sum(axis=1)

    def _loss(self, fit: _FourierFit) -> float:
        return float(np.log(fit.squared / float(self.weights[self.n_training :].sum(dtype=np.float64))))

    def _blocks(self) -> list[slice]:
        return [slice(start, start + _BLOCK) for start in range(0, len(self.X), _BLOCK)]

    def _fit(self, root: np.ndarray, alpha: float) -> _FourierFit | None:
        """Set the features and fit the training part.

        Return None if projections overflow, or if rounding has made the Gram matrix indefinite.
        """
        X, n, W = self.X, self.n_training, self.directions
        (features, grams, factor), k, ops = self.buffers, W.shape[1], ops_for(X)
        root = root.astype(X.dtype)
        directions = root[:, None] * W if root.ndim == 1 else root @ W
        # The mean and the factor k^(-1/2) enter in the products, which saves passes over the features.
        ones = np.ones(k, X.dtype)

        def set_features(rows: slice) -> bool:
            projections = X[rows] @ directions
            if not np.isfinite(projections).all():
                return False
            cos_sin(ops, projections, ones, features[rows], 0, k)
            return True

        if not all(run_tasks(set_features, self._blocks(), self.n_jobs)):
            return None
        F, weights = features[:n], self.weights[:, None]
        total = float(self.weights[:n].sum(dtype=np.float64))
        mean = self.weights[:n] @ F / np.float32(total)
        ends = [0, n // 2, n] if n >= _DIVIDED_ROWS else [0, n]

        def set_gram(part: int) -> None:
            rows = slice(ends[part], ends[part + 1])
            gram(F[rows] if self.is_uniform else F[rows] * np.sqrt(weights[rows]), grams[part])

        n_parts = len(ends) - 1
        run_tasks(set_gram, range(n_parts), self.n_jobs)
        for part in range(1, n_parts):
            grams[0] += grams[part]
        np.divide(grams[0], k, out=factor)
        subtract_gram(factor, np.sqrt(total / k) * mean.astype(np.float64)[None])
        factor[np.diag_indices_from(factor)] += alpha
        if not factorise(factor):
            return None
        coef = _solved(factor, F.T @ (self.Y[:n] * weights[:n]))
        errors = features @ coef.astype(X.dtype) - (mean @ coef).astype(X.dtype) - self.Y
        # The errors are 0 if all targets are equal, for example if a rare class has no row in the sample. The divisor
        # is a normal number of the rows' dtype, so that its reciprocal is finite there.
        squared = float((weights[n:] * np.square(errors[n:])).sum(dtype=np.float64))
        return _FourierFit(coef, factor, mean, total, errors, max(squared, float(np.finfo(X.dtype).tiny)))


def _gain(before: np.ndarray | None, after: np.ndarray | None) -> tuple[float, float]:
    """Return the share by which the sum of squared errors of the same rows (r,) fell, and its standard error."""
    if before is None or after is None:
        return -np.inf, 0.0
    fall, total = before - after, max(float(before.sum()), np.finfo(np.float64).tiny)
    return float(fall.sum()) / total, float(np.sqrt(np.square(fall).sum())) / total


class MetricLearner:
    """Learns the root of a metric together with alpha, by L-BFGS in stages.

    Parameters
    ----------
    sample : SearchSample
    rows : ndarray of int
        Rows on which the metric is learned.
    start : ndarray of shape (d,) or (d, p)
        Root from which the first stage starts, for a kernel of length scale 1.
    alpha : float
        First value of the regularisation, in units of the number of training rows.
    kernel : StationaryKernel
        Kernel of length scale 1, whose frequencies are drawn.
    effort : Effort
        Effort, which sets the numbers of stages and of steps.
    seed : int
    n_jobs : int or None
        Threads; the result does not depend on them.

    Notes
    -----
    Every stage takes other rows, another split and other directions, because many steps on a single split would fit its
    noise. On the rows of a new stage, the roots before and after the last stage are compared. No further stage follows
    if the last stage has gained little, unless the standard error of the gain is large. If the last stage has raised
    the loss, the root before that stage replaces its root. Every stage still fits some noise of its rows, which the
    mean of the roots after the last stages has less of.

    References
    ----------
    Chapelle, Vapnik, Bousquet, Mukherjee (2002), *Choosing multiple parameters for support vector machines*, for
    gradients of held-out errors. **Differs from the source in** the random features and in the stages.
    """

    def __init__(
        self,
        sample: SearchSample,
        rows: np.ndarray,
        start: np.ndarray,
        alpha: float,
        kernel: StationaryKernel,
        effort: Effort,
        *,
        seed: int,
        n_jobs: int | None,
    ):
        self._sample, self._rows, self._alpha, self._effort = sample, rows, alpha, effort
        self._seed, self._n_jobs, self._rng = seed, n_jobs, np.random.default_rng(seed)
        self._law, self._is_diagonal = kernel.spectral_law(start.shape[-1]), start.ndim == 1
        # Columns of a group share one weight in a diagonal metric.
        parts = sample.parts if self._is_diagonal else None
        self._groups = np.arange(start.shape[0]) if parts is None else parts
        # The unit of the steps is the size of the start, so that a first step of length 1 changes the root clearly but
        # not completely.
        self._size = float(np.linalg.norm(start) / np.sqrt(start.shape[0]))
        _, representatives = np.unique(self._groups, return_index=True)
        free = start[representatives] if self._is_diagonal else start
        self._shape = free.shape
        # The parameters: the logarithm of alpha relative to its first value, and the root relative to its first size.
        self._values = self._before = np.concatenate([[0.0], free.ravel() / self._size])
        self._stage, self._ended = 0, False
        # The values after each stage that has not raised the loss.
        self._ends = list[np.ndarray]()

    @property
    def root(self) -> np.ndarray:
        """The root that has been learned, with the shape of the start."""
        return self._root_of(self._values)

    def learn(self, n_stages: int, is_over: Callable[[], bool]) -> None:
        """Learn until `n_stages` stages have passed, or until a stage gains little.

        No stage begins after `is_over` has returned True.
        """
        least = self._effort.least_stages + (0 if self._sample.labels is None else _MORE_OF_LABELS)
        while self._stage < n_stages and not self._ended and not is_over():
            # The first stages need not be accurate, so they have half as many rows and directions as later stages.
            loss = self._loss(self._rng, 1 if self._stage < _SMALL_STAGES else 2)
            if self._stage >= least:
                gain, deviation = _gain(self._squares(loss, self._before), self._squares(loss, self._values))
                if gain < 0:
                    self._values = self._before
                    self._ends.pop()
                self._ended = gain < _LEAST_GAIN and gain + deviation < _HIDDEN_GAIN
            if not self._ended:
                self._before, self._values = self._values, self._minimised(loss)
                self._ends.append(self._values)
                self._stage += 1

    def average(self) -> None:
        """Take the mean of the roots after the last stages, if it errs less than the last root.

        The two are compared on the held-out rows of a split that no stage has had. With fewer than 1,000 rows, the last
        root stays.
        """
        averaged = self._ends[_NOT_AVERAGED:][-_AVERAGED:]
        if len(averaged) < 2 or self._rows.size < _AVERAGED_ROWS:
            return
        loss = self._loss(np.random.default_rng([self._seed, 2]), 2)
        mean = np.mean(averaged, axis=0)
        gain, _ = _gain(self._squares(loss, self._values), self._squares(loss, mean))
        if gain > 0:
            self._values = mean

    @property
    def has_larger_stages(self) -> bool:
        """Whether there are enough rows for later stages to have more rows than the first."""
        return self._rows.size > _ROWS

    def validation_squares(self) -> np.ndarray | None:
        """Squared errors of held-out rows of a split that no stage has had; None if there is no fit.

        Learners of the same sample, rows and seed have the same held-out rows.
        """
        return self._squares(self._loss(np.random.default_rng([self._seed, 1]), 2), self._values)

    def _loss(self, rng: np.random.Generator, share: int) -> FourierLoss:
        """Return the loss for a new split and new directions. A larger `share` has more rows and directions."""
        sample, half = self._sample, min(share * _ROWS, self._rows.size) // 2
        n_directions = int(np.clip(half // 2, _LEAST_DIRECTIONS, share * _MOST_DIRECTIONS))
        training, held_out = sample.split(rng.permutation(self._rows)[: 2 * half], half, rng)
        chosen = np.concatenate([training, held_out])
        X = np.asarray(to_host(ops_for(sample.X).dense(sample.X[chosen])))
        directions = self._law.sample(rng, n_directions).T
        Y, weights = sample.Y[chosen], sample.weights[chosen]
        return FourierLoss.of_rows(X, Y, weights, directions, training.size, self._n_jobs)

    def _root_of(self, values: np.ndarray) -> np.ndarray:
        root = values[1:].reshape(self._shape) * self._size
        return root[self._groups] if self._is_diagonal else root

    def _alpha_of(self, values: np.ndarray, loss: FourierLoss) -> float:
        return self._alpha * loss.n_training * float(np.exp(values[0]))

    def _squares(self, loss: FourierLoss, values: np.ndarray) -> np.ndarray | None:
        return loss.squares(self._root_of(values), self._alpha_of(values, loss))

    def _minimised(self, loss: FourierLoss) -> np.ndarray:
        """Return the values after the steps of a stage."""

        def evaluate(values: np.ndarray) -> tuple[float, np.ndarray]:
            found, of_root, of_alpha = loss(self._root_of(values), self._alpha_of(values, loss))
            of_free = np.bincount(self._groups, of_root) if self._is_diagonal else of_root.ravel()
            return found, np.concatenate([[of_alpha], of_free * self._size])

        lowest, highest = np.full(self._values.size, -np.inf), np.full(self._values.size, np.inf)
        lowest[0], highest[0] = np.log(_LEAST_ALPHA / self._alpha), np.log(_MOST_ALPHA / self._alpha)
        bounds: Any = optimize.Bounds(lowest, highest)  # pyright: ignore[reportArgumentType] -- arrays are accepted
        steps = self._effort.steps
        options = {"maxiter": steps, "maxfun": steps + _SPARE}
        return optimize.minimize(evaluate, self._values, jac=True, method="L-BFGS-B", bounds=bounds, options=options).x


def learn_together(
    learners: Sequence[MetricLearner], n_stages: int, is_over: Callable[[], bool], n_jobs: int | None
) -> None:
    """Let learners of the same sample, rows and seed learn, up to `n_stages` stages each.

    After the small stages, the errors of the learners are compared on the same rows. A learner whose errors are larger
    than those of the best learner by more than noise keeps the root that it has, because later stages take most of the
    time. In the end, the learners average their roots, unless `is_over` has returned True.
    """
    going = list(learners)
    run_tasks(lambda one: one.learn(min(_SMALL_STAGES, n_stages), is_over), going, n_jobs)
    if len(learners) > 1 and learners[0].has_larger_stages and not is_over():
        squares = run_tasks(lambda one: one.validation_squares(), learners, n_jobs)
        best = min(squares, key=lambda one: np.inf if one is None else one.sum())
        going = [one for one, own in zip(learners, squares, strict=True) if not _is_clear(*_gain(own, best))]
    run_tasks(lambda one: one.learn(n_stages, is_over), going, n_jobs)
    if not is_over():
        run_tasks(lambda one: one.average(), learners, n_jobs)


def _is_clear(gain: float, deviation: float) -> bool:
    """Return whether a gain with this standard error is more than noise."""
    return gain > _DEVIATIONS * deviation
