"""Batches of training rows: streams of (X, y, weights) that can be iterated over several times."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from phimap.config import fits_budget, memory_budget, size_text
from phimap.ops import Array

# Usual and least number of rows of a batch, whose features are formed together and added to the Gram matrix. With the
# usual number, starting tasks and adding a block to the sum in float64 cost little compared with the matrix product.
_ROWS, _LEAST_ROWS = 4096, 256
# Largest number of rows of a batch. A batch has more than 4,096 rows only while its features take fewer than these
# bytes. With few features, the matrix product of 4,096 rows takes so little time that starting tasks and adding blocks
# would dominate.
_MOST_ROWS, _FEW_BYTES = 16384, 64 * 2**20
# Largest number of bytes for the features of a batch, unless `_LEAST_ROWS` rows need more.
_BATCH_BYTES = 256 * 2**20

# Number of arrays as large as a batch's inputs that exist while the batch is scaled and its moments are formed. Number
# of float64 arrays as large as a batch's targets that exist while the targets are encoded and multiplied with the
# features.
_INPUTS, _TARGETS = 3, 7
# Largest number of rows of the sample. 4,096 rows give the mean squared error to about 3 %, and the differences of this
# error between values of alpha much more accurately. A smaller sample would often miss the few rows far from all
# others, at which a fit with too small an alpha fails.
CAPACITY = 4096
# Largest number of bytes of the sample's dense rows; rows that exceed it are usually images. The sample takes at most
# the byte budget divided by `_SAMPLE_SHARE`, but has at least `_LEAST_SAMPLE` rows, which suffice for a length scale.
_SAMPLE_BYTES, _SAMPLE_SHARE, _LEAST_SAMPLE = 2**28, 8, 1000
# Number of samples kept: the sample, and for some maps a wider sample that contains it.
_SAMPLES = 2
# Number of arrays as large as the least sample that must fit the budget while a kernel is chosen: both samples, the
# sample of the search scaled with and without a metric, and intermediate results. The keys are the bytes of a number.
# For float32 rows, results in float64 are counted as two arrays.
_SAMPLE_ARRAYS = {4: 8, 8: 5}

# Number of batches of inputs that must fit the byte budget. About ten of these batches exist at a time; the rest of the
# memory is for features.
_BATCHES_IN_BUDGET = 32

#: Rows, their targets, and their positive weights; the weights are None if all are one.
Batch = tuple[Array, Any, np.ndarray | None]


@dataclass(frozen=True)
class ArrayBatches:
    """Rows in memory, cut into batches of `rows` rows. A batch is a view, not a copy."""

    X: Array
    y: Any
    weights: np.ndarray | None
    rows: int

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.X.shape[0]

    def __iter__(self) -> Iterator[Batch]:
        for start in range(0, self.X.shape[0], self.rows):
            part = slice(start, start + self.rows)
            yield self.X[part], self.y[part], None if self.weights is None else self.weights[part]


def feature_rows(n_components: int, itemsize: int) -> int:
    """Return the number of rows of a batch, if the byte budget does not require fewer.

    The number depends only on the bytes of the features of one row.
    """
    row_bytes = n_components * itemsize
    rows = np.clip(_FEW_BYTES // row_bytes, _ROWS, _MOST_ROWS)
    return int(max(_LEAST_ROWS, min(rows, _BATCH_BYTES // row_bytes)))


@dataclass(frozen=True)
class RowShape:
    """Size of a training row, apart from its features.

    Attributes
    ----------
    n_columns : int
        Number of dense columns; 0 for CSR rows, which take few bytes.
    itemsize : int
        Bytes of a number.
    n_targets : int
    """

    n_columns: int = 0
    itemsize: int = 8
    n_targets: int = 1

    @classmethod
    def of(cls, X: Array, n_targets: int) -> RowShape:
        """Return the shape of the rows of `X`."""
        return cls(0 if sparse.issparse(X) else X.shape[1], X.dtype.itemsize, n_targets)

    @property
    def in_batch(self) -> int:
        """Bytes needed for a row of a batch in addition to its features."""
        return _INPUTS * self.n_columns * self.itemsize + 8 * _TARGETS * (self.n_targets - 1)

    def kept(self, n_rows: int, budget: int) -> int:
        """Return the bytes of the samples of a stream of `n_rows` rows."""
        row_bytes = self.n_columns * self.itemsize
        rows = min(n_rows, sample_rows(CAPACITY, row_bytes, sample_bytes(budget)))
        return _SAMPLES * rows * (row_bytes + 8 * self.n_targets)


def sample_bytes(budget: int, *, wider: bool = False) -> int:
    """Return the byte limit of the sample, or of the `wider` sample. A sample of the least size may exceed it."""
    share = budget // _SAMPLE_SHARE
    return share if wider else min(share, _SAMPLE_BYTES)


def sample_rows(most_rows: int, row_bytes: int, most_bytes: int | None = None) -> int:
    """Return the number of rows of `row_bytes` each that a sample keeps: at most `most_rows`, fewer if they are large.

    At least a thousand rows are kept, if `most_rows` allows.
    """
    most_bytes = _SAMPLE_BYTES if most_bytes is None else most_bytes
    return min(most_rows, max(_LEAST_SAMPLE, most_bytes // max(1, row_bytes)))


def require_sample(n_rows: int, n_columns: int, itemsize: int, budget: int) -> None:
    """Raise MemoryError if the budget is too small for the arrays made from the sample of a stream of `n_rows` rows."""
    row_bytes = n_columns * itemsize
    n_rows = min(n_rows, sample_rows(CAPACITY, row_bytes, sample_bytes(budget)))
    needed = _SAMPLE_ARRAYS[itemsize] * n_rows * row_bytes
    if needed > budget:
        raise MemoryError(
            f"what is made of a sample of {n_rows} rows of {size_text(row_bytes)} needs {size_text(needed)} at least, "
            f"over the budget of {size_text(budget)}. Use fewer columns, or raise `memory`."
        )


def batch_rows(n_components: int, itemsize: int, budget: int, kept: int, shape: RowShape = RowShape()) -> int:
    """Return the number of rows of a batch.

    The number of features determines it, unless the byte budget requires fewer rows.

    Parameters
    ----------
    n_components, itemsize : int
    budget : int
        Bytes that the fit may use.
    kept : int
        Bytes that the solver holds in addition to a batch.
    shape : RowShape, optional
        Size of a row apart from its features; by default only the features count.

    Raises
    ------
    MemoryError
        If the solver and the smallest batch do not fit the budget.
    """
    rows, row_bytes = feature_rows(n_components, itemsize), n_components * itemsize + shape.in_batch
    least = _least_rows(n_components, itemsize, shape)
    while rows > least and kept + rows * row_bytes > budget:
        rows = max(least, rows // 2)
    needed = kept + rows * row_bytes
    if needed > budget:
        columns = f" to rows of {shape.n_columns} columns" if shape.n_columns else ""
        targets = f" with {shape.n_targets} targets" if shape.n_targets > 1 else ""
        raise MemoryError(
            f"a fit of `n_components`={n_components}{columns}{targets} needs {size_text(needed)}, over the budget of "
            f"{size_text(budget)}. Use fewer components, solver='auto', or raise `memory`."
        )
    return rows


def rows_to_predict(n_rows: int, n_components: int, itemsize: int, shape: RowShape) -> int:
    """Return the number of rows that are predicted at a time, out of `n_rows`, within half of the byte budget.

    The other half is for the model and for arrays that are computed from the features.
    """
    rows = min(max(n_rows, 1), feature_rows(n_components, itemsize))
    if fits_budget(2 * rows * (n_components * itemsize + shape.in_batch)):
        return rows
    return batch_rows(n_components, itemsize, memory_budget() // 2, 0, shape)


def rows_within(rows: int, row_bytes: int, budget: int) -> int:
    """Return the number of rows to read at a time: `rows`, or fewer if `row_bytes` is large for the budget.

    Several copies of a batch exist at a time: in use, being decoded, waiting, and converted to float64.
    """
    return int(np.clip(budget // (_BATCHES_IN_BUDGET * row_bytes), 1, rows))


def smallest_batch(n_components: int, itemsize: int, shape: RowShape = RowShape()) -> int:
    """Return the number of bytes of the smallest batch, for its features and the other arrays of its rows."""
    return _least_rows(n_components, itemsize, shape) * (n_components * itemsize + shape.in_batch)


def _least_rows(n_components: int, itemsize: int, shape: RowShape) -> int:
    # If the columns and targets of a row take more bytes than its features, the least batch has fewer rows: each row
    # takes so much work that small batches cost little.
    return max(1, min(_LEAST_ROWS, _LEAST_ROWS * n_components * itemsize // max(1, shape.in_batch)))


def require_reiterable(batches: Iterable[Any]) -> None:
    """Raise if `batches` can be iterated only once."""
    if iter(batches) is batches:
        raise TypeError(
            "`batches` must be iterable more than once, got a one-shot iterator: training takes two passes. "
            "Pass a list, an opened table's batches as an object with __iter__, or use partial_fit."
        )


@dataclass(frozen=True)
class CheckedBatches:
    """A user's batches, each checked like the arguments of `fit` at each iteration.

    Attributes
    ----------
    check : callable
        ``check(X, y, sample_weight)`` gives the checked batch.
    batches : iterable of (X, y) or (X, y, sample_weight)
        Batches whose rows all have weight zero are left out.
    """

    check: Callable[..., Batch]
    batches: Iterable[tuple[Any, ...]]

    @property
    def n_rows(self) -> int | None:
        """Number of rows; None if the batches do not state it."""
        return getattr(self.batches, "n_rows", None)

    def __iter__(self) -> Iterator[Batch]:
        for batch in self.batches:
            X, y, weights = self.check(*_triple(batch))
            if X.shape[0]:
                yield X, y, weights


def first_batch(batches: Iterable[tuple[Any, ...]]) -> tuple[Any, Any, Any]:
    """Return the first batch (X, y, sample_weight), from which the kind of all rows is inferred."""
    for batch in batches:
        return _triple(batch)
    raise ValueError("the training data are empty: no batch of rows was given. Give at least 2 rows.")


def _triple(batch: Any) -> tuple[Any, Any, Any]:
    """Return a user's batch as (X, y, sample_weight); sample_weight is None if the batch has no weights."""
    if not isinstance(batch, tuple | list) or len(batch) not in (2, 3):
        raise TypeError(
            f"`batches` must hold pairs (X, y), or (X, y, sample_weight), got {type(batch).__name__} as one of "
            "them. Put a single pair into a list, [(X, y)], or call fit(X, y)."
        )
    X, y, *weights = batch
    return X, y, weights[0] if weights else None
