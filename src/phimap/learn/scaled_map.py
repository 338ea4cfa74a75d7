"""A fitted feature map on scaled inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from phimap.kernels import Kernel
from phimap.learn.blocks.blocks import FeatureBlock, feature_block
from phimap.learn.rows.scaling import ColumnRange, Scaling
from phimap.learn.settings import Compute
from phimap.ops import Array, Ops, ops_for, run_tasks, to_device
from phimap.random_map import MapRecord, RandomMap, evaluate
from phimap.records import Record, of_floats

# Bytes of a tile of features in float64. A tile of this size stays in cache between its conversion to float64 and its
# product with the coefficients.
_TILE_BYTES = 2**20


@dataclass(frozen=True)
class ScaledMap(Record):
    """Scaling, metric and feature map.

    Attributes
    ----------
    scaling : Scaling
        Scaling of the rows, including the root of the metric.
    feature_map : RandomMap
        Feature map, fitted on scaled rows.
    metric : ndarray of shape (d,) or (d, d)
        The metric of the standardised columns, with mean eigenvalue 1.
    range : ColumnRange or None
        Ranges of the training rows; None in files of early versions.
    """

    scaling: Scaling
    feature_map: RandomMap
    metric: np.ndarray = field(metadata=of_floats())
    range: ColumnRange | None = None

    def requirements(self) -> Iterator[tuple[bool, str]]:
        scaling, low = self.scaling, None if self.range is None else self.range.low
        yield isinstance(getattr(self.feature_map, "kernel_", None), Kernel), "the kernel of its feature map"
        width = scaling.shift.size if scaling.root is None else scaling.root.shape[1]
        yield self.record.n_features == width, "a feature map of the scaled rows"
        d, trace = scaling.shift.size, self.metric if self.metric.ndim == 1 else np.diagonal(self.metric)
        yield self.metric.shape in ((d,), (d, d)) and trace.sum() > 0, "a metric of its columns"
        yield low is None or low.size == scaling.shift.size, "ranges of its columns"

    @property
    def record(self) -> MapRecord:
        """The record of the feature map."""
        return self.feature_map.record_

    @property
    def width(self) -> int:
        """Number m of features."""
        return self.record.n_components

    @property
    def kernel(self) -> Kernel:
        """The exact kernel that the features estimate."""
        return self.feature_map.kernel_

    def with_record(self, record: MapRecord) -> ScaledMap:
        """Return the scaled map with another record of its feature map."""
        feature_map = copy(self.feature_map)
        feature_map.record_, feature_map.n_components = record, record.n_components
        return replace(self, feature_map=feature_map)

    def features(self, compute: Compute) -> BatchFeatures:
        """Return a function from rows to blocks of features.

        Each function that this method returns has its own buffer.
        """
        return BatchFeatures(BoundMap(self.scaling, self.record), compute.device, compute.n_jobs)

    def scaled(self, rows: Array) -> Array:
        """Return the scaled rows (r, d), on the device of `rows`."""
        return scaled(self.scaling, rows)

    def on_host(self, rows: Array) -> np.ndarray:
        """Return the scaled rows (r, d), dense and on the host."""
        ops = ops_for(rows)
        return ops.to_host(ops.dense(self.scaled(rows)))


class BoundMap:
    """A scaling and a map, whose arrays are converted once for each backend and dtype.

    Parameters
    ----------
    scaling : Scaling
    record : MapRecord
    """

    def __init__(self, scaling: Scaling, record: MapRecord):
        self.scaling, self.record = scaling, record
        self._bound: dict[Any, tuple[Ops, Scaling, MapRecord]] = {}

    def to(self, ops: Ops) -> tuple[Ops, Scaling, MapRecord]:
        """Return the first backend given with the key of `ops`, and the scaling and the map bound to this backend."""
        if ops.key not in self._bound:
            self._bound[ops.key] = ops, self.scaling.bind(ops), self.record.bind(ops)
        return self._bound[ops.key]


class BatchFeatures:
    """Computes the features of batches.

    Parameters
    ----------
    bound : BoundMap
    device : str
        Device to which batches are moved, see `to_device`.
    n_jobs : int or None
    """

    def __init__(self, bound: BoundMap, device: str, n_jobs: int | None):
        self._bound, self._device, self._n_jobs = bound, device, n_jobs
        self._ops: Any = None
        self._buffer: Any = None

    def __call__(self, X: Array) -> FeatureBlock:
        """Return features (r, m) of the rows of `X`; the next call overwrites dense features."""
        X = to_device(X, self._device)
        ops, scaling, record = self._bound.to(ops_for(X))
        if ops is not self._ops:
            self._ops, self._buffer = ops, None
        rows = scaling.apply(ops, X)
        compact = record.compact_features(ops, rows, self._n_jobs)
        if compact is not None:
            return feature_block(compact)
        if self._buffer is None or self._buffer.shape[0] < X.shape[0]:
            self._buffer = ops.empty((X.shape[0], record.n_components))
        out = self._buffer[: X.shape[0]]
        evaluate(record, ops, rows, out, self._n_jobs)
        return feature_block(out)


class LinearOutputs:
    """Products of features with given coefficients. Whitening is applied to the coefficients once, not to each row.

    Parameters
    ----------
    mapped : ScaledMap
    coef : ndarray of shape (m, t)

    Notes
    -----
    Coefficients for unwhitened features are large and cancel each other, so their products with features are summed in
    float64. With 2,048 landmarks, the outputs for float32 rows are then four to six times closer to the outputs for
    float64 rows.
    """

    def __init__(self, mapped: ScaledMap, coef: np.ndarray):
        record, self._coef = mapped.record.unwhitened(coef)
        self._in_float64 = record is not mapped.record
        self._bound = BoundMap(mapped.scaling, record)

    def outputs(self, compute: Compute) -> Callable[[Array], np.ndarray]:
        """Return a function from rows (r, d) to outputs (r, t) on the host; it has its own buffer."""
        features = BatchFeatures(self._bound, compute.device, compute.n_jobs)

        def outputs(X: Array) -> np.ndarray:
            block = features(X)
            if self._in_float64:
                return _sums_in_float64(block.to_host(), self._coef, compute.n_jobs)
            return block.times(self._coef.astype(ops_for(X).dtype), compute.n_jobs)

        return outputs


def _sums_in_float64(Z: np.ndarray, W: np.ndarray, n_jobs: int | None) -> np.ndarray:
    """``Z W`` (r, t) in float64, tile by tile."""
    rows = max(1, _TILE_BYTES // (8 * len(W)))
    starts = range(0, len(Z), rows)
    return np.concatenate(run_tasks(lambda start: Z[start : start + rows].astype(np.float64) @ W, starts, n_jobs))


def scaled(scaling: Scaling, rows: Array) -> Array:
    """Return the scaled rows (r, d), on the device of `rows`."""
    ops = ops_for(rows)
    return scaling.bind(ops).apply(ops, rows)
