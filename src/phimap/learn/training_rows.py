"""Preparation of training rows for a fit: checks, removal of rows of weight zero, and encoding."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from phimap.learn.inputs import InputEncoding, frames_in, unfitted_encoder
from phimap.learn.rows.batches import Batch, CheckedBatches, first_batch
from phimap.learn.targets.base import Targets, require_targets
from phimap.learn.weights import check_weights, rows_that_count
from phimap.tables import TableEncoder
from phimap.tables.frames import is_frame


class LearnerKind(NamedTuple):
    """Properties of a learner that do not depend on rows.

    Attributes
    ----------
    name : str
        Class name of the learner, for messages.
    targets : type
        Class of the targets.
    encode : "auto", None or TableEncoder
        Parameter `encode` of the learner, for data frames.
    """

    name: str
    targets: type[Targets]
    encode: str | TableEncoder | None


class Training(NamedTuple):
    """Training rows, with the encodings of their inputs and targets.

    Attributes
    ----------
    inputs : InputEncoding
    targets : Targets
        Targets as found in the first rows.
    rows : Batch, or iterable of Batch
        Rows of numbers.
    """

    inputs: InputEncoding
    targets: Targets
    rows: Any


@dataclass(frozen=True)
class RowChecks:
    """Checks training rows, their targets and their weights. The object may be sent to workers.

    Attributes
    ----------
    inputs : InputEncoding or None
        None if rows are to stay unchanged: frames whose encoder is not fitted yet, and rows already checked.
    targets : Targets
    learner : str
        Class name of the learner, for messages.
    """

    inputs: InputEncoding | None
    targets: Targets
    learner: str

    def __call__(self, X: Any, y: Any, sample_weight: Any = None, *, wanted: bool = False) -> Batch:
        """Return the rows of positive weight, their targets and weights; raise if `wanted` and there are no such rows.

        Frames that an encoder is to encode stay frames.
        """
        require_targets(self.learner, y)
        rows = X if self.inputs is None or self.inputs.takes_frame(X) else self.inputs.training_rows(X)
        y = self.targets.check(y, rows.shape[0])
        return rows_that_count(rows, y, check_weights(sample_weight, rows.shape[0]), wanted=wanted)

    def encoded(self, X: Any, y: Any, sample_weight: Any = None) -> Batch:
        """As `__call__`, but encode frames as for prediction, and raise if no row has a positive weight."""
        X, y, weights = self(X, y, sample_weight, wanted=True)
        return X if self.inputs is None or not self.inputs.takes_frame(X) else self.inputs.rows(X), y, weights


@dataclass(frozen=True)
class EncodedBatches:
    """Batches of frames, encoded as rows of numbers at each iteration.

    Attributes
    ----------
    batches : iterable of (X, y, weights)
        All training rows, in the order in which the encoder was fitted on them.
    encoder : TableEncoder
    """

    batches: Iterable[Batch]
    encoder: TableEncoder

    def __iter__(self) -> Iterator[Batch]:
        first_row = 0
        for X, y, weights in self.batches:
            yield self.encoder.transform_training(X, first_row), y, weights
            first_row += X.shape[0]


def training_rows(X: Any, y: Any, sample_weight: Any, kind: LearnerKind) -> Training:
    """Check and encode rows in memory as the training rows of a learner."""
    require_targets(kind.name, y)
    encoder, inputs = unfitted_encoder(kind.encode, [X], labels=kind.targets.has_labels), None
    if encoder is None:
        inputs, X = InputEncoding.of_numbers(X, kind.name)
    targets = kind.targets.of_first(y, X.shape[0])
    X, y, weights = RowChecks(None, targets, kind.name)(X, y, sample_weight, wanted=True)
    if inputs is None:
        assert encoder is not None
        inputs = InputEncoding.of_encoder(encoder.fit(X, y), kind.name)
        X = encoder.transform_training(X)
    return Training(inputs, targets, (X, y, weights))


def training_batches(
    batches: Iterable[tuple[Any, ...]],
    kind: LearnerKind,
    encoder: TableEncoder | None = None,
    feature_names: Iterable[str] | None = None,
) -> Training:
    """Check and encode a stream of batches as the training rows of a learner.

    Parameters
    ----------
    batches : iterable of (X, y) or (X, y, sample_weight)
    kind : LearnerKind
    encoder : TableEncoder, optional
        The fitted encoder that made these batches, which are arrays, from data frames.
    feature_names : iterable of str, optional
        Names of the columns of arrays.
    """
    X, y, _ = first_batch(batches)
    require_targets(kind.name, y)
    unfitted = None
    if encoder is None:
        frames = frames_in(batches) if is_frame(X) else [X]
        unfitted = unfitted_encoder(kind.encode, frames, labels=kind.targets.has_labels)
    targets = kind.targets.of_first(y, len(y))
    if unfitted is not None:
        frames = CheckedBatches(RowChecks(None, targets, kind.name), batches)
        fitted = unfitted.fit_batches((rows, y) for rows, y, _ in frames)
        return Training(InputEncoding.of_encoder(fitted, kind.name), targets, EncodedBatches(frames, fitted))
    inputs, checks = checks_of_numbers(X, targets, kind, encoder, feature_names)
    return Training(inputs, targets, CheckedBatches(checks, batches))


def checks_of_numbers(
    X: Any,
    targets: Targets,
    kind: LearnerKind,
    encoder: TableEncoder | None = None,
    feature_names: Iterable[str] | None = None,
) -> tuple[InputEncoding, RowChecks]:
    """Return the input encoding of batches of arrays, and the checks of these batches.

    Parameters
    ----------
    X : array or CSR matrix
        Rows of the first batch.
    targets : Targets
    kind : LearnerKind
    encoder : TableEncoder, optional
        The fitted encoder that made the arrays from data frames.
    feature_names : iterable of str, optional
        Names of the columns.
    """
    if encoder is not None:
        inputs = InputEncoding.of_encoder(copy(encoder), kind.name)
    else:
        inputs, _ = InputEncoding.of_numbers(X, kind.name)
    # The batches themselves have no names, so the checks do not expect any.
    checks = RowChecks(inputs, targets, kind.name)
    if feature_names is not None:
        inputs = replace(inputs, names=np.array(list(feature_names), dtype=object))
    return inputs, checks
