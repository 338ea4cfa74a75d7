"""Trees of planes."""

from __future__ import annotations

import numpy as np
import pytest

from phimap.learn.corrections import partition
from phimap.learn.corrections.partition import Partition


@pytest.mark.parametrize("n_regions", [1, 2, 8, 32])
def test_regions_are_of_equal_size(n_regions, rng):
    X = rng.standard_normal((640, 3)).astype(np.float32)
    found = Partition.of_rows(X, n_regions)
    assert found.n_regions == n_regions
    np.testing.assert_array_equal(np.bincount(found.assign(X)), 640 // n_regions)


def test_a_region_does_not_depend_on_the_other_rows(rng):
    X = rng.standard_normal((200, 4))
    found = Partition.of_rows(X, 16)
    np.testing.assert_array_equal(found.assign(X)[::7], found.assign(X[::7]))


def test_planes_cut_the_longest_direction(rng):
    X = rng.standard_normal((400, 3)) * [1, 10, 1]
    found = Partition.of_rows(X, 2)
    assert abs(found.directions[0, 1]) > 0.99
    high = X[:, 1] > np.median(X[:, 1])
    right = found.assign(X) == found.assign(X[[X[:, 1].argmax()]])
    assert (high == right).mean() > 0.97


def test_planes_of_many_rows_take_the_direction_of_some_rows(rng, monkeypatch):
    monkeypatch.setattr(partition, "_DIRECTION_ROWS", 50)
    numbers, principal = [], partition._direction
    monkeypatch.setattr(partition, "_direction", lambda X, drawn: numbers.append(len(X)) or principal(X, drawn))
    X = rng.standard_normal((400, 3)) * [1, 10, 1]
    found = Partition.of_rows(X, 4)
    assert numbers == [50, 50, 50]
    assert abs(found.directions[0, 1]) > 0.99
    np.testing.assert_array_equal(np.bincount(found.assign(X)), 100)


def test_random_planes_have_the_covariance_of_the_rows(rng):
    X = rng.standard_normal((2000, 3)) * [1, 10, 3]
    found = [Partition.of_rows(X, 2, rng=np.random.default_rng(seed)).directions[0] for seed in range(400)]
    # Directions have length 1, so ratios of coordinates are compared. Those of normal numbers are Cauchy variables,
    # and the median of their sizes is the ratio of the deviations.
    ratios = np.abs([direction[[0, 2]] / direction[1] for direction in found])
    np.testing.assert_allclose(np.median(ratios, axis=0), [0.1, 0.3], rtol=0.4)
    np.testing.assert_array_equal(found[0], Partition.of_rows(X, 2, rng=np.random.default_rng(0)).directions[0])


def test_random_planes_do_not_depend_on_the_signs_of_eigenvectors(rng, monkeypatch):
    X, eigh = rng.standard_normal((400, 3)) * [1, 10, 3], np.linalg.eigh
    one = Partition.of_rows(X, 4, rng=np.random.default_rng(0))
    monkeypatch.setattr(np.linalg, "eigh", lambda A: (eigh(A)[0], eigh(A)[1] * [1, -1, -1]))
    other = Partition.of_rows(X, 4, rng=np.random.default_rng(0))
    np.testing.assert_allclose(one.directions, other.directions, atol=1e-12)


def test_equal_rows_stay_together():
    found = Partition.of_rows(np.ones((50, 2)), 4)
    assert np.unique(found.assign(np.ones((50, 2)))).size == 1
