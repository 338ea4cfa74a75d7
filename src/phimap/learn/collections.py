"""Learners on Dask arrays and data frames, whose rows stay on their workers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import numpy as np

from phimap._dask import blocks_of, computed, is_dask, is_dask_frame, len_of, lengths_of, task, typical_rows
from phimap.learn.fit import FitResult, batch_height, fit
from phimap.learn.fitted import Fitted
from phimap.learn.inputs import InputEncoding, LearnerKind, RowChecks, checks_of_numbers, unfitted_encoder
from phimap.learn.rows.accumulator import Accumulator, PartedRows
from phimap.learn.rows.batches import ArrayBatches, Batch, CheckedBatches, RowShape
from phimap.learn.rows.scaling import ColumnMoments
from phimap.learn.settings import FitSettings
from phimap.learn.weights import check_weights
from phimap.tables import TableEncoder
from phimap.tables.frames import is_numbers


class PredictionScore(Accumulator):
    """The score of a model: R2 or D2 of a regressor, averaged over targets, or the share of correct labels.

    R2 and the share of correct labels need only sums over the rows. D2 needs a constant that is fitted to all targets,
    so the targets and predictions are collected in this process.

    Parameters
    ----------
    fitted : Fitted
    predict : callable
        ``predict(fitted, rows)`` gives predicted targets.

    Attributes
    ----------
    moments : ColumnMoments
        Moments of the targets; for a classifier, moments of an indicator of correct predictions.
    sums : ndarray of shape (t,) or float
        Weighted sums of squared errors, or total weight of the correctly predicted rows.
    gathered : tuple of (targets, predictions, weights)
        One entry for each batch, for D2; empty for other scores.
    """

    _parts = ("moments", "sums", "gathered")

    def __init__(self, fitted: Fitted, predict: Callable[[Fitted, Any], np.ndarray]):
        self._fitted, self._predict = fitted, predict
        self.moments, self.sums = ColumnMoments.empty(), np.float64(0)
        self.gathered: tuple[tuple[np.ndarray, ...], ...] = ()

    def update(self, rows: Any, targets: np.ndarray, weights: np.ndarray | None) -> None:
        predicted = self._predict(self._fitted, rows)
        if not self._fitted.targets.scored_by_sums:
            self.moments.update(targets.reshape(len(targets), -1), weights)
            self.gathered += ((targets, predicted, np.ones(len(targets)) if weights is None else weights),)
            return
        if self._fitted.targets.has_labels:
            values = (predicted == targets).astype(np.float64)
            self.moments.update(values[:, None], weights)
        else:
            targets = targets.reshape(len(targets), -1)
            values = np.square(targets - predicted.reshape(targets.shape))
            self.moments.update(targets, weights)
        self.sums = self.sums + (values.sum(axis=0) if weights is None else weights @ values)

    def merge(self, later: PredictionScore) -> None:
        self.gathered += later.gathered
        self.moments.merge(later.moments)
        self.sums = self.sums + later.sums

    @property
    def score(self) -> float:
        """R2, D2 or the share of correct labels. A constant target has R2 1 if it is predicted exactly, else 0."""
        if not self.moments.n:
            raise ValueError("Found array with 0 sample(s), while a score needs at least 1. Give rows.")
        if self._fitted.targets.has_labels:
            return float(self.sums / self.moments.n)
        if self.gathered:
            return self._fitted.targets.score(*map(np.concatenate, zip(*self.gathered, strict=True)))  # pyright: ignore
        spread = self.moments.squared_deviations
        constant = np.where(self.sums > 0, 0.0, 1.0)
        return float(np.where(spread > 0, 1 - self.sums / np.where(spread > 0, spread, 1.0), constant).mean())


#: The arguments with which a part of the rows is read. For a block of a Dask collection, they are tasks that give the
#: rows, the targets and, if rows have weights, the weights of the block.
Part = tuple[Any, ...]


@dataclass(frozen=True)
class BlockReader:
    """Reads a block of a collection on the worker that holds it, and checks and encodes its rows.

    Attributes
    ----------
    checks : RowChecks
    rows : int or None
        Number of rows of a batch; None makes each block one batch.
    """

    checks: RowChecks
    rows: int | None = None

    def __call__(self, first_row: int, X: Any, y: Any, weights: Any = None) -> Iterator[Batch]:
        inputs = self.checks.inputs
        for rows, targets, counted in self._checked(first_row, X, y, weights):
            if inputs is not None and inputs.encoder is not None and inputs.takes_cells(rows):
                rows = inputs.encoder.transform_training(rows, first_row)
            yield from ArrayBatches(rows, targets, counted, self.rows or rows.shape[0])

    def frames(self, first_row: int, X: Any, y: Any, weights: Any = None) -> Iterator[tuple[Any, np.ndarray]]:
        """Yield the rows and targets on which an encoder is fitted."""
        for rows, targets, _ in self._checked(first_row, X, y, weights):
            yield rows, targets

    def _checked(self, first_row: int, X: Any, y: Any, weights: Any) -> Iterator[Batch]:
        """Yield the rows of positive weight as one batch; yield nothing if there are no such rows."""
        if not len_of(X):
            return
        try:
            batch = self.checks(X, y, weights)
        except (ValueError, TypeError) as error:
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"{error} Rows count from row {first_row} of the collection, where its block begins.") from None
        if len_of(batch[0]):
            yield batch


def fit_collection(
    X: Any, y: Any, sample_weight: Any, groups: Any, kind: LearnerKind, settings: FitSettings
) -> FitResult:
    """Fit a learner on Dask collections, see `KernelModel.fit`."""
    _refuse_units(groups, settings)
    parts = _parts(X, y, sample_weight)
    counts, complete = _counts(X, parts, looks=_looks(kind, X))
    n_rows, first_rows = sum(counts), [0, *accumulate(counts)][:-1]
    typical = typical_rows(X)
    encoder = unfitted_encoder(
        kind.encode,
        [typical],
        labels=kind.targets.has_labels,
        numbers=lambda rows: complete and is_numbers(rows),
    )
    targets = kind.targets.of_first(np.ones((1, *_shape(y)[1:])), 1)
    if encoder is None:
        inputs, rows = InputEncoding.of_numbers(typical, kind.name)
        itemsize = rows.dtype.itemsize
    else:
        numbered = [(first_row, *part) for first_row, part in zip(first_rows, parts, strict=True)]
        frames = BlockReader(RowChecks(None, targets, kind.name)).frames
        inputs = InputEncoding.of_encoder(encoder._fit_parts(numbered, frames), kind.name)
        itemsize = np.dtype(np.float32).itemsize
    shape = RowShape(itemsize=itemsize)
    height = batch_height(settings, n_rows, n_rows, settings.width_for(inputs.width), shape)
    reader = BlockReader(RowChecks(inputs, targets, kind.name), height)
    return fit(PartedRows(parts, first_rows, reader), inputs, targets, settings)


def fit_parts(
    parts: Sequence[Part],
    first_rows: Sequence[int],
    read: Callable[..., Iterable[tuple[Any, np.ndarray]]],
    encoder: TableEncoder | None,
    kind: LearnerKind,
    settings: FitSettings,
    feature_names: Sequence[str] | None = None,
) -> FitResult:
    """Fit a learner on parts of rows that the workers read themselves, see `KernelModel.fit_parts`."""
    _refuse_units(None, settings)
    # The kinds of inputs and targets are inferred from the first batch.
    X, y = next(iter(read(*parts[0])))
    targets = kind.targets.of_first(y, len(y))
    inputs, checks = checks_of_numbers(X, targets, kind, encoder, feature_names)
    rows = PartedRows(parts, first_rows, lambda first_row, *part: CheckedBatches(checks, read(*part)))
    return fit(rows, inputs, targets, settings)


def score_collection(
    fitted: Fitted, predict: Callable[[Fitted, Any], np.ndarray], X: Any, y: Any, sample_weight: Any
) -> float:
    """Return the score of a model on Dask collections: R2, averaged over targets, or the share of correct labels.

    Parameters
    ----------
    fitted : Fitted
    predict : callable
        ``predict(fitted, rows)`` gives predicted targets; it is sent to the workers.
    X, y, sample_weight : Dask collections
        Collections with the same blocks of rows; `sample_weight` may be None.
    """
    parts = _parts(X, y, sample_weight)
    checks = RowChecks(fitted.inputs, fitted.targets, fitted.inputs.learner)
    # The names of the columns are checked when a block is read. Afterwards the rows are arrays without names.
    nameless = replace(fitted, inputs=replace(fitted.inputs, names=None))
    blocks = PartedRows(parts, [0] * len(parts), BlockReader(checks))
    return blocks.accumulate(lambda first_row: PredictionScore(nameless, predict)).score


def _refuse_units(groups: Any, settings: FitSettings) -> None:
    """Raise an error if rows on the workers of a cluster would have to be held out by groups or in time."""
    if groups is not None or settings.last:
        given = "`groups`" if groups is not None else "`validation`='last'"
        raise ValueError(
            f"{given} needs the rows in one process, got rows on the workers of a cluster. Compute the collection, or "
            "use fit_batches."
        )


def _parts(X: Any, y: Any, sample_weight: Any) -> list[Part]:
    """Return the rows, targets and weights of each block, as tasks."""
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
        listed = ", ".join(f"{name} {known.get(name, sizes[name])}" for name in given)
        raise ValueError(
            f"`X` and `y` must be cut into the same blocks of rows, got {listed} (rows of each block, or their "
            "number). Use rechunk or repartition."
        )
    return list(zip(*blocks.values(), strict=True))


def _looks(kind: LearnerKind, X: Any) -> bool:
    """Return whether the cells of `X` must be read to decide whether `X` needs an encoder.

    The result is True for a frame of numbers in which cells may be missing.
    """
    if not is_dask_frame(X) or kind.encode is None or isinstance(kind.encode, TableEncoder):
        return False
    return is_numbers(X._meta_nonempty) and any(getattr(dtype, "kind", "O") == "f" for dtype in X.dtypes)


def _counts(X: Any, parts: list[Part], *, looks: bool) -> tuple[list[int], bool]:
    """Return the number of rows of positive weight in each block, and whether all cells hold numbers.

    Cells are read only if `looks`; otherwise the second result is True.
    """
    lengths = lengths_of(X)
    if lengths is not None and len(parts[0]) == 2:
        return list(lengths), True
    # Without `looks`, the tasks read only targets and weights.
    found = computed([task(_counted, part[0] if looks else None, *part[1:]) for part in parts])
    return [count for count, _ in found], all(complete for _, complete in found)


def _counted(X: Any, y: Any, weights: Any = None) -> tuple[int, bool]:
    n_rows, complete = len_of(y), X is None or is_numbers(X)
    counted = check_weights(weights, n_rows) if n_rows else None
    return n_rows if counted is None else int((counted > 0).sum()), complete


def _shape(y: Any) -> tuple[int, ...]:
    """Return the shape of the targets; the first entry is 0 for a data frame, whose number of rows may be unknown."""
    return (0, *y._meta.shape[1:]) if is_dask_frame(y) else y.shape
