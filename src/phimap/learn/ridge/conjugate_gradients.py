"""Ridge regression by conjugate gradients over streams, for so many features that their Gram matrix does not fit."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from functools import partial

import numpy as np

from phimap._random import RandomState, seed_sequence
from phimap.learn.blocks.blocks import FeatureBlock
from phimap.learn.ridge.alpha import ChosenAlpha
from phimap.learn.ridge.alpha_in_passes import AlphaSearch, ValidationFeatures
from phimap.learn.ridge.cholesky import NotPositiveDefiniteError
from phimap.learn.ridge.conjugate_gradient_steps import ConjugateGradientState, relative_size
from phimap.learn.ridge.normal_equations import NormalEquations, NormalSums
from phimap.learn.ridge.nystroem_preconditioner import (
    ARRAYS,
    SKETCH_ROWS,
    GramSketch,
    NystroemPreconditioner,
    SketchRows,
    is_sampled,
)
from phimap.learn.ridge.solve import LEAVE_ONE_OUT_ROWS
from phimap.learn.ridge.solver import GramAccumulator, RidgeSolver
from phimap.learn.rows.accumulator import accumulate
from phimap.learn.rows.samples import CAPACITY
from phimap.learn.rows.validation import n_extreme, n_held_out
from phimap.learn.solver import LinearSolution, Passes, PassesSolver, Problem, Solver, Summand, Sums, solve

_TINY = np.finfo(np.float64).tiny
# Initial and largest number of directions of the sketch. More directions would cost more time than the passes that they
# would save.
_RANK, _MOST_RANK = 1024, 2048
# Number of directions of the sketch for which the byte budget must suffice.
_LEAST_RANK = 256
# For k extreme rows and m features, number of arrays (m, k) in memory: the features, and the centred features as
# columns.
_EXTREME_ARRAYS = 2
# Largest number of passes of the search for alpha. While the least score still falls, the second number is the limit. A
# flat curve of scores may need that many passes.
_SEARCH_PASSES, _MOST_SEARCH_PASSES = 12, 30
# Up to this number of rows, no rows are held out, and all rows are kept whatever the byte budget.
_FEW_ROWS = 20
# Number of solutions in memory (for ten alphas, with and without extreme rows), and number of arrays (m, t) for each of
# them.
_FOLLOWED, _SOLUTION_ARRAYS = 20, 6


class ConjugateGradients(Solver):
    r"""Minimise :math:`\sum_i w_i |y_i - W^T z_i - c|^2 + \alpha |W|^2` without the m x m Gram matrix.

    Parameters
    ----------
    alpha : float or "auto"
    rows : callable, optional
        Returns `ValidationFeatures`; called after the first pass. Their random rows are held out while they choose
        ``alpha="auto"`` or score a given alpha.
    sampled : bool, default=False
        Whether the sketch is made from the sample of `rows` instead of all rows.
    tolerance : float or None, default=None
        Residual ``|(A + alpha I) W - B| / |B|`` to reach; None is 1e-6 for float32 features and 1e-12 for float64.
    passes : int, default=60
        Largest number of passes.
    rank : int, default=1024
        Initial rank of the preconditioner.
    most_rank : int, default=2048
        Largest rank of the preconditioner.
    rng : int, Generator, RandomState, SeedSequence or None, default=0
        Seed of the sketch.
    n_jobs : int, optional

    Notes
    -----
    The first pass forms the sums and the sketch. Each further pass forms a product of the centred Gram matrix with the
    directions of all solutions that are followed; the last one forms the true residual. If the smallest eigenvalue of
    the sketch is above four times alpha, a pass doubles its rank. The search begins at the minimum of the scores that
    the preconditioner alone gives. It follows five alphas at a time, four per decade. Each alpha has its own
    preconditioner from the same sketch, and solutions with the extreme rows and without them. An alpha that is added
    later begins at the solution of its nearest neighbour, which is better than the preconditioner's solution. The
    solution with all rows continues from the best alpha without a further pass.

    **Error.** The reported residual is computed from the final coefficients, not by the recurrence. The score is the
    same as in `solve_ridge` with held-out and extreme rows, see `HeldOutErrorInPasses`.

    **Cost.** A pass forms the features of all rows and takes ``4 n m k`` flops for k columns; the first pass has
    k = rank, unless the sketch is made of a sample, see `SketchRows`. The preconditioner takes some ``10 m rank^2``
    flops, twice if alpha is chosen. ``8 m (4 rank + 6 k)`` bytes.

    **Differs from the source in** the choice of alpha during the iterations.

    References
    ----------
    Frangella, Tropp, Udell (2023), *Randomized Nystroem preconditioning*, Algorithm 5.2 and Section 5.4.
    """

    def __init__(
        self,
        alpha: float | str = "auto",
        *,
        rows: Callable[[], ValidationFeatures] | None = None,
        sampled: bool = False,
        tolerance: float | None = None,
        passes: int = 60,
        rank: int = _RANK,
        most_rank: int = _MOST_RANK,
        rng: RandomState = 0,
        n_jobs: int | None = None,
    ):
        self._alpha, self._rows, self._sampled, self._tolerance = alpha, rows, sampled, tolerance
        self.passes, self._rank, self._most_rank, self._rng, self._n_jobs = passes, rank, most_rank, rng, n_jobs

    def memory(self, n: int, m: int, t: int) -> int:
        """Largest number of bytes held for n rows, m features and t targets, excluding a block of features."""
        columns = t * (_FOLLOWED if self._alpha == "auto" else 1)
        return 8 * m * (ARRAYS * min(m, self._most_rank) + _SOLUTION_ARRAYS * columns)

    def _passes(self, m: int, t: int, eps: float) -> Passes:
        system, rows, sketch = yield from self._first_pass(m)
        W = image = np.zeros((m, t))
        if rows is not None and rows.random is not None:
            chosen, W, image = yield from self._choose(system, rows, sketch, eps)
        elif isinstance(self._alpha, str):
            raise ValueError("`rows` must give held-out rows if `alpha` is 'auto', got none. Give rows, or alpha.")
        else:
            chosen = ChosenAlpha(float(self._alpha))
        while self._can_grow(sketch, preconditioner := sketch.preconditioner(system, eps), chosen.alpha):
            del preconditioner
            yield from self._grow(sketch)
        state = ConjugateGradientState(system.rhs, chosen.alpha, partial(preconditioner.solve, shift=chosen.alpha))
        state.restart(W, image)
        W, residual, reached = yield from self._iterate(system, state, preconditioner.largest, eps)
        status = "solved" if residual <= reached else "stopped"
        how = {"residual": residual, "form": "cg", "status": status, "n_passes": self.n_passes, **chosen._asdict()}
        return LinearSolution(W, system.intercept(W), centre=system.mean_y, **how)

    def _first_pass(
        self, m: int
    ) -> Generator[Summand, Sums, tuple[NormalEquations, ValidationFeatures | None, GramSketch]]:
        """Return the normal equations of all rows, the validation rows, and a sketch of the Gram matrix."""
        rank, rng = min(m, self._rank), np.random.default_rng(seed_sequence(self._rng))
        sketch = None if self._sampled else GramSketch(m, rank, rng)
        # Local names keep this large solver out of the summand, which may be sent to other processes.
        n_jobs, test = self._n_jobs, None if sketch is None else sketch.test

        def summand(block: FeatureBlock, targets: np.ndarray, weights: np.ndarray) -> Sums:
            sums = NormalSums.of(block, targets, weights, n_jobs)
            return sums if test is None else (*sums, block.gram_times(test, weights, n_jobs))

        weight, sum_y, sum_z, cross, *image = yield summand
        system = NormalEquations(NormalSums(weight, sum_y, sum_z, cross), n_jobs)
        rows = None if self._rows is None else self._rows()
        if sketch is not None:
            sketch.add(*image)
        elif rows is not None and rows.sample is not None:
            sketch = GramSketch(m, rank, rng, SketchRows(rows.sample, rows.extreme, system, n_jobs))
        else:
            raise ValueError("`rows` must give a sample where `sampled` is True, got none. Give a sample.")
        return system, rows, sketch

    def _can_grow(self, sketch: GramSketch, preconditioner: NystroemPreconditioner, alpha: float) -> bool:
        """Return whether to double the rank: the preconditioner is too weak for `alpha`, and the sketch may grow."""
        grows = preconditioner.eigenvalues.size == sketch.rank < min(len(sketch.test), self._most_rank)
        return grows and not preconditioner.serves(alpha) and self.n_passes < self.passes // 2

    def _grow(self, sketch: GramSketch) -> Generator[Summand, Sums, None]:
        """Double the rank of a sketch. This takes one pass if the sketch needs products with all rows."""
        more, n_jobs = sketch.extend(min(2 * sketch.rank, len(sketch.test), self._most_rank)), self._n_jobs
        if sketch.needs_pass:
            (image,) = yield lambda block, targets, weights: (block.gram_times(more, weights, n_jobs),)
            sketch.add(image)

    def _choose(
        self, system: NormalEquations, rows: ValidationFeatures, sketch: GramSketch, eps: float
    ) -> Generator[Summand, Sums, tuple[ChosenAlpha, np.ndarray, np.ndarray]]:
        """Return the alpha with its held-out scores, a solution W at about this alpha, and A W over all rows."""
        systems = rows.systems(system)
        given = None if isinstance(self._alpha, str) else float(self._alpha)
        while True:
            preconditioner = sketch.preconditioner(systems[-1], eps)
            if given is None and not preconditioner.largest:
                # Constant features: every alpha gives the same fit.
                zeros = np.zeros_like(system.rhs)
                return ChosenAlpha(1.0, criterion="held-out"), zeros, zeros
            search = AlphaSearch(systems, preconditioner, rows, eps, self._n_jobs, alpha=given)
            if not self._can_grow(sketch, preconditioner, search.alphas[search.best]):
                break
            del preconditioner, search
            yield from self._grow(sketch)
        yield from search.run(_SEARCH_PASSES, _MOST_SEARCH_PASSES)
        W, image = search.solution
        # The product with the matrix of all rows is computed from the product without the held-out rows, which saves a
        # pass.
        image = system.from_stream(systems[0].to_stream(image, W), W)
        if given is not None:
            return ChosenAlpha(given, held_out=search.held_out), W, image
        return ChosenAlpha(search.alpha, *search.curve, "held-out", search.held_out), W, image

    def _iterate(
        self, system: NormalEquations, state: ConjugateGradientState, largest: float, eps: float
    ) -> Generator[Summand, Sums, tuple[np.ndarray, float, float]]:
        """Return the solution (m, t), its true residual, and the largest residual that counts as converged."""
        tolerance = self._tolerance or (1e-6 if eps > 1e-10 else 1e-12)
        while True:
            while state.residual > tolerance and self.n_passes < self.passes - 1:
                state.step((yield from system.product(state.directions)))
            W = state.solution
            image = yield from system.product(W)
            residual = relative_size(system.rhs - image - state.shift * W, system.rhs)
            # Rounding error of the product with W and of the right-hand side. Further steps do not reduce it.
            rounding = eps * (largest * np.linalg.norm(W) + system.size)
            reached = max(2 * tolerance, float(rounding / max(np.linalg.norm(system.rhs), _TINY)))
            # A restart or two corrects the rounding error of the recurrence; further restarts do not help.
            if residual <= reached or self.n_passes >= self.passes or residual > 0.5 * state.started:
                return W, residual, reached
            state.restart(W, image)


class ConjugateGradientRidge(PassesSolver):
    """The solver in the registry for ridge regression without an m x m matrix."""

    def memory(self, n: int | None, m: int, t: int) -> int:
        """Smallest number of bytes for the extreme rows and the solver, not counting a block of features."""
        # The memory is the same for any number of rows from `CAPACITY` on.
        n = CAPACITY if n is None else n
        solver = ConjugateGradients(most_rank=_LEAST_RANK).memory(n, m, t)
        extreme = 8 * m * _EXTREME_ARRAYS * n_extreme(n)
        return max(extreme + solver, RidgeSolver.memory(min(n, _FEW_ROWS), m))

    def solve(self, problem: Problem) -> LinearSolution:
        """Solve a problem."""
        spare = problem.memory - self.memory(problem.n, problem.m, problem.t)
        # Every pass uses the features of held-out rows twice. They are stored if they fit half of the spare memory.
        held_out = n_held_out(problem.n) * problem.m * (4 if problem.eps > 1e-10 else 8)
        lazy = held_out > spare // 2
        spare -= 0 if lazy else held_out
        most_rank = _LEAST_RANK + spare // (8 * problem.m * ARRAYS)
        fits = RidgeSolver.memory(problem.n, problem.m) <= problem.memory
        exact, scored = None, problem.alpha == "auto" or problem.scored
        if scored and problem.n <= LEAVE_ONE_OUT_ROWS and fits:
            exact, scored = _leave_one_out(problem), False
            if problem.alpha == "auto":
                problem = replace(problem, alpha=exact.alpha)
        sampled = is_sampled(problem.validation)

        def rows() -> ValidationFeatures:
            validation = problem.validation
            return ValidationFeatures(
                validation.random(lazy=lazy) if scored else None,
                validation.extreme(lazy=lazy),
                validation.training_sample(SKETCH_ROWS) if sampled else None,
            )

        solver = ConjugateGradients(
            problem.alpha,
            rows=rows if scored or sampled else None,
            sampled=sampled,
            rank=min(_RANK, most_rank),
            most_rank=min(_MOST_RANK, most_rank),
            rng=problem.rng,
            n_jobs=problem.n_jobs,
        )
        solution = solve(solver, problem.stream, problem.m, problem.t, problem.eps)
        if exact is None:
            return solution
        found = {name: getattr(exact, name) for name in ("alphas", "scores", "criterion", "held_out")}
        return replace(solution, **found, n_passes=solution.n_passes + 1)


def _leave_one_out(problem: Problem) -> LinearSolution:
    """Solve for few rows by factorisation, with leave-one-out scores. The scores choose alpha unless it is given."""
    m, t, n, n_jobs = problem.m, problem.t, problem.n, problem.n_jobs
    rows = accumulate(problem.stream, lambda first_row: GramAccumulator(RidgeSolver.start(m, t, n), n_jobs)).solver
    alpha = problem.alpha
    while True:
        try:
            return rows.finish(alpha, problem.validation, problem.rng, problem.n_jobs)
        except NotPositiveDefiniteError:
            if alpha == "auto":
                raise
            # Conjugate gradients allow an alpha below the rounding error of the Gram matrix, but a factorisation does
            # not. Such an alpha gets the scores of the smallest of 10 alpha, 100 alpha... that can be factorised.
            alpha = 10 * float(alpha)
