"""Inputs of a learner: arrays, sparse matrices, tensors or data frames, checked and converted to rows of numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import takewhile
from math import prod
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, clone

from phimap._validation import check_finite, check_samples, is_missing
from phimap.learn.rows.batches import Batch, CheckedBatches, first_batch
from phimap.learn.targets.base import Targets, TargetsKind, require_targets
from phimap.learn.weights import check_weights, rows_that_count
from phimap.ops import Array, is_tensor, ops_for
from phimap.records import Record, of_entries, of_floats, of_number
from phimap.tables import EncodedColumn, TableEncoder
from phimap.tables.frames import cells_of, check_frame, in_order, is_frame, is_numbers
from phimap.tables.numbers import NumberEncoding


@dataclass(frozen=True)
class InputEncoding(Record):
    """The columns of a learner's rows, and the encoder that converts data frames to numbers.

    Attributes
    ----------
    learner : str
        Class name of the learner, for messages.
    n_features : int
        Columns of the rows that users give.
    names : ndarray of shape (n_features,) or None
        Names of these columns; None if the training rows had no names.
    image_shape : tuple of int or None
        Height, width and channels, if rows were images.
    sparse : bool
        Whether rows are CSR.
    encoder : TableEncoder or None
        Fitted encoder; None if the training rows were complete numbers.
    encodes_arrays : bool
        Whether the encoder was fitted to arrays with missing cells, so that it encodes arrays as well as frames.
    fill : ndarray of shape (n_features,) or None
        Medians of the columns of complete numbers, which replace missing cells of later rows. None raises an error for
        such cells.
    """

    learner: str
    n_features: int = field(metadata=of_number(least=1))
    names: np.ndarray | None = field(default=None, metadata=of_entries("any"))
    image_shape: tuple[int, int, int] | None = None
    sparse: bool = False
    encoder: TableEncoder | None = None
    encodes_arrays: bool = False
    fill: np.ndarray | None = field(default=None, metadata=of_floats("?"))

    def requirements(self) -> Iterator[tuple[bool, str]]:
        names, shape, encoder = self.names, self.image_shape, self.encoder
        yield names is None or names.shape == (self.n_features,), "a name for each column"
        yield shape is None or prod(shape) == self.n_features, "images of its rows"
        yield self.fill is None or self.fill.shape == (self.n_features,), "a median for each column"
        yield encoder is None or encoder.n_features_in_ == self.n_features, "an encoder of its columns"

    @classmethod
    def of_numbers(cls, X: Any, learner: str) -> tuple[InputEncoding, Array]:
        """Return the input encoding of `X`, the first rows that a learner gets, and the checked rows."""
        columns = _columns_class(learner)()
        rows = _checked(columns, X, reset=True)
        names = getattr(columns, "feature_names_in_", None)
        return cls(learner, columns.n_features_in_, names, columns.image_shape_, sparse.issparse(rows)), rows

    @classmethod
    def of_encoder(cls, encoder: TableEncoder, learner: str, *, arrays: bool = False) -> InputEncoding:
        """Return the input encoding for rows that a fitted encoder makes of frames, or else of `arrays`."""
        names = None if arrays else np.array([column.name for column in encoder.columns_], dtype=object)
        return cls(learner, encoder.n_features_in_, names, None, encoder.is_sparse_, encoder, arrays)

    @property
    def width(self) -> int:
        """Number d of columns of the rows that the kernel receives."""
        return self.n_features if self.encoder is None else self.encoder.n_columns_out_

    @property
    def column_names(self) -> np.ndarray:
        """Names of the columns that the kernel receives; their indices if they have no names."""
        if self.encoder is not None:
            return self.encoder.get_feature_names_out()
        return np.arange(self.width) if self.names is None else self.names

    def in_units(self, column: int, value: float) -> float:
        """Convert a number of a column that the kernel receives to the units of the table, if the encoder scaled it."""
        if self.encoder is None:
            return value
        encoded = self.encoder.columns_[self.encoder.groups_[column]]
        is_number = isinstance(encoded.encoding, NumberEncoding) and encoded.encoding.deviation
        if not is_number or self.column_names[column] != encoded.name:
            return value
        mean, shift = encoded.encoding.mean, encoded.encoding.deviation * value  # pyright: ignore
        # Encoded rows are in float32. Digits beyond float32 are rounding errors, which messages must not show.
        error = float(np.finfo(np.float32).eps) * max(abs(mean), abs(shift))
        return round(mean + shift, -int(np.ceil(np.log10(error)))) if error > 0 else mean + shift

    @property
    def given_names(self) -> np.ndarray:
        """Names of the columns that users give; raises AttributeError if the columns have no names."""
        if self.names is None:
            raise AttributeError("the training rows had no names of columns")
        return self.names

    @property
    def encodings(self) -> tuple[EncodedColumn, ...]:
        """The encoding of each column of a data frame."""
        return () if self.encoder is None else self.encoder.columns_

    def takes_cells(self, X: Any) -> bool:
        """Whether `X` is to be encoded: a data frame, or an array if the encoder was fitted to arrays."""
        return self.encoder is not None and (is_frame(X) or self.encodes_arrays)

    def filled(self, sample: Any) -> InputEncoding:
        """Return the encoding with the medians of a sample (r, d) as `fill`, if the rows are dense numbers."""
        if self.encoder is not None or self.image_shape is not None or not isinstance(sample, np.ndarray):
            return self
        return replace(self, fill=np.median(sample, axis=0).astype(np.float64))

    def rows(self, X: Any) -> Array:
        """Return checked rows of numbers (r, d); frames are encoded if the training rows were encoded frames.

        If an encoder was fitted to frames, an array must have the width of encoded rows and is taken as encoded.
        Columns of frames are found by name. Missing cells are encoded, or replaced by `fill`.

        Raises
        ------
        ValueError
            If `X` has another width or other columns than in `fit`, is empty, or is not finite.
        """
        check_frame(X)
        if self.encoder is not None:
            return self.encoder.transform(X) if self.takes_cells(X) else self._encoded_rows(X)
        if self.names is not None and is_frame(X):
            X = in_order(X, self.names.tolist())
        columns = _columns_class(self.learner)()
        columns.n_features_in_, columns.image_shape_ = self.n_features, self.image_shape
        if self.names is not None:
            columns.feature_names_in_ = self.names
        return _checked(columns, X, reset=False, fill=self.fill)

    def training_rows(self, X: Any) -> Array:
        """Return checked rows as `rows` does, but always in the format of the first rows, CSR or dense.

        The scaling and the samples of rows need one format for all batches.
        """
        rows = self.rows(X)
        if self.sparse == sparse.issparse(rows):
            return rows
        return rows.toarray() if sparse.issparse(rows) else sparse.csr_matrix(ops_for(rows).to_host(rows))

    def typical_rows(self, typical: Any) -> Any:
        """Return rows with the width and dtype of checked rows: one zero row if there is an encoder, else `typical`."""
        return typical if self.encoder is None else np.zeros((1, self.width), np.float32)

    def settled(self) -> InputEncoding:
        """Drop the data that the encoder needs only for training rows, and return the input encoding."""
        if self.encoder is not None:
            # The encoder drops these data in place.
            self.encoder.forget_rows().forget_folds()
        return self

    def _encoded_rows(self, X: Any) -> Array:
        if getattr(X, "ndim", 0) != 2 or X.shape[1] != self.width or X.dtype.kind not in "fiu":
            raise ValueError(
                f"`X` must be a data frame with the columns seen in fit, got {type(X).__name__} of shape "
                f"{np.shape(X)}. Give a frame, or rows of the {self.width} numbers that `encoder_` makes of one."
            )
        check_finite(X)
        return X.astype(np.float32, copy=False)


@cache
def _columns_class(learner: str) -> Any:
    """Return a class with the name of the learner.

    Scikit-learn's checks store columns on it, and error messages show its name.
    """
    return type(learner, (BaseEstimator,), {})


def _checked(columns: Any, X: Any, *, reset: bool, fill: np.ndarray | None = None) -> Array:
    """As `check_samples`, but the error about text names the first cell of text."""
    check_frame(X)
    try:
        return check_samples(columns, X, reset=reset, fill=fill)
    except ValueError as error:
        if (found := _first_text(X)) is None:
            raise
        where, text = found
        if not reset:
            remedy = "The training rows held numbers there. Give None where a value is not known."
        elif is_frame(X):
            remedy = "Use encode='auto' or encode the column."
        else:
            remedy = "Use a data frame, whose columns are encoded, or encode the column."
        raise ValueError(
            f"`X` must hold numbers, got {text!r} in {where}: could not convert string to float. {remedy}"
        ) from error


def unfitted_encoder(
    encode: str | TableEncoder | None,
    frames: Iterable[Any],
    *,
    labels: bool,
    numbers: Callable[[Any], bool] = is_numbers,
) -> TableEncoder | None:
    """Return the encoder to be fitted, if one of the `frames` needs it; else None.

    Parameters
    ----------
    encode : "auto", None or TableEncoder
        Parameter `encode` of a learner.
    frames : iterable
        Data frames or arrays of rows; arrays need an encoder if cells are missing.
    labels : bool
        Whether targets are labels.
    numbers : callable
        ``numbers(frame)``: whether a frame holds only complete numbers.
    """
    given = isinstance(encode, TableEncoder)
    if not given and encode not in ("auto", None):
        raise ValueError(
            f"`encode` must be 'auto', None or a TableEncoder, got {encode!r}. Use 'auto' to encode frames."
        )
    if encode is None or not any((given or not numbers(X)) if is_frame(X) else lacks_cells(X) for X in frames):
        return None
    encoder: Any = clone(encode) if given else TableEncoder()
    return encoder.set_params(target_type="classes" if labels else "continuous")


def _with_floats(X: Any) -> np.ndarray:
    """Return rows (n, d) as floats, with NaN for missing cells, given an array or a list; raise if one is infinite."""
    X = np.asarray(X)
    X = X if X.dtype.kind == "f" else X.astype(np.float64)
    check_finite(np.where(np.isnan(X), 0, X))
    return X


def lacks_cells(X: Any) -> bool:
    """Whether an array or a list of rows has a missing cell; False for sparse matrices, tensors and images."""
    if sparse.issparse(X) or not isinstance(X, np.ndarray | list | tuple):
        return False
    try:
        X = np.asarray(X)
        X = X.astype(np.float64) if X.dtype.kind == "O" else X
    except (ValueError, TypeError):
        # Text and rows of different lengths raise an error later, when rows are checked.
        return False
    return X.ndim == 2 and X.dtype.kind == "f" and X.shape[1] > 0 and is_missing(X)


def frames_in(batches: Iterable[Any]) -> Iterator[Any]:
    """Return an iterator over the frames of the batches, up to the first batch whose rows are not a frame."""
    rows = (batch[0] if isinstance(batch, tuple | list) and batch else None for batch in batches)
    return takewhile(is_frame, rows)


def _first_text(X: Any) -> tuple[str, str] | None:
    """Return row, column and content of the first text cell of a frame or an array; None if no cell is text."""
    if is_frame(X):
        texts = ((f"column {name!r}", cells) for name, cells in cells_of(X).items() if cells.is_text)
        for where, cells in texts:
            for row in np.flatnonzero(np.isnan(cells.numbers()) & ~cells.missing):
                return f"{where} at row {row}", cells.texts[cells.codes[row]]
        return None
    if is_tensor(X):
        return None
    array = np.asarray(X)
    if array.dtype.kind not in "OUS" or array.ndim != 2:
        return None
    for row, column in np.ndindex(array.shape):
        cell = array[row, column]
        if isinstance(cell, str | bytes) and not _is_number(cell):
            return f"column {column} at row {row}", str(cell)
    return None


def _is_number(text: str | bytes) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


class LearnerKind(NamedTuple):
    """Properties of a learner that do not depend on rows.

    Attributes
    ----------
    name : str
        Class name of the learner, for messages.
    targets : TargetsKind
        Class that encodes the targets, or a function that chooses it from the first targets.
    encode : "auto", None or TableEncoder
        Parameter `encode` of the learner, for data frames.
    """

    name: str
    targets: TargetsKind
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

        Frames that will be encoded remain frames.
        """
        require_targets(self.learner, y)
        rows = X if self.inputs is None or self.inputs.takes_cells(X) else self.inputs.training_rows(X)
        y = self.targets.check(y, rows.shape[0])
        return rows_that_count(rows, y, check_weights(sample_weight, rows.shape[0]), wanted=wanted)

    def encoded(self, X: Any, y: Any, sample_weight: Any = None) -> Batch:
        """Check as `__call__` does, but encode frames as for prediction, and raise if no row has a positive weight."""
        X, y, weights = self(X, y, sample_weight, wanted=True)
        return X if self.inputs is None or not self.inputs.takes_cells(X) else self.inputs.rows(X), y, weights


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
    elif not is_frame(X):
        X = _with_floats(X)
    targets = kind.targets.of_first(y, X.shape[0])
    X, y, weights = RowChecks(None, targets, kind.name)(X, y, sample_weight, wanted=True)
    if inputs is None:
        assert encoder is not None
        inputs = InputEncoding.of_encoder(encoder.fit(X, y), kind.name, arrays=not is_frame(X))
        X = encoder.transform_training(X)
    return Training(inputs, targets, (X, y, weights))


def training_batches(
    batches: Iterable[tuple[Any, ...]],
    kind: LearnerKind,
    encoder: TableEncoder | None = None,
    feature_names: Iterable[str] | None = None,
    *,
    missing: bool = False,
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
    missing : bool, default=False
        Whether a batch of arrays is known to have a missing cell; otherwise the first batch of arrays decides.
    """
    X, y, _ = first_batch(batches)
    require_targets(kind.name, y)
    unfitted = None
    if encoder is None:
        frames = frames_in(batches) if is_frame(X) else [np.full((1, 1), np.nan) if missing else X]
        unfitted = unfitted_encoder(kind.encode, frames, labels=kind.targets.has_labels)
    targets = kind.targets.of_first(y, len(y))
    if unfitted is not None:
        frames = CheckedBatches(RowChecks(None, targets, kind.name), batches)
        fitted = unfitted.fit_batches((rows, y) for rows, y, _ in frames)
        inputs = InputEncoding.of_encoder(fitted, kind.name, arrays=not is_frame(X))
        return Training(inputs, targets, EncodedBatches(frames, fitted))
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
