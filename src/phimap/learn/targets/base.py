"""The interface of targets, and the units and the clipping of numeric targets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from datetime import date
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, TypeVar

import numpy as np

from phimap._number_text import reads_as_number
from phimap.learn.targets.amounts import recipe_for
from phimap.learn.weights import weighted_quantile
from phimap.records import Record, of_floats, of_number

if TYPE_CHECKING:
    from phimap.learn.rows.summary import RowSummary
    from phimap.learn.solver import LinearSolution

Solution = TypeVar("Solution", bound=Any)

# The targets are shifted if the middle of their range is farther from 0 than this many half-widths. At this distance,
# ten of the 24 bits of float32 are lost.
_FAR = 2.0**10
# Up to this exponent, the targets are not scaled. Sums of products of float32 features with targets between 2^-64 and
# 2^64 neither overflow nor underflow.
_WIDE = 64
# Largest target of later rows, in the units of the first rows. Products of targets up to this size with features fit
# float32.
_MOST = 2.0**80
# Median absolute deviation of the standard normal distribution.
_MEDIAN_DEVIATION = 0.6745


@dataclass(frozen=True)
class TargetUnits(Record):
    """Units ``(y - shift) / 2^exponent`` in which the solver receives targets.

    Shift and exponent are nearly always 0. The shift is used if the range of the targets is narrow compared with its
    distance from 0. The exponent is used if targets lie outside ``2^-64`` to ``2^64``.

    Attributes
    ----------
    shift : ndarray of shape (t,)
        The middle of the range if its distance from 0 exceeds 1,024 times the half-width, so that float32 does not
        resolve y; else 0.
    exponent : int
        Exponent for all targets; scaling by a power of two is exact.
    """

    shift: np.ndarray = field(metadata=of_floats("t"))
    exponent: int = field(metadata=of_number(least=-2048, most=2048))

    @classmethod
    def of_range(cls, low: np.ndarray, high: np.ndarray) -> TargetUnits:
        """Return the units for targets between `low` and `high` (t,)."""
        middle, half = low / 2 + high / 2, high / 2 - low / 2
        shift = np.where(np.abs(middle) > _FAR * half, middle, 0.0)
        largest = np.maximum(np.abs(low - shift), np.abs(high - shift)).max()
        exponent = int(np.frexp(largest)[1]) if largest > 0 else 0
        return cls(shift, exponent if abs(exponent) > _WIDE else 0)

    @property
    def plain(self) -> bool:
        """Whether the units leave targets unchanged."""
        return self.exponent == 0 and not self.shift.any()

    def apply(self, y: np.ndarray) -> np.ndarray:
        """Convert targets (r, t) to these units."""
        return check_range(np.ldexp(y - self.shift, -self.exponent))

    def undo(self, encoded: np.ndarray) -> np.ndarray:
        """Convert numbers (r, t) in these units to targets."""
        return np.ldexp(encoded, self.exponent) + self.shift

    def apply_to(self, solution: Solution) -> Solution:
        """Convert a linear model of the targets to these units; its `scores` are not converted."""
        coef, intercept = solution.coef, solution.intercept - self.shift
        return replace(solution, coef=np.ldexp(coef, -self.exponent), intercept=np.ldexp(intercept, -self.exponent))

    def restore(self, solution: Solution) -> Solution:
        """Convert a linear model in these units to a linear model of the targets."""
        coef, intercept = (np.ldexp(part, self.exponent) for part in (solution.coef, solution.intercept))
        # `scores` are squared errors in these units, unless a scale is given: then errors were divided by the scale.
        scores, scale = solution.scores, solution.scale
        if scale is None:
            scores = np.ldexp(scores, 2 * self.exponent)
        else:
            scale = np.ldexp(scale, self.exponent)
        held_out = solution.held_out
        if held_out is not None:
            predictions, targets = (self.undo(part) for part in (held_out.predictions, held_out.targets))
            held_out = replace(held_out, predictions=predictions, targets=targets)
        return replace(
            solution,
            coef=coef,
            intercept=intercept + self.shift,
            centre=np.ldexp(solution.centre, self.exponent) + self.shift,
            scores=scores,
            held_out=held_out,
            scale=scale,
        )


def check_range(y: np.ndarray) -> np.ndarray:
    """Return targets (r, t) in the units of the first rows; raise if targets are far larger than the first targets."""
    if y.size and not (largest := np.abs(y).max()) <= _MOST:
        raise ValueError(
            f"`y` must be of the order of the first rows' targets, got {largest:.3g} times their unit. "
            "Fit on all rows at once, or rescale y."
        )
    return y


def refuse_labels(y: Any, cause: Exception | None) -> None:
    """Raise an error that names the first target that is text or a time, if there is one.

    A text that is a number is named only if all texts are numbers.
    """
    targets = enumerate(np.asarray(y, dtype=object).ravel())
    found = [(row, target) for row, target in targets if isinstance(target, str | bytes | date)]
    if not found:
        return
    row, target = next((one for one in found if not reads_as_number(str(one[1]))), found[0])
    recipe = recipe_for([str(one) for _, one in found], str(target)) if isinstance(target, str) else ""
    how = f" by {recipe}" if recipe else ""
    raise ValueError(
        f"`y` must hold numbers, got {str(target)!r} at row {row}. Convert it{how}, or use KernelClassifier for labels."
    ) from cause


@dataclass(frozen=True)
class RobustTargets(Record):
    """Median and robust standard deviation of targets.

    Attributes
    ----------
    centre, spread : ndarray of shape (t,)
        The spread is the median absolute deviation over 0.6745. If at least half of the rows equal the median, only the
        other rows count. If all rows equal the median, the spread is 1.
    """

    centre: np.ndarray = field(metadata=of_floats("t"))
    spread: np.ndarray = field(metadata=of_floats("t"))

    @classmethod
    def of_sample(cls, y: np.ndarray, weights: np.ndarray | None = None) -> RobustTargets:
        """Return the record for targets (r,) or (r, t) of random rows, with weights (r,)."""
        Y = y.reshape(len(y), -1)
        counted = np.ones(len(Y)) if weights is None else weights
        centre = np.array([weighted_quantile(column, counted, 0.5) for column in Y.T])
        spread = np.array([_spread(column, counted) for column in np.abs(Y - centre).T])
        return cls(centre, spread)

    def clipped(self, y: np.ndarray, most: float) -> np.ndarray:
        """Return targets (t,) or (r, t), clipped at `most` spreads from the centre."""
        return np.clip(y, self.centre - most * self.spread, self.centre + most * self.spread)


def _spread(deviations: np.ndarray, weights: np.ndarray) -> float:
    """Return the robust standard deviation of targets, from their distances (r,) to the median."""
    found = weighted_quantile(deviations, weights, 0.5)
    others = deviations > 0
    if found == 0 and others.any():
        found = weighted_quantile(deviations[others], weights[others], 0.5)
    return found / _MEDIAN_DEVIATION or 1.0


class Targets(Record, ABC):
    """Targets of one kind, with methods that check them, encode them as numbers (r, t), and decode them.

    `of_first` creates an object from the targets of the first rows; `learned` completes it from the summary of all
    rows.
    """

    #: Whether targets are labels of classes.
    has_labels: ClassVar[bool]
    #: Whether the score can be computed from sums over the rows.
    scored_by_sums: ClassVar[bool] = True
    #: Lower bound of the targets.
    least: ClassVar[float] = -np.inf
    #: Units of the encoded targets; None if they are encoded unchanged.
    units: TargetUnits | None

    @classmethod
    @abstractmethod
    def of_first(cls, y: Any, n_rows: int) -> Self:
        """Return an object of this class for the targets `y` of the first `n_rows` rows."""

    @abstractmethod
    def learned(self, summary: RowSummary, *, loss: str, class_weight: Any) -> Self:
        """Return these targets, completed from the summary of all training rows."""

    @property
    def loss_parameters(self) -> dict[str, Any]:
        """Parameters of the loss of the outputs, by name; empty if the name of the loss determines it."""
        return {}

    @property
    def output_names(self) -> list[str] | None:
        """Names of the outputs if one target has several outputs; otherwise None."""
        return None

    @property
    def prediction_names(self) -> list[str]:
        """Names of the columns of predictions in a table."""
        return ["prediction"]

    @property
    @abstractmethod
    def n_outputs(self) -> int:
        """Number t of outputs of the linear model."""

    @abstractmethod
    def n_outputs_of(self, y: np.ndarray) -> int:
        """Return the number of outputs of a linear model fitted only to the checked targets `y`."""

    @abstractmethod
    def check(self, y: Any, n_rows: int) -> np.ndarray:
        """Return `y` as an array of valid targets; raise if it is not valid for `n_rows` rows."""

    @abstractmethod
    def encode(self, y: np.ndarray) -> np.ndarray:
        """Return checked targets as numbers (r, t)."""

    def weights(self, y: np.ndarray, weights: np.ndarray | None) -> np.ndarray | None:
        """Return the weights (r,) of rows in the fit, from their targets and sample weights; None if all are one."""
        return weights

    @abstractmethod
    def decode(self, scores: np.ndarray) -> np.ndarray:
        """Return outputs (n, t) of the linear model, decoded as targets."""

    @abstractmethod
    def same(self, other: Targets) -> bool:
        """Whether `other` encodes targets in the same way."""

    def check_announced(self, classes: Any) -> None:
        """Raise if a later call of `partial_fit` gives other `classes` than the first call."""

    def restore(self, solution: LinearSolution) -> LinearSolution:
        """Convert a linear model of encoded targets to a linear model of the targets themselves."""
        return solution if self.units is None else self.units.restore(solution)

    def in_units(self, solution: LinearSolution) -> LinearSolution:
        """Convert a linear model of the targets to a linear model of encoded targets."""
        return solution if self.units is None else self.units.apply_to(solution)

    def per_target(self, encoded: np.ndarray) -> np.ndarray:
        """Return encoded targets with one column for each target (r, t), without repeated columns."""
        return encoded

    def interval_centre(self, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the centres (n, t) of intervals for outputs of the model, and factors (n, t) of their half-lengths.

        The factors are None if all are 1.
        """
        return scores, None

    def for_search(self, Y: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Return the encoded targets (r, t) of a sample, in a form that suits the squared loss of the kernel search."""
        return Y


class TargetsKind(Protocol):
    """A factory of targets: a class of targets, or such a class together with its parameters."""

    @property
    def has_labels(self) -> bool:
        """Whether targets are labels of classes."""
        ...

    def of_first(self, y: Any, n_rows: int) -> Targets:
        """Make the targets object from `y`, the targets of the first `n_rows` rows."""
        ...


def require_targets(learner: str, y: Any) -> None:
    """Raise if `y` was omitted; the message names the learner."""
    if y is None:
        raise ValueError(f"{learner} requires y to be passed, but the target y is None. Pass the targets.")
