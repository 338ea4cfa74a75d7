"""The losses and what minimises each: the one place where a new one is entered."""

from __future__ import annotations

from typing import Protocol

from phimap.learn.data.reservoir import CAPACITY
from phimap.learn.margin.losses.logistic import Logistic
from phimap.learn.margin.losses.squared_hinge import SquaredHinge
from phimap.learn.margin.robust import RobustMinimiser
from phimap.learn.margin.solver import LossMinimiser
from phimap.learn.ridge.conjugate_gradients import ConjugateGradientRidge
from phimap.learn.ridge.solver import RidgeSolver
from phimap.learn.solver import LinearSolution, Problem


class Member(Protocol):
    """A form of solving the problems of one loss, in passes over a stream."""

    #: What the form asks of the loss's targets: signs, or numbers as they are.
    takes_signs: bool

    def memory(self, n: int, m: int, t: int) -> int:
        """Bytes held at the least, a block of features not counted."""
        ...

    def __call__(self, problem: Problem) -> LinearSolution:
        """Solve a problem."""
        ...


#: Members by loss and form. Ridge regression by Cholesky factorisation is no member but `RidgeSolver`, a record of sums
#: to which rows can be added later.
MEMBERS: dict[tuple[str, str], Member] = {
    ("squared", "cg"): ConjugateGradientRidge(),
    ("logistic", "quasi-newton"): LossMinimiser(Logistic()),
    ("squared_hinge", "quasi-newton"): LossMinimiser(SquaredHinge()),
    ("huber", "quasi-newton"): RobustMinimiser(),
}

#: The losses of regression, which see numbers.
REGRESSION_LOSSES = tuple(loss for (loss, _), member in MEMBERS.items() if not member.takes_signs)
#: The losses of classification: those of signs, and squared errors of labels as numbers.
LOSSES = ("squared", *(loss for (loss, _), member in MEMBERS.items() if member.takes_signs))


def memory_in_passes(m: int) -> int:
    """Bytes that ridge regression of any number of rows takes where it goes through them several times."""
    return MEMBERS["squared", "cg"].memory(10 * CAPACITY, m, 1)


def member_for(loss: str, solver: str, n: int | None, m: int, memory: int) -> Member | None:
    """The member that solves a problem of n rows and m features; None is Cholesky factorisation.

    Parameters
    ----------
    loss : str
    solver : {"auto", "cholesky", "cg"}
        Of ridge regression. ``"auto"`` is a factorisation where its triangles fit.
    n, m : int
        `n` is None where it is not known.
    memory : int
        Bytes that a solver may hold.
    """
    if loss != "squared":
        return MEMBERS[loss, "quasi-newton"]
    if solver == "cg" or (solver == "auto" and n is not None and RidgeSolver.memory(n, m) > memory):
        return MEMBERS[loss, "cg"]
    return None
