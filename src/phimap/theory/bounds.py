"""What a published bound is: its source, its assumptions, and the number it gives."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import log
from typing import Any

#: A number of features, or the widths of the parts of a map by name.
Widths = float | dict[str, float]
#: What spectral bounds ensure.
SPECTRAL = "(1 - epsilon)(K + alpha I) <= Z Z^T + alpha I <= (1 + epsilon)(K + alpha I)"


@dataclass(frozen=True)
class Printed:
    """What a source prints where its own proof gives something else.

    Attributes
    ----------
    formula : str
    reason : str
        Where the two part.
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
    guarantee : str
        What holds, with probability 1 - delta unless it says otherwise, once there are that many.
    formula : str
    source : str
        Publication, with the number of its theorem or of the survey's table.
    counts : str
        What is counted: directions, features, or the widths that add up to the output.
    assumptions : tuple of str
    exact_constants : bool
        Whether the constants are proven. If not the source gives an order, and constants it leaves open are 1 here.
    printed : Printed or None
        The formula that the source prints, where it is not the one that its proof gives.
    needs : tuple of str
        Arguments of `required_features` that must be given.
    accepts : tuple of str
        Arguments that may be given.
    """

    name: str
    guarantee: str
    formula: str
    source: str
    counts: str
    assumptions: tuple[str, ...]
    exact_constants: bool
    printed: Printed | None
    needs: tuple[str, ...]
    accepts: tuple[str, ...]
    evaluate: Callable[..., Widths] = field(repr=False, compare=False)

    def __str__(self) -> str:
        kind = "proven constants" if self.exact_constants else "order of, constant 1"
        return f"{self.name}: {self.formula} ({kind}; {self.source})"


@dataclass(frozen=True)
class RequiredFeatures:
    """The number of features that a bound asks for.

    Attributes
    ----------
    value : int
        The number; of a map of several parts the width of its output.
    widths : dict of str to int
        The parts of a map that has several, those inside it included; empty for others.
    bound : Bound
    arguments : dict of str to float, int or str
        What the bound was evaluated at.
    printed : int or None
        The number by the formula that the source prints, where its proof gives another and the printed one has a
        number at these arguments.
    """

    value: int
    widths: dict[str, int]
    bound: Bound
    arguments: dict[str, Any]
    printed: int | None = None

    @property
    def formula(self) -> str:
        """The bound as a formula."""
        return self.bound.formula

    @property
    def source(self) -> str:
        """Publication and number."""
        return self.bound.source

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What must hold."""
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


class Registry:
    """Bounds by name, filled by decorating the functions that evaluate them."""

    def __init__(self) -> None:
        self._bounds: dict[str, Bound] = {}

    def add(
        self,
        name: str,
        *,
        guarantee: str,
        formula: str,
        source: str,
        counts: str = "directions",
        assumptions: tuple[str, ...] = (),
        exact_constants: bool,
        printed: Printed | None = None,
    ) -> Callable[[Callable[..., Widths]], Callable[..., Widths]]:
        """Register the decorated function, whose parameters are the arguments that the bound takes."""

        def register(evaluate: Callable[..., Widths]) -> Callable[..., Widths]:
            parameters = inspect.signature(evaluate).parameters
            self._bounds[name] = Bound(
                name=name,
                guarantee=guarantee,
                formula=formula,
                source=source,
                counts=counts,
                assumptions=assumptions,
                exact_constants=exact_constants,
                printed=printed,
                needs=tuple(key for key, value in parameters.items() if value.default is inspect.Parameter.empty),
                accepts=tuple(parameters),
                evaluate=evaluate,
            )
            return evaluate

        return register

    def __iter__(self) -> Iterator[Bound]:
        return iter(self._bounds.values())


def require(condition: bool, message: str) -> None:
    """Raise ValueError with `message` where an assumption that can be checked fails."""
    if not condition:
        raise ValueError(message)


def sampled_features(leverage: float, epsilon: float, delta: float, statistical_dimension: float) -> float:
    """Features that ensure `SPECTRAL` where the leverage function lies below one whose integral is `leverage`.

    Matrix Bernstein with intrinsic dimension: terms ``X = (K + alpha)^(-1/2) z z^T (K + alpha)^(-1/2)`` have
    ``|X| <= leverage`` and ``E X^2 <= leverage E X``. The norm of E X is below 1, its intrinsic dimension at most twice
    the statistical dimension while alpha <= |K|. So their mean errs by epsilon with a probability below ``16
    statistical_dimension exp(-m epsilon^2 / (2 leverage (1 + 2 epsilon / 3)))``, and epsilon <= 1/2 gives 8/3.

    Avron et al. 2017, Lemma 6; Han et al. 2021 and Zandieh et al. 2021, Theorem 5.
    """
    require_half(epsilon)
    return 8 / 3 * leverage / epsilon**2 * log(16 * statistical_dimension / delta)


def require_half(epsilon: float) -> None:
    """Raise ValueError where `epsilon` is beyond what spectral bounds allow."""
    require(epsilon <= 0.5, f"`epsilon` must be at most 0.5 for this bound, got {epsilon}.")
