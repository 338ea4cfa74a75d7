"""Starting points for the fit of a spectral mixture: from the spectrum of the targets, wide, or random components."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from phimap.kernels.geometry import squared_distances
from phimap.kernels.slopes import SCRATCH
from phimap.kernels.spectral_mixture.components import Components

# Number of candidate frequencies along single columns, and number of random candidates over all columns.
_ALONG, _TOGETHER = 4096, 4096
# Number of frequencies, drawn in proportion to their power, to which a Gaussian mixture is fitted.
_DRAWN = 2000
# Number of rounds in which cosine waves are selected, and maximum number of waves in a round. `_SHRINKAGE` is the ridge
# penalty of the amplitudes of the waves, relative to the sum of the row weights.
_ROUNDS, _WAVES, _SHRINKAGE = 3, 32, 1e-2
# Waves with less than this fraction of the largest power are dropped.
_FAINT = 0.03
# The median distance is computed from at most this number of rows.
_DISTANCE_ROWS = 300
# Assumed extent of a column divided by its standard deviation. The number is exact for a uniform distribution.
_EXTENT = 12**0.5


@dataclass(frozen=True)
class EmpiricalSpectrum:
    """Resolution and Nyquist frequencies of the rows.

    Attributes
    ----------
    resolution : ndarray of shape (d,)
        Frequencies that are closer than this cannot be distinguished: ``2 pi`` divided by the extent of a column.
    nyquist : ndarray of shape (d,)
        ``pi`` divided by the median gap between the values of a column. Waves of higher frequency are aliased.
    together : ndarray of shape (d,)
        Nyquist frequency of a regular grid over all columns that has as many points as there are rows.
    """

    resolution: np.ndarray
    nyquist: np.ndarray
    together: np.ndarray

    @classmethod
    def of_rows(cls, X: np.ndarray) -> EmpiricalSpectrum:
        """The `EmpiricalSpectrum` of rows (n, d); the resolution of a constant column is 0."""
        n, d = X.shape
        deviations = X.std(axis=0)
        # The extent of a column that is constant up to rounding counts as infinite, so that its resolution is 0.
        extents = _EXTENT * np.where(deviations > 1e-12 * np.abs(X).max(axis=0, initial=0.0), deviations, np.inf)
        resolution = 2 * np.pi / extents
        gaps = [np.diff(np.unique(column)).astype(np.float64) for column in X.T]
        nyquist = np.array([np.pi / np.median(gap) if gap.size else 0.0 for gap in gaps])
        nyquist = np.maximum(nyquist, resolution)
        return cls(resolution, nyquist, np.minimum(nyquist, resolution * max(1.0, n ** (1 / d) / 2)))

    def candidates(self, rng: np.random.Generator) -> np.ndarray:
        """Candidate frequencies (c, d): a grid along each column up to its Nyquist frequency, and random vectors."""
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
    """The periodogram: power (c,) of the weighted targets (n, t) at frequencies (c, d), summed over the targets."""
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
    """Components from a Gaussian mixture that is fitted to the periodogram of the targets."""
    from sklearn.mixture import GaussianMixture

    frequencies, powers = waves(X, Y, weights, spectrum.candidates(rng))
    drawn = frequencies[rng.choice(len(frequencies), _DRAWN, p=powers / powers.sum())]
    # w and -w are equivalent. Signs are chosen so that all frequencies have a positive component along the direction in
    # which they vary most.
    units = drawn / np.where(spectrum.resolution > 0, spectrum.resolution, 1.0)
    direction = np.linalg.eigh(units.T @ units)[1][:, -1]
    units *= np.where(units @ direction < 0, -1.0, 1.0)[:, None]
    # The candidates are discrete. They are moved at random within the resolution, so that clusters have a positive
    # width.
    units += rng.uniform(-0.25, 0.25, units.shape)
    seed = int(rng.integers(2**31))
    mixture = GaussianMixture(n_mixtures, covariance_type="diag", reg_covar=0.1, random_state=seed).fit(units)
    scales = np.sqrt(np.asarray(mixture.covariances_)) * spectrum.resolution
    return Components(np.asarray(mixture.weights_), np.asarray(mixture.means_) * spectrum.resolution, scales)


def waves(X: np.ndarray, Y: np.ndarray, weights: np.ndarray, candidates: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Candidate frequencies (c, d) whose power exceeds the noise, and their squared amplitudes (c,).

    With irregular rows a strong wave leaks power to all frequencies, which hides weak waves. Strong waves are therefore
    subtracted round by round.
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
        # Waves of neighbouring frequencies are nearly collinear. The ridge penalty divides the amplitude among them.
        gram = (parts * weights[:, None]).T @ parts + _SHRINKAGE * weights.sum() * np.eye(parts.shape[1])
        coefs = np.linalg.solve(gram, (parts * roots).T @ (Y * roots))
        left = Y - parts @ coefs
        powers = np.square(coefs).sum(axis=1).reshape(2, -1).sum(axis=0)
    if not powers.any():
        # No frequency exceeds the noise.
        return candidates, np.ones(len(candidates))
    # Waves of low power are dropped, because a few such waves at distant frequencies would widen a component over the
    # whole range.
    return chosen, np.where(powers >= _FAINT * powers.max(), powers, 0.0)


def _noise_level(powers: np.ndarray) -> float:
    """Expected maximum of the powers if the targets were noise.

    The powers of noise, and of leakage from waves, are exponentially distributed. Their median is ``log(2)`` times
    their mean, and the largest of c powers is about ``log(c)`` times their mean.
    """
    return float(np.median(powers)) * np.log(powers.size) / np.log(2.0)


def wide(X: np.ndarray, spectrum: EmpiricalSpectrum, n_mixtures: int) -> Components:
    """Components with mean frequency near 0 and length scales from the median distance down to the grid spacing."""
    units = X[:_DISTANCE_ROWS] * spectrum.resolution
    distances = squared_distances(units, units)
    median = np.sqrt(np.median(distances[distances > 0])) if (distances > 0).any() else 1.0
    # Widths and distances are in units of the resolution.
    finest = float(np.median(spectrum.together / np.where(spectrum.resolution > 0, spectrum.resolution, 1.0))) / 2
    factors = np.geomspace(1 / median, max(finest, 2 / median), n_mixtures)
    # The means are not exactly 0, because the gradient of the cosine vanishes there.
    means = 0.1 * factors[:, None] * spectrum.resolution
    return Components(np.full(n_mixtures, 1 / n_mixtures), means, factors[:, None] * spectrum.resolution)


def at_random(spectrum: EmpiricalSpectrum, n_mixtures: int, rng: np.random.Generator) -> Components:
    """Components with uniform random means up to the Nyquist frequency; length scales are near the extent of rows."""
    shape = (n_mixtures, spectrum.resolution.size)
    means = rng.uniform(-1, 1, shape) * spectrum.together
    reach = np.maximum(np.abs(rng.standard_normal(shape)), 0.1)
    return Components(np.full(n_mixtures, 1 / n_mixtures), means, spectrum.resolution / reach / (2 * np.pi))
