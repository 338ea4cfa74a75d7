"""Ridge regression by conjugate gradients over streams, for more features than a Gram matrix can be held of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from phimap._random import RandomState, seed_sequence
from phimap.learn.data.blocks import FeatureBlock
from phimap.learn.ridge.nystroem_preconditioner import ARRAYS, NystroemPreconditioner, test_matrix
from phimap.learn.solver import LinearSolution, Passes, Solver, Sums

# Rank of the preconditioner: a share of the width, within bounds.
_RANK_SHARE, _LEAST_RANK, _MOST_RANK = 16, 256, 1024
# Alphas that are tried at a time, as shares of the mean eigenvalue, and how far apart they are.
_GRID = 10.0 ** np.arange(-9.0, 1.0)
# The best alpha is known once its held-out error moves by less than this from one step to the next.
_STEADY = 1e-3
# Steps of the search at the most: a flat curve need not settle.
_SEARCH_STEPS = 6


@dataclass(frozen=True)
class Judge:
    """Rows of the stream by whose error alpha is chosen: features (r, m), targets (r, t) and weights (r,)."""

    block: FeatureBlock
    targets: np.ndarray
    weights: np.ndarray


class ConjugateGradients(Solver):
    r"""Minimise :math:`\sum_i w_i |y_i - W^T z_i - c|^2 + \alpha |W|^2` without the m x m Gram matrix.

    Parameters
    ----------
    alpha : float or "auto"
    judge : Judge or None
        Rows that are left out while ``alpha="auto"`` is chosen by the error on them.
    tolerance : float or None, default=None
        Residual ``|(A + alpha I) W - B| / |B|`` to reach; None is 1e-6 for float32 features and 1e-12 for float64.
    most_passes : int, default=60
    rank : int or None, default=None
        Of the preconditioner; None is a 16th of the width, within 256 and 1,024.
    rng : int, Generator, RandomState, SeedSequence or None, default=0
        Of the sketch.
    n_jobs : int, optional

    Notes
    -----
    Every target and every alpha is a column, with its own steps; all share the passes and the preconditioner, which
    serves every alpha. The first pass forms the sums and the sketch, each further one a product of the centred Gram
    matrix with the columns; the last forms the true residual.

    **Error.** The residual that is reported is that of the system as it stands, formed anew.

    **Cost.** A pass forms the features of all rows and takes ``4 n m k`` flops for k columns; the first has k = rank.
    ``8 m (3 rank + 6 k)`` bytes.

    **Differs from the source in** the choice of alpha on the way.

    References
    ----------
    Frangella, Tropp, Udell (2023), *Randomized Nystroem preconditioning*, Algorithm 5.2.
    """

    name = "cg"

    def __init__(
        self,
        alpha: float | str = "auto",
        *,
        judge: Judge | None = None,
        tolerance: float | None = None,
        most_passes: int = 60,
        rank: int | None = None,
        rng: RandomState = 0,
        n_jobs: int | None = None,
    ):
        self._alpha, self._judge, self._tolerance = alpha, judge, tolerance
        self._most_passes, self._rank, self._rng, self._n_jobs = most_passes, rank, rng, n_jobs

    def memory(self, n: int, m: int, t: int) -> int:
        columns = t * (len(_GRID) if self._alpha == "auto" else 1)
        return 8 * m * (ARRAYS * self._rank_of(m) + 6 * columns)

    def _rank_of(self, m: int) -> int:
        rank = self._rank or int(np.clip(m // _RANK_SHARE, _LEAST_RANK, _MOST_RANK))
        return min(m, rank)

    def _passes(self, m: int, t: int, eps: float) -> Passes:
        test = test_matrix(m, self._rank_of(m), np.random.default_rng(seed_sequence(self._rng)))

        def sketched(block: FeatureBlock, targets: np.ndarray, weights: np.ndarray) -> Sums:
            images = block.times(test, self._n_jobs).astype(np.float64)
            return _moments(block, targets, weights, images, self._n_jobs)

        n, sum_y, sum_z, cross, sketch = yield sketched
        system = _System(n.item(), sum_z, sum_y, cross[:, :t], self._n_jobs)
        preconditioner = NystroemPreconditioner.of_sketch(test, system.centred(sketch, test), eps)
        del test, sketch
        tolerance = self._tolerance or (1e-6 if eps > 1e-10 else 1e-12)
        W, alphas, scores, criterion = np.zeros((m, t)), np.empty(0), np.empty(0), "given"
        alpha = self._alpha
        if alpha == "auto":
            W, alpha, alphas, scores = yield from self._choose(system, preconditioner)
            criterion = "held-out"
        state = _Columns(system.rhs, np.full(t, float(alpha)), preconditioner)
        if W.any():
            state.restart(W, (yield from system.product(W)))
        while True:
            while state.residual > tolerance and self.n_passes < self._most_passes - 1:
                state.step((yield from system.product(state.directions)))
            W = state.solution
            true = system.rhs - (yield from system.product(W)) - alpha * W
            residual = _relative(true, system.rhs)
            # What rounding took from the recurrence is made good once or twice; it is no use beyond the rounding.
            if residual <= 2 * tolerance or self.n_passes >= self._most_passes or residual > 0.5 * state.started:
                break
            state.restart(W, system.rhs - true - alpha * W)
        status = "solved" if residual <= 2 * tolerance else "stopped"
        return LinearSolution(
            W, system.intercept(W), float(alpha), alphas, scores, criterion, residual, "cg", status, self.n_passes + 1
        )

    def _choose(self, system: _System, preconditioner: NystroemPreconditioner):
        """Solution, alpha, the alphas and their errors on the judge's rows, which are left out."""
        if self._judge is None:
            raise ValueError("`judge` must be given where `alpha` is 'auto'. Give rows to judge by, or alpha.")
        t = system.rhs.shape[1]
        without = system.without(self._judge)
        scale = max(float(preconditioner.eigenvalues.sum()), 1e-300) / system.rhs.shape[0]
        alphas = scale * _GRID
        columns = np.repeat(alphas, t)
        state = _Columns(np.tile(without.rhs, len(alphas)), columns, preconditioner)
        best, scores = np.inf, np.full(len(alphas), np.inf)
        for _ in range(_SEARCH_STEPS):
            state.step((yield from without.product(state.directions)))
            scores = self._errors(without, state.solution, len(alphas))
            if abs(best - scores.min()) <= _STEADY * scores.min():
                break
            best = scores.min()
        chosen = int(scores.argmin())
        return state.solution[:, chosen * t : (chosen + 1) * t].copy(), float(alphas[chosen]), alphas, scores

    def _errors(self, system: _System, W: np.ndarray, n_alphas: int) -> np.ndarray:
        """Mean squared errors on the judge's rows, summed over targets: (n_alphas,)."""
        judge = self._judge
        assert judge is not None
        found = judge.block.times(W, self._n_jobs) + np.tile(system.sum_y / system.n, n_alphas)
        found -= (system.sum_z / system.n) @ W
        squares = np.square(found - np.tile(judge.targets, n_alphas))
        means = np.average(squares, axis=0, weights=judge.weights)
        return means.reshape(n_alphas, -1).sum(axis=1)


class _System:
    """The centred normal equations, known by their right-hand side and by products that take a pass."""

    def __init__(self, n: float, sum_z: np.ndarray, sum_y: np.ndarray, cross: np.ndarray, n_jobs: int | None):
        self.n, self.sum_z, self.sum_y, self._cross, self._n_jobs = n, sum_z, sum_y, cross, n_jobs
        self.rhs = cross - np.outer(sum_z, sum_y / n)
        self._taken: Judge | None = None

    def without(self, judge: Judge) -> _System:
        """The system without some rows."""
        sums = _moments(judge.block, judge.targets, judge.weights, np.empty((len(judge.targets), 0)), self._n_jobs)
        n, sum_y, sum_z, cross, _ = sums
        left = _System(self.n - n.item(), self.sum_z - sum_z, self.sum_y - sum_y, self._cross - cross, self._n_jobs)
        left._taken = judge
        return left

    def product(self, V: np.ndarray):
        """``A V`` (m, k): one pass."""

        def multiplied(block: FeatureBlock, targets: np.ndarray, weights: np.ndarray) -> Sums:
            return (_gram_times(block, V, weights, self._n_jobs),)

        (image,) = yield multiplied
        if self._taken is not None:
            image -= _gram_times(self._taken.block, V, self._taken.weights, self._n_jobs)
        return self.centred(image, V)

    def centred(self, image: np.ndarray, V: np.ndarray) -> np.ndarray:
        """What the sum of ``w z z^T V`` is for centred rows."""
        return image - np.outer(self.sum_z, (self.sum_z @ V) / self.n)

    def intercept(self, W: np.ndarray) -> np.ndarray:
        """The intercept (t,) that goes with coefficients (m, t)."""
        return (self.sum_y - self.sum_z @ W) / self.n


class _Columns:
    """Conjugate gradients for several right-hand sides, each with a shift of its own."""

    def __init__(self, rhs: np.ndarray, shifts: np.ndarray, preconditioner: NystroemPreconditioner):
        self._rhs, self._shifts, self._preconditioner = rhs, shifts, preconditioner
        self.restart(np.zeros_like(rhs), np.zeros_like(rhs))

    def restart(self, solution: np.ndarray, image: np.ndarray) -> None:
        """Begin at `solution`, whose product with the matrix is `image`."""
        self.solution = solution.copy()
        self._residuals = self._rhs - image - self._shifts * solution
        z = self._preconditioner.solve(self._residuals, self._shifts)
        self.directions, self._energy = z, (self._residuals * z).sum(axis=0)
        self.started = self.residual

    def step(self, image: np.ndarray) -> None:
        """One step along the directions, whose product with the matrix is `image`."""
        image = image + self._shifts * self.directions
        curvature = (self.directions * image).sum(axis=0)
        # A column that is solved has no direction left.
        lengths = np.divide(self._energy, curvature, out=np.zeros_like(curvature), where=curvature > 0)
        self.solution += lengths * self.directions
        self._residuals -= lengths * image
        z = self._preconditioner.solve(self._residuals, self._shifts)
        energy = (self._residuals * z).sum(axis=0)
        self.directions = z + np.divide(energy, self._energy, out=np.zeros_like(energy), where=self._energy > 0) * (
            self.directions
        )
        self._energy = energy

    @property
    def residual(self) -> float:
        """Largest residual over the right-hand side's norm, by the recurrence."""
        return _relative(self._residuals, self._rhs)


def _relative(residuals: np.ndarray, rhs: np.ndarray) -> float:
    size = np.linalg.norm(rhs)
    return float(np.linalg.norm(residuals) / size) if size > 0 else 0.0


def _moments(
    block: FeatureBlock, targets: np.ndarray, weights: np.ndarray, more: np.ndarray, n_jobs: int | None
) -> Sums:
    """Sums of w, w y, w z, ``w z y^T`` and ``w z`` times the columns of `more` (r, k)."""
    t = targets.shape[1]
    products, _ = block.cross_products(weights[:, None] * np.hstack([targets, more, np.ones((len(targets), 1))]), n_jobs)
    return np.array([weights.sum()]), weights @ targets, products[:, -1], products[:, :t], products[:, t:-1]


def _gram_times(block: FeatureBlock, V: np.ndarray, weights: np.ndarray, n_jobs: int | None) -> np.ndarray:
    """The sum of ``w z z^T V`` over the rows of a block."""
    return block.cross_products(weights[:, None] * block.times(V, n_jobs), n_jobs)[0]
