"""Sketches of several powers side by side, by every method."""

import numpy as np
import pytest

from phimap.features.power_series.powers import METHODS, draw_powers
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
