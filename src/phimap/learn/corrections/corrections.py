"""Corrections of a model: exact kernel models of its residuals in the regions of one or several partitions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

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
class PartitionModel(Record):
    """Kernel models of the regions of a partition.

    Attributes
    ----------
    partition : Partition
    order : ndarray of int, shape (k,)
        Indices of the training rows, sorted by region. Rows of regions without a model are left out.
    ends : ndarray of int, shape (n_regions,)
        End of each region in `order`.
    coefs : ndarray of shape (k, t)
        Coefficients of the rows in `order`.
    """

    partition: Partition
    order: np.ndarray = field(metadata=of_indices("k"))
    ends: np.ndarray = field(metadata=of_indices("R", ascending=True))
    coefs: np.ndarray = field(metadata=of_floats("k", "t"))

    def requirements(self) -> Iterator[tuple[bool, str]]:
        yield self.ends.size == self.partition.n_regions, "an end for each region"
        yield self.ends[-1] == self.order.size, "ends up to the last row"

    def parts(self) -> list[slice]:
        """Return for each region the slice of its rows in `order` and `coefs`."""
        return [slice(start, end) for start, end in pairwise([0, *self.ends.tolist()])]


@dataclass(frozen=True)
class Corrections(ValidatedPart, Record):
    """Corrections of the outputs at a row x: the sum over partitions of ``k(x, X_r) A_r``.

    For each partition, r is the region of x, X_r are the training rows of the region, and A_r their coefficients.
    `root` and `scale` multiply all rows.

    Attributes
    ----------
    kernel : Kernel
        Stationary kernel of the rows times `root` and `scale`.
    root : ndarray of shape (d,) or (d, d), or None
        Factors or matrix that multiply the rows; None is the identity.
    scale : float
        Factor that multiplies the rows after `root`. A factor of 2 halves the width of the kernel.
    rows : ndarray of shape (n, d)
        Scaled training rows times `root` and `scale`.
    models : tuple of PartitionModel
        Models of the partitions. Their coefficients are those of exact kernel models times the shrinkage, divided by
        the number of partitions.
    keys : ndarray of shape (r,)
        Keys of the validation rows, ascending. Model files without statistics hold neither keys nor errors.
    errors : ndarray of shape (r, t)
        Errors at the validation rows, of a model and corrections that were fitted without these rows.
    reach : float
        Largest distance of a validation row to the nearest other row of its region in the first partition, after
        multiplication by root and scale.
    alpha : float
        Regularisation of the coefficients; 0 in a model that was loaded. Not saved in model files.
    shrinkage : float
        Factor of the coefficients that makes the validation error least; 1 in a model that was loaded. Not saved in
        model files.
    """

    kernel: Kernel
    root: np.ndarray | None = field(metadata=of_floats())
    scale: float = field(metadata=of_number(above=0))
    rows: np.ndarray = field(metadata=of_floats("n", "d"))
    models: tuple[PartitionModel, ...]
    keys: np.ndarray = field(metadata=of_floats("?r", ascending=True))
    errors: np.ndarray = field(metadata=of_floats("?r", "t"))
    reach: float = field(metadata=of_number(least=0))
    alpha: float = field(default=0.0, metadata={NOT_SAVED: True})
    shrinkage: float = field(default=1.0, metadata={NOT_SAVED: True})

    def requirements(self) -> Iterator[tuple[bool, str]]:
        (n_rows, d), t = self.rows.shape, self.errors.shape[1]
        yield self.kernel.is_stationary, "a stationary kernel"
        if self.root is not None:
            yield self.root.ndim in (1, 2) and self.root.shape[-1] == d, "a root for its columns"
        yield len(self.models) > 0, "a model"
        for model in self.models:
            yield model.order.max() < n_rows and model.coefs.shape[1] == t, "models of its rows and targets"
            yield model.partition.directions.shape[1] in (0, d), "partitions of its rows"

    @property
    def n_inputs(self) -> int:
        """Columns of the scaled rows that are corrected."""
        return self.rows.shape[1] if self.root is None else self.root.shape[0]

    @property
    def n_regions(self) -> int:
        """Number of regions of each partition."""
        return self.models[0].partition.n_regions

    def out_of_range(self, X: np.ndarray) -> np.ndarray:
        """Distances (n,) of scaled rows `X` (n, d) from the data: 0 up to `reach`, rising to 1 at twice `reach`."""
        moved, model = moved_rows(X, self.root), self.models[0]
        result, parts = np.ones(len(X)), model.parts()
        for region, chosen in _members(model.partition.assign(moved)):
            rows = self.rows[model.order[parts[region]]]
            distances = nearest(moved[chosen] * moved.dtype.type(self.scale), rows)
            result[chosen] = np.clip(distances / max(self.reach, np.finfo(np.float64).tiny) - 1, 0, 1)
        return result

    def outputs(self, X: np.ndarray, n_jobs: int | None) -> np.ndarray:
        """Corrections (n, t) for scaled rows `X` (n, d), on the host and in the dtype of `X`."""
        moved = moved_rows(X, self.root)
        return np.sum([self.outputs_of(model, moved, n_jobs) for model in self.models], axis=0)

    def outputs_of(self, model: PartitionModel, moved: np.ndarray, n_jobs: int | None) -> np.ndarray:
        """The part of `outputs` (n, t) that one of the models gives for scaled rows `moved` (n, d) times the root."""
        ops, scale, parts = ops_for(moved), moved.dtype.type(self.scale), model.parts()
        result = np.zeros((len(moved), model.coefs.shape[1]), moved.dtype)

        def correct(member: tuple[int, np.ndarray]) -> None:
            region, chosen = member
            coefs = model.coefs[parts[region]]
            # The coefficients of a region are zero where all its residuals are.
            if coefs.any():
                rows = self.rows[model.order[parts[region]]]
                result[chosen] = kernel_matrix(ops, self.kernel, moved[chosen] * scale, rows) @ coefs.astype(
                    moved.dtype, copy=False
                )

        run_tasks(correct, _members(model.partition.assign(moved)), n_jobs)
        return result


def _members(regions: np.ndarray) -> list[tuple[int, np.ndarray]]:
    """Return each region that occurs in `regions` (n,), and the indices of its rows."""
    return [(int(region), np.flatnonzero(regions == region)) for region in np.unique(regions)]


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
