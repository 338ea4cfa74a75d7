"""What a solver is: passes over blocks of features, each of them a sum, until there is a solution."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.optimize import minimize_scalar

from phimap._progress import Stages
from phimap.learn.blocks.blocks import FeatureBlock, WeightedBlock
from phimap.learn.rows.accumulator import Accumulator, RowSource, accumulate
from phimap.ops import single_threaded_blas
from phimap.records import NOT_SAVED, Record, of_floats, of_number

#: What a pass adds up over blocks: float64 arrays of fixed shapes.
Sums = tuple[np.ndarray, ...]
#: What one block (r, m) with its targets (r, t) and weights (r,) adds to the sums of a pass.
Summand = Callable[[FeatureBlock, np.ndarray, np.ndarray], Sums]
#: An algorithm in passes: it yields the summand of its next pass and is sent the sums over all rows.
Passes = Generator[Summand, Sums, "LinearSolution"]
#: Blocks to be gone through once a pass.
Stream = Iterable[WeightedBlock] | RowSource


@dataclass(frozen=True)
class HeldOutScores(Record):
    """What models that had not seen some rows say of them: of these rows' errors a fit knows nothing.

    Attributes
    ----------
    predictions : ndarray of shape (r, t)
        At about the alpha of the solution, by a fit without the row, or without all of these rows.
    targets : ndarray of shape (r, t)
    weights : ndarray of shape (r,) or None
        What each counts, so that weighted means are estimates of those over all rows; None where all count alike.
    """

    predictions: np.ndarray = field(metadata=of_floats("r", "t"))
    targets: np.ndarray = field(metadata=of_floats("r", "t"))
    weights: np.ndarray | None = field(default=None, metadata=of_floats("r", least=0))


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
        The criterion at each: for ridge regression an estimate of the mean squared error on new rows, summed over
        targets, else of the mean loss; Huber's is that of errors over their scale.
    criterion : str
        ``"held-out"``, ``"leave-one-out"``, ``"gcv"`` or ``"given"``.
    residual : float
        For ridge regression ``|(A + alpha I) W - B| / |B|`` of the linear system solved; for other losses the norm of
        the gradient, as the quasi-Newton matrix measures it, over the root of the objective.
    form : str
        ``"primal"`` or ``"dual"`` for a factorisation, else the name of an iteration: ``"cg"`` or ``"quasi-newton"``.
    status : str
        ``"solved"``, or ``"stopped"`` where the passes were spent before the tolerance was met.
    n_passes : int
        Passes over the rows, those for scales and classes not counted.
    held_out : HeldOutScores or None
        Predictions for rows that took no part in them; None where there are none. Model files do not keep them.
    scale : ndarray of shape (t,) or None
        Of the errors, for Huber's loss, which counts those beyond 1.35 of it less; None for other losses.
    choice : str
        Why it was found in this form and not in another; empty where there was no choice.
    centre : ndarray of shape (t,) or None
        Mean of the outputs over the training rows; None in files of earlier versions.
    """

    coef: np.ndarray = field(metadata=of_floats("m", "t"))
    intercept: np.ndarray = field(metadata=of_floats("t"))
    alpha: float = field(metadata=of_number(least=0))
    alphas: np.ndarray = field(metadata=of_floats("?g"))
    scores: np.ndarray = field(metadata=of_floats("?g", finite=False))
    criterion: str
    residual: float = field(metadata=of_number(finite=False))
    form: str
    status: str = "solved"
    n_passes: int = 1
    held_out: HeldOutScores | None = field(default=None, metadata={NOT_SAVED: True})
    scale: np.ndarray | None = field(default=None, metadata=of_floats("t"))
    choice: str = ""
    centre: np.ndarray | None = field(default=None, metadata=of_floats("t"))


class PassSums(Accumulator):
    """Sums of a pass over blocks of features.

    Attributes
    ----------
    sums : tuple of ndarray or None
        None before the first block.
    """

    def __init__(self, summand: Summand):
        self._summand = summand
        self.sums: Sums | None = None

    @classmethod
    def start(cls, summand: Summand, first_row: int) -> PassSums:
        """Return the sums of no rows; where these begin does not matter."""
        return cls(summand)

    def update(self, rows: FeatureBlock, targets: np.ndarray, weights: np.ndarray) -> None:
        self.sums = _added(self.sums, self._summand(rows, targets, weights))

    def merge(self, later: PassSums) -> None:
        if later.sums is not None:
            self.sums = _added(self.sums, later.sums)

    @property
    def state(self) -> Sums | None:
        return self.sums

    def resume(self, state: Sums | None) -> None:
        self.sums = state


def _added(total: Sums | None, part: Sums) -> Sums:
    """`part` added to `total`, whose arrays are changed; a copy of it where there is none."""
    if total is None:
        return tuple(np.array(one, dtype=np.float64) for one in part)
    for one, added in zip(total, part, strict=True):
        one += added
    return total


class Solver(ABC):
    """Finds a linear model from a stream of blocks, in passes.

    A driver calls `start`, then for every pass `update` with each block and `finish` at the end, until `finish` gives a
    solution. Sums of one pass that were formed elsewhere, on other rows, are added by `merge`. A subclass writes its
    algorithm as the generator `_passes`, to which a pass is one expression.
    """

    #: Passes over the rows at the most.
    passes: int

    @abstractmethod
    def memory(self, n: int, m: int, t: int) -> int:
        """Bytes held at the most for n rows of m features and t targets, a block of features not counted."""

    @abstractmethod
    def _passes(self, m: int, t: int, eps: float) -> Passes:
        """The algorithm, for m features known to `eps` and t targets."""

    #: Sums of the current pass so far, to be merged elsewhere; None before its first block.
    sums: Sums | None
    #: What one block adds to them.
    summand: Summand

    def start(self, m: int, t: int, eps: float) -> None:
        """Begin with the first pass, over blocks of m features of the machine epsilon `eps`."""
        self._algorithm = self._passes(m, t, eps)
        self.summand = next(self._algorithm)
        self.sums = None
        self.n_passes: int = 0

    def update(self, block: FeatureBlock, targets: np.ndarray, weights: np.ndarray) -> None:
        """Add one block of the current pass."""
        self.merge(self.summand(block, targets, weights))

    def merge(self, sums: Sums) -> None:
        """Add sums of the current pass over other rows."""
        self.sums = _added(self.sums, sums)

    def finish(self) -> LinearSolution | None:
        """End the current pass: the solution, or None where there is to be another pass."""
        if self.sums is None:
            raise ValueError("the training data are empty: no batch of rows was given. Give at least 2 rows.")
        self.n_passes += 1
        sums, self.sums = self.sums, None
        try:
            self.summand = self._algorithm.send(sums)
        except StopIteration as end:
            return end.value
        return None

    def __getstate__(self) -> dict[str, Any]:
        """Without the algorithm, so that a summand, which may know its solver, can be sent elsewhere."""
        return {name: value for name, value in vars(self).items() if name not in ("_algorithm", "summand", "sums")}


def solve(solver: Solver, stream: Stream, m: int, t: int, eps: float) -> LinearSolution:
    """Drive a solver over a stream that can be gone through once a pass."""
    # The solver's own products have no threads of ours; those of BLAS would change bits with their number.
    with single_threaded_blas():
        solver.start(m, t, eps)
        while True:
            solver.sums = accumulate(stream, partial(PassSums.start, solver.summand)).sums
            solution = solver.finish()
            if solution is not None:
                return solution


@dataclass(frozen=True)
class Problem:
    """What a member of the registry solves.

    Attributes
    ----------
    stream : FeatureStream
        Blocks of features, targets and weights of all training rows.
    n, m, t : int
        Rows, features and targets.
    eps : float
        Machine epsilon of the features.
    alpha : float or "auto"
    validation : ValidationRows
        Rows of the stream by whose errors alpha is chosen; complete once the first pass has ended.
    memory : int
        Bytes that may be held beside the stream.
    rng, probes : Generator
        Random streams of the solver, and of the probes that estimate traces.
    n_jobs : int or None
    stages : Stages
        Records the stages of the solution.
    scored : bool
        Whether held-out scores are needed even where alpha is given.
    """

    stream: Any
    n: int
    m: int
    t: int
    eps: float
    alpha: float | str
    validation: Any
    memory: int
    rng: np.random.Generator
    probes: np.random.Generator
    n_jobs: int | None
    stages: Stages
    scored: bool = False

    @contextmanager
    def stage(self, name: str, n_rows: int | None = None) -> Iterator[None]:
        """Time a stage of the solution, with progress by the rows of the stream; `n_rows` are all, where known."""
        with self.stages.stage(name, n_rows, "rows") as advance:
            self.stream.advance = advance
            yield


class Solved(NamedTuple):
    """A solution, and the sums or rows that give it, to which further rows can be added; None for solvers in passes."""

    solution: LinearSolution
    sums: Any = None


class PassesSolver(ABC):
    """A member of the registry that solves in passes over the rows, and keeps no sums."""

    #: Whether encoded targets are signs; else they are numbers.
    takes_signs: bool

    @abstractmethod
    def memory(self, n: int | None, m: int, t: int) -> int:
        """Bytes held at the least, a block of features not counted; `n` is None where it is not known."""

    @abstractmethod
    def solve(self, problem: Problem) -> LinearSolution:
        """Solve a problem."""

    def __call__(self, problem: Problem) -> Solved:
        """Solve a problem, as a stage of its own."""
        with problem.stage("passes over the features"):
            return Solved(self.solve(problem))


def least(alphas: np.ndarray, scores: np.ndarray) -> float:
    """The alpha at the least score, between those tried: on the cubic spline of all scores over log alpha."""
    best = int(np.argmin(scores))
    if not 0 < best < len(alphas) - 1 or not np.isfinite(scores).all():
        return float(alphas[best])
    # Divided by their range, or numbers near the ends of float64 overflow.
    curve = CubicSpline(np.log(alphas), (scores - scores[best]) / (np.ptp(scores) or 1.0))
    bounds = (np.log(alphas[best - 1]), np.log(alphas[best + 1]))
    found: Any = minimize_scalar(curve, bounds=bounds, method="bounded", options={"xatol": 1e-3})
    return float(np.exp(found.x))
