"""Ridge regression by conjugate gradients over streams, for more features than a Gram matrix can be held of."""

from __future__ import annotations

import numpy as np

from phimap._random import RandomState, seed_sequence
from phimap.learn.data.blocks import FeatureBlock
from phimap.learn.data.reservoir import CAPACITY
from phimap.learn.ridge.nystroem_preconditioner import ARRAYS, NystroemPreconditioner, test_matrix
from phimap.learn.solver import HeldOutRows, HeldOutScores, LinearSolution, Passes, Problem, Solver, Sums, solve, vertex

_TINY = np.finfo(np.float64).tiny
# Alphas that are tried at a time, as shares of the mean eigenvalue, and how far apart they are.
_GRID = 10.0 ** np.arange(-8.0, 4.0)
# The best alpha is known once its held-out error moves by less than this from one step to the next.
_STEADY = 1e-3
# ... and once the solution there is this close to that of its system: one that stops short is regularised by that.
_SEARCH_TOLERANCE = 1e-2
# Steps of the search at the most: a flat curve need not settle.
_SEARCH_STEPS = 12


class ConjugateGradients(Solver):
    r"""Minimise :math:`\sum_i w_i |y_i - W^T z_i - c|^2 + \alpha |W|^2` without the m x m Gram matrix.

    Parameters
    ----------
    alpha : float or "auto"
    held_out : HeldOutRows or None, default=None
        Rows that are left out while ``alpha="auto"`` is chosen by the error on them.
    tolerance : float or None, default=None
        Residual ``|(A + alpha I) W - B| / |B|`` to reach; None is 1e-6 for float32 features and 1e-12 for float64.
    passes : int, default=60
        At the most.
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

    def __init__(
        self,
        alpha: float | str = "auto",
        *,
        held_out: HeldOutRows | None = None,
        tolerance: float | None = None,
        passes: int = 60,
        rank: int | None = None,
        rng: RandomState = 0,
        n_jobs: int | None = None,
    ):
        self._alpha, self._held_out, self._tolerance = alpha, held_out, tolerance
        self.passes, self._rank, self._rng, self._n_jobs = passes, rank, rng, n_jobs

    def memory(self, n: int, m: int, t: int) -> int:
        columns = t * (len(_GRID) if self._alpha == "auto" else 1)
        return 8 * m * (ARRAYS * self._rank_of(m) + 6 * columns)

    def _rank_of(self, m: int) -> int:
        return min(m, self._rank) if self._rank else NystroemPreconditioner.rank_of(m)

    def _passes(self, m: int, t: int, eps: float) -> Passes:
        system, preconditioner = yield from self._first_pass(m, eps)
        tolerance = self._tolerance or (1e-6 if eps > 1e-10 else 1e-12)
        W, alphas, scores, criterion, held_out = np.zeros((m, t)), np.empty(0), np.empty(0), "given", None
        if isinstance(self._alpha, str):
            W, alpha, alphas, scores, held_out = yield from self._choose(system, preconditioner)
            criterion = "held-out"
        else:
            alpha = float(self._alpha)
        state = _Columns(system.rhs, np.full(t, alpha), preconditioner)
        if W.any():
            state.restart(W, (yield from system.product(W)))
        while True:
            while state.residual() > tolerance and self.n_passes < self.passes - 1:
                state.step((yield from system.product(state.directions)))
            W = state.solution
            true = system.rhs - (yield from system.product(W)) - alpha * W
            residual = _relative(true, system.rhs)
            # Products with W, and the right-hand side, are known to this, whatever the steps.
            rounding = eps * (preconditioner.largest * np.linalg.norm(W) + system.size)
            reached = max(2 * tolerance, float(rounding / max(np.linalg.norm(system.rhs), _TINY)))
            # What rounding took from the recurrence is made good once or twice; it is no use beyond the rounding.
            if residual <= reached or self.n_passes >= self.passes or residual > 0.5 * state.started:
                break
            state.restart(W, system.rhs - true - alpha * W)
        status = "solved" if residual <= reached else "stopped"
        return LinearSolution(
            W,
            system.intercept(W),
            float(alpha),
            alphas,
            scores,
            criterion,
            residual,
            "cg",
            status,
            self.n_passes + 1,
            held_out,
        )

    def _first_pass(self, m: int, eps: float):
        """The system without its matrix, and the preconditioner from a sketch of that."""
        test = test_matrix(m, self._rank_of(m), np.random.default_rng(seed_sequence(self._rng)))

        def sketched(block: FeatureBlock, targets: np.ndarray, weights: np.ndarray) -> Sums:
            images = block.times(test, self._n_jobs).astype(np.float64)
            return _moments(block, targets, weights, images, self._n_jobs)

        n, sum_y, sum_z, cross, sketch = yield sketched
        system = _System(n.item(), sum_z, sum_y, cross, self._n_jobs)
        # Centring takes nothing from what the products were rounded by.
        rounding = eps * float(np.linalg.norm(sketch))
        return system, NystroemPreconditioner.of_sketch(test, system.centred(sketch, test), rounding)

    def _choose(self, system: _System, preconditioner: NystroemPreconditioner):
        """Solution, alpha, the alphas and their errors on the held-out rows, which are left out."""
        if self._held_out is None:
            raise ValueError(
                "`held_out` must be given where `alpha` is 'auto', got None. Give rows to judge by, or alpha."
            )
        t = system.rhs.shape[1]
        without = system.without(self._held_out)
        # Constant features have no eigenvalues: nothing to fit, and every alpha says so.
        scale = (preconditioner.trace or 1.0) / system.rhs.shape[0]
        alphas = scale * _GRID
        columns = np.repeat(alphas, t)
        state = _Columns(np.tile(without.rhs, len(alphas)), columns, preconditioner)
        best, scores, found = np.inf, np.full(len(alphas), np.inf), slice(0, t)
        for _ in range(_SEARCH_STEPS):
            state.step((yield from without.product(state.directions)))
            scores = self._errors(without, state.solution, len(alphas))
            chosen = int(scores.argmin())
            found = slice(chosen * t, (chosen + 1) * t)
            if abs(best - scores[chosen]) <= _STEADY * best and state.residual(found) <= _SEARCH_TOLERANCE:
                break
            best = scores[chosen]
        W, rows = state.solution[:, found].copy(), self._held_out
        held_out = HeldOutScores(self._predictions(without, W), rows.targets, rows.weights)
        return W, vertex(alphas, scores), alphas, scores, held_out

    def _errors(self, system: _System, W: np.ndarray, n_alphas: int) -> np.ndarray:
        """Mean squared errors on the held-out rows, summed over targets: (n_alphas,)."""
        held_out = self._held_out
        assert held_out is not None
        squares = np.square(self._predictions(system, W) - np.tile(held_out.targets, n_alphas))
        means = np.average(squares, axis=0, weights=held_out.weights)
        return means.reshape(n_alphas, -1).sum(axis=1)

    def _predictions(self, system: _System, W: np.ndarray) -> np.ndarray:
        """What coefficients (m, k) for one alpha or several, found without the held-out rows, say of these: (r, k)."""
        assert self._held_out is not None
        intercepts = np.tile(system.sum_y / system.n, W.shape[1] // len(system.sum_y))
        return self._held_out.block.times(W, self._n_jobs) + intercepts - (system.sum_z / system.n) @ W


class _System:
    """The centred normal equations, known by their right-hand side and by products that take a pass."""

    def __init__(self, n: float, sum_z: np.ndarray, sum_y: np.ndarray, cross: np.ndarray, n_jobs: int | None):
        self.n, self.sum_z, self.sum_y, self._cross, self._n_jobs = n, sum_z, sum_y, cross, n_jobs
        self.rhs = cross - np.outer(sum_z, sum_y / n)
        # Of the sums that the right-hand side is a difference of.
        self.size = float(np.linalg.norm(cross) + np.linalg.norm(sum_z) * np.linalg.norm(sum_y) / n)
        self._taken: HeldOutRows | None = None

    def without(self, held_out: HeldOutRows) -> _System:
        """The system without some rows."""
        sums = _moments(
            held_out.block, held_out.targets, held_out.weights, np.empty((len(held_out.targets), 0)), self._n_jobs
        )
        n, sum_y, sum_z, cross, _ = sums
        left = _System(self.n - n.item(), self.sum_z - sum_z, self.sum_y - sum_y, self._cross - cross, self._n_jobs)
        left._taken = held_out
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
        self.started = self.residual()

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

    def residual(self, columns: slice = slice(None)) -> float:
        """Norm of the residuals over that of the right-hand sides, by the recurrence."""
        return _relative(self._residuals[:, columns], self._rhs[:, columns])


def _relative(residuals: np.ndarray, rhs: np.ndarray) -> float:
    size = np.linalg.norm(rhs)
    return float(np.linalg.norm(residuals) / size) if size > 0 else 0.0


def _moments(
    block: FeatureBlock, targets: np.ndarray, weights: np.ndarray, more: np.ndarray, n_jobs: int | None
) -> Sums:
    """Sums of w, w y, w z, ``w z y^T`` and ``w z`` times the columns of `more` (r, k)."""
    t = targets.shape[1]
    products, _ = block.cross_products(
        weights[:, None] * np.hstack([targets, more, np.ones((len(targets), 1))]), n_jobs
    )
    return np.array([weights.sum()]), weights @ targets, products[:, -1], products[:, :t], products[:, t:-1]


def _gram_times(block: FeatureBlock, V: np.ndarray, weights: np.ndarray, n_jobs: int | None) -> np.ndarray:
    """The sum of ``w z z^T V`` over the rows of a block."""
    return block.cross_products(weights[:, None] * block.times(V, n_jobs), n_jobs)[0]


class ConjugateGradientRidge:
    """The member of the registry: ridge regression that holds no m x m matrix."""

    takes_signs = False

    def memory(self, n: int, m: int, t: int) -> int:
        """Bytes held, a block of features not counted: those of the held-out rows and of the solver."""
        return 8 * m * min(n // 10 + 1, CAPACITY) + ConjugateGradients().memory(n, m, t)

    def __call__(self, problem: Problem) -> LinearSolution:
        """Solve a problem."""
        held_out = problem.held_out() if problem.alpha == "auto" else None
        solver = ConjugateGradients(problem.alpha, held_out=held_out, rng=problem.rng, n_jobs=problem.n_jobs)
        return solve(solver, problem.stream, problem.m, problem.t, problem.eps)
