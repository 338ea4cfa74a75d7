"""Where the search for a spectral mixture starts: the spectrum of the targets, wide components, random ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from phimap.kernels.geometry import squared_distances
from phimap.kernels.slopes import SCRATCH
from phimap.kernels.spectral_mixture.components import Components

# Frequencies at which the spectrum is looked at: along the columns one by one, and in all of them together.
_ALONG, _TOGETHER = 4096, 4096
# Frequencies that are drawn in proportion to their power, to which a mixture is fitted.
_DRAWN = 2000
# Rounds in which waves are looked for, and the most of a round; their squares cost this share of the rows' weight.
_ROUNDS, _WAVES, _SHRINKAGE = 3, 32, 1e-2
# Waves of less than this share of the greatest power are left out.
_FAINT = 0.03
# Rows between which distances are taken.
_DISTANCE_ROWS = 300
# Standard deviations that the extent of a column counts as: those of a uniform one.
_EXTENT = 12**0.5


@dataclass(frozen=True)
class EmpiricalSpectrum:
    """What the rows can tell apart.

    Attributes
    ----------
    resolution : ndarray of shape (d,)
        Frequencies nearer than this are one: ``2 pi`` over the extent of a column.
    nyquist : ndarray of shape (d,)
        Half the sampling rate of a column, ``pi`` over the median gap between its values: beyond, waves look like
        slower ones.
    together : ndarray of shape (d,)
        The same for a grid of as many rows in all columns.
    """

    resolution: np.ndarray
    nyquist: np.ndarray
    together: np.ndarray

    @classmethod
    def of_rows(cls, X: np.ndarray) -> EmpiricalSpectrum:
        """The spectrum of rows (n, d); of a constant column all frequencies are one."""
        n, d = X.shape
        deviations = X.std(axis=0)
        # A column that does not vary, beyond rounding, has no unit.
        extents = _EXTENT * np.where(deviations > 1e-12 * np.abs(X).max(axis=0, initial=0.0), deviations, np.inf)
        resolution = 2 * np.pi / extents
        gaps = [np.diff(np.unique(column)).astype(np.float64) for column in X.T]
        nyquist = np.array([np.pi / np.median(gap) if gap.size else 0.0 for gap in gaps])
        nyquist = np.maximum(nyquist, resolution)
        return cls(resolution, nyquist, np.minimum(nyquist, resolution * max(1.0, n ** (1 / d) / 2)))

    def candidates(self, rng: np.random.Generator) -> np.ndarray:
        """Frequencies (c, d): evenly along each column, up to its Nyquist frequency, and random ones in all."""
        d = self.resolution.size
        found = []
        for column in np.flatnonzero(self.resolution):
            step, most = self.resolution[column] / 2, max(16, _ALONG // d)
            size = int(np.clip(self.nyquist[column] / step, 1, most))
            found.append(np.zeros((size, d)))
            found[-1][:, column] = step * np.arange(1, size + 1)
        if d > 1:
            found.append(rng.uniform(-1, 1, (_TOGETHER, d)) * self.together)
        return np.concatenate(found) if found else np.zeros((1, d))


def power(X: np.ndarray, Y: np.ndarray, weights: np.ndarray, frequencies: np.ndarray) -> np.ndarray:
    """Power (c,) of the weighted targets (n, t) at frequencies (c, d), summed over targets: the periodogram."""
    weighted = Y * weights[:, None]
    result = np.empty(len(frequencies))
    step = max(1, SCRATCH // len(X))
    for start in range(0, len(frequencies), step):
        phases = X @ frequencies[start : start + step].T
        parts = (np.cos(phases).T @ weighted, np.sin(phases).T @ weighted)
        result[start : start + step] = sum(np.square(part).sum(axis=1) for part in parts)
    return result / weights.sum()


def from_spectrum(
    X: np.ndarray,
    Y: np.ndarray,
    weights: np.ndarray,
    spectrum: EmpiricalSpectrum,
    n_mixtures: int,
    rng: np.random.Generator,
) -> Components:
    """Components of a mixture of Gaussians that is fitted to the periodogram of the targets."""
    from sklearn.mixture import GaussianMixture

    frequencies, powers = waves(X, Y, weights, spectrum.candidates(rng))
    drawn = frequencies[rng.choice(len(frequencies), _DRAWN, p=powers / powers.sum())]
    # A frequency and its opposite are one: all are turned to one side of the direction along which they spread most.
    units = drawn / np.where(spectrum.resolution > 0, spectrum.resolution, 1.0)
    direction = np.linalg.eigh(units.T @ units)[1][:, -1]
    units *= np.where(units @ direction < 0, -1.0, 1.0)[:, None]
    # Frequencies that the rows cannot resolve have no width; they are drawn anew within it.
    units += rng.uniform(-0.25, 0.25, units.shape)
    seed = int(rng.integers(2**31))
    mixture = GaussianMixture(n_mixtures, covariance_type="diag", reg_covar=0.1, random_state=seed).fit(units)
    scales = np.sqrt(np.asarray(mixture.covariances_)) * spectrum.resolution
    return Components(np.asarray(mixture.weights_), np.asarray(mixture.means_) * spectrum.resolution, scales)


def waves(X: np.ndarray, Y: np.ndarray, weights: np.ndarray, candidates: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Frequencies (c, d) that stand out of the noise among candidates, and the squares (c,) of their amplitudes.

    Weak waves hide in what irregular rows spread of strong ones, so that these are subtracted, round by round.
    """
    chosen, powers, left = np.zeros((0, X.shape[1])), np.ones(0), Y
    roots = np.sqrt(weights)[:, None]
    for _ in range(_ROUNDS):
        found = power(X, left, weights, candidates)
        strongest = np.argsort(-found, kind="stable")[:_WAVES]
        strongest = strongest[found[strongest] > _noise_level(found)]
        if not strongest.size:
            break
        chosen = np.concatenate([chosen, candidates[strongest]])
        phases = X @ chosen.T
        parts = np.concatenate([np.cos(phases), np.sin(phases)], axis=1)
        # Neighbouring waves are nearly one, and share its amplitude.
        gram = (parts * weights[:, None]).T @ parts + _SHRINKAGE * weights.sum() * np.eye(parts.shape[1])
        coefs = np.linalg.solve(gram, (parts * roots).T @ (Y * roots))
        left = Y - parts @ coefs
        powers = np.square(coefs).sum(axis=1).reshape(2, -1).sum(axis=0)
    if not powers.any():
        # Nothing stands out.
        return candidates, np.ones(len(candidates))
    # A few far waves that are next to nothing would spread a component over all between.
    return chosen, np.where(powers >= _FAINT * powers.max(), powers, 0.0)


def _noise_level(powers: np.ndarray) -> float:
    """The power that none of so many frequencies would reach, on average, if the targets were noise.

    Noise, and what irregular rows spread of a wave over all frequencies, has powers of an exponential law: their median
    is ``log(2)`` means, and the largest of c is about ``log(c)`` means.
    """
    return float(np.median(powers)) * np.log(powers.size) / np.log(2.0)


def wide(X: np.ndarray, spectrum: EmpiricalSpectrum, n_mixtures: int) -> Components:
    """Gaussian kernels without a frequency, of widths from the median distance to what the rows can just tell."""
    units = X[:_DISTANCE_ROWS] * spectrum.resolution
    distances = squared_distances(units, units)
    median = np.sqrt(np.median(distances[distances > 0])) if (distances > 0).any() else 1.0
    # Widths are in units of the resolution, as the distances are.
    finest = float(np.median(spectrum.together / np.where(spectrum.resolution > 0, spectrum.resolution, 1.0))) / 2
    factors = np.geomspace(1 / median, max(finest, 2 / median), n_mixtures)
    # A step from 0, where the cosine is flat and has no slope.
    means = 0.1 * factors[:, None] * spectrum.resolution
    return Components(np.full(n_mixtures, 1 / n_mixtures), means, factors[:, None] * spectrum.resolution)


def at_random(spectrum: EmpiricalSpectrum, n_mixtures: int, rng: np.random.Generator) -> Components:
    """Means evenly up to the Nyquist frequency, and correlations that reach as far as the rows do."""
    shape = (n_mixtures, spectrum.resolution.size)
    means = rng.uniform(-1, 1, shape) * spectrum.together
    reach = np.maximum(np.abs(rng.standard_normal(shape)), 0.1)
    return Components(np.full(n_mixtures, 1 / n_mixtures), means, spectrum.resolution / reach / (2 * np.pi))
