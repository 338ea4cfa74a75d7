"""What every kind of target does for a learner."""

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
    """Targets of one kind: their checks, their encoding as numbers (r, t), and the way back.

    `of_first` makes one of the targets of the first rows, `learned` completes it once all training rows are summarised.
    """

    #: Whether targets are labels of classes.
    has_labels: ClassVar[bool]
    #: Units of the encoded targets; None where they are encoded as they are.
    units: TargetUnits | None

    @classmethod
    @abstractmethod
    def of_first(cls, y: Any, n_rows: int) -> Self:
        """Return the targets of which `y`, those of the first `n_rows` rows, are an example."""

    @abstractmethod
    def learned(self, summary: RowSummary, *, loss: str, class_weight: Any) -> Self:
        """Return these targets with everything that follows from all training rows."""

    @property
    @abstractmethod
    def n_outputs(self) -> int:
        """Outputs t of the linear model."""

    @abstractmethod
    def n_outputs_of(self, y: np.ndarray) -> int:
        """Outputs of a linear model of the checked targets `y` alone."""

    @abstractmethod
    def check(self, y: Any, n_rows: int) -> np.ndarray:
        """`y` as an array of `n_rows` usable targets."""

    @abstractmethod
    def encode(self, y: np.ndarray) -> np.ndarray:
        """Checked targets as numbers (r, t)."""

    def weights(self, y: np.ndarray, weights: np.ndarray | None) -> np.ndarray | None:
        """Weights in the fit of rows with these targets and sample weights (r,); None where all are one."""
        return weights

    @abstractmethod
    def decode(self, scores: np.ndarray) -> np.ndarray:
        """Outputs (n, t) of the linear model as targets."""

    @abstractmethod
    def same(self, other: Targets) -> bool:
        """Whether the other targets are encoded alike."""

    def restore(self, solution: LinearSolution) -> LinearSolution:
        """A linear model of encoded targets as one of the targets themselves."""
        return solution if self.units is None else self.units.restore(solution)

    def in_units(self, solution: LinearSolution) -> LinearSolution:
        """A linear model of the targets as one of encoded targets."""
        return solution if self.units is None else self.units.apply_to(solution)

    def for_search(self, Y: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Encoded targets (r, t) of a sample as the search for a kernel uses them, which knows the squared loss."""
        return Y


def require_targets(learner: str, y: Any) -> None:
    """Raise where `y` was left out of a call of the learner of this name."""
    if y is None:
        raise ValueError(f"{learner} requires y to be passed, but the target y is None. Pass the targets.")
