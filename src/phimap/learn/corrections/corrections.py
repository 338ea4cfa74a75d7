"""Corrections of a model: an exact kernel model of its residuals in every region."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from phimap.kernels import Kernel
from phimap.learn.corrections.partition import Partition
from phimap.learn.validated import ValidatedPart
from phimap.ops import ops_for, run_tasks
from phimap.ops.primitives.distances import sums_of_differences
from phimap.ops.primitives.kernel_matrix import kernel_matrix
from phimap.records import NOT_SAVED, Record, of_floats, of_indices, of_number

# Number of distances that are computed at once; they take 8 MiB.
_DISTANCES = 2**20


@dataclass(frozen=True)
class Corrections(ValidatedPart, Record):
    """Corrections ``k(x, X_r) A_r`` of the outputs at a row x in region r, with X_r the training rows of the region.

    `root` and `scale` multiply all rows.

    Attributes
    ----------
    partition : Partition
    kernel : Kernel
        Stationary kernel of the rows times `root` and `scale`.
    root : ndarray of shape (d,) or (d, d), or None
        Factors or matrix that multiply the rows; None is the identity.
    scale : float
        Factor that multiplies the rows after `root`. A factor of 2 halves the width of the kernel.
    rows : ndarray of shape (n, d)
        Scaled training rows times `root` and `scale`, sorted by region.
    coefs : ndarray of shape (n, t)
        The A_r of all regions times the shrinkage, row by row as `rows`.
    ends : ndarray of int, shape (n_regions,)
        End of each region in `rows`.
    keys : ndarray of shape (r,)
        Keys of the validation rows, ascending. Model files without statistics hold neither keys nor errors.
    errors : ndarray of shape (r, t)
        Errors at the validation rows, of a model and corrections that were fitted without these rows.
    reach : float
        Largest distance of a validation row to the nearest other row of its region, after multiplication by root and
        scale.
    alpha : float
        Regularisation of the coefficients; 0 in a model that was loaded. Not saved in model files.
    shrinkage : float
        Factor of the coefficients that makes the validation error least; 1 in a model that was loaded. Not saved in
        model files.
    """

    partition: Partition
    kernel: Kernel
    root: np.ndarray | None = field(metadata=of_floats())
    scale: float = field(metadata=of_number(above=0))
    rows: np.ndarray = field(metadata=of_floats("n", "d"))
    coefs: np.ndarray = field(metadata=of_floats("n", "t"))
    ends: np.ndarray = field(metadata=of_indices("R", ascending=True))
    keys: np.ndarray = field(metadata=of_floats("?r", ascending=True))
    errors: np.ndarray = field(metadata=of_floats("?r", "t"))
    reach: float = field(metadata=of_number(least=0))
    alpha: float = field(default=0.0, metadata={NOT_SAVED: True})
    shrinkage: float = field(default=1.0, metadata={NOT_SAVED: True})

    def requirements(self) -> Iterator[tuple[bool, str]]:
        yield self.kernel.is_stationary, "a stationary kernel"
        yield self.ends.size == self.partition.n_regions, "an end for each region"
        yield self.ends[-1] == self.rows.shape[0], "ends up to the last row"
        if self.root is not None:
            yield self.root.ndim in (1, 2) and self.root.shape[-1] == self.rows.shape[1], "a root for its columns"
        yield self.partition.directions.shape[1] in (0, self.rows.shape[1]), "a partition of its rows"

    @property
    def n_inputs(self) -> int:
        """Columns of the scaled rows that are corrected."""
        return self.rows.shape[1] if self.root is None else self.root.shape[0]

    def out_of_range(self, X: np.ndarray) -> np.ndarray:
        """Distances (n,) of scaled rows `X` (n, d) from the data: 0 up to `reach`, rising to 1 at twice `reach`."""
        X, regions = self._by_region(X)
        result = np.ones(len(X))
        for chosen, part in regions:
            distances = nearest(X[chosen], self.rows[part])
            result[chosen] = np.clip(distances / max(self.reach, np.finfo(np.float64).tiny) - 1, 0, 1)
        return result

    def outputs(self, X: np.ndarray, n_jobs: int | None) -> np.ndarray:
        """Corrections (n, t) for scaled rows `X` (n, d), on the host and in the dtype of `X`."""
        X, regions = self._by_region(X)
        ops, result = ops_for(X), np.zeros((len(X), self.coefs.shape[1]), X.dtype)

        def correct(region: tuple[np.ndarray, slice]) -> None:
            chosen, part = region
            # The coefficients of a region are zero where all its residuals are.
            if self.coefs[part].any():
                values = kernel_matrix(ops, self.kernel, X[chosen], self.rows[part])
                result[chosen] = values @ self.coefs[part].astype(X.dtype, copy=False)

        run_tasks(correct, regions, n_jobs)
        return result

    def _by_region(self, X: np.ndarray) -> tuple[np.ndarray, list[tuple[np.ndarray, slice]]]:
        """Multiply `X` by root and scale.

        For each region, return the indices of its rows in `X` and its slice of `rows`.
        """
        X, starts = moved_rows(X, self.root), np.append(0, self.ends)
        regions = self.partition.assign(X)
        parts = [(np.flatnonzero(regions == one), slice(starts[one], starts[one + 1])) for one in np.unique(regions)]
        return X * X.dtype.type(self.scale), parts


def nearest(X: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Euclidean distances (n,) from the rows of `X` (n, d) to the nearest of `rows` (r, d); infinite if r is 0."""
    if not len(rows):
        return np.full(len(X), np.inf)
    X, rows, step = X.astype(np.float64), rows.astype(np.float64), max(1, _DISTANCES // len(rows))
    result = np.empty(len(X))
    for start in range(0, len(X), step):
        block = slice(start, start + step)
        # scikit-learn's nearest-neighbour search uses OpenMP, which hangs in a process that was forked after its first
        # use.
        result[block] = sums_of_differences(ops_for(X), X[block], rows, 2).min(axis=1)
    return np.sqrt(result)


def moved_rows(X: np.ndarray, root: np.ndarray | None) -> np.ndarray:
    """The rows of `X` (n, d) times a root (d,) or (d, d), in the dtype of `X`; no row depends on other rows."""
    if root is None:
        return X
    if root.ndim == 1:
        return X * root.astype(X.dtype)
    return ops_for(X).matmul_rows(X, root.astype(X.dtype), None)
