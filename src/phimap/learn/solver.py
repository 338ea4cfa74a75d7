"""What a solver is: passes over blocks of features, each of them a sum, until there is a solution."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, field

import numpy as np

from phimap.learn.data.blocks import FeatureBlock
from phimap.records import Record

#: What a pass adds up over blocks: float64 arrays of fixed shapes.
Sums = tuple[np.ndarray, ...]
#: What one block (r, m) with its targets (r, t) and weights (r,) adds to the sums of a pass.
Summand = Callable[[FeatureBlock, np.ndarray, np.ndarray], Sums]
#: An algorithm in passes: it yields the summand of its next pass and is sent the sums over all rows.
Passes = Generator[Summand, Sums, "LinearSolution"]


@dataclass(frozen=True)
class LinearSolution(Record):
    """Coefficients of a linear model on features, and how they were found.

    Attributes
    ----------
    coef : ndarray of shape (m, t)
    intercept : ndarray of shape (t,)
    alpha : float
    alphas : ndarray of shape (g,)
        Regularisations that were tried; empty where alpha was given.
    scores : ndarray of shape (g,)
        The criterion at each.
    criterion : str
        ``"held-out"``, ``"leave-one-out"``, ``"gcv"`` or ``"given"``.
    residual : float
        Of the linear system ``|(A + alpha I) W - B| / |B|``; for other losses the norm of the gradient over that at
        zero, both as the preconditioner measures them.
    form : str
        ``"primal"``, ``"dual"`` or the name of an iteration.
    status : str
        ``"solved"``, or ``"stopped"`` where the passes were spent before the tolerance was met.
    n_passes : int
        Passes over the rows.
    """

    coef: np.ndarray
    intercept: np.ndarray
    alpha: float
    alphas: np.ndarray
    scores: np.ndarray
    criterion: str
    residual: float
    form: str
    status: str = "solved"
    n_passes: int = 1


class Solver(ABC):
    """Finds a linear model from a stream of blocks, in passes.

    A driver calls `start`, then for every pass `update` with each block and `finish` at the end, until `finish` gives a
    solution. Sums of one pass that were formed elsewhere, on other rows, are added by `merge`. A subclass writes its
    algorithm as the generator `_passes`, to which a pass is one expression.
    """

    #: The name under which the registry has it.
    name: str

    @abstractmethod
    def memory(self, n: int, m: int, t: int) -> int:
        """Bytes held at the most for n rows of m features and t targets, a block of features not counted."""

    @abstractmethod
    def _passes(self, m: int, t: int, eps: float) -> Passes:
        """The algorithm, for m features known to `eps` and t targets."""

    def start(self, m: int, t: int, eps: float) -> None:
        """Begin with the first pass, over blocks of m features of the machine epsilon `eps`."""
        self._algorithm = self._passes(m, t, eps)
        self._summand = next(self._algorithm)
        self._sums: Sums | None = None
        self.n_passes = 0

    def update(self, block: FeatureBlock, targets: np.ndarray, weights: np.ndarray) -> None:
        """Add one block of the current pass."""
        self.merge(self._summand(block, targets, weights))

    def merge(self, sums: Sums | None) -> None:
        """Add sums of the current pass over other rows."""
        if sums is None:
            return
        if self._sums is None:
            self._sums = tuple(np.array(part, dtype=np.float64) for part in sums)
            return
        for total, part in zip(self._sums, sums, strict=True):
            total += part

    def finish(self) -> LinearSolution | None:
        """End the current pass: the solution, or None where there is to be another pass."""
        if self._sums is None:
            raise ValueError("the training data are empty: no batch of rows was given. Give at least 2 rows.")
        self.n_passes += 1
        sums, self._sums = self._sums, None
        try:
            self._summand = self._algorithm.send(sums)
        except StopIteration as end:
            return end.value
        return None


#: Blocks of features with their targets and weights.
Blocks = Iterable[tuple[FeatureBlock, np.ndarray, np.ndarray]]


def solve(solver: Solver, blocks: Callable[[], Blocks], m: int, t: int, eps: float) -> LinearSolution:
    """Drive a solver over a stream that `blocks()` opens anew for every pass."""
    solver.start(m, t, eps)
    while True:
        for block, targets, weights in blocks():
            solver.update(block, targets, weights)
        solution = solver.finish()
        if solution is not None:
            return solution
