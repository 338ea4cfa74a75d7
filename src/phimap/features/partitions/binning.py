"""Random binning features: indicators of the cells of random grids."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from phimap.features.partitions.partition import PartitionFeatures, PartitionRecord, drawn_keys
from phimap.kernels import Kernel, Laplacian
from phimap.ops import Array, Ops
from phimap.ops.primitives.partitions import grid_cells
from phimap.records import of_floats


@dataclass(frozen=True)
class BinningRecord(PartitionRecord):
    """Random grids. Each grid has a pitch and a shift for each column.

    Attributes
    ----------
    factors : ndarray of shape (n_partitions, n_features)
        Inverse pitches.
    offsets : ndarray of shape (n_partitions, n_features)
        Shifts of the grids, as fractions of the pitch.
    """

    factors: np.ndarray = field(metadata=of_floats("t", "d", least=0))
    offsets: np.ndarray = field(metadata=of_floats("t", "d", least=0, most=1))

    @property
    def n_features(self) -> int:
        return self.factors.shape[1]

    def cells(self, ops: Ops, rows: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            return grid_cells(ops, rows, self.factors, self.offsets, self.keys)


class BinningFeatures(PartitionFeatures):
    r"""Random binning features. The kernel is the probability that two rows share a cell of a random grid.

    Each of T grids has w feature columns. Each cell gets one of these columns c and a sign s at random, so a row has
    one nonzero feature for each grid:

    .. math:: \phi(x) = T^{-1/2} \sum_{t=1}^{T} s_t(x)\, e_{c_t(x)}

    Parameters
    ----------
    kernel : Laplacian or None, default=None
        The kernel to estimate; None is ``Laplacian(length_scale=1.0)``.
    n_components : int, default=1024
        Output width m. There are ``T = ceil(m / w)`` grids; the last grid has the remaining columns.
    columns_per_partition : int, default=1
        Number w of feature columns of a grid. With 1, the error for a given m is least, and all features are ``+-1 /
        sqrt(m)``. Larger numbers have less error for a given number of grids, and make sparse features.
    sparse_output : bool, default=False
        Whether `transform` returns a CSR matrix in host memory, and learners train on one.
    random_state : int, Generator, RandomState, SeedSequence or None, default=None
        Seed of all random draws; None draws fresh entropy.
    n_jobs : int or None, default=None
        Threads; None uses the configured number. The result is bitwise the same for any number.

    Attributes
    ----------
    kernel_ : Laplacian
        The exact kernel that ``Z @ Z.T`` estimates.
    record_ : BinningRecord
        The grids.
    n_features_in_ : int

    Notes
    -----
    **Error.** Unbiased for all rows, with variance ``(1 - k) (k + 1/w) / T``. Two numbers at a distance D share a cell
    of a grid of pitch p, whose shift is uniform, with probability ``max(0, 1 - D / p)``. If the pitch has the density
    q, the mean over pitches is ``k(D)`` for ``q(p) = p k''(p)``: the second derivatives of both sides are equal, and
    both sides vanish at infinity. For ``exp(-D / length_scale)`` this is a gamma density of shape 2 with the scale
    ``length_scale``. Columns have independent pitches, so the kernel is a product over columns. The variance follows as
    for `MondrianFeatures`; with w = 1 it equals the variance of `FourierFeatures` with independent pairs.

    **Cost.** ``fit``: T d pitches and shifts are drawn, 16 T d bytes; the data are not used. ``transform``: 2 d
    multiplications and a hash for each row and grid. CSR rows take 8 or 12 bytes for each grid.

    **One draw for all widths.** With the same seed, a wider map begins with the grids of a narrower map: its leading
    columns are the narrower map, up to a factor. Another length scale only scales the pitches.

    **Differs from the source in** the number of columns. Cells are hashed, with signs, to a fixed number of columns; in
    the source, each cell that contains rows has a column of its own. Other mixtures of hat functions are not
    implemented.

    References
    ----------
    Rahimi, Recht (2007), *Random features for large-scale kernel machines*, Section 4 and Algorithm 2.

    Examples
    --------
    >>> import numpy as np, phimap as pm
    >>> X = np.random.default_rng(0).standard_normal((100, 5))
    >>> phi = pm.BinningFeatures(pm.kernels.Laplacian(3.0), 4096, random_state=0)
    >>> Z = phi.fit_transform(X)
    >>> bool(np.abs(Z @ Z.T - phi.kernel_(X)).max() < 5 / np.sqrt(4096))
    True
    """

    _roles = ("pitches", "shifts", "cells")

    def __init__(
        self,
        kernel: Laplacian | None = None,
        n_components: int = 1024,
        *,
        columns_per_partition: int = 1,
        sparse_output: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
    ):
        self.kernel = kernel
        self.n_components = n_components
        self.columns_per_partition = columns_per_partition
        self.sparse_output = sparse_output
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _draw(self, X: Array, streams: dict[str, np.random.Generator]) -> BinningRecord:
        n_grids, kernel = self._check_columns(), Laplacian() if self.kernel is None else self.kernel
        if not isinstance(kernel, Laplacian):
            raise TypeError(
                f"`kernel` must be a Laplacian kernel, got {kernel!r}. Use FourierFeatures for other kernels."
            )
        shape = (n_grids, X.shape[1])
        scale = kernel.spectral_law(X.shape[1]).scale
        self.kernel_: Kernel = kernel
        return BinningRecord(
            drawn_keys(streams["cells"], n_grids),
            self.n_components,
            self.columns_per_partition,
            bool(self.sparse_output),
            scale / streams["pitches"].standard_gamma(2.0, shape),
            streams["shifts"].random(shape),
        )
