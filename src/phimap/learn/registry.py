"""Registry of the losses and their solvers. New losses and solvers are registered only here."""

from __future__ import annotations

from typing import NamedTuple

from phimap.config import size_text
from phimap.learn.losses.deviance import DevianceSolver
from phimap.learn.losses.losses import Logistic, SquaredHinge
from phimap.learn.losses.pinball import QuantileSolver
from phimap.learn.losses.solver import HuberSolver, LossSolver
from phimap.learn.ridge.conjugate_gradients import ConjugateGradientRidge
from phimap.learn.ridge.cost import factorisation_seconds, passes_seconds
from phimap.learn.ridge.nystroem_preconditioner import SAMPLED_FROM, SKETCH_ROWS
from phimap.learn.ridge.solver import CholeskyRidge
from phimap.learn.solver import Member

# ``solver="auto"`` chooses conjugate gradients if their predicted time is below this share of the time of a
# factorisation: the first share if alpha is to be chosen, the second if it is given. The shares are small because the
# number of passes depends on the data: 20 are predicted, and 11 to 52 were counted. A factorised model also accepts
# further rows and gives standard deviations. A given alpha may be so small that the passes do not converge: 60 passes
# were too few on the table skin at alpha 0.001.
_SHARE, _SHARE_GIVEN = 0.4, 0.2

#: Solvers by loss and form.
MEMBERS: dict[tuple[str, str], Member] = {
    ("squared", "cholesky"): CholeskyRidge(),
    ("squared", "cg"): ConjugateGradientRidge(),
    ("logistic", "quasi-newton"): LossSolver(Logistic()),
    ("squared_hinge", "quasi-newton"): LossSolver(SquaredHinge()),
    ("huber", "quasi-newton"): HuberSolver(),
    ("quantile", "quasi-newton"): QuantileSolver(),
    ("poisson", "quasi-newton"): DevianceSolver(),
    ("gamma", "quasi-newton"): DevianceSolver(),
    ("tweedie", "quasi-newton"): DevianceSolver(),
}

#: The losses of regression, whose encoded targets are numbers.
REGRESSION_LOSSES = tuple(dict.fromkeys(loss for (loss, _), member in MEMBERS.items() if not member.takes_signs))
#: The losses of classification: losses whose targets are signs, and the squared loss, for labels encoded as numbers.
LOSSES = ("squared", *(loss for (loss, _), member in MEMBERS.items() if member.takes_signs))


def memory_in_passes(m: int) -> int:
    """Bytes that conjugate gradients hold for m features and any number of rows."""
    return MEMBERS["squared", "cg"].memory(None, m, 1)


class Chosen(NamedTuple):
    """The chosen solver of a problem, the name of its form, and the reason for the choice in words for a report."""

    member: Member
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
    """Return the solver for a problem of n rows and m features.

    Parameters
    ----------
    loss : str
    solver : {"auto", "cholesky", "cg"}
        Solver of ridge regression. ``"auto"`` is a factorisation if its triangles fit `memory`, unless conjugate
        gradients are predicted to take only a small share of the time of a factorisation.
    n, m : int
        Rows and features; `n` is None if unknown.
    memory : int
        Bytes that a solver may hold.
    t : int, default=1
        Number of targets.
    n_flops : int or None
        Flops of the map for one row, `MapRecord.n_flops`.
    chosen : bool, default=True
        Whether alpha is to be chosen.
    """
    if loss != "squared":
        return Chosen(MEMBERS[loss, "quasi-newton"], "quasi-newton", f"the {loss} loss has no other")
    if solver != "auto":
        return Chosen(MEMBERS[loss, solver], solver, "as given")

    def ridge(name: str, reason: str) -> Chosen:
        return Chosen(MEMBERS[loss, name], name, reason)

    if n is None:
        return ridge("cholesky", "more rows may come")
    needed = MEMBERS[loss, "cholesky"].memory(n, m, t)
    if needed > memory:
        return ridge("cg", f"a factorisation needs {size_text(needed)}, over the byte budget")
    sketched = n if n < SAMPLED_FROM else SKETCH_ROWS
    passes = passes_seconds(n, m, t, n_flops, chosen=chosen, sketched=sketched)
    factorisation = factorisation_seconds(n, m, n_flops, chosen=chosen)
    share = _SHARE if chosen else _SHARE_GIVEN
    if passes <= share * factorisation and MEMBERS[loss, "cg"].memory(n, m, t) <= memory:
        return ridge("cg", f"about {_time(passes)} of one core, by factorisation {_time(factorisation)}")
    return ridge("cholesky", f"about {_time(factorisation)} of one core, by conjugate gradients {_time(passes)}")


def _time(seconds: float) -> str:
    """Return predicted seconds as text with two digits, at least 0.1 s."""
    return f"{float(f'{max(seconds, 0.1):.2g}'):,g} s"
