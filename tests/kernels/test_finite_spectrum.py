"""The kernel of finitely many frequencies."""

from __future__ import annotations

import numpy as np
import pytest

from phimap.kernels import FiniteSpectrum, finite_spectrum


def test_values_are_the_weighted_sum_of_cosines(monkeypatch):
    monkeypatch.setattr(finite_spectrum, "_BLOCK", 3)
    rng = np.random.default_rng(0)
    W, weights, X, Y = rng.standard_normal((7, 3)), rng.random(7), rng.standard_normal((5, 3)), rng.random((4, 3))
    expected = [[sum(a * np.cos(w @ (x - y)) for a, w in zip(weights, W, strict=True)) for y in Y] for x in X]
    np.testing.assert_allclose(FiniteSpectrum(W, weights)(X, Y), expected, atol=1e-14)
    equal = FiniteSpectrum(W)(X, Y)
    np.testing.assert_allclose(equal, FiniteSpectrum(W, np.full(7, 1 / 7))(X, Y), atol=1e-15)
    assert np.abs(equal - expected).max() > 0.1


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (FiniteSpectrum([[1.0, 2.0]]), r"`frequencies` must be of shape \(s, n_features=3\)"),
        (FiniteSpectrum(np.ones((2, 3)), [1.0]), r"`weights` must be of shape \(2,\)"),
        (FiniteSpectrum(np.ones((2, 3)), [1.0, -0.5]), r"`weights` must be at least 0, got -0.5"),
        (FiniteSpectrum(np.full((2, 3), np.nan)), r"NaN"),
    ],
)
def test_bad_parameters_are_named(kernel, message):
    with pytest.raises(ValueError, match=message):
        kernel(np.zeros((2, 3)))
