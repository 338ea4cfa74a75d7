"""Blocks of features: the only place that knows whether they are arrays, tensors or packed bits."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from phimap.learn.blocks.centred_rows import CentredRows, DenseRows, PackedRows
from phimap.learn.blocks.triangle import BLOCK, STRIP, BlockTriangle, add_to
from phimap.learn.rows.weights import weighted_mean
from phimap.ops import Array, is_tensor, ops_for, run_tasks
from phimap.packed import PackedArray

#: What features come in: an array, a tensor or a packed array, (r, m).
Features = Array | PackedArray
# Rows over which products with targets are summed in the dtype of the features; sums of these are float64.
_SUMMED_ROWS = 256


class FeatureBlock(ABC):
    """Features of some rows (r, m), and what solvers take of them.

    Products are formed in the dtype of the features, where these live. `n_jobs` changes no bit.

    Attributes
    ----------
    features : array, tensor or PackedArray of shape (r, m)
    """

    features: Features

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        n_rows, n_columns = self.features.shape
        return n_rows, n_columns

    @property
    def dtype(self) -> np.dtype:
        """float32 or float64."""
        return ops_for(self.features).dtype

    @property
    def eps(self) -> float:
        """Machine epsilon of the features."""
        return float(np.finfo(self.dtype).eps)

    @abstractmethod
    def add_gram(self, gram: BlockTriangle, sign: int, n_jobs: int | None) -> None:
        """Add `sign`, 1 or -1, times ``Z^T Z`` (m, m) to `gram`."""

    @abstractmethod
    def cross_products(
        self, Y: np.ndarray, n_jobs: int | None, weights: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """``Z^T Y`` (m, t) for float64 `Y` (r, t), and the sums of the columns (m,); both on the host, float64.

        Rows with `weights` (r,) count as often.
        """

    @abstractmethod
    def times(self, W: np.ndarray, n_jobs: int | None) -> np.ndarray:
        """``Z W`` (r, t) on the host, in the dtype of the features."""

    def gram_times(self, V: np.ndarray, weights: np.ndarray, n_jobs: int | None) -> np.ndarray:
        """``Z^T diag(weights) Z V`` (m, k) on the host, float64."""
        return self.cross_products(weights[:, None] * self.times(V, n_jobs), n_jobs)[0]

    @abstractmethod
    def scaled(self, factors: np.ndarray) -> FeatureBlock:
        """The block with its rows times `factors` (r,), in its dtype."""

    @abstractmethod
    def columns(self, index: np.ndarray) -> FeatureBlock:
        """The block of some of the features, in the order of `index`."""

    def rows(self, index: np.ndarray) -> FeatureBlock:
        """The block of some of the rows, copied, where it lives."""
        return feature_block(self.features[index])

    @abstractmethod
    def to_dense(self) -> FeatureBlock:
        """The block with its numbers written out, where it lives; itself if they are."""

    @abstractmethod
    def to_host(self) -> np.ndarray:
        """The features as a dense array on the host; may share memory."""

    @abstractmethod
    def host_copy(self) -> FeatureBlock:
        """The block on the host, in memory that nothing else writes to."""

    @classmethod
    @abstractmethod
    def stacked(cls, blocks: Sequence[FeatureBlock]) -> FeatureBlock:
        """Blocks that were kept, one below the other."""

    @abstractmethod
    def centred(self, n_jobs: int | None, weights: np.ndarray | None = None) -> CentredRows:
        """The rows, of `weights` (r,), less their mean, for the dual form of a problem."""


#: Features (r, m) with their targets (r, t) and what the rows count (r,).
WeightedBlock = tuple[FeatureBlock, np.ndarray, np.ndarray]


class FeatureRows(NamedTuple):
    """Features of rows (r, m), their targets (r, t) and their weights (r,), None where all weights are one."""

    block: FeatureBlock
    targets: np.ndarray
    weights: np.ndarray | None = None

    @property
    def weights_or_ones(self) -> np.ndarray:
        """The weights (r,), written out where all are one."""
        return np.ones(len(self.targets)) if self.weights is None else self.weights


def feature_block(features: Features | FeatureBlock) -> FeatureBlock:
    """The block of some features; a block is itself."""
    if isinstance(features, FeatureBlock):
        return features
    if isinstance(features, PackedArray):
        return CountedBlock(features) if features.is_countable else PackedBlock(features)
    return TensorBlock(features) if is_tensor(features) else DenseBlock(features)


class DenseBlock(FeatureBlock):
    """Features in an array on the host."""

    features: np.ndarray

    def __init__(self, features: np.ndarray):
        self.features = features

    def add_gram(self, gram: BlockTriangle, sign: int, n_jobs: int | None) -> None:
        gram.add_products(self.features, sign, n_jobs)

    def cross_products(
        self, Y: np.ndarray, n_jobs: int | None, weights: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        Z, mean, t = self.features, weighted_mean(Y, weights), Y.shape[1]
        # The rounding of products in float32 then does not grow with a constant in Y.
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
    """Features in a tensor, whose products are formed on its device."""

    features: Array

    def add_gram(self, gram: BlockTriangle, sign: int, n_jobs: int | None) -> None:
        gram.add(ops_for(self.features).cross_products(self.features, self.features), sign)

    def cross_products(
        self, Y: np.ndarray, n_jobs: int | None, weights: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        ops, mean = ops_for(self.features), weighted_mean(Y, weights)
        sums = ops.column_sums(self.features if weights is None else self.scaled(weights).features)
        deviations, scale = _scaled(_weighted(Y - mean, weights), weights)
        cross = ops.cross_products(self.features, ops.constant(deviations))
        return cross * scale + np.outer(sums, mean), sums


class PackedBlock(FeatureBlock):
    """Features in a packed array of codes, which is unpacked tile by tile, or whole for sums over its rows."""

    features: PackedArray

    def __init__(self, features: PackedArray):
        self.features = features
        self._dense: DenseBlock | None = None

    def add_gram(self, gram: BlockTriangle, sign: int, n_jobs: int | None) -> None:
        self.to_dense().add_gram(gram, sign, n_jobs)

    def cross_products(
        self, Y: np.ndarray, n_jobs: int | None, weights: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        return self.to_dense().cross_products(Y, n_jobs, weights)

    def times(self, W: np.ndarray, n_jobs: int | None) -> np.ndarray:
        return self.features.dot(W, n_jobs)

    def scaled(self, factors: np.ndarray) -> FeatureBlock:
        return self.to_dense().scaled(factors)

    def columns(self, index: np.ndarray) -> FeatureBlock:
        return self.to_dense().columns(index)

    def to_dense(self) -> FeatureBlock:
        if self._dense is None:
            self._dense = DenseBlock(self.features.to_dense())
        return self._dense

    def to_host(self) -> np.ndarray:
        return self.to_dense().to_host()

    def host_copy(self) -> FeatureBlock:
        return self

    @classmethod
    def stacked(cls, blocks: Sequence[FeatureBlock]) -> FeatureBlock:
        return cls(PackedArray.concatenate([block.features for block in blocks]))

    def centred(self, n_jobs: int | None, weights: np.ndarray | None = None) -> CentredRows:
        return PackedRows(self.features, n_jobs, weights)


class CountedBlock(PackedBlock):
    """Features of bits, or of signs and zeros, whose products are formed by counting."""

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

    def cross_products(
        self, Y: np.ndarray, n_jobs: int | None, weights: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        products = self._columns(n_jobs).dot(_weighted(np.column_stack([Y, np.ones(len(Y))]), weights), n_jobs)
        return products[:, :-1], products[:, -1]

    def _columns(self, n_jobs: int | None) -> PackedArray:
        """The features with rows and columns exchanged, (m, r), to be multiplied in float64."""
        if self._transposed is None:
            self._transposed = replace(self.features.transposed(n_jobs), dtype=np.dtype(np.float64))
        return self._transposed


def _weighted(Y: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """The rows of `Y` (r, t) times their weights."""
    return Y if weights is None else Y * weights[:, None]


def _scaled(Y: np.ndarray, weights: np.ndarray | None) -> tuple[np.ndarray, Any]:
    """The columns of `Y` over powers of two near their size, which weights may take beyond float32; and these (t,)."""
    if weights is None:
        return Y, 1.0
    scale = np.ldexp(1.0, np.frexp(np.abs(Y).max(axis=0))[1])
    return Y / scale, scale
