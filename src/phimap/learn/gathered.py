"""The pass in which the solver sees all rows, and the solution that follows from its sums."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Self

import numpy as np

from phimap._progress import Stages
from phimap.learn.blocks.blocks import FeatureRows
from phimap.learn.choice import KernelChoice
from phimap.learn.ridge.alpha import check_alpha
from phimap.learn.ridge.solver import GramAccumulator, RidgeSolver
from phimap.learn.rows.accumulator import RowSource, accumulate
from phimap.learn.rows.batches import Batch
from phimap.learn.rows.extreme_rows import ExtremeRows
from phimap.learn.rows.mapped_rows import Mapped, MappedRows
from phimap.learn.rows.reservoir import Reservoir
from phimap.learn.rows.validation import ValidationRows
from phimap.learn.solver import HeldOutScores, LinearSolution
from phimap.ops import Array

#: What a fit goes through once a pass.
TrainingRows = Iterable[Batch] | RowSource


class GatheredFit(KernelChoice):
    """A learner whose kernel, scaling and map are fixed: it gathers sums over rows, and solves."""

    solver_: RidgeSolver
    solution_: LinearSolution
    n_samples_seen_: int
    alpha: float | str
    verbose: bool
    _sample: Reservoir
    _outlying: ExtremeRows

    @abstractmethod
    def _for_tasks(self) -> Self:
        """A copy without what is kept of the training rows, small enough to be sent elsewhere."""

    @property
    @abstractmethod
    def _n_outputs(self) -> int:
        """Targets t of the linear model."""

    @abstractmethod
    def _width(self) -> int:
        """Width of the features."""

    def _mapping(self) -> Mapped:
        """What makes features of rows, and numbers of their targets; with a buffer of its own."""
        features = self._features()
        return lambda X, y, weights: (features(X), self._encode(y), self._row_weights(y, weights))

    def _mapped(self, X: Array, y: np.ndarray, weights: np.ndarray | None) -> FeatureRows:
        """What the solver sees of some rows."""
        return FeatureRows(self._features()(X), self._encode(y), self._row_weights(y, weights))

    def _holds_out(self, n_rows: int) -> bool:
        """Whether the pass skips the held-out rows, which are added once alpha is chosen."""
        return self.alpha == "auto" and not RidgeSolver.is_dual(n_rows, self._width())

    def _gather(
        self,
        solver: RidgeSolver | None,
        batches: TrainingRows,
        stages: Stages,
        n_rows: int,
        *,
        held_out: bool = False,
    ) -> None:
        """Give the features of all batches to `solver`, or to a new one to which no others are to come.

        With `held_out` the pass skips the held-out rows, and `_solve` adds them.
        """
        empty = partial(RidgeSolver.start, self._width(), self._n_outputs, n_rows)
        dual = RidgeSolver.is_dual(n_rows, self._width()) if solver is None else solver.form == "dual"
        with stages.stage("features" if dual else "features and Gram matrix", n_rows, "rows") as advance:
            # The variables that it names go to the rows, where these are elsewhere.
            outlying, mapping, n_jobs = self._outlying, self._for_tasks()._mapping, self.n_jobs
            below = self._validation_rows(n_rows).largest_key if held_out else None

            def start(first_row: int) -> MappedRows:
                if solver is not None:
                    return MappedRows(mapping(), GramAccumulator(solver, n_jobs), outlying, advance)
                fold = GramAccumulator(empty(), n_jobs)
                return MappedRows(mapping(), fold, outlying.begun(first_row), advance, below=below)

            found = accumulate(batches, start)
        assert found.outlying is not None
        self.solver_, self._outlying = found.fold.solver, found.outlying
        self.n_samples_seen_ = n_rows if held_out else self.solver_.n_rows
        self._forget_solution()

    def _validation_rows(self, n_rows: int) -> ValidationRows:
        return ValidationRows(self._sample, self._outlying, n_rows, self._mapped)

    def _solve(self, stages: Stages, *, held_out_in_sums: bool = True) -> None:
        """Solve for all rows; `held_out_in_sums` says whether the sums include the held-out rows."""
        with stages.stage("regularisation"):
            validation, rng = self._validation_rows(self.n_samples_seen_), self._streams()["probes"]
            solution = self.solver_.finish(
                check_alpha(self.alpha), validation, rng, self.n_jobs, held_out_in_sums=held_out_in_sums
            )
            self._keep_solution(solution)

    def _keep_solution(self, solution: LinearSolution) -> None:
        """Store a solution, in the units of the targets, and what its held-out scores tell."""
        if not (np.isfinite(solution.coef).all() and np.isfinite(solution.intercept).all()):
            raise ValueError("the solution is not finite: sums over the rows overflow. Scale X and y down.")
        self.solution_ = solution if self.target_units_ is None else self.target_units_.restore(solution)
        self._learn_held_out(self.solution_.held_out)

    def _learn_held_out(self, held_out: HeldOutScores | None) -> None:
        """Store what predictions for rows that took no part in a solution tell; nothing where not overridden."""

    def _current_solution(self) -> LinearSolution:
        if not hasattr(self, "solution_"):
            self._solve(Stages(bool(self.verbose)))
        return self.solution_

    def _forget_solution(self) -> None:
        vars(self).pop("solution_", None)
        vars(self).pop("_predictive", None)
        vars(self).pop("corrections_", None)

    def _requirements_to_solve(self) -> Iterator[tuple[bool, str]]:
        """What must be true where the statistics may be solved again."""
        check_alpha(self.alpha)
        kept, width = (self._sample, self._outlying), self.scaling_.shift.size
        yield self.solver_.n_rows > 0 and self._sample.keys.size > 0, "rows in its statistics and in its sample"
        yield all(rows.are_numbers(width) for rows in kept), "rows of numbers, as wide as its scaling, in its sample"
        targets = self._encode(self._sample.y)
        yield targets.dtype.kind == "f" and len(targets) == len(self._sample.y), "targets of its kind in its sample"
