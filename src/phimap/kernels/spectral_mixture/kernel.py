"""The spectral mixture kernel, whose spectral law is a mixture of Gaussians with arbitrary means."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from scipy import special

from phimap._random import seed_sequence
from phimap._validation import check_choice, check_integer
from phimap.kernels.base import StationaryKernel
from phimap.kernels.combined import CombinedKernel
from phimap.kernels.geometry import Rows
from phimap.kernels.spectral import SpectralLaw
from phimap.kernels.spectral_mixture.components import Components
from phimap.kernels.spectral_mixture.fit import MixtureOptions, checked_targets, fit_mixture


@dataclass(frozen=True, eq=False)
class SpectralMixtureLaw(SpectralLaw):
    """A mixture of Gaussians with diagonal covariances, symmetrised: each component has the means +m and -m.

    Parameters
    ----------
    n_features, scale : as in `SpectralLaw`
        `scale` is 1, because the components have their own scales.
    components : Components
        Weights, means and standard deviations of the components.
    """

    components: Components = field(default_factory=lambda: Components(np.ones(1), np.zeros((1, 1)), np.ones((1, 1))))
    kernel_name: ClassVar[str] = "a spectral mixture"

    def unit(self, n_features: int) -> SpectralLaw:
        raise ValueError("The spectral law of a spectral mixture is of its own columns alone. Use projection='qmc'.")

    def _sample_unit(self, rng: np.random.Generator, size: int) -> np.ndarray:
        # The last number in a row selects its component. If component numbers were drawn separately, they would depend
        # on the size.
        draws = rng.standard_normal((size, self.n_features + 1))
        return self._of_component(special.ndtr(draws[:, -1]), draws[:, :-1])

    def component_quantile(self, u: np.ndarray) -> np.ndarray:
        """Turn points of the unit cube into frequencies; the first coordinate selects the component and its sign.

        Parameters
        ----------
        u : ndarray of shape (s, d + 1)
            Points with coordinates in (0, 1).

        Returns
        -------
        ndarray of shape (s, d)
            float64.
        """
        return self._of_component(u[:, 0], special.ndtri(u[:, 1:]))

    def _of_component(self, choice: np.ndarray, normal: np.ndarray) -> np.ndarray:
        """Frequencies (s, d) from normal draws (s, d) and `choice` (s,) in (0, 1), which selects sign and component."""
        signs, choice = np.where(choice < 0.5, -1.0, 1.0), (2 * choice) % 1.0
        bounds = np.cumsum(self.components.shares)[:-1]
        chosen = np.searchsorted(bounds, choice, side="right")
        frequencies = normal * self.components.scales[chosen]
        frequencies += signs[:, None] * self.components.means[chosen]
        return frequencies


class SpectralMixture(CombinedKernel, StationaryKernel):
    r"""The spectral mixture kernel: a sum of Gaussian kernels, each modulated by a cosine.

    .. math:: k(x, y) = \sum_q \frac{w_q}{\sum_p w_p}
              \exp\Bigl(-\tfrac12 \textstyle\sum_j s_{qj}^2 (x_j - y_j)^2\Bigr)
              \cos\Bigl(\textstyle\sum_j m_{qj} (x_j - y_j)\Bigr)

    Its spectral law is a mixture of Gaussians with means ``+-m_q`` and standard deviations ``s_q``. With enough
    components it approximates any stationary kernel. One component with mean 0 is ``Gaussian(1 / scales)``.

    Parameters
    ----------
    weights : array-like of shape (q,), default=(1.0,)
        Positive weights of the components. They are divided by their sum, so that ``k(x, x) = 1``; write
        ``2.0 * SpectralMixture(...)`` for another scale.
    means : float or array-like of shape (q, d), default=0.0
        Mean frequencies in radians per unit of a column: the period along column j alone is ``2 pi / m_qj``.
    scales : float or array-like of shape (q, d), default=1.0
        Standard deviations of the frequencies, at least 0, in the same unit. ``1 / s_qj`` is the length scale of a
        component along a column; with standard deviation 0 the component is exactly periodic.

    Notes
    -----
    **Error.** Distances are as accurate as for the Gaussian kernel. Phases have an error of about
    ``4 d eps |m| |x - c|`` in float64, where c is the mean of the rows of a tile. Equal rows give exactly 1.

    **Cost.** For each component, the cost of the Gaussian kernel and one cosine per entry.

    **Differs from the source in** radians in place of cycles, standard deviations in place of variances (the source has
    ``mu = m / (2 pi)`` and ``v = s^2 / (4 pi^2)``), and weights with sum 1.

    References
    ----------
    Wilson, Adams (2013), *Gaussian process kernels for pattern discovery and extrapolation*, Equations 11-12.

    Examples
    --------
    >>> import numpy as np
    >>> from phimap.kernels import SpectralMixture
    >>> daily = SpectralMixture(weights=[3.0, 1.0], means=[[2 * np.pi], [0.0]], scales=[[0.0], [1.0]])
    >>> daily([[0.0], [0.5], [1.0]]).round(4)
    array([[ 1.    , -0.5294,  0.9016],
           [-0.5294,  1.    , -0.5294],
           [ 0.9016, -0.5294,  1.    ]])
    """

    def __init__(self, weights: Any = (1.0,), means: Any = 0.0, scales: Any = 1.0):
        self.weights = weights
        self.means = means
        self.scales = scales

    @classmethod
    def fitted(
        cls,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        n_mixtures: int = 8,
        objective: str = "marginal",
        n_components: int = 256,
        n_steps: int = 100,
        n_restarts: int = 4,
        n_rows: int = 2000,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> Self:
        """Fit weights, means and scales to targets, by gradient methods on a likelihood with random features.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows. Standardise columns of very different scales first.
        y : array-like of shape (n,) or (n, t)
            Targets. For several targets, the sum of their losses is minimised.
        sample_weight : array-like of shape (n,), optional
            A row of weight w counts like w equal rows. Rows of weight 0 are left out.
        n_mixtures : int, default=8
            Number q of components. Components that are not needed get a very small weight.
        objective : {"marginal", "held-out"}, default="marginal"
            ``"marginal"`` maximises the marginal likelihood of the targets. ``"held-out"`` fits ridge regression to two
            thirds of the rows and minimises the log of the mean squared error on the other third.
        n_components : int, default=256
            Number m of random features in the objective: ``m / (2 q)`` frequencies per component, at least one.
        n_steps : int, default=100
            Maximum number of quasi-Newton steps from the best start. The fit from each start takes half as many steps
            with half the features.
        n_restarts : int, default=4
            Number of starts: a mixture fitted to the spectrum of the targets, wide components with mean frequency near
            0, a second fit to the spectrum with new draws, then random means. The start with the smallest validation
            error is used.
        n_rows : int, default=2000
            Maximum number of rows, drawn at random. The byte budget may allow fewer.
        random_state : int, Generator, RandomState, SeedSequence or None, default=None
            Seed of the random streams; None uses fresh entropy.
        n_jobs : int or None, default=None
            Number of threads, at most one per start; None uses the configured number. It does not change the result.

        Returns
        -------
        SpectralMixture
            Components in descending order of weight; the weights sum to 1.

        Raises
        ------
        ValueError
            If the data are not finite, not dense or fewer than 8 rows, or a parameter is out of range.
        MemoryError
            If the byte budget is too small for 8 rows.

        Notes
        -----
        The fit from each start uses three quarters of the rows. Ridge regression with the resulting exact kernel is
        validated on the other quarter. The fit then continues from the best result on all rows. Frequencies are
        ``m_q + s_q u`` with fixed standard normal u, so that the loss is smooth in m_q and s_q.

        **Error.** The likelihood has many local maxima. A frequency is found if a start is closer to it than ``2 pi``
        divided by the extent of the data. With few columns, the start from the spectrum usually is close enough. With
        more than about ten columns there are more distinguishable frequencies than rows, and the fit may follow noise.

        **Cost.** Each step takes about ``5 n m^2`` flops and n m cosines. The byte budget limits rows and features.

        **Differs from the source in** three respects. Random features replace the kernel matrix, with which a step
        takes ``O(n^3)``. The source uses the spectrum of regularly spaced inputs. Here the spectrum is a periodogram at
        frequencies along each column and at random frequency vectors, from which strong waves are subtracted before
        weak waves are selected. Gradients are three matrix products, without automatic differentiation.

        References
        ----------
        Wilson, Adams (2013), *Gaussian process kernels for pattern discovery and extrapolation*, Section 4;
        Lazaro-Gredilla, Quinonero-Candela, Rasmussen, Figueiras-Vidal (2010), *Sparse spectrum Gaussian process
        regression*, Section 2.

        Examples
        --------
        >>> import numpy as np
        >>> from phimap.kernels import SpectralMixture
        >>> X = np.random.default_rng(0).uniform(0, 10, (200, 1))
        >>> kernel = SpectralMixture.fitted(X, np.sin(5 * X[:, 0]), n_mixtures=1, n_steps=20, random_state=0)
        >>> bool(abs(abs(kernel.means[0, 0]) - 5) < 0.1)
        True
        """
        rows, targets, weights = checked_targets(X, y, sample_weight)
        options = MixtureOptions(
            check_integer("n_mixtures", n_mixtures, least=1),
            check_choice("objective", objective, ("marginal", "held-out")) == "held-out",
            check_integer("n_components", n_components, least=2),
            check_integer("n_steps", n_steps, least=1),
            check_integer("n_restarts", n_restarts, least=1),
            check_integer("n_rows", n_rows, least=1),
            n_jobs,
        )
        found = fit_mixture(rows, targets, weights, options, seed_sequence(random_state))
        order = np.argsort(-found.shares, kind="stable")
        return cls(found.shares[order], found.means[order], found.scales[order])

    def spectral_law(self, n_features: int) -> SpectralMixtureLaw:
        """Give the distribution of w for which ``E[cos(<w, x - y>)] = k(x, y)``.

        Parameters
        ----------
        n_features : int
            Width d of the data.

        Returns
        -------
        SpectralMixtureLaw
        """
        n_features = check_integer("n_features", n_features, least=1)
        return SpectralMixtureLaw(n_features, components=self._components(n_features))

    def gradients(self, X: np.ndarray, Y: np.ndarray, weights: np.ndarray) -> np.ndarray:
        return self._components(X.shape[1]).gradients(X, Y, weights)

    def _check_parameters(self, n_features: int) -> None:
        self._components(n_features)

    def _evaluate(self, X: Rows, Y: Rows) -> np.ndarray:
        return self._components(X.shape[1]).values(X, Y)

    def _components(self, n_features: int) -> Components:
        """The parameters, checked for data with `n_features` columns."""
        weights = _numbers("weights", self.weights)
        if weights.ndim != 1 or not weights.size:
            raise ValueError(f"`weights` must be one number for each component, got shape {weights.shape}.")
        if not (weights > 0).all():
            raise ValueError(f"`weights` must be positive, got {weights.min()}. Leave out a component without weight.")
        shape = (weights.size, n_features)
        means, scales = _numbers("means", self.means), _numbers("scales", self.scales)
        for name, values in (("means", means), ("scales", scales)):
            if values.shape not in ((), shape):
                raise ValueError(
                    f"`{name}` must be a number or of shape (components, features) = {shape}, got shape {values.shape}."
                )
        if (scales < 0).any():
            raise ValueError(
                f"`scales` must be at least 0, got {scales.min()}. Use 0 for an exactly periodic component."
            )
        return Components(weights / weights.sum(), np.broadcast_to(means, shape), np.broadcast_to(scales, shape))


def _numbers(name: str, values: Any) -> np.ndarray:
    """`values` as a float64 array, checked to be finite."""
    array = np.asarray(values)
    if array.dtype.kind not in "iuf":
        raise TypeError(f"`{name}` must be numeric, got an array of dtype {array.dtype}.")
    if not np.isfinite(array).all():
        raise ValueError(f"`{name}` must be finite, got {array[~np.isfinite(array)][0]}.")
    return array.astype(np.float64)
