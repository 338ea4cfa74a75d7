"""The size of the noise where it differs from place to place."""

from __future__ import annotations

import numpy as np
from sklearn.neighbors import NearestNeighbors

# The mean of so many squares is known to a fifth or so, and they are near enough to tell one place from another.
_NEIGHBOURS = 100
#: Rows below which the noise counts as the same everywhere: 20 neighbourhoods.
LEAST_ROWS = 20 * _NEIGHBOURS
#: Columns above which it does as well: distances differ little there, and a tree of them gains nothing.
MOST_COLUMNS = 100


class LocalNoise:
    r"""Local means of squared errors, over those of the whole.

    .. math:: \rho(x) = \frac{\sum_i w_i s_i}{\sum_i w_i}, \qquad w_i = 1 - |x - x_i|^2 / r(x)^2

    over the 100 nearest rows i, with squares :math:`s_i` whose mean is 1 and r(x) the distance to the 100th.

    Parameters
    ----------
    rows : ndarray of shape (s, d)
        Scaled inputs.
    squares : ndarray of shape (s, t)
        Squared errors of the mean 1.
    weights : ndarray of shape (s,) or None
        Of the rows.

    Notes
    -----
    **Error.** A relative standard deviation of about ``((kurtosis - 1) / 70)^{1/2}``, 0.17 for normal errors, and the
    bias of a local mean. It is continuous in x, since the weight of the last neighbour is 0.

    **Cost.** A search in a tree of the rows.

    **Differs from the source in** the nearest neighbours in place of a fixed width.

    References
    ----------
    Fan, Yao (1998), *Efficient estimation of conditional variance functions in stochastic regression*.
    """

    def __init__(self, rows: np.ndarray, squares: np.ndarray, weights: np.ndarray | None):
        self._squares, self._weights = squares, weights
        # Distances by differences of coordinates: they do not depend on the other rows asked for.
        self._search = NearestNeighbors(n_neighbors=_NEIGHBOURS, algorithm="kd_tree").fit(rows)

    def at(self, rows: np.ndarray) -> np.ndarray:
        """Ratios (r, t) at scaled inputs (r, d)."""
        return self._ratios(*self._search.kneighbors(rows))

    def left_out(self) -> np.ndarray:
        """Ratios (s, t) at the rows themselves, each by the others."""
        return self._ratios(*self._search.kneighbors())

    def _ratios(self, distances: np.ndarray, neighbours: np.ndarray) -> np.ndarray:
        reach = distances[:, -1:]
        shares = 1 - np.square(np.divide(distances, reach, out=np.zeros_like(distances), where=reach > 0))
        # Where all neighbours are as far, all count the same.
        shares[shares.sum(axis=1) <= 0] = 1.0
        if self._weights is not None:
            shares = shares * self._weights[neighbours]
        return (shares[:, :, None] * self._squares[neighbours]).sum(axis=1) / shares.sum(axis=1)[:, None]
