"""The interface of targets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from phimap.learn.targets.units import TargetUnits
from phimap.records import Record

if TYPE_CHECKING:
    from phimap.learn.rows.summary import RowSummary
    from phimap.learn.solver import LinearSolution


class Targets(Record, ABC):
    """Targets of one kind: their checks, their encoding as numbers (r, t), and their decoding.

    `of_first` creates an object from the targets of the first rows; `learned` completes it from the summary of all
    rows.
    """

    #: Whether targets are labels of classes.
    has_labels: ClassVar[bool]
    #: Units of the encoded targets; None if they are encoded unchanged.
    units: TargetUnits | None

    @classmethod
    @abstractmethod
    def of_first(cls, y: Any, n_rows: int) -> Self:
        """Return the kind of targets found in `y`, the targets of the first `n_rows` rows."""

    @abstractmethod
    def learned(self, summary: RowSummary, *, loss: str, class_weight: Any) -> Self:
        """Return these targets, completed from the summary of all training rows."""

    @property
    @abstractmethod
    def n_outputs(self) -> int:
        """Number t of outputs of the linear model."""

    @abstractmethod
    def n_outputs_of(self, y: np.ndarray) -> int:
        """Return the number of outputs of a linear model that is fitted to only the checked targets `y`."""

    @abstractmethod
    def check(self, y: Any, n_rows: int) -> np.ndarray:
        """Return `y` as an array of `n_rows` valid targets; raise if `y` is not valid."""

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
        """Whether the other targets are encoded in the same way."""

    def check_announced(self, classes: Any) -> None:
        """Raise if a later call of `partial_fit` gives other `classes` than the first call."""

    def restore(self, solution: LinearSolution) -> LinearSolution:
        """Convert a linear model of encoded targets to one of the targets themselves."""
        return solution if self.units is None else self.units.restore(solution)

    def in_units(self, solution: LinearSolution) -> LinearSolution:
        """Convert a linear model of the targets to one of encoded targets."""
        return solution if self.units is None else self.units.apply_to(solution)

    def for_search(self, Y: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Return encoded targets (r, t) of a sample for the kernel search, which always has the squared loss."""
        return Y


def require_targets(learner: str, y: Any) -> None:
    """Raise if `y` was omitted; the message names the learner."""
    if y is None:
        raise ValueError(f"{learner} requires y to be passed, but the target y is None. Pass the targets.")
