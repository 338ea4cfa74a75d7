"""Dask arrays and data frames in learners: rows that stay where they are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

from phimap._dask import blocks_of, computed, is_dask, is_dask_frame, len_of, lengths_of, task, typical_rows
from phimap.learn.rows.batches import ArrayBatches, Batch, RowShape
from phimap.learn.rows.parted_rows import PartedRows
from phimap.learn.rows.prediction_errors import Hits, SquaredErrors
from phimap.learn.rows.weights import check_weights
from phimap.tables import TableEncoder
from phimap.tables.frames import is_numbers

#: Rows, targets and weights of a block, tasks; without weights the third is left out.
Part = tuple[Any, ...]


@dataclass(frozen=True)
class BlockReader:
    """Reads a block of a collection where it is: its rows are checked, and encoded where the model has an encoder.

    Attributes
    ----------
    model : KernelModel
        Without training rows of its own.
    rows : int or None
        Of a batch; None takes a block at once.
    """

    model: Any
    rows: int | None = None

    def __call__(self, first_row: int, X: Any, y: Any, weights: Any = None) -> Iterator[Batch]:
        for rows, targets, counted in self._checked(first_row, X, y, weights):
            if self.model._takes_frame(rows):
                rows = self.model.encoder_.transform_training(rows, first_row)
            yield from ArrayBatches(rows, targets, counted, self.rows or rows.shape[0])

    def frames(self, first_row: int, X: Any, y: Any, weights: Any = None) -> Iterator[tuple[Any, np.ndarray]]:
        """Rows with their targets, as an encoder sees them."""
        for rows, targets, _ in self._checked(first_row, X, y, weights):
            yield rows, targets

    def _checked(self, first_row: int, X: Any, y: Any, weights: Any) -> Iterator[Batch]:
        """The rows of positive weight, if there are any."""
        if not len_of(X):
            return
        try:
            batch = self.model._check_rows(X, y, weights, reset=False)
        except (ValueError, TypeError) as error:
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"{error} Rows count from row {first_row} of the collection, where its block begins.") from None
        if len_of(batch[0]):
            yield batch


def fit_collection(model: Any, X: Any, y: Any, sample_weight: Any) -> Any:
    """Fit a learner on Dask collections, see `KernelModel.fit`."""
    parts = _parts(X, y, sample_weight)
    counts, complete = _counts(X, parts, looks=_looks(model, X))
    n_rows, first_rows = sum(counts), [0, *accumulate(counts)][:-1]
    typical = typical_rows(X)
    model._start_encoder([typical], labels=model._has_labels, numbers=lambda rows: complete and is_numbers(rows))
    model._check_targets(np.zeros((1, *_shape(y)[1:])), 1, reset=True)
    if model.encoder_ is None:
        itemsize = model._number_rows(typical, reset=True).dtype.itemsize
    else:
        numbered = [(first_row, *part) for first_row, part in zip(first_rows, parts, strict=True)]
        model._use_encoder(model.encoder_._fit_parts(numbered, BlockReader(model._for_tasks()).frames))
        itemsize = np.dtype(np.float32).itemsize
    reader = BlockReader(model._for_tasks(), model._batch_height(n_rows, n_rows, RowShape(itemsize=itemsize)))
    return model._fit(PartedRows(parts, first_rows, reader))._settled()


@dataclass(frozen=True)
class PartReader:
    """Reads a part of the rows of a file: batches that are checked like those of `fit_batches`."""

    model: Any
    read: Callable[..., Iterable[tuple[Any, np.ndarray]]]

    def __call__(self, first_row: int, *part: Any) -> Iterator[Batch]:
        for X, y in self.read(*part):
            batch = self.model._check_training(X, y, reset=False)
            if batch[0].shape[0]:
                yield batch


def fit_parts(
    model: Any,
    parts: Sequence[Part],
    first_rows: Sequence[int],
    read: Callable[..., Iterable[tuple[Any, np.ndarray]]],
    encoder: TableEncoder | None = None,
) -> Any:
    """Fit a learner on parts of rows that the tasks read themselves.

    Parameters
    ----------
    model : KernelModel
    parts : sequence of tuples
        Arguments of `read`.
    first_rows : sequence of int
        Rows that come before each part.
    read : callable
        ``read(*part)`` gives the batches (X, y) of a part; it is sent to the workers.
    encoder : TableEncoder, optional
        What has encoded the rows, as for `KernelModel.fit_batches`.
    """
    model._start_encoder((), labels=model._has_labels)
    if encoder is not None:
        model._use_encoder(copy(encoder))
    # The first batch says what all rows are.
    model._check_training(*next(iter(read(*parts[0]))), reset=True)
    return model._fit(PartedRows(parts, first_rows, PartReader(model._for_tasks(), read)))._settled()


class CollectionScores:
    """The half of a learner that scores Dask collections."""

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Score predictions: R2 of a regressor, the mean over targets; the share of right labels of a classifier.

        Parameters
        ----------
        X : array-like, data frame, CSR matrix, torch.Tensor or Dask collection of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_targets); a Dask collection where `X` is one
        sample_weight : array-like of shape (n_samples,), optional
            A Dask collection where `X` is one.

        Returns
        -------
        float
        """
        if not is_dask(X):
            return super().score(X, y, sample_weight)  # pyright: ignore[reportAttributeAccessIssue]
        model: Any = self
        parts = _parts(X, y, sample_weight)
        # Fails at once where rows do not suit the model.
        model.predict(X)
        sent = model._for_tasks()
        # Blocks are compared with the names of columns when they are read; what is scored of them are arrays.
        nameless = model._for_tasks()
        vars(nameless).pop("feature_names_in_", None)
        errors = (Hits if model._has_labels else SquaredErrors).of(nameless)
        return PartedRows(parts, [0] * len(parts), BlockReader(sent)).fold(errors).score


def _parts(X: Any, y: Any, sample_weight: Any) -> list[Part]:
    """The blocks of rows, targets and weights, side by side."""
    given = {"X": X, "y": y} | ({} if sample_weight is None else {"sample_weight": sample_weight})
    blocks, known = {}, {}
    for name, one in given.items():
        if not is_dask(one):
            raise TypeError(
                f"`{name}` must be a Dask collection, as the others are, got {type(one).__name__}. "
                "Use dask.array.from_array, or compute the others."
            )
        blocks[name] = blocks_of(one, name)
        if (lengths := lengths_of(one)) is not None:
            known[name] = lengths
    sizes = {name: len(found) for name, found in blocks.items()}
    if len(set(sizes.values())) > 1 or len(set(known.values())) > 1:
        told = ", ".join(f"{name} {known.get(name, sizes[name])}" for name in given)
        raise ValueError(
            f"`X` and `y` must be cut into the same blocks of rows, got {told} (rows of each block, or their number). "
            "Use rechunk or repartition."
        )
    return list(zip(*blocks.values(), strict=True))


def _looks(model: Any, X: Any) -> bool:
    """Whether only the cells tell if a frame is to be encoded: types that hold numbers, some perhaps missing."""
    if not is_dask_frame(X) or model.encode is None or isinstance(model.encode, TableEncoder):
        return False
    return is_numbers(X._meta_nonempty) and any(getattr(dtype, "kind", "O") == "f" for dtype in X.dtypes)


def _counts(X: Any, parts: list[Part], *, looks: bool) -> tuple[list[int], bool]:
    """Rows of positive weight of each block, and whether all cells hold numbers, where that is to be looked at."""
    lengths = lengths_of(X)
    if lengths is not None and len(parts[0]) == 2:
        return list(lengths), True
    # Targets alone are read where the cells need not be seen.
    found = computed([task(_counted, part[0] if looks else None, *part[1:]) for part in parts])
    return [count for count, _ in found], all(complete for _, complete in found)


def _counted(X: Any, y: Any, weights: Any = None) -> tuple[int, bool]:
    n_rows, complete = len_of(y), X is None or is_numbers(X)
    counted = check_weights(weights, n_rows) if n_rows else None
    return n_rows if counted is None else int((counted > 0).sum()), complete


def _shape(y: Any) -> tuple[int, ...]:
    """Shape of targets, whose rows may not be known."""
    return (0, *y._meta.shape[1:]) if is_dask_frame(y) else y.shape
