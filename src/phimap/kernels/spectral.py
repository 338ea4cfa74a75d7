"""Spectral laws: the distributions of random frequencies, with the draws and quantiles that projections use."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
from scipy import special


@dataclass(frozen=True, eq=False)
class SpectralLaw(ABC):
    """The distribution of a frequency ``w = scale * u``; u has the spectral law of the kernel with length scale 1.

    Parameters
    ----------
    n_features : int
        Dimension d of a frequency.
    scale : float or ndarray of shape (d,), default=1.0
        Factor of the coordinates of u: the inverse length scale. Rotation invariance refers to u, not to w.
    """

    n_features: int
    scale: float | np.ndarray = 1.0

    #: Whether the coordinates of w are independent; if so, `coordinate_quantile` exists.
    has_independent_coordinates: ClassVar[bool] = False
    #: Whether u is a uniform direction times an independent radius; if so, `radial_quantile` exists.
    is_rotation_invariant: ClassVar[bool] = False
    #: Whether features depend on w only through even functions such as the cosine, so that w and -w are equivalent.
    is_for_even_functions: ClassVar[bool] = True
    #: Whether u is standard Gaussian.
    is_gaussian: ClassVar[bool] = False
    #: Whether u is a standard Gaussian vector times an independent random factor, so that `sample_mixing` exists.
    is_gaussian_mixture: ClassVar[bool] = False
    #: Name of the kernel in error messages.
    kernel_name: ClassVar[str]
    #: Variance of one coordinate of u; infinite if it does not exist.
    coordinate_variance: ClassVar[float] = np.inf
    #: Kurtosis of one coordinate, ``E[u_j^4] / E[u_j^2]^2``: 3 for a Gaussian; infinite if it does not exist.
    coordinate_kurtosis: ClassVar[float] = np.inf

    def sample(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Draw independent frequencies.

        Parameters
        ----------
        rng : numpy.random.Generator
        size : int
            Number of frequencies s. For a larger size, the first draws are the same.

        Returns
        -------
        ndarray of shape (s, d)
            float64.
        """
        return self._sample_unit(rng, size) * self.scale

    def coordinate_quantile(self, u: np.ndarray) -> np.ndarray:
        """Turn points of the unit cube into frequencies, by the quantile function of each coordinate.

        Parameters
        ----------
        u : array-like of shape (s, d)
            Points with coordinates in (0, 1).

        Returns
        -------
        ndarray of shape (s, d)
            float64, multiplied by `scale`.

        Raises
        ------
        ValueError
            If the coordinates are dependent, or an entry of `u` is not in (0, 1).
        """
        self._require(
            self.has_independent_coordinates,
            "has dependent coordinates, so `coordinate_quantile` does not exist",
            "a projection that draws directions and radii",
        )
        u = np.asarray(u, dtype=np.float64)
        if not ((u > 0) & (u < 1)).all():
            raise ValueError("`u` must lie between 0 and 1, both excluded: the frequency would be infinite.")
        return self._coordinate_quantile(u) * self.scale

    def radial_quantile(self, u: np.ndarray) -> np.ndarray:
        """Evaluate the quantile function of the radius ``|u|``.

        Parameters
        ----------
        u : array-like
            Probabilities in [0, 1).

        Returns
        -------
        ndarray
            Radii with the shape of `u`, float64, not multiplied by `scale`.

        Raises
        ------
        ValueError
            If the law is not rotation-invariant, or an entry of `u` is not in [0, 1).
        """
        self._require(
            self.is_rotation_invariant,
            "is not rotation-invariant, so `radial_quantile` does not exist",
            "a projection with independent coordinates",
        )
        u = np.asarray(u, dtype=np.float64)
        if not ((u >= 0) & (u < 1)).all():
            raise ValueError("`u` must be at least 0 and below 1: the radius would be infinite.")
        return self._radial_quantile(u)

    def sample_radii(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Draw independent radii ``|u|``.

        Parameters
        ----------
        rng : numpy.random.Generator
        size : int
            Number of radii s. For a larger size, the first draws are the same.

        Returns
        -------
        ndarray of shape (s,)
            float64, not multiplied by `scale`.

        Raises
        ------
        ValueError
            If the law is not rotation-invariant.
        """
        return self.radial_quantile(rng.random(size))

    def sample_mixing(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Draw independent factors; a factor times an independent standard Gaussian vector has the distribution of u.

        Parameters
        ----------
        rng : numpy.random.Generator
        size : int
            Number of factors s.

        Returns
        -------
        ndarray of shape (s,)
            float64.

        Raises
        ------
        ValueError
            If u is not a scale mixture of standard Gaussian vectors.
        """
        self._require(
            self.is_gaussian_mixture,
            "is no mixture of Gaussian ones, so `sample_mixing` does not exist",
            "a projection with independent coordinates",
        )
        return self._sample_mixing(rng, size)

    def unit(self, n_features: int) -> SpectralLaw:
        """Give the law of the same family with unit scale in another dimension.

        Parameters
        ----------
        n_features : int
            The other dimension q. For q < d the result is the marginal distribution of q coordinates of u.

        Returns
        -------
        SpectralLaw
        """
        return replace(self, n_features=n_features, scale=1.0)

    def _require(self, fact: bool, otherwise: str, remedy: str) -> None:
        if not fact:
            raise ValueError(f"The spectral law of {self.kernel_name} {otherwise}. Use {remedy}.")

    @abstractmethod
    def _sample_unit(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Draws (s, d) of u, filled row by row, so that the first rows do not depend on `size`."""

    def _coordinate_quantile(self, u: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def _radial_quantile(self, u: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def _sample_mixing(self, rng: np.random.Generator, size: int) -> np.ndarray:
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class GaussianLaw(SpectralLaw):
    """Independent Gaussian coordinates, the spectral law of the Gaussian kernel; ``|u|`` is chi distributed.

    Parameters
    ----------
    n_features, scale : as in `SpectralLaw`
        `scale` is the standard deviation of the coordinates.
    """

    has_independent_coordinates: ClassVar[bool] = True
    is_rotation_invariant: ClassVar[bool] = True
    is_gaussian: ClassVar[bool] = True
    is_gaussian_mixture: ClassVar[bool] = True
    kernel_name: ClassVar[str] = "Gaussian"
    coordinate_variance: ClassVar[float] = 1.0
    coordinate_kurtosis: ClassVar[float] = 3.0

    def _sample_unit(self, rng: np.random.Generator, size: int) -> np.ndarray:
        return rng.standard_normal((size, self.n_features))

    def _coordinate_quantile(self, u: np.ndarray) -> np.ndarray:
        return special.ndtri(u)

    def _radial_quantile(self, u: np.ndarray) -> np.ndarray:
        return np.sqrt(2.0 * special.gammaincinv(0.5 * self.n_features, u))

    def _sample_mixing(self, rng: np.random.Generator, size: int) -> np.ndarray:
        return np.ones(size)


@dataclass(frozen=True, eq=False)
class StandardGaussianLaw(GaussianLaw):
    """The standard Gaussian law, for the directions w of features ``sigma(<w, x>)`` of an activation sigma."""

    scale: float = field(default=1.0, init=False)
    is_for_even_functions: ClassVar[bool] = False
    kernel_name: ClassVar[str] = "an activation"

    def unit(self, n_features: int) -> SpectralLaw:
        return StandardGaussianLaw(n_features)


@dataclass(frozen=True, eq=False)
class CauchyLaw(SpectralLaw):
    """Independent Cauchy coordinates, the spectral law of the Laplacian kernel.

    Parameters
    ----------
    n_features, scale : as in `SpectralLaw`
        `scale` is the scale parameter (half width at half maximum) of the coordinates.
    """

    has_independent_coordinates: ClassVar[bool] = True
    kernel_name: ClassVar[str] = "Laplacian"

    def _sample_unit(self, rng: np.random.Generator, size: int) -> np.ndarray:
        return rng.standard_cauchy((size, self.n_features))

    def _coordinate_quantile(self, u: np.ndarray) -> np.ndarray:
        # tan(pi (u - 1/2)), computed from the smaller of u and 1 - u, which keeps full accuracy in both tails.
        return np.where(u < 0.5, -1.0, 1.0) / np.tan(np.pi * np.minimum(u, 1.0 - u))


@dataclass(frozen=True, eq=False)
class LaplaceLaw(SpectralLaw):
    """Independent Laplace coordinates of density ``exp(-|u|) / 2``, the spectral law of the Cauchy kernel.

    Parameters
    ----------
    n_features, scale : as in `SpectralLaw`
        `scale` is the mean absolute value of the coordinates.
    """

    has_independent_coordinates: ClassVar[bool] = True
    kernel_name: ClassVar[str] = "Cauchy"
    coordinate_variance: ClassVar[float] = 2.0
    coordinate_kurtosis: ClassVar[float] = 6.0

    def _sample_unit(self, rng: np.random.Generator, size: int) -> np.ndarray:
        return rng.laplace(size=(size, self.n_features))

    def _coordinate_quantile(self, u: np.ndarray) -> np.ndarray:
        # A formula for each half keeps full accuracy in both tails.
        return np.where(u < 0.5, np.log(2.0 * u), -np.log(2.0 * (1.0 - u)))


@dataclass(frozen=True, eq=False)
class StudentLaw(SpectralLaw):
    """Multivariate t distribution with 2 nu degrees of freedom, the spectral law of the Matern kernel.

    For the radius ``r = |u|``, ``r^2 / d`` has the F(d, 2 nu) distribution.

    Parameters
    ----------
    n_features, scale : as in `SpectralLaw`
    nu : float, default=1.5
        Smoothness of the kernel, half the degrees of freedom.
    """

    nu: float = 1.5
    is_rotation_invariant: ClassVar[bool] = True
    is_gaussian_mixture: ClassVar[bool] = True
    kernel_name: ClassVar[str] = "Matern"

    @property
    def coordinate_variance(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride] -- depends on nu
        """Variance of one coordinate of u: ``nu / (nu - 1)``, infinite for nu <= 1."""
        return self.nu / (self.nu - 1.0) if self.nu > 1.0 else np.inf

    def _sample_unit(self, rng: np.random.Generator, size: int) -> np.ndarray:
        # Each row has one additional Gaussian, from which its chi-square denominator is computed. If denominators were
        # drawn after all Gaussians, they would depend on the size.
        draws = rng.standard_normal((size, self.n_features + 1))
        half_chi_square = special.gammaincinv(self.nu, special.ndtr(draws[:, -1]))
        return draws[:, :-1] * np.sqrt(self.nu / half_chi_square)[:, None]

    def _radial_quantile(self, u: np.ndarray) -> np.ndarray:
        # r^2 = 2 nu b / (1 - b) with b beta-distributed; betainccinv gives 1 - b accurately in the tail.
        half = 0.5 * self.n_features
        return np.sqrt(2.0 * self.nu * special.betaincinv(half, self.nu, u) / special.betainccinv(self.nu, half, u))

    def _sample_mixing(self, rng: np.random.Generator, size: int) -> np.ndarray:
        # 1 - rng.random() excludes 0, where the factor would be infinite.
        return np.sqrt(self.nu / special.gammaincinv(self.nu, 1.0 - rng.random(size)))


@dataclass(frozen=True, eq=False)
class StableLaw(SpectralLaw):
    r"""Isotropic stable distribution with ``E cos(u.x) = exp(-|x|^p)``, the law of the exponential-power kernel.

    u is a standard Gaussian vector times ``sqrt(2 A)``, with A positive and stable: ``E exp(-s A) = exp(-s^(p / 2))``.
    So ``E cos(u.x) = E exp(-|x|^2 A) = exp(-|x|^p)``. A is drawn by Kanter's formula from a uniform angle t in (0, pi)
    and an exponential e: with ``a = p / 2``,
    ``A = sin(a t) / sin(t)^(1/a) * (sin((1 - a) t) / e)^((1 - a) / a)``.

    Parameters
    ----------
    n_features, scale : as in `SpectralLaw`
    exponent : float, default=1.0
        The exponent p, greater than 0 and at most 2.

    Notes
    -----
    The radius has no quantile function in closed form. The law is therefore not declared rotation-invariant, and offers
    independent draws and its mixing factors.

    References
    ----------
    Kanter (1975), *Stable densities under change of scale and total variation inequalities*, Corollary 4.1.
    """

    exponent: float = 1.0
    is_gaussian_mixture: ClassVar[bool] = True
    kernel_name: ClassVar[str] = "exponential-power"

    def _sample_unit(self, rng: np.random.Generator, size: int) -> np.ndarray:
        # Each row has two additional Gaussians, from which its factor is computed, so that the first rows do not depend
        # on the size.
        draws = rng.standard_normal((size, self.n_features + 2))
        return draws[:, :-2] * self._factors(*special.ndtr(draws[:, -2:]).T)[:, None]

    def _sample_mixing(self, rng: np.random.Generator, size: int) -> np.ndarray:
        # 1 - rng.random() excludes 0, where the factor would be infinite.
        return self._factors(*(1.0 - rng.random((size, 2))).T)

    def _factors(self, uniform: np.ndarray, other: np.ndarray) -> np.ndarray:
        """Factors ``sqrt(2 A)`` (s,), computed from two arrays (s,) of uniform random numbers in (0, 1]."""
        a, angle, exponential = 0.5 * self.exponent, np.pi * uniform, -np.log(other)
        # sin(pi) is nearly 0 and -log(1) is 0. Both are raised to eps, so that no factor is infinite.
        tiny = np.finfo(np.float64).eps
        sine, exponential = np.maximum(np.sin(angle), tiny), np.maximum(exponential, tiny)
        power = np.sin(a * angle) / sine ** (1 / a)
        return np.sqrt(2.0 * power * (np.sin((1 - a) * angle) / exponential) ** ((1 - a) / a))


@dataclass(frozen=True, eq=False)
class SphereLaw(SpectralLaw):
    """The uniform distribution on the sphere of radius ``sqrt(d)``, for leverage-score sampling.

    The covariance matrix is the identity, as for the standard Gaussian law.
    """

    is_rotation_invariant: ClassVar[bool] = True
    kernel_name: ClassVar[str] = "leverage-score sampling"
    coordinate_variance: ClassVar[float] = 1.0

    def _sample_unit(self, rng: np.random.Generator, size: int) -> np.ndarray:
        return onto_sphere(rng.standard_normal((size, self.n_features)))

    def _radial_quantile(self, u: np.ndarray) -> np.ndarray:
        return np.full(np.shape(u), np.sqrt(self.n_features))


@dataclass(frozen=True, eq=False)
class DirectionLaw(SphereLaw):
    """The uniform distribution on the sphere of radius ``sqrt(d)``, for features that are not even functions of w."""

    is_for_even_functions: ClassVar[bool] = False
    kernel_name: ClassVar[str] = "an activation with exact degrees"


@dataclass(frozen=True, eq=False)
class SumLaw(SpectralLaw):
    """The law of a sum of independent frequencies. It has no closed-form quantiles, only independent draws."""

    parts: tuple[SpectralLaw, ...] = ()
    kernel_name: ClassVar[str] = "a product of kernels"

    @property
    def coordinate_variance(self) -> float:  # pyright: ignore[reportIncompatibleVariableOverride] -- depends on parts
        """Sum of the coordinate variances of the parts; infinite also if a part has a scale per coordinate."""
        if any(np.ndim(part.scale) for part in self.parts):
            return np.inf
        return float(sum(part.coordinate_variance * part.scale**2 for part in self.parts))

    def unit(self, n_features: int) -> SpectralLaw:
        return replace(self, n_features=n_features, parts=tuple(replace(p, n_features=n_features) for p in self.parts))

    def _sample_unit(self, rng: np.random.Generator, size: int) -> np.ndarray:
        return sum(p.sample(child, size) for p, child in zip(self.parts, rng.spawn(len(self.parts)), strict=True))  # pyright: ignore


@dataclass(frozen=True, eq=False)
class MixtureSumLaw(SumLaw):
    """The law of a sum of Gaussian scale mixtures, each with one scale for all coordinates; also a scale mixture."""

    is_gaussian_mixture: ClassVar[bool] = True

    def _sample_mixing(self, rng: np.random.Generator, size: int) -> np.ndarray:
        children = zip(self.parts, rng.spawn(len(self.parts)), strict=True)
        return np.sqrt(sum(np.square(part.scale * part.sample_mixing(child, size)) for part, child in children))


def law_of_sum(*laws: SpectralLaw) -> SpectralLaw:
    """The law of a sum of independent frequencies: Gaussian or Cauchy if all terms are, else a `SumLaw`."""
    parts = [part for law in laws for part in (law.parts if isinstance(law, SumLaw) else (law,))]
    for stable, power in ((GaussianLaw, 2), (CauchyLaw, 1)):
        scales = [np.asarray(part.scale, dtype=np.float64) for part in parts if type(part) is stable]
        if len(scales) > 1:
            scale = np.sum(np.broadcast_arrays(*(scale**power for scale in scales)), axis=0) ** (1 / power)
            rest = [part for part in parts if type(part) is not stable]
            parts = [stable(laws[0].n_features, scale if scale.ndim else float(scale)), *rest]
    if len(parts) == 1:
        return parts[0]
    mixture = all(part.is_gaussian_mixture and not np.ndim(part.scale) for part in parts)
    return (MixtureSumLaw if mixture else SumLaw)(laws[0].n_features, parts=tuple(parts))


def onto_sphere(directions: np.ndarray) -> np.ndarray:
    """`directions` (s, d) with each row scaled to norm ``sqrt(d)``."""
    return directions * (np.sqrt(directions.shape[1]) / np.linalg.norm(directions, axis=1, keepdims=True))
