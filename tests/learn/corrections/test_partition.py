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
    numbers, principal = [], partition._principal_direction
    monkeypatch.setattr(partition, "_principal_direction", lambda X: numbers.append(len(X)) or principal(X))
    X = rng.standard_normal((400, 3)) * [1, 10, 1]
    found = Partition.of_rows(X, 4)
    assert numbers == [50, 50, 50]
    assert abs(found.directions[0, 1]) > 0.99
    np.testing.assert_array_equal(np.bincount(found.assign(X)), 100)


def test_equal_rows_stay_together():
    found = Partition.of_rows(np.ones((50, 2)), 4)
    assert np.unique(found.assign(np.ones((50, 2)))).size == 1
