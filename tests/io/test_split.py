"""The held-out split: its rate, its independence of batches, its seeds."""

import numpy as np
import pytest
from scipy import stats

from phimap.io import holdout_mask

FALSE_ALARM = 1e-6
N = 200_000


def rate_is_plausible(mask, fraction):
    """Two-sided binomial test of the number held out, at the stated false-alarm rate."""
    return stats.binomtest(int(mask.sum()), len(mask), fraction).pvalue > FALSE_ALARM


@pytest.mark.parametrize("fraction", [0.001, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("seed", [0, 1, 2**63])
@pytest.mark.parametrize("start", [0, 10**12])
def test_rate(fraction, seed, start):
    mask = holdout_mask(start, N, fraction, seed)
    assert rate_is_plausible(mask, fraction)
    # Neighbours, and rows 64 apart, are held out independently.
    for lag in (1, 64):
        assert rate_is_plausible(mask[lag:] & mask[:-lag], fraction**2)
    # Mutant: half the rate is rejected, even for the rarest fraction.
    assert not rate_is_plausible(mask, fraction * 0.5)


def test_mutant_without_mixing_fails_the_test_of_neighbours():
    """Golden-ratio multiples alone have the right rate, yet neighbours repel each other."""
    uniform = (np.arange(N, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(11)) * 2.0**-53
    mask = uniform < 0.1
    assert rate_is_plausible(mask, 0.1)
    assert not rate_is_plausible(mask[1:] & mask[:-1], 0.01)


@pytest.mark.parametrize("size", [1, 13, 1000])
def test_independent_of_batches(size):
    whole = holdout_mask(0, 1000, 0.3, seed=5)
    parts = [holdout_mask(start, min(size, 1000 - start), 0.3, seed=5) for start in range(0, 1000, size)]
    np.testing.assert_array_equal(np.concatenate(parts), whole)


def test_seeds_give_independent_splits_and_no_shifted_ones():
    first, second = holdout_mask(0, N, 0.5, seed=1), holdout_mask(0, N, 0.5, seed=2)
    for shift in (0, 1, 2):
        assert rate_is_plausible(first[shift:] == second[: N - shift], 0.5)
        assert rate_is_plausible(second[shift:] == first[: N - shift], 0.5)


def test_fractions_are_nested_and_reach_both_ends():
    small, large = holdout_mask(0, 1000, 0.1), holdout_mask(0, 1000, 0.2)
    assert not (small & ~large).any()
    assert not holdout_mask(0, 1000, 0.0).any()
    assert holdout_mask(0, 1000, 1.0).all()
    assert holdout_mask(7, 0, 0.5).shape == (0,)


def test_the_split_is_the_same_in_every_release():
    """Models report errors on held-out rows: the rows must not move with a new version."""
    assert np.flatnonzero(holdout_mask(0, 40, 0.2, seed=0)).tolist() == [6, 12, 13, 20, 27, 39]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 5, 1.5), "`fraction` must be between 0 and 1, got 1.5"),
        ((0, 5, float("nan")), "`fraction` must be between 0 and 1"),
        ((-1, 5, 0.5), "`n_rows_start` must be a non-negative integer, got -1"),
        ((0, -5, 0.5), "`n` must be a non-negative integer"),
        ((0, 5, 0.5, -3), "`seed` must be a non-negative integer"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        holdout_mask(*arguments)
