"""Active learning: greedy selection of rows to label.

Each pick minimises the sum of the posterior variances of all rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone

from phimap._validation import check_integer, check_real, check_samples
from phimap.config import memory_budget, size_text, thread_count
from phimap.learn.blocks.blocks import feature_block
from phimap.learn.blocks.triangle import BlockTriangle, packed_entries
from phimap.ops import host, ops_for, run_tasks, single_threaded_blas
from phimap.random_map import RandomMap

# Number of rows of a tile in the computation of all gains: few enough for the cache to hold float64 copies of their
# features.
_TILE = 256


class PosteriorKernel:
    """Posterior kernel ``R = Z P Z^T`` of all rows, given the selected rows S: ``P = (I + Z_S^T Z_S / alpha)^-1``.

    Selecting a row s subtracts ``c c^T`` from R, with ``c = Z u`` and ``u = P z_s / sqrt(R_ss + alpha)``. One product
    of all features with two vectors then updates ``squared_norms``, the squared norms of the columns of R, and
    ``variances``, the diagonal of R. Norms and variances are float64; the product has the dtype of the features.

    Parameters
    ----------
    Z : ndarray of shape (n, m)
        Features. If m > n, a rotation reduces them to n columns with the same inner products.
    alpha : float
    n_picks : int
        Largest number of rows that will be selected.
    n_jobs : int or None
    """

    def __init__(self, Z: np.ndarray, alpha: float, n_picks: int, n_jobs: int | None):
        if Z.shape[1] > Z.shape[0]:
            with single_threaded_blas():
                triangle: Any = np.linalg.qr(Z.T, mode="r")
                Z = triangle.T
        self._Z, self._alpha, self._n_jobs = np.ascontiguousarray(Z), alpha, n_jobs
        m = self._Z.shape[1]
        self._gram = BlockTriangle.zeros(m)
        for tile in self._tiles(max(_TILE, m)):
            self._gram.add_products(self._Z[tile].astype(np.float64, copy=False), 1, n_jobs)
        self._factors = np.empty((n_picks, m))
        self._n_factors = 0
        # The squared norm of the selected column of R is also computed directly. If the updated norm differs from it by
        # more than this fraction, so that less than half of the digits agree, all norms are computed again.
        self._tolerance = float(np.sqrt(np.finfo(self._Z.dtype).eps))
        # Two gains whose relative difference is at most this count as equal.
        self._rounding = float(m * np.finfo(self._Z.dtype).eps)
        #: Number of times that all norms were computed from the features.
        self.n_refreshes: int = 0
        self.refresh()

    @staticmethod
    def memory(n: int, m: int, n_picks: int, itemsize: int) -> int:
        """Return the bytes needed for n rows of m features, including the features."""
        width = min(n, m)
        turned = n * m * itemsize if m > n else 0
        return turned + n * width * itemsize + 8 * (packed_entries(width) + n_picks * width + 4 * n)

    @property
    def explained(self) -> float:
        """The trace of the kernel matrix minus the trace of R: ``-J(S)`` for the selected rows S."""
        return float(self._trace - self.variances.sum())

    def refresh(self) -> None:
        """Compute the squared norms of the columns and the diagonal of R from the features, in O(n m^2)."""
        n = len(self._Z)
        self.squared_norms, self.variances, traces = np.empty(n), np.empty(n), np.empty(n)

        def compute(tile: slice) -> None:
            rows = self._Z[tile].astype(np.float64, copy=False)
            left = self._residual(rows)
            self.squared_norms[tile] = np.einsum("ij,ij->i", self._gram.matmul(left.T).T, left)
            self.variances[tile] = np.einsum("ij,ij->i", rows, left)
            traces[tile] = np.einsum("ij,ij->i", rows, rows)

        run_tasks(compute, self._tiles(_TILE), self._n_jobs)
        self._trace = traces.sum()
        self.n_refreshes += 1

    def best(self, free: np.ndarray) -> int:
        """Return the row with `free` (n,) true that decreases the trace of R most; the first row of ties."""
        gains = np.where(free, self.squared_norms / (np.maximum(self.variances, 0) + self._alpha), -np.inf)
        highest = gains.max()
        return int(np.argmax(gains >= highest - self._rounding * abs(highest)))

    def pick(self, free: np.ndarray) -> tuple[int, float]:
        """Select the best of the `free` rows; return its index and the decrease of the trace of R."""
        row = self.best(free)
        direction, column, products, squared_norm = self._update(row)
        if abs(self.squared_norms[row] - squared_norm) > self._tolerance * squared_norm:
            self.refresh()
            row = self.best(free)
            direction, column, products, _ = self._update(row)
        gain = float(np.square(column).sum())
        self.squared_norms += column * (column * gain - 2 * products)
        self.variances -= np.square(column)
        self._keep(direction)
        return row, gain

    def condition(self, rows: np.ndarray) -> None:
        """Add given rows to the selected rows, without computing their gains."""
        with single_threaded_blas():
            for row in rows:
                self._keep(self._direction(row)[0])
        self.refresh()

    def _keep(self, direction: np.ndarray) -> None:
        self._factors[self._n_factors] = direction
        self._n_factors += 1

    def _residual(self, rows: np.ndarray) -> np.ndarray:
        """Return ``P`` times each of the float64 `rows` (..., m)."""
        factors = self._factors[: self._n_factors]
        return rows - (rows @ factors.T) @ factors

    def _direction(self, row: int) -> tuple[np.ndarray, float]:
        """Return the vector u (m,) for the selection of row s, and ``R_ss + alpha``."""
        features = self._Z[row].astype(np.float64)
        left = self._residual(features)
        shifted = max(float(left @ features), 0.0) + self._alpha
        return left / np.sqrt(shifted), shifted

    def _update(self, row: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
        """Return the rank-one update of R for the selection of row s.

        It consists of the vectors u (m,), ``c = Z u`` and ``R c`` (n,), and the squared norm of column s of R. Rounding
        errors of earlier updates do not affect this norm.
        """
        with single_threaded_blas():
            direction, shifted = self._direction(row)
            turned = self._residual(self._gram.matmul(direction[:, None], self._n_jobs)[:, 0])
            both = np.stack([direction, turned], axis=1).astype(self._Z.dtype)
            products = host(self._Z.dtype).matmul_rows(self._Z, both, self._n_jobs).astype(np.float64)
            column = products[:, 0]
            return direction, column, products[:, 1], float(np.square(column).sum()) * shifted

    def _tiles(self, height: int) -> list[slice]:
        return [slice(start, start + height) for start in range(0, len(self._Z), height)]


class GreedyDesign(BaseEstimator):
    r"""Choose rows to label, one after the other.

    Each pick reduces the expected error over all rows as much as possible.

    With the kernel ``K = Z Z^T`` of all rows and the set S of selected rows, every pick minimises

    .. math:: J(S) = -\operatorname{tr} K_{:S} (K_{SS} + \alpha I)^{-1} K_{S:}

    over one further row. ``tr K + J(S)`` is the sum over all rows of the posterior variances of a Gaussian process
    with kernel K, observed at S with noise of variance alpha. Labels are not used.

    Parameters
    ----------
    feature_map : RandomMap or None
        Unfitted map of the kernel; a copy is fitted to the rows. If None, the rows themselves are the features.
    n_select : int
        Number k of rows to select.
    alpha : float
        Positive regularisation of the ridge regression that will use the labels, in the units of `KernelRegressor`.
    n_jobs : int or None, default=None
        Threads; None takes the configured number. Does not change the result.

    Attributes
    ----------
    feature_map_ : RandomMap or None
        The fitted map.
    indices_ : ndarray of intp, shape (n_select,)
        The selected rows in order: the first j are the design of size j.
    gains_ : ndarray of shape (n_select,)
        Decrease of J by each pick.
    objective_ : ndarray of shape (n_select,)
        J after each pick; S includes the rows given as `initial`.
    n_features_in_ : int

    Notes
    -----
    **Error.** Each pick is the best single row; the whole design may not be the best of its size. Gains are updated in
    float64 from products in the dtype of the features. The gain of every pick is also computed directly. If both values
    agree in less than half of the digits, all gains are computed again and the pick is repeated. Rows whose gains
    differ only by rounding are ties, and the first of them is selected.

    **Cost.** ``n m min(n, m)`` multiply-adds once, then ``2 n m + m^2 + 4 k m`` for each pick. With
    ``R = K - K_{:S} (K_SS + alpha I)^-1 K_{S:}`` the gain of a row x is ``|R_{:x}|^2 / (R_xx + alpha)``. A pick s
    subtracts ``c c^T`` from R, ``c = R_{:s} / sqrt(R_ss + alpha)``, which lowers ``|R_{:x}|^2`` by
    ``2 c_x (R c)_x - c_x^2 |c|^2`` and ``R_xx`` by ``c_x^2``. Both vectors are products of Z: ``R = Z P Z^T``,
    ``c = Z u`` and ``R c = Z P (Z^T Z) u`` with ``u = P z_s / sqrt(R_ss + alpha)``; P becomes ``P - u u^T``. The vector
    u is a row of the Cholesky factor of ``K_SS + alpha I`` in the space of features. Memory: Z, half of ``Z^T Z`` and
    k vectors u in float64.

    **Differs from the source in** the cost: the source evaluates J for all candidates of a pick in O(n m k^2).

    References
    ----------
    Han, Avron, Shoham, Kim, Shin (2021), *Random features for the neural tangent kernel*, Appendix C; Shoham, Avron
    (2020), *Experimental design for overparameterized learning with application to single shot deep active learning*.

    Examples
    --------
    >>> import numpy as np, phimap as pm
    >>> X = np.random.default_rng(0).standard_normal((200, 3))
    >>> phi = pm.FourierFeatures(pm.kernels.Gaussian(2.0), 256, random_state=0)
    >>> design = pm.GreedyDesign(phi, n_select=20, alpha=0.01)
    >>> chosen = design.select(X)
    >>> K = phi.fit(X).kernel_(X)
    >>> left = np.trace(K - K[:, chosen] @ np.linalg.solve(K[np.ix_(chosen, chosen)] + 0.01 * np.eye(20), K[chosen]))
    >>> bool(left < 0.2 * np.trace(K))
    True
    """

    def __init__(self, feature_map: RandomMap | None, n_select: int, alpha: float, *, n_jobs: int | None = None):
        self.feature_map = feature_map
        self.n_select = n_select
        self.alpha = alpha
        self.n_jobs = n_jobs

    def select(self, X: Any, initial: Any = None) -> np.ndarray:
        """Select rows to label.

        Parameters
        ----------
        X : array-like, CSR matrix or torch.Tensor of shape (n_samples, n_features)
            All rows, labelled or not.
        initial : array-like of int, optional
            Rows that have labels already; they are not selected again.

        Returns
        -------
        ndarray of intp, shape (n_select,)
            `indices_`.

        Raises
        ------
        TypeError
            If `feature_map` is not a feature map.
        ValueError
            If a parameter is out of range, there are fewer unlabelled rows than `n_select`, `initial` has a row
            twice or out of range, or `X` is empty or not finite.
        MemoryError
            If the features and their sums would exceed the byte budget.
        """
        n_select = check_integer("n_select", self.n_select, least=1)
        alpha = check_real("alpha", self.alpha, above=0.0)
        thread_count(self.n_jobs)
        if not (self.feature_map is None or isinstance(self.feature_map, RandomMap)):
            raise TypeError(
                f"`feature_map` must be a feature map, got {self.feature_map!r}. Use FourierFeatures or NTKFeatures, "
                "or None where the rows are features."
            )
        X = check_samples(self, X, reset=True)
        free = np.ones(X.shape[0], dtype=bool)
        labelled = _check_rows(initial, X.shape[0])
        free[labelled] = False
        if n_select > free.sum():
            raise ValueError(
                f"`n_select` must be at most the number of unlabelled rows, {free.sum()}, got {n_select}. Pick fewer."
            )
        posterior = PosteriorKernel(
            self._features(X, n_select + len(labelled)), alpha, n_select + len(labelled), self.n_jobs
        )
        if labelled.size:
            posterior.condition(labelled)
        explained = posterior.explained
        self.indices_, self.gains_ = np.empty(n_select, dtype=np.intp), np.empty(n_select)
        for place in range(n_select):
            row, self.gains_[place] = posterior.pick(free)
            self.indices_[place] = row
            free[row] = False
        self.objective_ = -(explained + np.cumsum(self.gains_))
        return self.indices_

    def _features(self, X: Any, n_picks: int) -> np.ndarray:
        """Return features (n, m) of the rows on the host; raise MemoryError if the design exceeds the byte budget."""
        ops = ops_for(X)
        width = X.shape[1] if self.feature_map is None else self.feature_map.output_width(X.shape[1])
        needed, budget = PosteriorKernel.memory(X.shape[0], width, n_picks, ops.dtype.itemsize), memory_budget()
        if needed > budget:
            raise MemoryError(
                f"a design of {n_picks} among {X.shape[0]} rows x {width} components needs {size_text(needed)}, over "
                f"the budget of {size_text(budget)}. Use fewer components or a part of the rows, or raise the budget "
                "with phimap.config(memory=...)."
            )
        if self.feature_map is None:
            self.feature_map_ = None
            return ops.to_host(ops.dense(X))
        fitted: Any = clone(self.feature_map)
        self.feature_map_ = fitted.fit(X)
        return feature_block(fitted.transform(X)).to_host()


def _check_rows(initial: Any, n_rows: int) -> np.ndarray:
    """Return the indices of labelled rows; raise if one is out of range or occurs twice."""
    rows = np.asarray([] if initial is None else initial)
    if rows.ndim != 1 or (rows.size and rows.dtype.kind not in "iu"):
        raise ValueError(
            f"`initial` must be a vector of row numbers, got {rows.dtype} of shape {rows.shape}. "
            "Use numpy.flatnonzero for a mask."
        )
    rows = rows.astype(np.intp)
    outside = (rows < 0) | (rows >= n_rows)
    if outside.any():
        raise ValueError(f"`initial` must hold rows 0 to {n_rows - 1}, got {rows[outside][0]}. Leave it out.")
    if np.unique(rows).size < rows.size:
        row = int(np.argmax(np.bincount(rows)))
        raise ValueError(f"`initial` must name a row once, got {row} more than once. Use numpy.unique.")
    return rows
