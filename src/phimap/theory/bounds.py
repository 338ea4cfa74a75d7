"""Records of published bounds: formula, source, assumptions, and the number of features that a bound requires."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from math import log
from typing import Any, TypeVar

#: Number of features; for a map of several parts, a dict of the widths of its parts.
Widths = float | dict[str, float]
#: The function of a bound, as `Registry.add` returns it.
Formula = TypeVar("Formula", bound=Callable[..., Widths])
#: The guarantee of spectral bounds.
SPECTRAL = "(1 - epsilon)(K + alpha I) <= Z Z^T + alpha I <= (1 + epsilon)(K + alpha I)"


@dataclass(frozen=True)
class Printed:
    """The formula that a source prints, if the source's own proof gives a different formula.

    Attributes
    ----------
    formula : str
        The formula for the number of features that the source prints, as text.
    reason : str
        Why the proof gives a different formula.
    evaluate : callable or None
        The printed formula as a function, if it can be evaluated.
    """

    formula: str
    reason: str
    evaluate: Callable[..., Widths] | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class Bound:
    """A published bound on the number of random features.

    Attributes
    ----------
    name : str
        Name of the bound, an argument of `required_features`.
    guarantee : str
        Statement that holds with the required number of features, with probability 1 - delta unless stated otherwise.
    formula : str
        Number of features, with "~" for an order whose constant is not proven.
    source : str
        Publication, with the number of its theorem or of the survey's table.
    evaluate : callable
        The formula as a function of the arguments in `accepts`.
    counts : str
        The quantity that is counted: directions, features, or the widths that add up to the output.
    assumptions : tuple of str
        Conditions of the guarantee.
    printed : Printed or None
        The formula that the source prints, if its proof gives a different formula.
    regularization : callable or None
        For bounds of a learner's risk, the lambda of the guarantee as a function of the same arguments.
    exact_constants : bool
        Whether the constants are proven. If not, the source gives only an order, and unknown constants are set to 1.
    needs : tuple of str
        Arguments of `required_features` that must be given.
    accepts : tuple of str
        All arguments of `required_features` that the bound takes.
    """

    name: str
    guarantee: str
    formula: str
    source: str
    evaluate: Callable[..., Widths] = field(repr=False, compare=False)
    counts: str = "directions"
    assumptions: tuple[str, ...] = ()
    printed: Printed | None = None
    regularization: Callable[..., float] | None = field(default=None, repr=False, compare=False)

    @property
    def exact_constants(self) -> bool:
        """Whether the constants are proven."""
        return "~" not in self.formula

    @property
    def needs(self) -> tuple[str, ...]:
        """Arguments of `required_features` that must be given."""
        parameters = inspect.signature(self.evaluate).parameters.values()
        return tuple(one.name for one in parameters if one.default is inspect.Parameter.empty)

    @property
    def accepts(self) -> tuple[str, ...]:
        """All arguments of `required_features` that the bound takes."""
        return tuple(inspect.signature(self.evaluate).parameters)

    def __str__(self) -> str:
        kind = "proven constants" if self.exact_constants else "order of, constant 1"
        return f"{self.name}: {self.formula} ({kind}; {self.source})"


@dataclass(frozen=True)
class RequiredFeatures:
    """The number of features that a bound requires.

    Attributes
    ----------
    value : int
        Number of features; for a map of several parts, the width of its output.
    widths : dict of str to int
        Widths of the parts of a map of several parts, including inner parts; empty for other maps.
    bound : Bound
        The bound that was evaluated.
    arguments : dict of str to float, int or str
        Arguments at which the bound was evaluated.
    printed : int or None
        Number of features by the formula that the source prints. It is None if the proof gives the same formula, or if
        the printed formula cannot be evaluated.
    regularization : float or None
        For bounds of a learner's risk, the lambda of the guarantee: the penalty is ``lambda |f|^2``, added to a mean
        loss, so alpha is ``n lambda``. None for bounds without a lambda.
    """

    value: int
    widths: dict[str, int]
    bound: Bound
    arguments: dict[str, Any]
    printed: int | None = None
    regularization: float | None = None

    @property
    def formula(self) -> str:
        """Formula for the number of features, as text."""
        return self.bound.formula

    @property
    def source(self) -> str:
        """Publication, with the number of the theorem or table."""
        return self.bound.source

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Conditions of the guarantee."""
        return self.bound.assumptions

    @property
    def exact_constants(self) -> bool:
        """Whether the constants are proven."""
        return self.bound.exact_constants

    def __str__(self) -> str:
        given = ", ".join(f"{name}={value}" for name, value in self.arguments.items())
        parts = "".join(f"\n    {name}: {width:,}" for name, width in self.widths.items())
        lines = [
            f"{self.value:,} {self.bound.counts}{parts}",
            f"  {self.bound.name}({given}): {self.formula}",
            f"  ensures {self.bound.guarantee}",
            "" if self.regularization is None else f"  at lambda = {self.regularization:.3g}",
            f"  assuming {'; '.join(self.assumptions)}" if self.assumptions else "",
            f"  {self.source}",
            self._printed_line,
            "" if self.exact_constants else "  An order, taken with constant 1: for comparison, no guarantee.",
        ]
        return "\n".join(line for line in lines if line)

    @property
    def _printed_line(self) -> str:
        source = self.bound.printed
        if source is None:
            return ""
        number = "" if self.printed is None else f", which gives {self.printed:,}"
        return f"  The source prints {source.formula}{number}: {source.reason}."


class Registry(dict[str, Bound]):
    """Bounds by name. A function decorated with `add` is registered as the formula of a bound."""

    def add(self, name: str, **record: Any) -> Callable[[Formula], Formula]:
        """Return a decorator that registers a function, whose parameters are the arguments of the bound.

        `record` holds the other attributes of `Bound`.
        """

        def register(evaluate: Formula) -> Formula:
            self[name] = Bound(name, evaluate=evaluate, **record)
            return evaluate

        return register


def require(condition: bool, message: str) -> None:
    """Raise ValueError with `message` if `condition`, an assumption of a bound, is false."""
    if not condition:
        raise ValueError(message)


def sampled_features(leverage: float, epsilon: float, delta: float, statistical_dimension: float) -> float:
    """Number of features that ensures `SPECTRAL` if the leverage function has an upper bound with integral `leverage`.

    The number follows from the matrix Bernstein inequality with intrinsic dimension. The summands
    ``X = (K + alpha)^(-1/2) z z^T (K + alpha)^(-1/2)`` satisfy ``|X| <= leverage`` and ``E X^2 <= leverage E X``. The
    norm of E X is below 1, and its intrinsic dimension is at most twice the statistical dimension if alpha <= |K|. The
    error of the mean of m summands exceeds epsilon with a probability below
    ``16 statistical_dimension exp(-m epsilon^2 / (2 leverage (1 + 2 epsilon / 3)))``; epsilon <= 1/2 gives the constant
    8/3.

    Avron et al. 2017, Lemma 6; Han et al. 2021 and Zandieh et al. 2021, Theorem 5.
    """
    require_half(epsilon)
    return 8 / 3 * leverage / epsilon**2 * log(16 * statistical_dimension / delta)


def require_half(epsilon: float) -> None:
    """Raise ValueError if `epsilon` exceeds 0.5, the largest error for which spectral bounds hold."""
    require(epsilon <= 0.5, f"`epsilon` must be at most 0.5 for this bound, got {epsilon}.")
