"""Mean ranks against counting, and the critical difference against the figures of Demsar (2006)."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2, rankdata

from phimap.bench.tabular import ranking

# Table 5(a), quantiles at 5 % for 2 to 10 methods.
QUANTILES = [1.960, 2.343, 2.569, 2.728, 2.850, 2.949, 3.031, 3.102, 3.164]


def counted_ranks(row: np.ndarray) -> list[float]:
    """One more than the smaller errors, and half a place for every equal of another method."""
    return [1 + sum(row < error) + (sum(row == error) - 1) / 2 for error in row]


def test_mean_ranks_are_counted():
    # Few values, so that many are equal.
    errors = np.random.default_rng(0).integers(0, 4, (30, 5)) / 10
    expected = np.mean([counted_ranks(row) for row in errors], axis=0)
    np.testing.assert_allclose(ranking.mean_ranks(pd.DataFrame(errors)), expected)
    # Mutant: equals are ranked by their place.
    assert np.abs(rankdata(errors, axis=1, method="ordinal").mean(axis=0) - expected).max() > 0.05


@pytest.mark.parametrize(("n_methods", "quantile"), list(enumerate(QUANTILES, 2)))
def test_critical_difference_is_the_published_one(n_methods, quantile):
    expected = quantile * (n_methods * (n_methods + 1) / (6 * 14)) ** 0.5
    assert ranking.critical_difference(n_methods, 14) == pytest.approx(expected, rel=5e-4)
    # Mutant: one method more or less.
    for other in {n_methods - 1, n_methods + 1} - {1}:
        assert ranking.critical_difference(other, 14) != pytest.approx(expected, rel=5e-4)


def test_friedman_is_the_formula():
    errors = np.random.default_rng(1).uniform(size=(14, 4)) + np.array([0.0, 0.1, 0.2, 0.3])
    n, k = errors.shape
    ranks = np.mean([counted_ranks(row) for row in errors], axis=0)
    statistic = 12 * n / (k * (k + 1)) * (np.square(ranks).sum() - k * (k + 1) ** 2 / 4)
    assert ranking.friedman(errors) == pytest.approx(chi2.sf(statistic, k - 1))


def test_groups_are_the_largest_runs_within_the_difference():
    ranks = {"a": 1.0, "b": 2.4, "c": 1.9, "d": 3.5, "e": 5.0}
    assert ranking.alike(ranks, 1.5) == [("a", "c", "b"), ("b", "d")]
    assert ranking.alike(ranks, 10.0) == [("a", "c", "b", "d", "e")]
    assert ranking.alike(ranks, 0.4) == []


def test_groups_against_all_subsets():
    rng = np.random.default_rng(0)
    for _ in range(20):
        ranks = dict(zip("abcdef", rng.uniform(1, 6, 6), strict=True))
        near = [
            set(group)
            for size in range(2, 7)
            for group in combinations(ranks, size)
            if max(ranks[name] for name in group) - min(ranks[name] for name in group) < 1.3
        ]
        largest = [group for group in near if not any(group < other for other in near)]
        found = [set(group) for group in ranking.alike(ranks, 1.3)]
        assert len(found) == len(largest)
        assert all(group in largest for group in found)


@pytest.mark.parametrize("n_methods", [2, 7])
def test_the_picture_is_drawn(n_methods, tmp_path):
    ranks = {f"method {k}": 1.0 + 0.8 * k for k in range(n_methods)}
    ranking.figure(ranks, 20, "tables", tmp_path / "ranks.png")
    assert (tmp_path / "ranks.png").read_bytes().startswith(b"\x89PNG")
