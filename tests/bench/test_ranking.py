"""Mean ranks and the critical difference, against the figures of Demsar (2006)."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.stats import rankdata

from phimap.bench.tabular import ranking

# Table 6 of Demsar (2006): areas under the curve of four decision trees on 14 sets, ranked in Section 3.2.4.
AREAS = np.array(
    [
        [0.763, 0.768, 0.771, 0.798],
        [0.599, 0.591, 0.590, 0.569],
        [0.954, 0.971, 0.968, 0.967],
        [0.628, 0.661, 0.654, 0.657],
        [0.882, 0.888, 0.886, 0.898],
        [0.936, 0.931, 0.916, 0.931],
        [0.661, 0.668, 0.609, 0.685],
        [0.583, 0.583, 0.563, 0.625],
        [0.775, 0.838, 0.866, 0.875],
        [1.000, 1.000, 1.000, 1.000],
        [0.940, 0.962, 0.965, 0.962],
        [0.619, 0.666, 0.614, 0.669],
        [0.972, 0.981, 0.975, 0.975],
        [0.957, 0.978, 0.946, 0.970],
    ]
)
RANKS = [3.143, 2.000, 2.893, 1.964]
# Table 5(a), quantiles at 5 % for 2 to 10 methods.
QUANTILES = [1.960, 2.343, 2.569, 2.728, 2.850, 2.949, 3.031, 3.102, 3.164]


def test_mean_ranks_are_the_published_ones():
    np.testing.assert_allclose(ranking.mean_ranks(1 - AREAS), RANKS, atol=5e-4)
    # Mutant: equals are ranked by their place.
    wrong = rankdata(1 - AREAS, axis=1, method="ordinal").mean(axis=0)
    assert np.abs(wrong - RANKS).max() > 0.05


@pytest.mark.parametrize(("n_methods", "quantile"), list(enumerate(QUANTILES, 2)))
def test_critical_difference_is_the_published_one(n_methods, quantile):
    expected = quantile * (n_methods * (n_methods + 1) / (6 * 14)) ** 0.5
    assert ranking.critical_difference(n_methods, 14) == pytest.approx(expected, rel=5e-4)
    # Mutant: one method more or less.
    for other in {n_methods - 1, n_methods + 1} - {1}:
        assert ranking.critical_difference(other, 14) != pytest.approx(expected, rel=5e-4)


def test_friedman_is_the_published_one():
    """The statistic of the section is 9.28 without a correction for ties, which makes it a little larger."""
    ranks = rankdata(1 - AREAS, axis=1)
    n, k = ranks.shape
    statistic = 12 * n / (k * (k + 1)) * ((ranks.mean(axis=0) ** 2).sum() - k * (k + 1) ** 2 / 4)
    assert statistic == pytest.approx(9.28, abs=0.01)
    # 9.28 is the quantile 0.974 of chi squared with 3 degrees of freedom.
    assert 0.01 < ranking.friedman(1 - AREAS) < 0.0258


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
