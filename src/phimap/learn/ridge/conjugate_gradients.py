"""Ridge regression by conjugate gradients over streams, for more features than a Gram matrix can be held of."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from phimap._random import RandomState, seed_sequence
from phimap.learn.blocks.blocks import FeatureBlock
from phimap.learn.ridge.cholesky import NotPositiveDefiniteError
from phimap.learn.ridge.conjugate_gradient_steps import ConjugateGradientState, relative_size
from phimap.learn.ridge.gram_accumulator import GramAccumulator
from phimap.learn.ridge.left_out_rows import LeftOutRows
from phimap.learn.ridge.normal_equations import NormalEquations, NormalSums, gram_times, moments_of
from phimap.learn.ridge.nystroem_preconditioner import ARRAYS, GramSketch, NystroemPreconditioner
from phimap.learn.ridge.search_in_passes import AlphaSearch
from phimap.learn.ridge.sketch_rows import SketchRows
from phimap.learn.ridge.solve import LEAVE_ONE_OUT_ROWS
from phimap.learn.ridge.solver import RidgeSolver
from phimap.learn.rows.accumulator import accumulate
from phimap.learn.rows.validation import n_extreme, n_held_out
from phimap.learn.solver import (
    HeldOutScores,
    LinearSolution,
    Passes,
    PassesSolver,
    Problem,
    Solver,
    Summand,
    Sums,
    solve,
)

_TINY = np.finfo(np.float64).tiny
# Directions of the sketch to begin with, and at the most: beyond, what is made of the sketch costs more than passes.
_RANK, _MOST_RANK = 1024, 2048
# Directions that a byte budget must have room for.
_LEAST_RANK = 256
# Arrays (m, k) of k outlying rows: their features, and these less their mean as columns.
_OUTLYING_ARRAYS = 2
# Passes of the search for alpha at the most, since a flat curve need not settle; and while its least score falls.
_SEARCH_PASSES, _MOST_SEARCH_PASSES = 12, 30
# So few rows are kept whatever the byte budget, and none are held out.
_FEW_ROWS = 20
# Solutions that are followed at once, of ten alphas with and without outlying rows, and arrays (m, t) that each holds.
_FOLLOWED, _COLUMN_ARRAYS = 20, 6


class ConjugateGradients(Solver):
    r"""Minimise :math:`\sum_i w_i |y_i - W^T z_i - c|^2 + \alpha |W|^2` without the m x m Gram matrix.

    Parameters
    ----------
    alpha : float or "auto"
    left_out : callable, optional
        Gives the `LeftOutRows` that choose ``alpha="auto"``, and are left out meanwhile; called after the first pass.
        With an alpha that is given they are scored at that one.
    judged : bool, default=True
        Whether `left_out` rows judge; without, only their sample is used, with an alpha that is given.
    sampled : bool, default=False
        Whether the sketch is made of the sample of `left_out`, and takes no product with all rows.
    tolerance : float or None, default=None
        Residual ``|(A + alpha I) W - B| / |B|`` to reach; None is 1e-6 for float32 features and 1e-12 for float64.
    passes : int, default=60
        At the most.
    rank : int, default=1024
        Of the preconditioner to begin with.
    most_rank : int, default=2048
        Of the preconditioner at the most.
    rng : int, Generator, RandomState, SeedSequence or None, default=0
        Of the sketch.
    n_jobs : int, optional

    Notes
    -----
    The first pass forms the sums and the sketch, each further one a product of the centred Gram matrix with all columns
    that are followed; the last forms the true residual. Where the least eigenvalue that the sketch knows is above four
    times the alpha, a pass doubles its rank. The search begins at the least of the curve that the preconditioner alone
    gives, and follows it by five alphas at a time, four to a decade, each with a preconditioner of its own from the
    same sketch, and each with the outlying rows and without them. An alpha that comes later begins at the solution of
    its nearest neighbour, which knows more than the sketch. The solution with all rows goes on from the best without a
    further pass.

    **Error.** The residual that is reported is that of the system as it stands, formed anew. The criterion is that of
    `solve_ridge` with held-out and outlying rows, see `LeftOutErrors`.

    **Cost.** A pass forms the features of all rows and takes ``4 n m k`` flops for k columns; the first has k = rank,
    unless the sketch is made of sampled rows, see `SketchRows`.
    The preconditioner takes some ``10 m rank^2`` flops, twice where alpha is chosen. ``8 m (4 rank + 6 k)`` bytes.

    **Differs from the source in** the choice of alpha on the way.

    References
    ----------
    Frangella, Tropp, Udell (2023), *Randomized Nystroem preconditioning*, Algorithm 5.2 and Section 5.4.
    """

    def __init__(
        self,
        alpha: float | str = "auto",
        *,
        left_out: Callable[[], LeftOutRows] | None = None,
        judged: bool = True,
        sampled: bool = False,
        tolerance: float | None = None,
        passes: int = 60,
        rank: int = _RANK,
        most_rank: int = _MOST_RANK,
        rng: RandomState = 0,
        n_jobs: int | None = None,
    ):
        self._alpha, self._left_out, self._tolerance = alpha, left_out, tolerance
        self._judged, self._sampled = judged and left_out is not None, sampled
        self.passes, self._rank, self._most_rank, self._rng, self._n_jobs = passes, rank, most_rank, rng, n_jobs

    def memory(self, n: int, m: int, t: int) -> int:
        columns = t * (_FOLLOWED if self._alpha == "auto" else 1)
        return 8 * m * (ARRAYS * min(m, self._most_rank) + _COLUMN_ARRAYS * columns)

    def _passes(self, m: int, t: int, eps: float) -> Passes:
        system, rows, sketch = yield from self._first_pass(m)
        W = image = np.zeros((m, t))
        if isinstance(self._alpha, str) or self._judged:
            chosen, W, image = yield from self._choose(system, rows, sketch, eps)
        else:
            chosen = _Chosen(float(self._alpha), np.empty(0), np.empty(0), "given")
        preconditioner = sketch.preconditioner(system, eps)
        while self._can_grow(sketch, preconditioner, chosen.alpha):
            del preconditioner
            yield from self._grow(sketch)
            preconditioner = sketch.preconditioner(system, eps)
        state = ConjugateGradientState(system.rhs, chosen.alpha, preconditioner)
        state.restart(W, image)
        W, residual, reached = yield from self._iterate(system, state, preconditioner.largest, eps)
        status = "solved" if residual <= reached else "stopped"
        return LinearSolution(
            W,
            system.intercept(W),
            chosen.alpha,
            chosen.alphas,
            chosen.scores,
            chosen.criterion,
            residual,
            "cg",
            status,
            self.n_passes,
            chosen.held_out,
            centre=system.mean_y,
        )

    def _first_pass(self, m: int) -> Generator[Summand, Sums, tuple[NormalEquations, LeftOutRows | None, GramSketch]]:
        """The system without its matrix, the rows that are left out of it, and a sketch of the matrix."""
        rank, rng = min(m, self._rank), np.random.default_rng(seed_sequence(self._rng))
        # This has a name of its own, since a summand may be sent to the rows.
        n_jobs = self._n_jobs
        if self._sampled:
            (*moments,) = yield lambda block, targets, weights: moments_of(block, targets, weights, n_jobs)
            system = NormalEquations(NormalSums(*moments), n_jobs)
            rows = None if self._left_out is None else self._left_out()
            if rows is None or rows.sample is None:
                raise ValueError("`left_out` must give a sample where `sampled` is True, got none. Give rows.")
            return system, rows, GramSketch(m, rank, rng, SketchRows(rows.sample, rows.outlying, system, n_jobs))
        sketch = GramSketch(m, rank, rng)
        test = sketch.test

        def summand(block: FeatureBlock, targets: np.ndarray, weights: np.ndarray) -> Sums:
            return *moments_of(block, targets, weights, n_jobs), gram_times(block, test, weights, n_jobs)

        *moments, image = yield summand
        sketch.add(image)
        system = NormalEquations(NormalSums(*moments), self._n_jobs)
        return system, self._left_out() if self._judged and self._left_out is not None else None, sketch

    def _can_grow(self, sketch: GramSketch, preconditioner: NystroemPreconditioner, alpha: float) -> bool:
        """Whether the preconditioner is too weak for `alpha`, and more directions would help."""
        known = preconditioner.eigenvalues.size == sketch.rank < min(len(sketch.test), self._most_rank)
        return known and not preconditioner.serves(alpha) and self.n_passes < self.passes // 2

    def _grow(self, sketch: GramSketch) -> Generator[Summand, Sums, None]:
        """Double the rank of a sketch, in one pass if it needs one."""
        more, n_jobs = sketch.extend(min(2 * sketch.rank, len(sketch.test), self._most_rank)), self._n_jobs
        if not sketch.needs_pass:
            return

        def summand(block: FeatureBlock, targets: np.ndarray, weights: np.ndarray) -> Sums:
            return (gram_times(block, more, weights, n_jobs),)

        (image,) = yield summand
        sketch.add(image)

    def _choose(
        self, system: NormalEquations, rows: LeftOutRows | None, sketch: GramSketch, eps: float
    ) -> Generator[Summand, Sums, tuple[_Chosen, np.ndarray, np.ndarray]]:
        """The choice of alpha with held-out scores, and a solution near it with its product with the matrix."""
        if rows is None:
            raise ValueError(
                "`left_out` must be given where `alpha` is 'auto', got None. Give rows to judge by, or alpha."
            )
        systems = rows.systems(system)
        preconditioner = sketch.preconditioner(systems[-1], eps)
        given = None if isinstance(self._alpha, str) else float(self._alpha)
        if given is None and not preconditioner.largest:
            # Constant features: nothing to fit, and every alpha says so.
            nothing = np.zeros_like(system.rhs)
            return _Chosen(1.0, np.empty(0), np.empty(0), "held-out"), nothing, nothing
        search = AlphaSearch(systems, preconditioner, rows, eps, self._n_jobs, alpha=given)
        while self._can_grow(sketch, preconditioner, search.alphas[search.best]):
            del preconditioner, search
            yield from self._grow(sketch)
            preconditioner = sketch.preconditioner(systems[-1], eps)
            search = AlphaSearch(systems, preconditioner, rows, eps, self._n_jobs, alpha=given)
        yield from search.run(_SEARCH_PASSES, _MOST_SEARCH_PASSES)
        W, image = search.solution
        # The known product without some rows is worth a pass with all.
        image = system.of_all(systems[0].to_all(image, W), W)
        if given is not None:
            return _Chosen(given, np.empty(0), np.empty(0), "given", search.held_out), W, image
        return _Chosen(search.alpha, *search.curve, "held-out", search.held_out), W, image

    def _iterate(
        self, system: NormalEquations, state: ConjugateGradientState, largest: float, eps: float
    ) -> Generator[Summand, Sums, tuple[np.ndarray, float, float]]:
        """The solution (m, t), its true residual, and what that has to be."""
        tolerance = self._tolerance or (1e-6 if eps > 1e-10 else 1e-12)
        while True:
            while state.residual > tolerance and self.n_passes < self.passes - 1:
                state.step((yield from system.product(state.directions)))
            W = state.solution
            image = yield from system.product(W)
            residual = relative_size(system.rhs - image - state.shift * W, system.rhs)
            # Products with W, and the right-hand side, are known to this, whatever the steps.
            rounding = eps * (largest * np.linalg.norm(W) + system.size)
            reached = max(2 * tolerance, float(rounding / max(np.linalg.norm(system.rhs), _TINY)))
            # Restarts make good once or twice what rounding took from the recurrence. They are no use beyond the
            # rounding.
            if residual <= reached or self.n_passes >= self.passes or residual > 0.5 * state.started:
                return W, residual, reached
            state.restart(W, image)


class _Chosen(NamedTuple):
    """Fields of a `LinearSolution` about alpha."""

    alpha: float
    alphas: np.ndarray
    scores: np.ndarray
    criterion: str
    held_out: HeldOutScores | None = None


class ConjugateGradientRidge(PassesSolver):
    """The member of the registry: ridge regression that holds no m x m matrix."""

    takes_signs = False

    def memory(self, n: int, m: int, t: int) -> int:
        """Bytes held at the least, a block of features not counted: of the outlying rows, and of the solver."""
        solver = ConjugateGradients(most_rank=_LEAST_RANK).memory(n, m, t)
        outlying = 8 * m * _OUTLYING_ARRAYS * n_extreme(n)
        return max(outlying + solver, RidgeSolver.memory(min(n, _FEW_ROWS), m))

    def solve(self, problem: Problem) -> LinearSolution:
        """Solve a problem."""
        spare = problem.memory - self.memory(problem.n, problem.m, problem.t)
        # Held-out rows are gone through in every pass, twice.
        held = n_held_out(problem.n) * problem.m * (4 if problem.eps > 1e-10 else 8)
        holds = held <= spare // 2
        spare -= held if holds else 0
        most_rank = _LEAST_RANK + spare // (8 * problem.m * ARRAYS)
        fits = RidgeSolver.memory(problem.n, problem.m) <= problem.memory
        first = None
        judged = problem.alpha == "auto" or problem.scored
        if judged and problem.n <= LEAVE_ONE_OUT_ROWS and fits:
            first = _left_out_one_by_one(problem)
            if problem.alpha == "auto":
                problem = replace(problem, alpha=first.alpha)
        solver = ConjugateGradients(
            problem.alpha,
            left_out=partial(problem.left_out, holds),
            judged=judged and first is None,
            sampled=problem.left_out.sampled,
            rank=min(_RANK, most_rank),
            most_rank=min(_MOST_RANK, most_rank),
            rng=problem.rng,
            n_jobs=problem.n_jobs,
        )
        solution = solve(solver, problem.stream, problem.m, problem.t, problem.eps)
        if first is None:
            return solution
        found = {name: getattr(first, name) for name in ("alphas", "scores", "criterion", "held_out")}
        return replace(solution, **found, n_passes=solution.n_passes + 1)


def _left_out_one_by_one(problem: Problem) -> LinearSolution:
    """The solution of few rows by factorisation, with alpha as given or by the exact leave-one-out error."""
    size = (problem.m, problem.t, problem.n, problem.n_jobs)
    rows = accumulate(problem.stream, lambda first_row: GramAccumulator.start(*size)).solver
    alpha = problem.alpha
    while True:
        try:
            return rows.finish(alpha, None, problem.rng, problem.n_jobs)
        except NotPositiveDefiniteError:
            if alpha == "auto":
                raise
            # Passes need no alpha above the rounding of the Gram matrix; scores are those of the next that is.
            alpha = 10 * float(alpha)
