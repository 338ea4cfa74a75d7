"""The folds of a search."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from phimap.learn.rows.samples import proportional_order
from phimap.learn.search.sample import SearchSample


def sample_of(labels: np.ndarray, *, by_class: bool = True) -> SearchSample:
    rows = np.arange(len(labels), dtype=float)[:, None]
    return SearchSample(rows, rows, np.ones(len(labels)), labels=labels if by_class else None)


@pytest.mark.parametrize("n_rows", [40, 400, 2400])
def test_folds_hold_classes_in_proportion(rng, n_rows):
    labels = np.where(rng.random(n_rows) < 0.1, "rare", "common")
    labels = labels[proportional_order(labels)]
    n_rare = int((labels == "rare").sum())
    for training, held_out in sample_of(labels).folds():
        assert np.array_equal(np.sort(np.concatenate([training, held_out])), np.arange(n_rows))
        assert abs((labels[held_out] == "rare").sum() - n_rare * len(held_out) / n_rows) <= 1


def test_folds_without_labels_take_every_third_row():
    folds = sample_of(np.arange(10), by_class=False).folds()
    assert [held_out.tolist() for _, held_out in folds] == [[0, 3, 6, 9], [1, 4, 7], [2, 5, 8]]


def test_the_first_rows_hold_classes_in_proportion(rng):
    """Mutant: random order, in which the first rows hold another number of the rare class."""
    labels = rng.choice(3, 900, p=[0.7, 0.28, 0.02])
    ordered = labels[proportional_order(labels)]
    for label in range(3):
        expected = (labels == label).mean() * np.arange(1, 901)
        assert np.abs(np.cumsum(ordered == label) - expected).max() <= 1
        assert np.abs(np.cumsum(labels == label) - expected).max() > 1
    # Rows of a class stay in their order.
    for label in range(3):
        assert (np.diff(proportional_order(labels)[ordered == label]) > 0).all()


@pytest.mark.parametrize("in_time", [False, True])
def test_the_rows_of_one_unit_are_divided(in_time, rng):
    """Mutant: the only unit is held out as a whole, so no training row is left."""
    sample = replace(sample_of(np.arange(40), by_class=False), places=np.full(40, 3), in_time=in_time)
    training, held_out = sample.split(rng.permutation(30), 10, rng)
    assert (training.size, held_out.size) == (20, 10)
    assert np.array_equal(np.sort(np.concatenate([training, held_out])), np.arange(30))
