"""Which differences are called noise: the promised rate of false alarms, and real differences that are seen."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, ttest_rel

from phimap.comparison.noise import FALSE_ALARM, differences


def test_one_split_of_two_methods_is_the_paired_t_test(rng):
    a, b = rng.exponential(size=(2, 80))
    (pair,) = differences({"a": [a], "b": [b]})
    assert pair.p_value == pytest.approx(ttest_rel(a, b).pvalue)
    assert pair.mean == pytest.approx((a - b).mean())


def alarms(n_trials: int, n_methods: int, n_splits: int, labels: bool, rng: np.random.Generator) -> int:
    """Trials in which equal methods are called different."""
    found = 0
    for _ in range(n_trials):
        common = rng.exponential(size=(n_splits, 1, 100))
        own = rng.exponential(size=(n_splits, n_methods, 100))
        losses = (common + own > 3.0).astype(float) if labels else common + own
        pairs = differences({str(k): list(losses[:, k]) for k in range(n_methods)})
        found += any(not pair.is_noise for pair in pairs)
    return found


@pytest.mark.parametrize("n_methods", [2, 4])
@pytest.mark.parametrize("n_splits", [1, 3])
@pytest.mark.parametrize("labels", [False, True], ids=["numbers", "labels"])
def test_equal_methods_are_seldom_called_different(rng, n_methods, n_splits, labels):
    n_trials = 300
    # More alarms than this would come once in 10,000 runs of a test that keeps its rate.
    most = binom.ppf(1 - 1e-4, n_trials, FALSE_ALARM)
    assert alarms(n_trials, n_methods, n_splits, labels, rng) <= most


def test_without_the_correction_for_all_pairs_the_rate_is_broken(rng, monkeypatch):
    monkeypatch.setattr("phimap.comparison.noise._holm", lambda values: values)
    assert alarms(300, 8, 1, False, rng) > binom.ppf(1 - 1e-4, 300, FALSE_ALARM)


def test_splits_that_differ_by_more_than_their_rows_count(rng):
    # Each draw of training rows moves one method's losses at all test rows alike, to either side.
    shifts = np.array([0.5, -0.4, 0.45, -0.5])
    base = rng.standard_normal((4, 500)) ** 2
    moved = [row + shift for row, shift in zip(base, shifts, strict=True)]
    noisy = [row + 0.01 * rng.standard_normal(500) for row in base]
    (pair,) = differences({"a": moved, "b": noisy})
    assert pair.is_noise
    # The rows alone would call it different: each split says so.
    assert not differences({"a": moved[:1], "b": noisy[:1]})[0].is_noise


def test_a_real_difference_is_seen(rng):
    base = rng.exponential(size=(3, 400))
    (pair,) = differences({"a": list(base), "b": list(1.2 * base)})
    assert not pair.is_noise
    assert pair.mean < 0


def test_equal_losses_are_noise(rng):
    base = list(rng.exponential(size=(2, 50)))
    assert differences({"a": base, "b": base})[0].p_value == 1.0
