"""Records applied to rows outside of a map."""

from __future__ import annotations

import numpy as np

from phimap.ops import host
from phimap.random_map import MapRecord

OPS = host()


def apply(record: MapRecord, X: np.ndarray) -> np.ndarray:
    """Features (n, m) of the rows of `X` in float64, in one tile."""
    out = np.empty((len(X), record.n_components))
    record.bind(OPS).apply(OPS, X, out)
    return out
