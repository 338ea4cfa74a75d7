"""The pass in which the solver of ridge regression sees all rows."""

from __future__ import annotations

import numpy as np

from phimap.learn.blocks.blocks import FeatureBlock
from phimap.learn.ridge.solver import RidgeSolver
from phimap.learn.rows.accumulator import Accumulator


class GramAccumulator(Accumulator):
    """A solver's sums, or rows, of a stream of feature blocks.

    Attributes
    ----------
    solver : RidgeSolver
    """

    def __init__(self, solver: RidgeSolver, n_jobs: int | None):
        self.solver, self._n_jobs = solver, n_jobs

    @classmethod
    def start(cls, n_components: int, n_targets: int, n_rows: int | None, n_jobs: int | None) -> GramAccumulator:
        """Return the pass of a solver that has seen nothing; `n_rows` are to come, None if that is not known."""
        return cls(RidgeSolver.start(n_components, n_targets, n_rows), n_jobs)

    def update(self, rows: FeatureBlock, targets: np.ndarray, weights: np.ndarray | None) -> None:
        # Weighted rows are copied, those of weight one are not.
        counted = None if weights is None or (weights == 1).all() else weights
        self.solver.update(rows, targets, self._n_jobs, counted)

    def merge(self, later: GramAccumulator) -> None:
        self.solver.join(later.solver, self._n_jobs)

    @property
    def state(self) -> RidgeSolver:
        return self.solver

    def resume(self, state: RidgeSolver) -> None:
        self.solver = state
