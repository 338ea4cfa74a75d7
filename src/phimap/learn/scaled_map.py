"""A fitted feature map on scaled inputs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from phimap.features.low_precision.packable import PackableRecord, pack_rows
from phimap.kernels import Kernel
from phimap.learn.blocks.blocks import FeatureBlock, feature_block
from phimap.learn.rows.scaling import ColumnRange, Scaling
from phimap.learn.settings import Compute
from phimap.ops import Array, ops_for, to_device
from phimap.random_map import MapRecord, RandomMap, evaluate
from phimap.records import Record, of_floats


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

    def features(self, compute: Compute) -> BatchFeatures:
        """Return a function from rows to blocks of features; it has its own buffer."""
        return BatchFeatures(self.scaling, self.record, compute.device, compute.n_jobs)

    def scaled(self, rows: Array) -> Array:
        """Return the scaled rows (r, d), on the device of `rows`."""
        return scaled(self.scaling, rows)

    def on_host(self, rows: Array) -> np.ndarray:
        """Return the scaled rows (r, d), dense and on the host."""
        ops = ops_for(rows)
        return ops.to_host(ops.dense(self.scaled(rows)))


class BatchFeatures:
    """Computes the features of batches. The scaling and the map are bound once to the backend and dtype of the batches.

    Parameters
    ----------
    scaling : Scaling
    record : MapRecord
    device : str
        Device to which batches are moved, see `to_device`.
    n_jobs : int or None
    """

    def __init__(self, scaling: Scaling, record: MapRecord, device: str, n_jobs: int | None):
        self._scaling, self._record, self._device, self._n_jobs = scaling, record, device, n_jobs
        self._bound: Any = None
        self._buffer: Any = None

    def __call__(self, X: Array) -> FeatureBlock:
        """Return features (r, m) of the rows of `X`; the next call overwrites dense features."""
        X = to_device(X, self._device)
        ops = ops_for(X)
        if self._bound is None or self._bound[0].dtype != ops.dtype:
            self._bound = (ops, self._scaling.bind(ops), self._record.bind(ops))
            self._buffer = None
        ops, scaling, record = self._bound
        if isinstance(record, PackableRecord) and record.packed:
            return feature_block(pack_rows(record, ops, scaling.apply(ops, X), self._n_jobs))
        if self._buffer is None or self._buffer.shape[0] < X.shape[0]:
            self._buffer = ops.empty((X.shape[0], record.n_components))
        out = self._buffer[: X.shape[0]]
        evaluate(record, ops, scaling.apply(ops, X), out, self._n_jobs)
        return feature_block(out)


def scaled(scaling: Scaling, rows: Array) -> Array:
    """Return the scaled rows (r, d), on the device of `rows`."""
    ops = ops_for(rows)
    return scaling.bind(ops).apply(ops, rows)
