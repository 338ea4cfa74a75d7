"""Bins of the numbers of columns."""

from __future__ import annotations

import numpy as np
import pytest

from phimap.learn.trees import bins as bins_module
from phimap.learn.trees.bins import Bins


def test_the_last_bits_of_numbers_move_no_edge(rng):
    """Mutant: bins of the numbers themselves, which divide rows that differ by rounding."""
    X = rng.integers(1, 9, (600, 2)).astype(np.float32)
    noisy = X * (1 + np.float32(2**-22) * rng.integers(0, 2, X.shape).astype(np.float32))
    assert (noisy != X).any()
    for one in (X, noisy):
        bins = Bins.of(one)
        np.testing.assert_array_equal(bins.counts, [8, 8])
        np.testing.assert_array_equal(bins.codes(one).T, X - 1)


@pytest.mark.parametrize("n_values", [1, 2, 30, 255, 256, 3000])
def test_bins_have_about_equally_many_rows(rng, n_values):
    X = (rng.permutation(3000) % n_values)[:, None].astype(np.float64) ** 3
    bins = Bins.of(X)
    sizes = np.bincount(bins.codes(X)[0], minlength=bins.counts[0])
    assert 0.98 * min(n_values, 255) <= bins.counts[0] <= min(n_values, 255)
    assert sizes.min() >= 3000 // max(n_values, 255)
    # A bin has at most one number more than others, and few numbers come once more often than others.
    assert np.ptp(sizes) <= -(-3000 // n_values) + 1


def test_a_code_counts_the_edges_below(rng):
    X = rng.standard_normal((1000, 3)).astype(np.float32)
    bins, test = Bins.of(X), rng.standard_normal((50, 3)).astype(np.float32)
    assert bins.edges.dtype == np.float32
    for j, codes in enumerate(bins.codes(test)):
        places = np.arange(bins.counts[j] - 1)
        edges = bins.thresholds(np.full(places.size, j), places)
        np.testing.assert_array_equal(codes, (test[:, j, None] > edges).sum(axis=1))


def test_many_columns_have_fewer_bins(rng, monkeypatch):
    monkeypatch.setattr(bins_module, "_MOST", 400)
    assert (Bins.of(rng.standard_normal((500, 40))).counts == 10).all()
