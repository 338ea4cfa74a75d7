"""The sample of a stream: the same however the stream is cut, and uniform."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse, stats

from phimap.learn.rows import batches, samples
from phimap.learn.rows.samples import Reservoir

CAPACITY = 50


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Make the sample small against streams of a few hundred rows."""
    monkeypatch.setattr(samples, "CAPACITY", CAPACITY)


def numbered(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows that know their index."""
    return np.stack([np.arange(n), np.ones(n)], axis=1).astype(float), np.arange(n)


def collect(X, y, cuts, seed: int = 1) -> Reservoir:
    sample = Reservoir(seed)
    for start, stop in zip([0, *cuts], [*cuts, X.shape[0]], strict=True):
        sample.update(X[start:stop], y[start:stop])
    return sample


@pytest.mark.parametrize("cuts", [[1], [49, 50, 51], [200], list(range(7, 400, 7))])
@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_matrix])
def test_sample_does_not_depend_on_the_batches(cuts, layout):
    X, y = numbered(400)
    whole, parts = (collect(layout(X), y, c) for c in ([], cuts))
    assert whole.n_seen == parts.n_seen == 400
    for n_rows in (1, 20, CAPACITY):
        (X_whole, y_whole, _), (X_parts, y_parts, _) = whole.first(n_rows), parts.first(n_rows)
        np.testing.assert_array_equal(y_whole, y_parts)
        assert sparse.issparse(X_parts) == (layout is sparse.csr_matrix)
        dense = X_parts.toarray() if sparse.issparse(X_parts) else X_parts
        np.testing.assert_array_equal(dense[:, 0], y_parts)
        assert (dense != 0).sum() == (X_whole != 0).sum()
        assert len(set(y_parts)) == n_rows


def test_a_short_stream_is_kept_whole():
    X, y = numbered(CAPACITY)
    sample = collect(X, y, [20])
    np.testing.assert_array_equal(np.sort(sample.first(CAPACITY)[1]), y)
    assert sample.keys.size == CAPACITY


def test_first_rows_are_a_part_of_more_rows():
    sample = collect(*numbered(400), [])
    np.testing.assert_array_equal(sample.first(10)[1], sample.first(40)[1][:10])


@pytest.mark.parametrize(
    ("skipped", "wanted", "first"), [(5, 40, 5), (0, 40, 0), (30, CAPACITY - 10, 10), (30, 500, 0)]
)
def test_rows_behind_others_where_there_are_enough(skipped, wanted, first):
    sample = collect(*numbered(400), [])
    every = sample.first(CAPACITY)[1]
    np.testing.assert_array_equal(sample.skipping(skipped, wanted)[1], every[first : first + wanted])


def is_uniform(chosen: np.ndarray, n: int) -> bool:
    """Chi-square over ten equal parts of the stream, at a false-alarm rate of 1e-6."""
    counts = np.histogram(chosen, bins=10, range=(0, n))[0]
    return bool(stats.chisquare(counts).pvalue > 1e-6)


@pytest.mark.parametrize("n_rows", [1, 10, CAPACITY])
def test_sample_is_uniform(n_rows, seed):
    """False-alarm rate below 1e-6; mutants: the first rows of the stream, and a sample that prefers early rows."""
    X, y = numbered(400)
    samples = [collect(X, y, [100], seed=seed + i).first(n_rows)[1] for i in range(1500)]
    # Rows drawn without replacement spread more evenly than the multinomial of the test: its rate only falls.
    assert is_uniform(np.concatenate(samples), 400)
    assert not is_uniform(np.tile(np.arange(n_rows), 1500), 400)
    assert not is_uniform(np.concatenate(samples) ** 1.5 / 20, 400)


def test_merged_samples_hold_the_smallest_keys_of_both():
    X, y = numbered(400)
    one, other = collect(X[:150], y[:150], [], seed=1), collect(X[150:], y[150:], [], seed=2)
    keys = np.sort(np.concatenate([one.keys, other.keys]))[:CAPACITY]
    one.merge(other)
    assert one.n_seen == 400
    np.testing.assert_array_equal(np.sort(one.keys), keys)
    X_kept, y_kept, _ = one.first(CAPACITY)
    np.testing.assert_array_equal(X_kept[:, 0], y_kept)
    assert (y_kept < 150).any()
    assert (y_kept >= 150).any()


def test_merging_with_an_empty_sample_changes_nothing():
    X, y = numbered(100)
    full, empty = collect(X, y, []), Reservoir(3)
    before = full.first(CAPACITY)[1]
    full.merge(empty)
    empty.merge(full)
    np.testing.assert_array_equal(full.first(CAPACITY)[1], before)
    np.testing.assert_array_equal(empty.first(CAPACITY)[1], before)


def test_rows_are_copied():
    X, y = numbered(30)
    sample = collect(X, y, [])
    X[...] = -1
    assert (sample.first(30)[0] >= 0).all()


def test_fewer_rows_are_kept_where_they_are_large(monkeypatch):
    X, y = numbered(400)
    # Rows of 16 bytes: 30 of them.
    monkeypatch.setattr(batches, "_SAMPLE_BYTES", 480)
    monkeypatch.setattr(batches, "_LEAST_SAMPLE", 10)
    few = collect(X, y, [20, 200])
    assert few.keys.size == 30
    monkeypatch.setattr(batches, "_LEAST_SAMPLE", 40)
    np.testing.assert_array_equal(collect(X, y, []).first(30)[1], few.first(30)[1])
    assert collect(X, y, []).keys.size == 40
    assert collect(sparse.csr_matrix(X), y, [200]).keys.size == CAPACITY


def test_rows_keep_their_weights():
    X, y = numbered(400)
    sample, other = Reservoir(1), Reservoir(2)
    sample.update(X[:100], y[:100])
    sample.update(X[100:300], y[100:300], y[100:300] + 0.5)
    other.update(X[300:], y[300:], y[300:] + 0.5)
    sample.merge(other)
    kept = sample.first(CAPACITY)
    assert kept.weights is not None
    np.testing.assert_array_equal(kept.weights, np.where(kept.y < 100, 1, kept.y + 0.5))
    assert collect(X, y, []).first(CAPACITY).weights is None
