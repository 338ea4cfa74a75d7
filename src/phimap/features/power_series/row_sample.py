"""The sample of rows from which `fit` of a map computes moments."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from phimap.kernels.geometry import unit_rows
from phimap.ops import Array, ops_for, single_threaded_blas

# A sample has at most `_MOST_ROWS` rows, and at most `_MOST_NUMBERS` entries. The second limit does not apply to a
# sample of `_FEWEST_WIDE_ROWS` rows.
_MOST_ROWS, _FEWEST_WIDE_ROWS, _MOST_NUMBERS = 1024, 64, 2**23
# Least number of rows whose moments are considered representative of new rows.
_LEAST_ROWS = 8
# Maximum number of rows for `RowSample.cosines`, which holds the cosines between all pairs of these rows.
_PAIR_ROWS = 256
# Rows stay sparse if they have more than `_WIDE` times as many columns as the map has features, and if at most one
# entry in `_SPARSE` is nonzero.
_WIDE, _SPARSE = 8, 16


@dataclass(frozen=True, eq=False)
class RowSample:
    """Evenly spaced rows of the data, in float64 on the host.

    Attributes
    ----------
    rows : ndarray or CSR array of shape (n_rows, n_features)
        The sample.
    """

    rows: Any

    @classmethod
    def of(cls, X: Array, n_components: int) -> RowSample:
        """The sample of data (n, d), for a map of width `n_components`: CSR if rows are sparse and very wide.

        The choice of CSR depends on the values and not on the format of `X`, so dense and CSR input gives the same map.
        """
        ops = ops_for(X)
        n_features = X.shape[1]
        most = max(_FEWEST_WIDE_ROWS, min(_MOST_ROWS, _MOST_NUMBERS // n_features))
        spaced = X[spaced_rows(X.shape[0], most)]
        if n_features > _WIDE * n_components:
            rows = sparse.csr_array(spaced if ops.is_sparse(spaced) else ops.to_host(spaced), dtype=np.float64)
            if _SPARSE * rows.count_nonzero() <= spaced.shape[0] * n_features:
                return cls(rows)
        return cls(np.asarray(ops.to_host(ops.dense(spaced)), dtype=np.float64))

    @property
    def suffices(self) -> bool:
        """Whether there are enough rows to be representative of new rows."""
        return self.rows.shape[0] >= _LEAST_ROWS

    @property
    def is_sparse(self) -> bool:
        return sparse.issparse(self.rows)

    def dense(self) -> RowSample:
        """The same sample as a dense array."""
        return RowSample(self.rows.toarray()) if self.is_sparse else self

    @cached_property
    def unit_rows(self) -> Any:
        """The rows divided by their norms, dense or CSR like `rows`."""
        return unit_rows(self.rows)

    @cached_property
    def cosines(self) -> np.ndarray:
        """Cosines (k,) of the k pairs of different rows among at most 256 rows of the sample."""
        chosen = self.unit_rows[spaced_rows(self.rows.shape[0], _PAIR_ROWS)]
        # Starting threads would take longer than the product.
        with single_threaded_blas():
            products = chosen @ chosen.T
        products = products.toarray() if sparse.issparse(products) else products
        return products[np.triu_indices(len(products), 1)]


def spaced_rows(n_rows: int, most: int) -> np.ndarray:
    """Evenly spaced row indices: `most` of them, or all if there are fewer."""
    return np.unique(np.linspace(0, n_rows - 1, min(n_rows, most)).astype(np.intp))
