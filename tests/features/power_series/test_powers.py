"""Sketches of several powers side by side, by every method."""

import numpy as np
import pytest

from phimap.features.power_series.powers import METHODS, SpectralProductsRecord, draw_powers
from tests.support.records import apply
from tests.support.statistics import is_mean


@pytest.mark.parametrize("method", METHODS)
def test_powers_are_unbiased(method, rng):
    """False-alarm rate 1e-6 a method; the mutant takes the next power for the last one."""
    X = rng.standard_normal((3, 5)) / 2
    widths = (3, 8, 5)
    estimates = []
    for seed in range(600):
        Z = apply(draw_powers(method, 5, (1, 2, 3), widths, 0.2, np.random.default_rng(seed)), X)
        parts = np.split(Z, np.cumsum(widths)[:-1], axis=1)
        estimates.append([part @ part.T for part in parts])
    products = X @ X.T
    assert is_mean(estimates, np.stack([products, products**2, products**3]))
    assert not is_mean(estimates, np.stack([products, products**2, products**4]))


@pytest.mark.parametrize("d", [1, 4, 5])
def test_spectral_products_are_products_of_transforms(d, rng):
    X = rng.standard_normal((2, d))
    record = SpectralProductsRecord.draw(d, (1, 3), (4, 7), rng)
    length = record.signs.shape[1]
    transformed = [np.fft.fft(X * signs[:d], n=length) for signs in record.signs]
    expected = []
    for degree, width, rows, orientations, last in zip(
        (1, 3), record.widths, record.rows, record.orientations, record.last_signs, strict=True
    ):
        frequencies = np.where(orientations == 1, rows, (length - rows) % length)
        samples = np.prod([transformed[j][:, frequencies[j]] for j in range(degree)], axis=0) * (2 / width) ** 0.5
        if width % 2:
            samples[:, -1] *= 0.5**0.5
            parts = [samples.real[:, :-1], (samples.real + last * samples.imag)[:, -1:], samples.imag[:, :-1]]
        else:
            parts = [samples.real, samples.imag]
        expected += parts
    np.testing.assert_allclose(apply(record, X), np.hstack(expected), atol=1e-12)
