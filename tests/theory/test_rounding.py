"""Predicted rounding against simulated sums."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest
from scipy.stats import chi2

from phimap.theory import sums_rounding

FALSE_ALARM = 1e-6


def relative_errors(n_terms: int, n_sums: int) -> np.ndarray:
    """Relative errors of sums in float32 of positive numbers, term after term, against float64."""
    terms = np.random.default_rng(0).uniform(0.5, 1.5, (n_sums, n_terms)).astype(np.float32)
    exact = terms.sum(axis=1, dtype=np.float64)
    return np.cumsum(terms, axis=1, dtype=np.float32)[:, -1] / exact - 1


def agrees(predicted: float, errors: np.ndarray) -> bool:
    """Whether the spread of errors is at most the one predicted, and no less than 0.6 times.

    The unit roundoff is relative to the next lower power of two, not to a sum: depending on where the sum ends between
    two powers, a spread of 0.65 to 1 times the predicted one is left.
    """
    ratio = np.square(errors).mean() / predicted**2
    low, high = chi2.ppf([FALSE_ALARM / 2, 1 - FALSE_ALARM / 2], errors.size) / errors.size
    return 0.6**2 * low < ratio < high


@pytest.mark.parametrize("n_terms", [700, 2000])
def test_rounding_of_sums_is_that_of_simulated_ones(n_terms):
    errors = relative_errors(n_terms, 500)
    # Products of one batch of so many rows are such sums; those in float64 have the same law with their own roundoff.
    products, _ = sums_rounding(n_terms, n_terms)
    _, sums = sums_rounding(n_terms, 1)
    assert agrees(products, errors)
    assert agrees(sums * 2.0**29, errors)
    # Mutants: the rule of thumb without the third, and a law that does not grow.
    assert not agrees(3 * products, errors)
    assert not agrees(products / sqrt(n_terms), errors)


def test_rounding_of_products_falls_and_that_of_sums_grows():
    (few_products, few), (many_products, many) = (sums_rounding(n) for n in (1e8, 1e12))
    assert few_products == pytest.approx(100 * many_products)
    assert many == pytest.approx(100 * few)
    assert many < many_products < 1e-9
