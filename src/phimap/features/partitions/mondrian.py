"""Mondrian features: indicators of the leaves of random trees."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from phimap.features.partitions.partition import PartitionFeatures, PartitionRecord, drawn_keys
from phimap.kernels import Kernel, Laplacian
from phimap.ops import Array, Ops, ops_for
from phimap.ops.primitives.partitions import mondrian_leaves
from phimap.records import of_floats


@dataclass(frozen=True)
class MondrianRecord(PartitionRecord):
    """Mondrian trees on a box.

    Attributes
    ----------
    scale : ndarray of shape (n_features,)
        Factors of the columns: the inverse length scales.
    lower, upper : ndarray of shape (n_features,)
        The box of the trees, in length scales. A row outside is moved to the nearest point of the box.
    """

    scale: np.ndarray = field(metadata=of_floats("d", least=0))
    lower: np.ndarray = field(metadata=of_floats("d"))
    upper: np.ndarray = field(metadata=of_floats("d"))

    def requirements(self) -> Iterator[tuple[bool, str]]:
        yield from super().requirements()
        with np.errstate(over="ignore"):
            sides = self.upper - self.lower
            yield bool((sides >= 0).all() and np.isfinite(sides.sum())), "a box of finite size"

    @property
    def n_features(self) -> int:
        return self.scale.size

    def cells(self, ops: Ops, rows: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            inside = np.clip(rows * self.scale, self.lower, self.upper)
        return mondrian_leaves(ops, inside, self.lower, self.upper, self.keys)


class MondrianFeatures(PartitionFeatures):
    r"""Mondrian features. The kernel ``exp(-|x - y|_1 / length_scale)`` is the probability that two rows share a leaf.

    A Mondrian process cuts a box by random planes, each across one column, until time ``1 / length_scale``. Each of T
    trees has w feature columns. Each leaf gets one of these columns c and a sign s at random, so a row has one nonzero
    feature for each tree:

    .. math:: \phi(x) = T^{-1/2} \sum_{t=1}^{T} s_t(x)\, e_{c_t(x)}

    Parameters
    ----------
    length_scale : float or array-like of shape (n_features,), default=1.0
        Length scale of the Laplacian kernel, in the units of the columns: one number, or one per column.
    n_components : int, default=1024
        Output width m. There are ``T = ceil(m / w)`` trees; the last tree has the remaining columns.
    columns_per_partition : int, default=8
        Number w of feature columns of a tree. With 1, the error for a given m is least. Larger numbers have less error
        for a given number of trees, and the cost of `transform` is proportional to the number of trees.
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
    record_ : MondrianRecord
        The seeds of the trees, and their box.
    n_features_in_ : int

    Notes
    -----
    **Error.** Unbiased, with variance ``(1 - k) (k + 1/w) / T``, for rows inside the box. Proof: a Mondrian process
    restricted to a smaller box is a Mondrian process there. In the box with the corners x and y, every cut separates x
    from y. The waiting time for the first cut is exponential, and its rate is the sum of the sides, ``|x - y|_1``. With
    probability k the first cut comes after time ``1 / length_scale``, so that both rows are in one leaf. Rows in one
    leaf have the product 1 / T. Rows in two leaves of a tree share a column with probability 1/w; their signs are
    independent, so the mean of their product is 0. So the product of a tree, times T, has the mean k and the second
    moment ``k + (1 - k) / w``. With w = 1, the variance ``(1 - k^2) / m`` equals the variance of `FourierFeatures` for
    this kernel with independent pairs.

    The box has the middle of the rows of `fit` and, in each column, twice their range. A row outside the box gets the
    estimates of the nearest point of the box, so estimates are constant far outside, as for trees. A column that is
    constant in `fit` is not cut.

    **Cost.** Trees are not stored: the cuts along the path of a row follow from hashes of the path. A tree takes 8
    bytes for any number of leaves. ``transform`` follows T paths per row. In a box with sides of s_j length scales, a
    path has about ``sum_j (1 + 2 log(s_j / 2))`` cuts for long sides, and each cut takes d additions and
    three hashes. CSR rows take 8 or 12 bytes for each tree.

    **One draw for all widths.** With the same seed, a wider map begins with the trees of a narrower map: its leading
    columns are the narrower map, up to a factor. On the same rows, a map with a shorter length scale has all cuts of a
    map with a longer length scale and further cuts. Its leaves divide the leaves of that map.

    **Differs from the source in** the columns, the trees and rows outside of the box. Leaves are hashed, with signs, to
    a fixed number of columns. Trees are made only along the path of a row; the source stores all leaves that contain
    rows.

    References
    ----------
    Balog, Lakshminarayanan, Ghahramani, Roy, Teh (2016), *The Mondrian kernel*; Roy, Teh
    (2009), *The Mondrian process*.

    Examples
    --------
    >>> import numpy as np, phimap as pm
    >>> X = np.random.default_rng(0).standard_normal((100, 5))
    >>> phi = pm.MondrianFeatures(3.0, 4096, columns_per_partition=1, random_state=0)
    >>> Z = phi.fit_transform(X)
    >>> bool(np.abs(Z @ Z.T - phi.kernel_(X)).max() < 5 / np.sqrt(4096))
    True
    """

    _roles = ("trees",)

    def __init__(
        self,
        length_scale: Any = 1.0,
        n_components: int = 1024,
        *,
        columns_per_partition: int = 8,
        sparse_output: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
    ):
        self.length_scale = length_scale
        self.n_components = n_components
        self.columns_per_partition = columns_per_partition
        self.sparse_output = sparse_output
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _draw(self, X: Array, streams: dict[str, np.random.Generator]) -> MondrianRecord:
        n_trees, kernel = self._check_columns(), Laplacian(self.length_scale)
        scale = np.broadcast_to(kernel.spectral_law(X.shape[1]).scale, X.shape[1]).astype(np.float64)
        self.kernel_: Kernel = kernel
        with np.errstate(over="ignore", invalid="ignore"):
            low, high = (scale * side for side in _range(X))
            margin = (high - low) / 2
            lower, upper = low - margin, high + margin
            is_finite = np.isfinite((upper - lower).sum())
        if not is_finite:
            raise ValueError("`X` is too large for this length scale: its range overflows float64. Scale X down.")
        keys = drawn_keys(streams["trees"], n_trees)
        return MondrianRecord(
            keys, self.n_components, self.columns_per_partition, bool(self.sparse_output), scale, lower, upper
        )


def _range(X: Array) -> tuple[np.ndarray, np.ndarray]:
    """Smallest and largest entries (d,) of the columns of `X`, on the host in float64."""
    ops = ops_for(X)
    rows = X if ops.is_sparse(X) else ops.to_host(X)
    sides = (rows.min(axis=0), rows.max(axis=0))
    low, high = ((side.toarray() if ops.is_sparse(X) else side).ravel().astype(np.float64) for side in sides)
    return low, high
