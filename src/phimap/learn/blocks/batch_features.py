"""Features of successive batches, in one reused buffer."""

from __future__ import annotations

from typing import Any

from phimap.features.low_precision.packable import PackableRecord, pack_rows
from phimap.learn.blocks.blocks import FeatureBlock, feature_block
from phimap.learn.rows.scaling import Scaling
from phimap.ops import Array, ops_for, to_device
from phimap.random_map import MapRecord, evaluate


class BatchFeatures:
    """A scaling and a map, bound once to the backend and dtype of the batches.

    Parameters
    ----------
    scaling : Scaling
    record : MapRecord
    device : str
        Device for the batches, see `to_device`.
    n_jobs : int or None
    """

    def __init__(self, scaling: Scaling, record: MapRecord, device: str, n_jobs: int | None):
        self._scaling, self._record, self._device, self._n_jobs = scaling, record, device, n_jobs
        self._bound: Any = None
        self._buffer: Any = None

    def __call__(self, X: Array) -> FeatureBlock:
        """Features (r, m) of the rows of `X`; the next call overwrites dense ones."""
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
