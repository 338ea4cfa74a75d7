"""Complex-to-real sketches: equal to products of Fourier transforms, for every width."""

import numpy as np
import pytest

from phimap.ops import ops_for
from phimap.sketches.complex_to_real import ComplexToRealRecord
from phimap.sketches.tree import sketched


def evaluated(record, X):
    ops = ops_for(X)
    return sketched(record.bind(ops), ops, X)


@pytest.mark.parametrize("d", [1, 4, 5])
def test_features_are_products_of_transforms(d, rng):
    X = rng.standard_normal((2, d))
    record = ComplexToRealRecord.draw(d, (1, 3), (4, 7), rng)
    length = record.signs.shape[1]
    transforms = [np.fft.fft(X * signs[:d], n=length) for signs in record.signs]
    expected = []
    for degree, width, rows, orientations, last in zip(
        (1, 3), record.widths, record.rows, record.orientations, record.last_signs, strict=True
    ):
        frequencies = np.where(orientations == 1, rows, (length - rows) % length)
        samples = np.prod([transforms[j][:, frequencies[j]] for j in range(degree)], axis=0) * (2 / width) ** 0.5
        if width % 2:
            samples[:, -1] *= 0.5**0.5
            parts = [samples.real[:, :-1], (samples.real + last * samples.imag)[:, -1:], samples.imag[:, :-1]]
        else:
            parts = [samples.real, samples.imag]
        expected += parts
    np.testing.assert_allclose(evaluated(record, X), np.hstack(expected), atol=1e-12)


def test_each_factor_takes_every_frequency_before_one_again(rng):
    """Mutant: rows that are drawn with replacement."""
    record = ComplexToRealRecord.draw(5, (2,), (30,), rng)
    length = record.signs.shape[1]
    frequencies = np.where(record.orientations[0] == 1, record.rows[0], (length - record.rows[0]) % length)
    counts = [np.bincount(factor, minlength=length) for factor in frequencies]
    assert all(np.ptp(count) <= 1 for count in counts)
    assert np.ptp(np.bincount(rng.integers(length, size=15), minlength=length)) > 1
