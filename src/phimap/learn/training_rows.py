"""Training rows on their way into a fit: checked, without rows of weight zero, and encoded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from phimap.learn.inputs import InputEncoding
from phimap.learn.rows.batches import Batch
from phimap.learn.rows.weights import check_weights, rows_that_count
from phimap.learn.targets.base import Targets, require_targets


@dataclass(frozen=True)
class RowChecks:
    """The checks of training rows, their targets and weights; a value that workers receive, too.

    Attributes
    ----------
    inputs : InputEncoding or None
        None leaves rows as they are: frames whose encoder is not fitted yet.
    targets : Targets
    learner : str
        Name of the class of the learner, for messages.
    """

    inputs: InputEncoding | None
    targets: Targets
    learner: str

    def __call__(self, X: Any, y: Any, sample_weight: Any = None, *, wanted: bool = False) -> Batch:
        """Rows of positive weight, of which there must be one where `wanted`, their targets and weights.

        Frames for the encoder stay frames.
        """
        require_targets(self.learner, y)
        frame = self.inputs is None or self.inputs.takes_frame(X)
        rows = X if frame else self.inputs.training_rows(X)  # pyright: ignore[reportOptionalMemberAccess]
        y = self.targets.check(y, rows.shape[0])
        return rows_that_count(rows, y, check_weights(sample_weight, rows.shape[0]), wanted=wanted)

    def numbers(self, X: Any, y: Any, sample_weight: Any = None) -> Batch:
        """As a call, frames being encoded like new rows."""
        X, y, weights = self(X, y, sample_weight, wanted=True)
        encoded = self.inputs is not None and self.inputs.takes_frame(X)
        return (self.inputs.rows(X) if encoded else X), y, weights  # pyright: ignore[reportOptionalMemberAccess]


@dataclass(frozen=True)
class EncodedBatches:
    """Batches of frames as rows of numbers, each time they are gone through.

    Attributes
    ----------
    batches : iterable of (X, y, weights)
        All training rows, in the order in which the encoder was fitted on them.
    encoder : TableEncoder
    """

    batches: Iterable[Batch]
    encoder: Any

    def __iter__(self) -> Iterator[Batch]:
        first_row = 0
        for X, y, weights in self.batches:
            yield self.encoder.transform_training(X, first_row), y, weights
            first_row += X.shape[0]

