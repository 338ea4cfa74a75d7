"""Blocks of features: arrays, tensors, CSR matrices, packed bits, or features formed when needed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from phimap.learn.blocks.centred_rows import CentredRows, DenseRows, PackedRows
from phimap.learn.blocks.triangle import BLOCK, STRIP, BlockTriangle, add_to
from phimap.learn.weights import weighted_mean
from phimap.ops import Array, is_tensor, ops_for, run_tasks
from phimap.packed import PackedArray

#: Features (r, m): an array, a tensor, a CSR matrix or a packed array.
Features = Array | PackedArray
#: ``Z^T Y`` (m, t), and the sums of the columns of Z (m,); both on the host, float64.
CrossProducts = tuple[np.ndarray, np.ndarray]
# Number of rows whose products with targets are summed in the dtype of the features. Further sums are in float64.
_SUMMED_ROWS = 256


class FeatureBlock(ABC):
    """Features (r, m) of some rows, and the products with them that solvers need.

    Products are computed in the dtype and on the device of the features. The results do not depend on `n_jobs`. If a
    kind of block does not define a method, the method uses the dense form of the block.

    Attributes
    ----------
    features : array, tensor, CSR matrix or PackedArray of shape (r, m)
    """

    features: Features

    def __init__(self, features: Any):
        self.features = features

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""
        n_rows, n_columns = self.features.shape
        return n_rows, n_columns

    @property
    def dtype(self) -> np.dtype:
        """Dtype of the features, float32 or float64."""
        return ops_for(self.features).dtype

    @property
    def eps(self) -> float:
        """Machine epsilon of the features."""
        return float(np.finfo(self.dtype).eps)

    def add_gram(self, gram: BlockTriangle, sign: int, n_jobs: int | None) -> None:
        """Add `sign`, 1 or -1, times ``Z^T Z`` (m, m) to `gram`."""
        self.to_dense().add_gram(gram, sign, n_jobs)

    def cross_products(self, Y: np.ndarray, n_jobs: int | None, weights: np.ndarray | None = None) -> CrossProducts:
        """``Z^T Y`` for float64 `Y` (r, t), and the sums of the columns. A row of weight w counts like w rows."""
        return self.to_dense().cross_products(Y, n_jobs, weights)

    @abstractmethod
    def times(self, W: np.ndarray, n_jobs: int | None) -> np.ndarray:
        """``Z W`` (r, t) on the host, in the dtype of the features."""

    def gram_times(self, V: np.ndarray, weights: np.ndarray, n_jobs: int | None) -> np.ndarray:
        """``Z^T diag(weights) Z V`` (m, k) on the host, float64."""
        return self.cross_products(weights[:, None] * self.times(V, n_jobs), n_jobs)[0]

    def scaled(self, factors: np.ndarray) -> FeatureBlock:
        """The block with its rows multiplied by `factors` (r,), in the dtype of the block."""
        return self.to_dense().scaled(factors)

    def columns(self, index: np.ndarray) -> FeatureBlock:
        """The block with the features at `index`, in this order."""
        return self.to_dense().columns(index)

    def rows(self, index: np.ndarray) -> FeatureBlock:
        """A copy of the rows at `index`, on the same device."""
        return feature_block(self.features[index])

    @abstractmethod
    def to_dense(self) -> FeatureBlock:
        """The features as a dense block on the same device."""

    def to_host(self) -> np.ndarray:
        """The features as a dense array on the host, which may share memory with the block."""
        return self.to_dense().to_host()

    def host_copy(self) -> FeatureBlock:
        """The block on the host. It is a copy if other code may overwrite the memory of the block."""
        return self

    @classmethod
    @abstractmethod
    def stacked(cls, blocks: Sequence[FeatureBlock]) -> FeatureBlock:
        """One block with the rows of several blocks. Each of these must be the result of `host_copy`."""

    def centred(self, n_jobs: int | None, weights: np.ndarray | None = None) -> CentredRows:
        """The rows minus their mean, weighted by `weights` (r,), for the dual form of a problem."""
        return self.to_dense().centred(n_jobs, weights)


#: Features (r, m), targets (r, t) and weights (r,) of some rows.
WeightedBlock = tuple[FeatureBlock, np.ndarray, np.ndarray]


class FeatureRows(NamedTuple):
    """Features (r, m), targets (r, t) and weights (r,) of rows; the weights are None if all are one."""

    block: FeatureBlock
    targets: np.ndarray
    weights: np.ndarray | None = None

    @property
    def weights_or_ones(self) -> np.ndarray:
        """The weights (r,); an array of ones if all weights are one."""
        return np.ones(len(self.targets)) if self.weights is None else self.weights


def feature_block(features: Features | FeatureBlock) -> FeatureBlock:
    """The block with the given features; a block is returned unchanged."""
    if isinstance(features, FeatureBlock):
        return features
    if isinstance(features, PackedArray):
        return CountedBlock(features) if features.is_countable else PackedBlock(features)
    if sparse.issparse(features):
        return SparseBlock(features)
    return TensorBlock(features) if is_tensor(features) else DenseBlock(features)


class DenseBlock(FeatureBlock):
    """Features in an array on the host."""

    features: np.ndarray

    def add_gram(self, gram: BlockTriangle, sign: int, n_jobs: int | None) -> None:
        gram.add_products(self.features, sign, n_jobs)

    def cross_products(self, Y: np.ndarray, n_jobs: int | None, weights: np.ndarray | None = None) -> CrossProducts:
        Z, mean, t = self.features, weighted_mean(Y, weights), Y.shape[1]
        # The mean is subtracted first. Otherwise the rounding errors of float32 products would grow with a constant in
        # Y.
        deviations, scale = _scaled(_weighted(Y - mean, weights), weights)
        counts, count_scale = _scaled(np.ones((len(Y), 1)) if weights is None else weights[:, None], weights)
        left = np.ascontiguousarray(np.hstack([deviations, counts]).T, Z.dtype)
        products = np.zeros((t + 1, Z.shape[1]))

        def multiply(first: int) -> None:
            columns = slice(first, first + BLOCK)
            for start in range(0, len(Z), _SUMMED_ROWS):
                rows = slice(start, start + _SUMMED_ROWS)
                products[:, columns] += left[:, rows] @ Z[rows, columns]

        run_tasks(multiply, range(0, Z.shape[1], BLOCK), n_jobs)
        sums = products[t] * count_scale
        return products[:t].T * scale + np.outer(sums, mean), sums

    def times(self, W: np.ndarray, n_jobs: int | None) -> np.ndarray:
        ops = ops_for(self.features)
        return ops.to_host(ops.matmul_rows(self.features, ops.constant(W), n_jobs))

    def scaled(self, factors: np.ndarray) -> FeatureBlock:
        return type(self)(self.features * ops_for(self.features).constant(factors)[:, None])

    def columns(self, index: np.ndarray) -> FeatureBlock:
        return type(self)(ops_for(self.features).contiguous(self.features[:, index]))

    def to_dense(self) -> FeatureBlock:
        return self

    def to_host(self) -> np.ndarray:
        return ops_for(self.features).to_host(self.features)

    def host_copy(self) -> FeatureBlock:
        return DenseBlock(np.array(self.to_host()))

    @classmethod
    def stacked(cls, blocks: Sequence[FeatureBlock]) -> FeatureBlock:
        return cls(np.concatenate([block.to_host() for block in blocks]))

    def centred(self, n_jobs: int | None, weights: np.ndarray | None = None) -> CentredRows:
        return DenseRows(self.to_host(), n_jobs, weights)


class TensorBlock(DenseBlock):
    """Features in a tensor, with products on its device."""

    features: Array

    def add_gram(self, gram: BlockTriangle, sign: int, n_jobs: int | None) -> None:
        gram.add(ops_for(self.features).cross_products(self.features, self.features), sign)

    def cross_products(self, Y: np.ndarray, n_jobs: int | None, weights: np.ndarray | None = None) -> CrossProducts:
        ops, mean = ops_for(self.features), weighted_mean(Y, weights)
        sums = ops.column_sums(self.features if weights is None else self.scaled(weights).features)
        deviations, scale = _scaled(_weighted(Y - mean, weights), weights)
        cross = ops.cross_products(self.features, ops.constant(deviations))
        return cross * scale + np.outer(sums, mean), sums


class SparseBlock(FeatureBlock):
    """Features in a CSR matrix on the host. The cost of products is proportional to the number of nonzero entries.

    Sums over rows are in float64.
    """

    features: sparse.csr_array

    def add_gram(self, gram: BlockTriangle, sign: int, n_jobs: int | None) -> None:
        Z, columns = self.features.astype(np.float64), self._columns

        def add(i: int) -> None:
            rows = gram.rows(i)
            # Entries left of the diagonal block are not stored.
            product = (columns[rows] @ Z).toarray()
            add_to(gram.panel(i), product[:, rows.start :], sign)

        run_tasks(add, range(gram.n_blocks), n_jobs)

    def cross_products(self, Y: np.ndarray, n_jobs: int | None, weights: np.ndarray | None = None) -> CrossProducts:
        products = self._columns @ _weighted(np.column_stack([Y, np.ones(len(Y))]), weights)
        return products[:, :-1], products[:, -1]

    def times(self, W: np.ndarray, n_jobs: int | None) -> np.ndarray:
        return self.features @ W.astype(self.dtype, copy=False)

    def scaled(self, factors: np.ndarray) -> FeatureBlock:
        ops = ops_for(self.features)
        return SparseBlock(ops.scale_rows(self.features, ops.constant(factors)))

    def to_dense(self) -> FeatureBlock:
        return DenseBlock(self.features.toarray())

    @classmethod
    def stacked(cls, blocks: Sequence[FeatureBlock]) -> FeatureBlock:
        return cls(sparse.vstack([block.features for block in blocks], "csr"))

    @cached_property
    def _columns(self) -> sparse.csr_array:
        """The transpose (m, r) of the features, in float64."""
        return self.features.T.tocsr().astype(np.float64)


class PackedBlock(FeatureBlock):
    """Features in a packed array of codes.

    Products with a matrix unpack the array tile by tile. Sums over rows unpack the whole array.
    """

    features: PackedArray

    def times(self, W: np.ndarray, n_jobs: int | None) -> np.ndarray:
        return self.features.dot(W, n_jobs)

    def to_dense(self) -> FeatureBlock:
        return self._dense

    @cached_property
    def _dense(self) -> DenseBlock:
        return DenseBlock(self.features.to_dense())

    @classmethod
    def stacked(cls, blocks: Sequence[FeatureBlock]) -> FeatureBlock:
        return cls(PackedArray.concatenate([block.features for block in blocks]))

    def centred(self, n_jobs: int | None, weights: np.ndarray | None = None) -> CentredRows:
        return PackedRows(self.features, n_jobs, weights)


class CountedBlock(PackedBlock):
    """Packed features with the values 0 and 1, or -1, 0 and 1.

    Products of such features are computed by counting bits.
    """

    def __init__(self, features: PackedArray):
        super().__init__(features)
        self._transposed: PackedArray | None = None

    def add_gram(self, gram: BlockTriangle, sign: int, n_jobs: int | None) -> None:
        columns = self._columns(n_jobs)

        def add(task: tuple[int, int]) -> None:
            i, left = task
            right = min(left + STRIP, gram.size)
            first = gram.rows(i).start
            product = columns[gram.rows(i)].gram(columns[left:right], n_jobs=1)
            add_to(gram.panel(i)[:, left - first : right - first], product, sign)

        tasks = [(i, left) for i in range(gram.n_blocks) for left in range(gram.rows(i).start, gram.size, STRIP)]
        run_tasks(add, tasks, n_jobs)

    def cross_products(self, Y: np.ndarray, n_jobs: int | None, weights: np.ndarray | None = None) -> CrossProducts:
        products = self._columns(n_jobs).dot(_weighted(np.column_stack([Y, np.ones(len(Y))]), weights), n_jobs)
        return products[:, :-1], products[:, -1]

    def _columns(self, n_jobs: int | None) -> PackedArray:
        """The transpose (m, r) of the features, for products in float64."""
        if self._transposed is None:
            self._transposed = replace(self.features.transposed(n_jobs), dtype=np.dtype(np.float64))
        return self._transposed


def _weighted(Y: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """The rows of `Y` (r, t) times their weights."""
    return Y if weights is None else Y * weights[:, None]


def _scaled(Y: np.ndarray, weights: np.ndarray | None) -> tuple[np.ndarray, Any]:
    """Return `Y` (r, t) divided by powers of two (t,) near the size of its columns, and these powers.

    Without this scaling, weights could make entries too large or too small for float32. Without weights, `Y` is
    unchanged.
    """
    if weights is None:
        return Y, 1.0
    scale = np.ldexp(1.0, np.frexp(np.abs(Y).max(axis=0))[1])
    return Y / scale, scale


class LazyFeatureBlock(FeatureBlock):
    """A block that holds rows instead of features, and computes the features of a few rows at a time for every product.

    It is used for validation rows whose features take too much memory.

    Parameters
    ----------
    X : array, CSR matrix or tensor of shape (r, d)
    form : callable
        ``form(X)`` returns the block of features of some rows. The next call may overwrite this block.
    width : int
        Number of features m.
    height : int
        Number of rows whose features are formed at a time.
    """

    def __init__(self, X: Array, form: Callable[[Array], FeatureBlock], width: int, height: int):
        self._X, self._form, self._width, self._height = X, form, width, height

    @property
    def features(self) -> Features:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The features of all rows, computed at once."""
        return self.to_host()

    @property
    def shape(self) -> tuple[int, int]:
        return self._X.shape[0], self._width

    @property
    def dtype(self) -> np.dtype:
        return ops_for(self._X).dtype

    def add_gram(self, gram: BlockTriangle, sign: int, n_jobs: int | None) -> None:
        for _, block in self._blocks():
            block.add_gram(gram, sign, n_jobs)

    def cross_products(self, Y: np.ndarray, n_jobs: int | None, weights: np.ndarray | None = None) -> CrossProducts:
        cross, sums = np.zeros((self._width, Y.shape[1])), np.zeros(self._width)
        for part, block in self._blocks():
            found = block.cross_products(Y[part], n_jobs, None if weights is None else weights[part])
            cross += found[0]
            sums += found[1]
        return cross, sums

    def times(self, W: np.ndarray, n_jobs: int | None) -> np.ndarray:
        return np.concatenate([block.times(W, n_jobs) for _, block in self._blocks()])

    def gram_times(self, V: np.ndarray, weights: np.ndarray, n_jobs: int | None) -> np.ndarray:
        image = np.zeros((self._width, V.shape[1]))
        for part, block in self._blocks():
            image += block.gram_times(V, weights[part], n_jobs)
        return image

    def columns(self, index: np.ndarray) -> FeatureBlock:
        return type(self).stacked([block.columns(index).host_copy() for _, block in self._blocks()])

    def rows(self, index: np.ndarray) -> FeatureBlock:
        return LazyFeatureBlock(self._X[index], self._form, self._width, self._height)

    def to_dense(self) -> FeatureBlock:
        return self.stacked([block.to_dense().host_copy() for _, block in self._blocks()])

    @classmethod
    def stacked(cls, blocks: Sequence[FeatureBlock]) -> FeatureBlock:
        return type(first := blocks[0].to_dense()).stacked([first, *(block.to_dense() for block in blocks[1:])])

    def _blocks(self) -> Iterator[tuple[slice, FeatureBlock]]:
        """Blocks of features of successive rows, each with the slice of its rows."""
        for start in range(0, self._X.shape[0], self._height):
            part = slice(start, start + self._height)
            yield part, self._form(self._X[part])
