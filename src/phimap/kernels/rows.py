"""Input rows of a kernel: validation, and conversion of dense rows that are paired with sparse rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_array

from phimap._validation import check_finite, check_indices, check_unmasked
from phimap.kernels.geometry import Rows
from phimap.ops import to_host


class Sparsified:
    """A dense matrix whose row slices are returned as CSR, to be paired with tiles of a CSR matrix."""

    def __init__(self, rows: np.ndarray):
        self._rows, self.shape, self.dtype = rows, rows.shape, rows.dtype

    def __getitem__(self, rows: slice) -> sparse.csr_array:
        return sparse.csr_array(self._rows[rows])


def checked_array(X: Any, name: str, *dtypes: type) -> Rows:
    """Return `X` (n, d), dense or CSR; raise if it is not finite. A dtype not in `dtypes` becomes ``dtypes[0]``."""
    check_unmasked(X, name)
    check_indices(X, name)
    rows = check_array(
        to_host(X),
        accept_sparse="csr",  # pyright: ignore[reportArgumentType]
        dtype=list(dtypes),  # pyright: ignore[reportArgumentType]
        ensure_all_finite=False,
        input_name=name,
    )
    check_finite(rows, name)
    return rows


def checked_rows(X: Any, name: str) -> Rows:
    """Return `X` (n, d) as a float32 or float64 array, dense or CSR; raise if it is not finite."""
    rows = checked_array(X, name, np.float64, np.float32)
    if not sparse.issparse(rows):
        return rows
    rows = sparse.csr_array(rows)
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    return rows
