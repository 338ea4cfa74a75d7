"""Likelihood and held-out error of a spectral mixture on given rows, with gradients, using random features."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg, special

from phimap.kernels.spectral_mixture.components import Components

# For the held-out objective, every `_VALIDATION_STEP`-th row is a validation row.
_VALIDATION_STEP = 3


@dataclass(frozen=True)
class Shape:
    """Layout of the parameter vector: log weights, means, log scales and log noise.

    Attributes
    ----------
    n_mixtures, n_features : int
        Number q of components, and number d of columns.
    """

    n_mixtures: int
    n_features: int

    def split(self, vector: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
        """Log weights (q,), means (q, d), log scales (q, d) and the log of the noise variance."""
        q, qd = self.n_mixtures, self.n_mixtures * self.n_features
        rows = (q, self.n_features)
        return vector[:q], vector[q : q + qd].reshape(rows), vector[q + qd : -1].reshape(rows), float(vector[-1])

    def components(self, vector: np.ndarray) -> Components:
        """The components, with weights scaled to sum 1."""
        weights, means, scales, _ = self.split(vector)
        return Components(special.softmax(weights), means.copy(), np.exp(scales))


def start_vector(start: Components, noise: float) -> np.ndarray:
    """The parameter vector, in the layout of `Shape`, for components and a noise variance."""
    # A scale of 0 has no logarithm. It is replaced by the smallest positive number, which the bounds of the fit raise.
    logs = np.log(np.maximum(start.scales, np.finfo(np.float64).tiny).reshape(-1))
    return np.concatenate([np.log(start.shares), start.means.reshape(-1), logs, [np.log(noise)]])


@dataclass(frozen=True)
class Likelihood:
    """The objective of a fit: rows, targets, and fixed draws that a parameter vector turns into random features.

    Attributes
    ----------
    X : ndarray of shape (n, d)
        Rows.
    Y : ndarray of shape (n, t)
        Centred targets.
    weights : ndarray of shape (n,)
        Positive weights of the rows.
    draws : ndarray of shape (q, s, d)
        Standard normal draws; the frequencies are means plus scales times draws.
    held_out : bool
        Whether to minimise the error on validation rows in place of maximising the marginal likelihood.
    """

    X: np.ndarray
    Y: np.ndarray
    weights: np.ndarray
    draws: np.ndarray
    held_out: bool

    @property
    def shape(self) -> Shape:
        """Layout of the parameter vector."""
        return Shape(self.draws.shape[0], self.draws.shape[2])

    def __call__(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        """Loss per row and target, and its gradient, at a parameter vector in the layout of `Shape`."""
        q, s, d = self.draws.shape
        logs, means, log_scales, log_noise = self.shape.split(vector)
        steps = self.draws * np.exp(log_scales)[:, None, :]
        frequencies = (means[:, None, :] + steps).reshape(-1, d)
        amplitudes = np.repeat(np.exp(logs / 2) / np.sqrt(s), s)
        phases = self.X @ frequencies.T
        # A row of weight w counts like w equal rows, so its features and targets are multiplied by sqrt(w).
        roots = np.sqrt(self.weights)[:, None]
        cosines, sines = np.cos(phases), np.sin(phases)
        for part in (cosines, sines):
            part *= amplitudes
            part *= roots
        loss, slopes, noise_slope = self._loss(np.concatenate([cosines, sines], axis=1), np.exp(log_noise))
        of_cosines, of_sines = slopes[:, : q * s], slopes[:, q * s :]
        of_phases = of_sines * cosines - of_cosines * sines
        of_frequencies = (of_phases.T @ self.X).reshape(q, s, d)
        of_logs = (of_cosines * cosines + of_sines * sines).sum(axis=0).reshape(q, s).sum(axis=1) / 2
        parts = (of_logs, of_frequencies.sum(axis=1), (of_frequencies * steps).sum(axis=1))
        return loss, np.concatenate([*(part.reshape(-1) for part in parts), [noise_slope * np.exp(log_noise)]])

    def _loss(self, Z: np.ndarray, noise: float) -> tuple[float, np.ndarray, float]:
        """Loss per row and target, and its derivatives with respect to the features (n, m) and the noise."""
        Y = self.Y * np.sqrt(self.weights)[:, None]
        if not self.held_out:
            return evidence(Z, Y, noise, float(self.weights.sum()))
        held_out = np.arange(len(Z)) % _VALIDATION_STEP == 0
        slopes = np.empty_like(Z)
        loss, slopes[~held_out], slopes[held_out], noise_slope = held_out_error(
            (Z[~held_out], Y[~held_out]), (Z[held_out], Y[held_out]), noise, float(self.weights[held_out].sum())
        )
        return loss, slopes, noise_slope


def evidence(Z: np.ndarray, Y: np.ndarray, noise: float, total: float) -> tuple[float, np.ndarray, float]:
    """Negative log marginal likelihood per row and target, and its derivatives with respect to `Z` and `noise`.

    Targets `Y` (n, t) have the covariance ``Z Z^T + noise I``, where `Z` (n, m) holds the features. Additive constants
    are omitted. Rows of `Z` and `Y` are multiplied by the square roots of their weights, and `total` is the sum of the
    weights. Only an m x m matrix is factorised.
    """
    m, t = Z.shape[1], Y.shape[1]
    factor, inverse = _factor(Z, noise)
    coefs = linalg.cho_solve((factor, True), Z.T @ Y, check_finite=False)
    errors = Y - Z @ coefs
    squares, log_determinant = float(np.square(errors).sum()), 2 * float(np.log(np.diag(factor)).sum())
    loss = (squares / noise + float(np.square(coefs).sum())) / 2
    loss += t / 2 * (log_determinant + (total - m) * np.log(noise))
    slopes = t * (Z @ inverse)
    # The coefficients minimise the loss, so their derivatives contribute nothing to the gradient.
    slopes -= errors @ (coefs.T / noise)
    noise_slope = -squares / (2 * noise**2) + t / 2 * (float(np.trace(inverse)) + (total - m) / noise)
    return loss / (total * t), slopes / (total * t), noise_slope / (total * t)


def held_out_error(
    learned: tuple[np.ndarray, np.ndarray], held_out: tuple[np.ndarray, np.ndarray], noise: float, total: float
) -> tuple[float, np.ndarray, np.ndarray, float]:
    """Half the log of the mean squared error on the validation rows, and its derivatives.

    The derivatives are with respect to the features of the training rows, the features of the validation rows, and
    `noise`. Up to a constant, the loss is the negative log likelihood per row of Gaussian errors with the most likely
    variance.

    Parameters
    ----------
    learned, held_out : tuple of features (n, m) and targets (n, t)
        Training rows and validation rows, multiplied by the square roots of their weights.
    noise : float
        Ridge penalty of the coefficients.
    total : float
        Sum of the weights of the validation rows.
    """
    (Z, Y), (others, targets) = learned, held_out
    _, inverse = _factor(Z, noise)
    coefs = inverse @ (Z.T @ Y)
    errors = others @ coefs - targets
    squares = max(float(np.square(errors).sum()), np.finfo(np.float64).tiny)
    # Derivatives of log(squares) / 2.
    of_coefs = inverse @ (others.T @ errors) / squares
    of_learned = (Y - Z @ coefs) @ of_coefs.T - (Z @ of_coefs) @ coefs.T
    of_held_out = errors @ (coefs.T / squares)
    loss = np.log(squares / (total * Y.shape[1])) / 2
    return loss, of_learned, of_held_out, -float(np.sum(of_coefs * coefs))


def _factor(Z: np.ndarray, noise: float) -> tuple[np.ndarray, np.ndarray]:
    """Lower Cholesky factor of the matrix ``Z^T Z + noise I`` (m, m), and the inverse of the matrix."""
    shifted = linalg.blas.dsyrk(1.0, Z.T, lower=1)  # pyright: ignore[reportAttributeAccessIssue]
    shifted[np.diag_indices_from(shifted)] += noise
    factor = linalg.cholesky(shifted, lower=True, check_finite=False)
    lower, _ = linalg.lapack.dpotri(factor, lower=1)  # pyright: ignore[reportAttributeAccessIssue]
    return factor, np.tril(lower) + np.tril(lower, -1).T
