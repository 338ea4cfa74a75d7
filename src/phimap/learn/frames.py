"""Data frames in learners: what holds more than complete numbers is encoded before all else."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Self

import numpy as np
from sklearn.base import clone

from phimap._validation import check_finite, check_samples
from phimap.learn.rows.batches import Batch
from phimap.learn.rows.scaling import Scaling, check_standardisation
from phimap.ops import Array
from phimap.tables import EncodedColumn, TableEncoder
from phimap.tables.frames import cells_of, check_frame, is_frame, is_numbers

# Columns that are named in a note.
_TOLD = 10


class FrameRows:
    """The half of a learner that makes rows of numbers of whatever it is given.

    Attributes
    ----------
    encoder_ : TableEncoder or None
        What encodes data frames; None where the training rows were numbers.
    """

    encode: str | TableEncoder | None
    standardize: str | bool
    verbose: bool
    scaling_: Scaling
    encoder_: TableEncoder | None = None
    n_features_in_: int
    feature_names_in_: np.ndarray
    image_shape_: tuple[int, int, int] | None
    _sparse: bool

    @property
    def _row_width(self) -> int:
        """Columns d of the rows that the kernel sees."""
        return self.n_features_in_ if self.encoder_ is None else self.encoder_.n_columns_out_

    def _start_encoder(
        self, frames: Iterable[Any], *, labels: bool, numbers: Callable[[Any], bool] = is_numbers
    ) -> None:
        """Forget what encoded rows before; an encoder, not fitted yet, where one of the frames is to be encoded.

        `numbers` tells whether a frame holds complete numbers.
        """
        vars(self).pop("encoder_", None)
        given = isinstance(self.encode, TableEncoder)
        if not given and self.encode not in ("auto", None):
            raise ValueError(
                f"`encode` must be 'auto', None or a TableEncoder, got {self.encode!r}. Use 'auto' to encode frames."
            )
        if self.encode is not None and any(is_frame(X) and (given or not numbers(X)) for X in frames):
            encoder: Any = clone(self.encode) if given else TableEncoder()
            self.encoder_ = encoder.set_params(target_type="classes" if labels else "continuous")

    def _takes_frame(self, X: Any) -> bool:
        """Whether training rows are a frame for the encoder."""
        return self.encoder_ is not None and is_frame(X)

    def _use_encoder(self, encoder: TableEncoder) -> None:
        """Make a fitted encoder that of the model, whose columns are the raw ones from now on."""
        self.encoder_, self.image_shape_, self._sparse = encoder, None, encoder.is_sparse_
        self.n_features_in_ = encoder.n_features_in_
        self.feature_names_in_ = np.array([column.name for column in encoder.columns_], dtype=object)

    def _encoded(self, X: Any, y: np.ndarray) -> Array:
        """Checked training rows of a frame as numbers; an encoder that is not fitted yet is fitted to them first."""
        assert self.encoder_ is not None
        if self.encoder_.__sklearn_is_fitted__():
            return self.encoder_.transform(X)
        self._use_encoder(self.encoder_.fit(X, y))
        return self.encoder_.transform_training(X)

    def _settled(self) -> Self:
        """The model, whose encoder has served its training rows; if `verbose`, constant columns are told."""
        if self.encoder_ is not None:
            # The summary has the columns that it leaves out.
            self.encoder_.forget_rows().forget_folds()
        elif self.verbose and (constant := np.flatnonzero(self.scaling_.factor == 0)).size:
            names = getattr(self, "feature_names_in_", range(self.n_features_in_))
            told = ", ".join(repr(names[column]) for column in constant[:_TOLD])
            more = f" and {constant.size - _TOLD} more" if constant.size > _TOLD else ""
            sys.stderr.write(f"note: left out as columns: {told}{more} (constant).\n")
        return self

    def _standardisation(self) -> str | bool:
        """How rows are scaled: those that are encoded have their scale."""
        kind = check_standardisation(self.standardize)
        return "mean" if kind == "auto" and self.encoder_ is not None else kind

    def _encodings(self) -> tuple[EncodedColumn, ...]:
        """What the encoder makes of each column."""
        return () if self.encoder_ is None else self.encoder_.columns_

    def _rows_of(self, X: Any, *, reset: bool = False) -> Array:
        """Checked rows of numbers; those of frames are encoded where the training rows were.

        An array as wide as encoded rows is taken for such.
        """
        check_frame(X)
        if self.encoder_ is not None:
            return self.encoder_.transform(X) if is_frame(X) else self._encoded_rows(X)
        try:
            return check_samples(self, X, reset=reset)
        except ValueError as error:
            if (found := _first_text(X)) is None:
                raise
            where, text = found
            remedy = "encode='auto'" if is_frame(X) else "a data frame, whose columns are encoded,"
            raise ValueError(
                f"`X` must hold numbers, got {text!r} in {where}: could not convert string to float. Use {remedy} or "
                "encode the column."
            ) from error

    def _encoded_rows(self, X: Any) -> Array:
        width = self._row_width
        if getattr(X, "ndim", 0) != 2 or X.shape[1] != width or X.dtype.kind not in "fiu":
            raise ValueError(
                f"`X` must be a data frame with the columns seen in fit, got {type(X).__name__} of shape "
                f"{np.shape(X)}. Give a frame, or rows of the {width} numbers that `encoder_` makes of one."
            )
        check_finite(X)
        return X.astype(np.float32, copy=False)


def frames_in(batches: Iterable[Any]) -> Iterator[Any]:
    """The frames of batches, if the first one has a frame."""
    rows = (batch[0] if isinstance(batch, tuple | list) and batch else None for batch in batches)
    return takewhile(is_frame, rows)


@dataclass(frozen=True)
class EncodedBatches:
    """Batches of frames as rows of numbers, each time they are gone through.

    Attributes
    ----------
    batches : iterable of (X, y, weights)
        All training rows, in the order in which the encoder saw them.
    encoder : TableEncoder
    """

    batches: Iterable[Batch]
    encoder: TableEncoder

    def __iter__(self) -> Iterator[Batch]:
        first_row = 0
        for X, y, weights in self.batches:
            yield self.encoder.transform_training(X, first_row), y, weights
            first_row += X.shape[0]


def _first_text(X: Any) -> tuple[str, str] | None:
    """Place and content of the first cell of a frame or an array that is text; None where there is none."""
    if is_frame(X):
        texts = ((f"column {name!r}", cells) for name, cells in cells_of(X).items() if cells.is_text)
        for where, cells in texts:
            for row in np.flatnonzero(np.isnan(cells.numbers()) & ~cells.missing):
                return f"{where} at row {row}", cells.texts[cells.codes[row]]
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
