"""The mean of a kernel over all subsets of a given number of columns."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, combinations_with_replacement
from math import comb
from typing import Any

import numpy as np
from scipy import sparse

from phimap._validation import check_integer
from phimap.kernels.base import StationaryKernel
from phimap.kernels.combined import CombinedKernel
from phimap.kernels.geometry import Rows, paired_columns, row_blocks, scaled_columns
from phimap.kernels.spectral import SpectralLaw
from phimap.kernels.spectral_mixture.kernel import SpectralMixture
from phimap.kernels.subsets import SubsetLaw, spread_subsets

# Maximum number of subsets of columns if the base kernel is not a product over columns. The kernel matrix of the base
# is then computed for each subset.
_MOST_SUBSETS = 2000
# Number of scratch floats for the means over subsets of all orders. They take 8 MiB, enough for a whole tile up to
# order 14.
_SCRATCH = 2**20
# Maximum number of subsets of columns in `distances`, and number of groups of rows. All distances between the rows of
# two groups are computed on the same subset.
_SUBSETS = 32
_GROUPS = 16


class Additive(CombinedKernel, StationaryKernel):
    r"""The mean of a stationary kernel over all subsets of `order` columns.

    .. math:: k(x, y) = \binom{d}{q}^{-1} \sum_{|S| = q} k_S(x_S, y_S)

    Here :math:`q` is `order`, and :math:`k_S` is the base kernel on only the columns in S. If the base is a product
    over columns, as the Gaussian kernel is, the sum is an elementary symmetric polynomial of the one-dimensional
    kernels. The functions in the reproducing kernel Hilbert space are sums of functions of q columns each.

    Parameters
    ----------
    base : StationaryKernel
        The base kernel; its length scales do not depend on `order`. It must not be an `Additive` or `SpectralMixture`
        kernel.
    order : int
        Number q of columns in a subset, from 1 to the width d of the data. With q = d the kernel is the base itself.

    Notes
    -----
    **Error.** If the base is a product over columns, all terms are positive, and the relative error is about
    ``4 d q eps`` plus the errors of d one-dimensional kernels. Otherwise the error is the error of the base.

    **Cost.** If the base is a product over columns (Gaussian, Laplacian, Cauchy and their products), or for order 1
    with any base: d one-dimensional kernels and 4 d q operations per pair of rows. Otherwise one matrix of the base per
    subset, with at most 2,000 subsets. Gradients exist for a Gaussian base only and take three times as long.

    **Differs from the source in** the mean instead of the sum, in the orders and in the recurrence. This kernel has one
    order; add `Additive` kernels for several orders. The recurrence goes over the columns. The source uses the
    Newton-Girard formulae, whose power sums alternate in sign and cancel: for distant rows with 20 columns they lose 10
    of 16 digits at order 18, but hardly any up to order 10.

    References
    ----------
    Duvenaud, Nickisch, Rasmussen (2011), *Additive Gaussian processes*, Section 3; Hashemi, Schaeffer, Shi, Topcu,
    Tran, Ward (2023), *Generalization bounds for sparse random feature expansions*, Section 2, for the directions.

    Examples
    --------
    >>> import numpy as np
    >>> from phimap.kernels import Additive, Gaussian
    >>> X = np.array([[0.0, 0.0, 0.0], [0.0, 0.0, 2.0]])
    >>> Additive(Gaussian(), order=2)(X).round(4)
    array([[1.    , 0.4236],
           [0.4236, 1.    ]])
    >>> bool(np.isclose(Additive(Gaussian(), order=2)(X)[0, 1], (1 + 2 * np.exp(-2)) / 3))
    True
    """

    def __init__(self, base: Any, order: int):
        self.base = base
        self.order = order

    def spectral_law(self, n_features: int) -> SpectralLaw:
        """Give the distribution of w for which ``E[cos(<w, x - y>)] = k(x, y)``.

        The entries of w in a random subset follow the spectral law of the base; all other entries are zero.

        Parameters
        ----------
        n_features : int
            Width d of the data.

        Returns
        -------
        SpectralLaw
            A `SubsetLaw`; if `order` equals d, the law of the base.
        """
        self._check_parameters(check_integer("n_features", n_features, least=1))
        law = self.base.spectral_law(n_features)
        if self.order == n_features:
            return law
        return SubsetLaw(n_features, law.scale, replace(law, scale=1.0), int(self.order))

    def distances(self, X: Any) -> np.ndarray:
        """Give the pairwise distances of the base on subsets of `order` columns, not divided by its length scale.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n, d)

        Returns
        -------
        ndarray of shape (n, n)
            The distance of each pair of rows is taken on one of at most 32 subsets. The subsets contain all columns
            about equally often.
        """
        X = sparse.csr_array(X) if sparse.issparse(X) else np.asarray(X)
        n, d = X.shape
        self._check_parameters(d)
        subsets = spread_subsets(d, self.order, min(comb(d, self.order), _SUBSETS), np.random.default_rng(0))
        found = np.zeros((n, n))
        groups = [np.arange(first, n, _GROUPS) for first in range(min(n, _GROUPS))]
        for number, (left, right) in enumerate(combinations_with_replacement(groups, 2)):
            rows = left if left is right else np.concatenate([left, right])
            among = self.base.distances(X[rows][:, subsets[number % len(subsets)]])[: left.size, -right.size :]
            found[np.ix_(left, right)] = among
            found[np.ix_(right, left)] = among.T
        return found

    def gradients(self, X: np.ndarray, Y: np.ndarray, weights: np.ndarray) -> np.ndarray | None:
        d = X.shape[1]
        if self.order == d:
            return self.base.gradients(X, Y, weights)
        # `_without` loses digits if a subset has more than half of the columns.
        if 2 * self.order > d + 1 or not self.base.factorises:
            return None
        result = np.empty((X.shape[0], d, weights.shape[1]))
        step = max(1, _SCRATCH // (Y.shape[0] * (self.order + 2)))
        for start in range(0, X.shape[0], step):
            rows = slice(start, start + step)
            means = self._means(X[rows], Y, self.order - 1)[0]
            for column, x, y in paired_columns(X[rows], Y):
                slopes = self.base._slope_of_column(x, y, column, d)
                if slopes is None:
                    return None
                if means:
                    slopes *= _without(means, self.base._of_column(x, y, column, d), d)
                result[rows, column] = slopes @ weights
        # A fraction q / d of the subsets contains a given column.
        return result * (self.order / d)

    def _check_parameters(self, n_features: int) -> None:
        if not isinstance(self.base, StationaryKernel) or isinstance(self.base, Additive | SpectralMixture):
            raise TypeError(
                f"`base` must be a stationary kernel that is neither additive nor a mixture, got "
                f"{self.base!r}. Use Gaussian(), say."
            )
        order = check_integer("order", self.order, least=1)
        if order > n_features:
            raise ValueError(
                f"`order` must be at most the number of columns, {n_features}, got {order}. Use order={n_features} "
                "for the base kernel itself, or less."
            )
        self.base._check_parameters(n_features)

    def _evaluate(self, X: Rows, Y: Rows) -> np.ndarray:
        d = X.shape[1]
        if self.order == d:
            return self.base._evaluate(X, Y)
        if self.order > 1 and not self.base.factorises:
            return self._over_subsets(X, Y)
        step = max(1, _SCRATCH // (Y.shape[0] * (self.order + 2)))
        parts = [self._over_columns(block, Y) for block in row_blocks(X, step)]
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _over_columns(self, X: Rows, Y: Rows) -> np.ndarray:
        """Multiply the kernels of the columns of each subset, and return the mean (n, m) of these products."""
        means, count = self._means(X, Y, self.order)
        return means[-1] if count == X.shape[1] else _with_equal_columns(means, count, X.shape[1])

    def _means(self, X: Rows, Y: Rows, order: int) -> tuple[list[np.ndarray], int]:
        """Means (n, m) of the products of column kernels over the subsets of r columns, for r = 1, ..., `order`.

        Also returns the number of columns that were used.

        Columns of CSR tiles that are zero in both tiles are not used.
        """
        # means[r - 1] is the mean over all subsets of r of the first `count` columns. A fraction r / count of these
        # subsets contains the last of the `count` columns.
        means: list[np.ndarray] = []
        count = 0
        for column, x, y in paired_columns(X, Y):
            count += 1
            values = self.base._of_column(x, y, column, X.shape[1])
            for r in range(min(order, count), 0, -1):
                products = values * means[r - 2] if r > 1 else values
                if r > len(means):
                    means.append(products)
                else:
                    _move(means[r - 1], products, r / count)
        return means + [np.zeros((X.shape[0], Y.shape[0])) for _ in range(order - len(means))], count

    def _over_subsets(self, X: Rows, Y: Rows) -> np.ndarray:
        """Mean (n, m) of the base kernel over all subsets, evaluated one by one."""
        d = X.shape[1]
        n_subsets = comb(d, self.order)
        if n_subsets > _MOST_SUBSETS:
            raise ValueError(
                f"`order` must leave at most {_MOST_SUBSETS} subsets where the base is no product over columns, got "
                f"{self.order} of {d} columns: {n_subsets} subsets. Use order=1 or a Gaussian base for exact values; "
                "features take any order."
            )
        mean = np.zeros((X.shape[0], Y.shape[0]))
        for number, subset in enumerate(combinations(range(d), self.order), 1):
            kept = np.zeros(d)
            kept[list(subset)] = 1.0
            values = self.base._evaluate(scaled_columns(X, kept), scaled_columns(Y, kept))
            _move(mean, values, 1 / number)
        return mean


def _move(mean: np.ndarray, values: np.ndarray, share: float) -> None:
    """Set `mean` to ``(1 - share) mean + share values`` and overwrite `values`. Where both are 1, `mean` stays 1."""
    values -= mean
    values *= share
    mean += values


def _without(means: list[np.ndarray], values: np.ndarray, n_features: int) -> np.ndarray:
    """Mean of the products of column kernels over the subsets of q = ``len(means)`` columns without a given column.

    `means` holds the means over all subsets of 1, ..., q columns, `values` the kernel of the given column.
    """
    left = np.ones_like(values)
    for r, mean in enumerate(means, 1):
        share = r / n_features
        left *= values
        left *= -share
        left += mean
        left /= 1 - share
    return left


def _with_equal_columns(means: list[np.ndarray], count: int, n_features: int) -> np.ndarray:
    """Mean of the products of column kernels over all subsets of q = ``len(means)`` columns.

    `means` holds the means over all subsets of 1, ..., q of the first `count` columns; the kernels of the other columns
    are 1. The number of the `count` columns in a random subset has a hypergeometric distribution.
    """
    order = len(means)
    values = np.ones_like(means[0])
    for r in range(1, min(order, count) + 1):
        chance = comb(count, r) * comb(n_features - count, order - r) / comb(n_features, order)
        values -= chance * (1.0 - means[r - 1])
    return values
