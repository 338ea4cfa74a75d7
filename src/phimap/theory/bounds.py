"""What a published bound is: its source, its assumptions, and the number it gives."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

#: A number of features, or the widths of the parts of a map by name.
Widths = float | dict[str, float]


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
        Whether the constants are the publication's. If not it gives an order, and the constant here is 1.
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
    needs: tuple[str, ...]
    accepts: tuple[str, ...]
    evaluate: Callable[..., Widths] = field(repr=False, compare=False)

    def __str__(self) -> str:
        kind = "constants of the source" if self.exact_constants else "order of, constant 1"
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
    """

    value: int
    widths: dict[str, int]
    bound: Bound
    arguments: dict[str, Any]

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
        """Whether the constants are the publication's."""
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
            "" if self.exact_constants else "  An order, taken with constant 1: for comparison, no guarantee.",
        ]
        return "\n".join(line for line in lines if line)


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


#: What spectral bounds ensure.
SPECTRAL = "(1 - epsilon)(K + alpha I) <= Z Z^T + alpha I <= (1 + epsilon)(K + alpha I)"


def require_half(epsilon: float) -> None:
    """Raise ValueError where `epsilon` is beyond what spectral bounds allow."""
    require(epsilon <= 0.5, f"`epsilon` must be at most 0.5 for this bound, got {epsilon}.")
