"""The held-out split: its rate, its independence of batches, its seeds."""

import numpy as np
import pytest
from scipy import stats

from phimap.io import ProportionalHoldout, holdout_mask

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


@pytest.mark.parametrize("fraction", [0.05, 0.1, 0.3, 0.37, 0.5, 0.8])
def test_classes_are_held_out_in_proportion(rng, fraction):
    """After any number of rows the share of every class is held out, up to one row."""
    labels = rng.choice(["a", "b", "c"], 3000, p=[0.9, 0.09, 0.01])
    mask = ProportionalHoldout(fraction, 7).mask(labels)
    for name in "abc":
        held_out = np.cumsum(mask[labels == name])
        expected = fraction * np.arange(1, held_out.size + 1)
        assert np.abs(held_out - expected).max() <= 1 + 1e-9
    # Mutant: the mask by rows misses the share of some class by more.
    by_row = holdout_mask(0, 3000, fraction, 7)
    assert max(abs(by_row[labels == name].sum() - fraction * (labels == name).sum()) for name in "abc") > 1


def test_twenty_positives_in_ten_thousand_rows():
    """No seed leaves the positives out; rows alone decide in an eighth of the seeds that none is held out."""
    labels = np.zeros(10_020, np.int64)
    labels[::501] = 1
    assert {int(ProportionalHoldout(0.1, seed).mask(labels)[labels == 1].sum()) for seed in range(50)} == {2}
    assert not all(holdout_mask(0, 10_020, 0.1, seed)[labels == 1].any() for seed in range(50))


@pytest.mark.parametrize("fraction", [0.1, 0.37, 0.8])
def test_each_row_of_a_class_is_as_likely_and_no_period_is_kept(fraction):
    """Over many seeds every place is held out alike, and rows a period apart are no copies of each other."""
    masks = np.array([ProportionalHoldout(fraction, seed).mask(np.zeros(60, np.int64)) for seed in range(2000)])
    # The second point of an interval counts for the next row, which moves some chance from a row to its neighbour.
    near = fraction if fraction in (0.1, 0.8) else None
    for place in range(60):
        if near is not None:
            assert stats.binomtest(int(masks[:, place].sum()), 2000, near).pvalue > FALSE_ALARM
    assert masks.mean() == pytest.approx(fraction, abs=1 / 60)
    period = round(1 / min(fraction, 1 - fraction))
    assert np.mean(masks[:, :-period] != masks[:, period:]) > 0.02


def test_proportions_do_not_depend_on_batches():
    labels = np.random.default_rng(0).integers(0, 4, 1000)
    whole = ProportionalHoldout(0.3, 5).mask(labels)
    parts = ProportionalHoldout(0.3, 5)
    np.testing.assert_array_equal(np.concatenate([parts.mask(labels[k : k + 13]) for k in range(0, 1000, 13)]), whole)
    # Labels as text, as objects and as floats are the same classes.
    for same in (labels.astype(str), labels.astype(str).astype(object), labels.astype(float)):
        np.testing.assert_array_equal(ProportionalHoldout(0.3, 5).mask(same), whole)


def test_fractions_and_regression_are_held_out_by_rows():
    y = np.random.default_rng(0).standard_normal(500)
    np.testing.assert_array_equal(ProportionalHoldout(0.2, 3).mask(y), holdout_mask(0, 500, 0.2, 3))
    whole = np.rint(10 * y)
    by_row = ProportionalHoldout(0.2, 3, classes=False).mask(whole)
    np.testing.assert_array_equal(by_row, holdout_mask(0, 500, 0.2, 3))


def test_more_classes_than_are_counted_share_one_count():
    labels = np.arange(5000)
    mask = ProportionalHoldout(0.25, 1).mask(labels)
    assert abs(int(mask[1000:].sum()) - 1000) <= 1


def test_nothing_and_everything_held_out():
    labels = np.zeros(100, np.int64)
    assert not ProportionalHoldout(0.0).mask(labels).any()
    assert ProportionalHoldout(1.0).mask(labels).all()
    with pytest.raises(ValueError, match="`fraction` must be between 0 and 1, got 2"):
        ProportionalHoldout(2)
