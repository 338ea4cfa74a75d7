"""A fitted feature map on scaled inputs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from phimap.kernels import Kernel
from phimap.learn.blocks.batch_features import BatchFeatures
from phimap.learn.rows.column_range import ColumnRange
from phimap.learn.rows.scaling import Scaling
from phimap.learn.settings import Compute
from phimap.ops import Array, ops_for
from phimap.random_map import MapRecord, RandomMap
from phimap.records import Record, of_floats


@dataclass(frozen=True)
class ScaledMap(Record):
    """Scaling, metric and feature map.

    Attributes
    ----------
    scaling : Scaling
        Of the rows, the root of the metric included.
    feature_map : RandomMap
        Fitted on scaled rows.
    metric : ndarray of shape (d,) or (d, d)
        The metric of the standardised columns, with mean eigenvalue 1.
    range : ColumnRange or None
        Of the training rows; None in files of early versions.
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
        """Features m."""
        return self.record.n_components

    @property
    def kernel(self) -> Kernel:
        """The exact kernel that the features estimate."""
        return self.feature_map.kernel_

    def features(self, compute: Compute) -> BatchFeatures:
        """A function from rows to blocks of features, with a buffer of its own."""
        return BatchFeatures(self.scaling, self.record, compute.device, compute.n_jobs)

    def scaled(self, rows: Array) -> Array:
        """Scaled rows (r, d), where the rows are."""
        return scaled(self.scaling, rows)

    def on_host(self, rows: Array) -> np.ndarray:
        """Scaled rows (r, d), dense and on the host."""
        ops = ops_for(rows)
        return ops.to_host(ops.dense(self.scaled(rows)))


def scaled(scaling: Scaling, rows: Array) -> Array:
    """Rows (r, d) scaled, where they are."""
    ops = ops_for(rows)
    return scaling.bind(ops).apply(ops, rows)
