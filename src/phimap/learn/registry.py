"""The losses and what minimises each: the one place where a new one is entered."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from phimap.config import size_text
from phimap.learn.losses.huber_solver import HuberSolver
from phimap.learn.losses.logistic import Logistic
from phimap.learn.losses.solver import LossSolver
from phimap.learn.losses.squared_hinge import SquaredHinge
from phimap.learn.ridge.conjugate_gradients import ConjugateGradientRidge
from phimap.learn.ridge.cost import factorisation_seconds, passes_seconds
from phimap.learn.ridge.sketch_rows import SAMPLED_FROM, SKETCH_ROWS
from phimap.learn.ridge.solver import RidgeSolver
from phimap.learn.rows.reservoir import CAPACITY
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


# Of the time of a factorisation, what conjugate gradients may be predicted to take at the most. Passes depend on the
# data: 11 to 52 were counted where 20 are predicted. And a model that was factorised can take more rows, and has
# standard deviations. An alpha that was given may be so small that passes never end: 60 did not do on skin at 0.001.
_SHARE, _SHARE_GIVEN = 0.4, 0.2

#: Members by loss and form. Ridge regression by Cholesky factorisation is no member but `RidgeSolver`, a record of sums
#: to which rows can be added later.
MEMBERS: dict[tuple[str, str], Member] = {
    ("squared", "cg"): ConjugateGradientRidge(),
    ("logistic", "quasi-newton"): LossSolver(Logistic()),
    ("squared_hinge", "quasi-newton"): LossSolver(SquaredHinge()),
    ("huber", "quasi-newton"): HuberSolver(),
}

#: The losses of regression, which see numbers.
REGRESSION_LOSSES = tuple(loss for (loss, _), member in MEMBERS.items() if not member.takes_signs)
#: The losses of classification: those of signs, and squared errors of labels as numbers.
LOSSES = ("squared", *(loss for (loss, _), member in MEMBERS.items() if member.takes_signs))


def memory_in_passes(m: int) -> int:
    """Bytes that ridge regression of any number of rows takes where it goes through them several times."""
    return MEMBERS["squared", "cg"].memory(10 * CAPACITY, m, 1)


class Chosen(NamedTuple):
    """What solves a problem, None being Cholesky factorisation, its name, and why, in words for a report."""

    member: Member | None
    name: str
    reason: str


def choose(
    loss: str,
    solver: str,
    n: int | None,
    m: int,
    memory: int,
    *,
    t: int = 1,
    n_flops: int | None = None,
    chosen: bool = True,
) -> Chosen:
    """What solves a problem of n rows and m features.

    Parameters
    ----------
    loss : str
    solver : {"auto", "cholesky", "cg"}
        Of ridge regression. ``"auto"`` is a factorisation where its triangles fit, unless conjugate gradients are
        predicted to take a small share of its time.
    n, m : int
        `n` is None where it is not known.
    memory : int
        Bytes that a solver may hold.
    t : int, default=1
        Targets.
    n_flops : int or None
        Of the map for one row, `MapRecord.n_flops`.
    chosen : bool, default=True
        Whether alpha is to be found.
    """
    if loss != "squared":
        return Chosen(MEMBERS[loss, "quasi-newton"], "quasi-newton", f"the {loss} loss has no other")
    cg, cholesky = (MEMBERS[loss, "cg"], "cg"), (None, "cholesky")
    if solver != "auto":
        return Chosen(*(cg if solver == "cg" else cholesky), "as given")
    if n is None:
        return Chosen(*cholesky, "more rows may come")
    needed = RidgeSolver.memory(n, m, t)
    if needed > memory:
        return Chosen(*cg, f"a factorisation needs {size_text(needed)}, over the byte budget")
    sketched = n if n < SAMPLED_FROM else SKETCH_ROWS
    passes = passes_seconds(n, m, t, n_flops, chosen=chosen, sketched=sketched)
    factorisation = factorisation_seconds(n, m, n_flops, chosen=chosen)
    share = _SHARE if chosen else _SHARE_GIVEN
    if passes <= share * factorisation and cg[0].memory(n, m, t) <= memory:
        return Chosen(*cg, f"about {_time(passes)} of one core, by factorisation {_time(factorisation)}")
    return Chosen(*cholesky, f"about {_time(factorisation)} of one core, by conjugate gradients {_time(passes)}")


def _time(seconds: float) -> str:
    """A prediction in words, in two digits and no less than a tenth."""
    return f"{float(f'{max(seconds, 0.1):.2g}'):,g} s"
