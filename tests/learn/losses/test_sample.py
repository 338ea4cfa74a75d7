"""The sample on which alpha is chosen: a partition of rows that no cut of the stream changes."""

from __future__ import annotations

import numpy as np

from phimap.learn.blocks.blocks import feature_block
from phimap.learn.losses.preparation import FOLDS, LossSample

N, M = 3000, 4


def sampled(cuts, memory=10**9, seed=3):
    Z = np.arange(N * M, dtype=float).reshape(N, M)
    sample = LossSample(N, memory, seed)
    for rows in np.split(np.arange(N), cuts):
        sample.update(feature_block(Z[rows]), Z[rows, :1], Z[rows, 0] + 1)
    return sample


def indices(stream):
    """Rows of the stream by their first feature; targets and weights come along."""
    parts = [(block.to_host()[:, 0], targets[:, 0], weights) for block, targets, weights in stream]
    first, targets, weights = (np.concatenate(part) for part in zip(*parts, strict=True))
    np.testing.assert_array_equal(first, targets)
    np.testing.assert_array_equal(first + 1, weights)
    return (first / M).astype(int)


def test_all_rows_are_taken_where_they_fit():
    sample = sampled([1000])
    assert sample.share == 1
    np.testing.assert_array_equal(indices(sample.rows()), np.arange(N))


def test_the_cut_of_the_stream_changes_nothing():
    one, other = sampled([1, 1700]), sampled([10, 20, 30])
    for held_out in (False, True):
        np.testing.assert_array_equal(
            indices(one.rows(2, held_out=held_out)), indices(other.rows(2, held_out=held_out))
        )


def test_folds_are_a_partition():
    """Sizes within five standard deviations: a false-alarm rate below 1e-5. Mutant: twice as many folds."""
    sample = sampled([900])
    parts = [indices(sample.rows(fold, held_out=True)) for fold in range(FOLDS)]
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(N))
    for fold, part in enumerate(parts):
        others = indices(sample.rows(fold, held_out=False))
        np.testing.assert_array_equal(np.sort(np.concatenate([part, others])), np.arange(N))
        slack = 5 * np.sqrt(N * (1 / FOLDS) * (1 - 1 / FOLDS))
        assert abs(len(part) - N / FOLDS) < slack
        assert abs(len(part) - N / (2 * FOLDS)) > slack


def test_folds_hold_classes_in_proportion():
    """Without regard to classes, a fold of a fifth of the rows held none of 12 positives in one of 15 samples."""
    targets = np.zeros((N, 2))
    targets[:, 0], targets[::250, 0] = 1, 0
    targets[:, 1] = 1 - targets[:, 0]
    for seed in range(20):
        samples = []
        for cuts in ([900], [1, 1700]):
            sample = LossSample(N, 10**9, seed, by_class=True)
            for rows in np.split(np.arange(N), cuts):
                sample.update(feature_block(rows[:, None] * 1.0), targets[rows], np.ones(len(rows)))
            samples.append(sample)
        for fold in range(FOLDS):
            (one, positives), (other, _) = (
                map(np.concatenate, zip(*((Z.to_host()[:, 0], y[:, 1]) for Z, y, _ in found), strict=True))
                for found in (sample.rows(fold, held_out=True) for sample in samples)
            )
            np.testing.assert_array_equal(one, other)
            assert len(one) == N // FOLDS
            assert positives.sum() in (2, 3)


def test_the_memory_bounds_the_sample():
    """Five standard deviations, as above."""
    rows = 600
    sample = sampled([900], memory=rows * M * 8)
    assert abs(sample.n_rows - rows) < 5 * np.sqrt(rows)
    assert sample.share == sample.n_rows / N < 1
    assert sampled([900], memory=0).folds == []


def test_one_fold_is_held_out_of_many_rows_and_each_of_few(monkeypatch):
    assert sampled([900]).folds == list(range(FOLDS))
    monkeypatch.setattr("phimap.learn.losses.preparation._FEW_ROWS", N - 1)
    assert len(sampled([900]).folds) == 1
