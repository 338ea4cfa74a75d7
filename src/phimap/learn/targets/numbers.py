"""Targets of regression."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_array

from phimap._validation import check_finite, check_unmasked
from phimap._warnings import caller_level
from phimap.learn.rows.summary import LARGEST_TARGET, ExtremeTargetWarning, largest_target
from phimap.learn.targets.base import RobustTargets, Targets, TargetUnits, check_range, refuse_labels
from phimap.ops import to_host
from phimap.records import equal_records, of_number

if TYPE_CHECKING:
    from phimap.learn.rows.summary import RowSummary

#: With Huber's loss and for quantiles, targets are clipped at this number of robust standard deviations from the
#: median. The number is so large that clipping does not change the slopes of the loss.
FARTHEST = 1000.0
# In the search of a kernel, targets are clipped at this number of robust standard deviations from the median. The
# number is smaller, because a few outliers would dominate the squared errors that the search minimises.
_FARTHEST_SEARCHED = 5.0


@dataclass(frozen=True)
class Numbers(Targets):
    """Numeric targets (n,) or (n, t).

    Attributes
    ----------
    n_targets : int
    single_column : bool
        Whether targets are one-dimensional (n,).
    units : TargetUnits or None
        Units of the encoded targets; None if they are encoded unchanged.
    clip : RobustTargets or None
        Centre and spread by which outliers are clipped, with Huber's loss and for quantiles; otherwise None.
    """

    n_targets: int = field(metadata=of_number(least=1))
    single_column: bool
    units: TargetUnits | None = None
    clip: RobustTargets | None = None

    has_labels: ClassVar[bool] = False

    def requirements(self) -> Iterator[tuple[bool, str]]:
        yield self.n_targets == 1 or not self.single_column, "one target in a single column"

    @classmethod
    def of_first(cls, y: Any, n_rows: int, **params: Any) -> Self:
        checked = check_numbers(y, n_rows)
        return cls(1 if checked.ndim == 1 else checked.shape[1], checked.ndim == 1, **params)

    def learned(self, summary: RowSummary, *, loss: str, class_weight: Any) -> Self:
        assert summary.target_range is not None
        low, high = summary.target_range
        clip = None
        if loss == "huber":
            clip = RobustTargets.of_sample(summary.random_sample.y, summary.random_sample.weights)
            low, high = (clip.clipped(end, FARTHEST) for end in (low, high))
        elif (message := summary.extremes.message("`y`")) is not None:
            warnings.warn(f"{message} With loss='huber' it does not.", ExtremeTargetWarning, stacklevel=caller_level())
        units = TargetUnits.of_range(low, high)
        return replace(self, units=None if units.plain else units, clip=clip)

    @property
    def n_outputs(self) -> int:
        return self.n_targets

    @property
    def prediction_names(self) -> list[str]:
        return ["prediction"] if self.single_column else [f"prediction_{place}" for place in range(self.n_targets)]

    def n_outputs_of(self, y: np.ndarray) -> int:
        return self.n_targets

    def check(self, y: Any, n_rows: int) -> np.ndarray:
        y = check_numbers(y, n_rows)
        n_targets = 1 if y.ndim == 1 else y.shape[1]
        if n_targets != self.n_targets:
            raise ValueError(
                f"`y` must have as many targets as in the first rows, {self.n_targets}, got {n_targets}. "
                "Give every batch the same targets."
            )
        return y.reshape(n_rows) if self.single_column else y.reshape(n_rows, n_targets)

    def encode(self, y: np.ndarray) -> np.ndarray:
        y = y.reshape(y.shape[0], -1)
        if self.clip is not None:
            y = self.clip.clipped(y, FARTHEST)
        y = self._repeated(y)
        return check_range(y) if self.units is None else self.units.apply(y)

    def _repeated(self, y: np.ndarray) -> np.ndarray:
        """Return targets (r, t) with each column repeated once for each output of the target."""
        return y

    def decode(self, scores: np.ndarray) -> np.ndarray:
        return scores[:, 0] if self.single_column else scores

    def score(self, y: Any, predicted: np.ndarray, weights: Any) -> float:
        """Return the score of predictions of the targets `y`, averaged over targets."""
        return float(r2_score(y, predicted, sample_weight=weights))

    def same(self, other: Targets) -> bool:
        return (
            isinstance(other, Numbers) and self.n_targets == other.n_targets and equal_records(self.units, other.units)
        )

    def for_search(self, Y: np.ndarray, weights: np.ndarray) -> np.ndarray:
        return Y if self.clip is None else RobustTargets.of_sample(Y, weights).clipped(Y, _FARTHEST_SEARCHED)


def check_numbers(y: Any, n_rows: int) -> np.ndarray:
    """Return `y` as float64 numbers (n_rows,) or (n_rows, t)."""
    check_unmasked(y, "y")
    y = to_host(y)
    try:
        targets = check_array(
            y, ensure_2d=False, allow_nd=False, dtype="numeric", ensure_all_finite=False, input_name="y"
        )
        if targets.dtype.kind in "mM":
            refuse_labels(targets.astype(str), None)
        y = targets.astype(np.float64, copy=False)
    except (ValueError, TypeError) as error:
        refuse_labels(y, error)
        raise
    if y.ndim not in (1, 2) or y.shape[0] != n_rows:
        raise ValueError(
            f"`y` must have one row per sample, got shape {y.shape} for inconsistent numbers of samples: "
            f"X has {n_rows}."
        )
    check_finite(y, "y")
    if (largest := largest_target(y)) > LARGEST_TARGET:
        raise ValueError(
            f"`y` must lie within {LARGEST_TARGET:g} of 0, whose squares float64 holds, got {largest:g}. Rescale y."
        )
    return y
