"""The interface of solvers. A solver makes passes over blocks of features until it has a solution."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.optimize import minimize_scalar

from phimap._progress import Stages
from phimap.learn.blocks.blocks import FeatureBlock, WeightedBlock
from phimap.learn.rows.accumulator import Accumulator, RowSource, accumulate
from phimap.ops import single_threaded_blas
from phimap.records import NOT_SAVED, Record, of_floats, of_number

#: The sums of a pass over blocks: float64 arrays of fixed shapes.
Sums = tuple[np.ndarray, ...]
#: The contribution of one block (r, m) with its targets (r, t) and weights (r,) to the sums of a pass.
Summand = Callable[[FeatureBlock, np.ndarray, np.ndarray], Sums]
#: An algorithm in passes, as a generator. It yields the summand of its next pass and receives the sums over all rows.
Passes = Generator[Summand, Sums, "LinearSolution"]
#: Blocks of features with targets and weights; each pass iterates over them once.
Stream = Iterable[WeightedBlock] | RowSource


@dataclass(frozen=True)
class HeldOutScores(Record):
    """Predictions for rows that were left out of the fit. Errors on training rows would be too small.

    Attributes
    ----------
    predictions : ndarray of shape (r, t)
        Predictions with an alpha equal or close to the alpha of the solution. Either each row was left out separately,
        or all r rows were left out together.
    targets : ndarray of shape (r, t)
    weights : ndarray of shape (r,) or None
        Weights of these rows. Means with these weights estimate means over all rows. None if all weights are equal.
    """

    predictions: np.ndarray = field(metadata=of_floats("r", "t"))
    targets: np.ndarray = field(metadata=of_floats("r", "t"))
    weights: np.ndarray | None = field(default=None, metadata=of_floats("r", least=0))


@dataclass(frozen=True)
class LinearSolution(Record):
    """Coefficients of a linear model on features, with facts about their computation.

    Attributes
    ----------
    coef : ndarray of shape (m, t)
        Coefficients of the m features, for each of t targets.
    intercept : ndarray of shape (t,)
    alpha : float
    alphas : ndarray of shape (g,)
        Values of alpha that were tried; empty if alpha was given.
    scores : ndarray of shape (g,)
        The criterion at each of `alphas`. For ridge regression it estimates the mean squared error on new rows, summed
        over targets. For other losses it estimates the mean loss on new rows; for Huber's loss and for quantiles, the
        loss takes errors divided by `scale`.
    criterion : str
        ``"held-out"``, ``"leave-one-out"``, ``"gcv"`` or ``"given"``.
    residual : float
        For ridge regression ``|(A + alpha I) W - B| / |B|``, with A the matrix and B the right-hand sides of the linear
        system that was solved. For other losses the norm of the gradient, defined by the inverse quasi-Newton matrix,
        divided by the root of the objective.
    form : str
        ``"primal"`` or ``"dual"`` for a factorisation, else the name of an iteration: ``"cg"`` or ``"quasi-newton"``.
    status : str
        ``"solved"``, or ``"stopped"`` if the tolerance was not reached.
    n_passes : int
        Passes over the rows, not counting the pass for scales and classes.
    held_out : HeldOutScores or None
        Predictions for rows that were left out; None if there are no such rows. Not saved in model files.
    scale : ndarray of shape (t,) or None
        For Huber's loss and for quantiles: the scale by which errors are divided before they enter the loss. None for
        other losses.
    choice : str
        Reason for the choice of the form; empty if the form was given.
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
    """Sums over the blocks of features of a pass.

    Attributes
    ----------
    sums : tuple of ndarray or None
        None before the first block.
    """

    _parts = ("sums",)

    def __init__(self, summand: Summand):
        self._summand = summand
        self.sums: Sums | None = None

    def update(self, rows: FeatureBlock, targets: np.ndarray, weights: np.ndarray) -> None:
        self._add(self._summand(rows, targets, weights))

    def merge(self, later: PassSums) -> None:
        if later.sums is not None:
            self._add(later.sums)

    def _add(self, sums: Sums) -> None:
        if self.sums is None:
            self.sums = tuple(np.array(part, dtype=np.float64) for part in sums)
            return
        for total, part in zip(self.sums, sums, strict=True):
            total += part


class Solver(ABC):
    """Finds a linear model from a stream of blocks, in passes.

    A subclass implements its algorithm as the generator `_passes`, in which each yield expression is a pass. The
    function `solve` runs the generator.
    """

    #: Largest number of passes over the rows.
    passes: int
    #: Number of passes that `solve` has made.
    n_passes: int

    @abstractmethod
    def _passes(self, m: int, t: int, eps: float) -> Passes:
        """Run the algorithm for m features with machine epsilon `eps`, and t targets."""


def solve(solver: Solver, stream: Stream, m: int, t: int, eps: float) -> LinearSolution:
    """Run a solver on a stream of blocks of m features, of machine epsilon `eps`, and t targets.

    Each pass iterates over the stream once.
    """
    # The solver's own BLAS calls use one thread, because their results would depend on the number of threads.
    with single_threaded_blas():
        algorithm, sums = solver._passes(m, t, eps), None
        solver.n_passes = 0
        while True:
            try:
                summand = next(algorithm) if sums is None else algorithm.send(sums)
            except StopIteration as end:
                return end.value
            sums = sums_of_pass(stream, summand)
            solver.n_passes += 1


def sums_of_pass(stream: Stream, summand: Summand) -> Sums:
    """Make one pass, and return the sums of the contributions of all blocks of a stream."""
    sums = accumulate(stream, lambda first_row: PassSums(summand)).sums
    if sums is None:
        raise ValueError("the training data are empty: no batch of rows was given. Give at least 2 rows.")
    return sums


@dataclass(frozen=True)
class Problem:
    """The problem that a solver of the registry solves.

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
        Rows of the stream whose errors choose alpha; they are complete after the first pass.
    memory : int
        Bytes that the solver may hold, not counting the features that the stream keeps.
    rng, probes : Generator
        Random streams of the solver, and of the probes that estimate traces.
    n_jobs : int or None
    stages : Stages
        Records the stages of the solution.
    scored : bool
        Whether held-out scores are needed even if alpha is given.
    loss_parameters : mapping
        Parameters of the loss, by name, as in `Targets.loss_parameters`; empty if the loss has none.
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
    loss_parameters: Mapping[str, Any] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str, n_rows: int | None = None) -> Iterator[None]:
        """Time a stage of the solution, and show its progress in rows of the stream, out of `n_rows` if given."""
        with self.stages.stage(name, n_rows, "rows") as advance:
            self.stream.advance = advance
            yield


class Solved(NamedTuple):
    """A solution, and the sums to which further rows can be added; `sums` is None for solvers in passes."""

    solution: LinearSolution
    sums: Any = None


class Member(ABC):
    """A solver in the registry. It solves the problems of one loss."""

    #: Whether encoded targets are signs; else they are numbers.
    takes_signs = False
    #: Whether the solver makes several passes, so that keeping features between passes saves time.
    repeats_passes = True

    @abstractmethod
    def memory(self, n: int | None, m: int, t: int) -> int:
        """Least number of bytes held, without a block of features, for n rows, m features and t targets.

        `n` is None if the number of rows is unknown.
        """

    @abstractmethod
    def __call__(self, problem: Problem) -> Solved:
        """Solve a problem."""


class PassesSolver(Member):
    """A solver in the registry that makes passes over the rows, and keeps no sums."""

    @abstractmethod
    def solve(self, problem: Problem) -> LinearSolution:
        """Solve a problem."""

    def __call__(self, problem: Problem) -> Solved:
        """Solve a problem, timed as a separate stage."""
        with problem.stage("passes over the features"):
            return Solved(self.solve(problem))


def least(alphas: np.ndarray, scores: np.ndarray) -> float:
    """Return the alpha that minimises the cubic spline of the scores over log alpha.

    Return the best of `alphas` itself if it is the first or the last, or if a score is not finite.
    """
    best = int(np.argmin(scores))
    if not 0 < best < len(alphas) - 1 or not np.isfinite(scores).all():
        return float(alphas[best])
    # The scores are divided by their range, because numbers near the ends of float64 would overflow.
    curve = CubicSpline(np.log(alphas), (scores - scores[best]) / (np.ptp(scores) or 1.0))
    bounds = (np.log(alphas[best - 1]), np.log(alphas[best + 1]))
    found: Any = minimize_scalar(curve, bounds=bounds, method="bounded", options={"xatol": 1e-3})
    return float(np.exp(found.x))
