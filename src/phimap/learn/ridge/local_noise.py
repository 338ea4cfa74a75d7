"""The noise of the targets as a function of the inputs."""

from __future__ import annotations

import numpy as np
from sklearn.neighbors import NearestNeighbors

# The mean of this many squares has a relative error of about a fifth, and the neighbourhoods are still small.
_NEIGHBOURS = 100
#: With fewer rows than 20 neighbourhoods the noise counts as constant.
LEAST_ROWS = 20 * _NEIGHBOURS
#: With more columns the noise counts as constant too: distances differ little, and a tree does not speed up the search.
MOST_COLUMNS = 100


class LocalNoise:
    r"""Local means of squared errors, relative to their overall mean.

    .. math:: \rho(x) = \frac{\sum_i w_i s_i}{\sum_i w_i}, \qquad w_i = 1 - |x - x_i|^2 / r(x)^2

    over the 100 nearest rows i, with squares :math:`s_i` whose mean is 1 and r(x) the distance to the 100th.

    Parameters
    ----------
    rows : ndarray of shape (s, d)
        Scaled inputs.
    squares : ndarray of shape (s, t)
        Squared errors with mean 1.
    weights : ndarray of shape (s,) or None
        Weights of the rows.

    Notes
    -----
    **Error.** A relative standard deviation of about ``((kurtosis - 1) / 70)^{1/2}``, 0.17 for normal errors, and the
    bias of a local mean. The ratio is continuous in x, since the weight of the farthest neighbour is 0.

    **Cost.** A nearest-neighbour search in a k-d tree.

    **Differs from the source in** the use of nearest neighbours in place of a kernel of fixed width.

    References
    ----------
    Fan, Yao (1998), *Efficient estimation of conditional variance functions in stochastic regression*.
    """

    def __init__(self, rows: np.ndarray, squares: np.ndarray, weights: np.ndarray | None):
        self._squares, self._weights = squares, weights
        # The tree computes distances from differences of coordinates, so that they do not depend on the batch of rows.
        self._search = NearestNeighbors(n_neighbors=_NEIGHBOURS, algorithm="kd_tree").fit(rows)

    def at(self, rows: np.ndarray) -> np.ndarray:
        """Ratios (r, t) at scaled inputs (r, d)."""
        return self._ratios(*self._search.kneighbors(rows))

    def leave_one_out(self) -> np.ndarray:
        """Ratios (s, t) at the rows themselves, each without its own error."""
        return self._ratios(*self._search.kneighbors())

    def _ratios(self, distances: np.ndarray, neighbours: np.ndarray) -> np.ndarray:
        reach = distances[:, -1:]
        shares = 1 - np.square(np.divide(distances, reach, out=np.zeros_like(distances), where=reach > 0))
        # If all neighbours are equally far, all have the same weight.
        shares[shares.sum(axis=1) <= 0] = 1.0
        if self._weights is not None:
            shares = shares * self._weights[neighbours]
        return (shares[:, :, None] * self._squares[neighbours]).sum(axis=1) / shares.sum(axis=1)[:, None]
