"""Validation rows: random rows and extreme rows of a stream, and the rows that a pass skips."""

from __future__ import annotations

import numpy as np
import pytest

from phimap._random import row_uniforms
from phimap.learn.blocks.blocks import FeatureRows, feature_block
from phimap.learn.rows.samples import ExtremeRows, Reservoir
from phimap.learn.rows.validation import ValidationRows, n_extreme, n_held_out

N, SEED = 2400, 3


def rows_of(X, y, weights):
    return FeatureRows(feature_block(X), y[:, None], weights)


@pytest.fixture
def validation(rng) -> ValidationRows:
    """Of rows whose target is their index; every fifth row is far out, so that some extreme rows have small keys."""
    X, y = rng.standard_normal((N, 3)), np.arange(N, dtype=float)
    X[::5] *= 10
    sample, wider = Reservoir(SEED, most_rows=600), Reservoir(SEED, most_rows=1500)
    extremes = ExtremeRows(SEED, centre=np.zeros(3), factor=np.ones(3))
    for rows in (sample, wider, extremes):
        rows.update(X, y)
    return ValidationRows(sample, extremes, N, rows_of, wider_sample=wider)


def indices(rows: FeatureRows) -> set[int]:
    return set(rows.targets[:, 0].astype(int))


def test_random_rows_have_small_keys_and_are_not_extreme(validation):
    keys = row_uniforms(0, N, SEED)
    small = set(np.argsort(keys)[: n_held_out(N)])
    random, extreme = indices(validation.random()), indices(validation.extreme())
    conformal = set(np.argsort(keys)[n_held_out(N) : n_held_out(N) + N // 10])
    every, _ = validation.extremes.first(n_extreme(N))
    assert extreme == set(every.y.astype(int)) - conformal
    assert len(extreme) > n_extreme(N) // 2
    assert random == small - extreme
    # Mutant: a sample that includes the extreme rows.
    assert small & extreme


def test_a_pass_that_skips_small_keys_skips_held_out_rows_and_the_extreme_rows_among_them(validation):
    skipped = set(np.flatnonzero(np.isin(row_uniforms(0, N, SEED), validation.skipped_keys)))
    back = indices(validation.skipped_extremes())
    assert indices(validation.random()) | back == skipped
    assert back == skipped & indices(validation.extreme())


def test_the_training_sample_holds_no_validation_rows(validation):
    sample = indices(validation.training_sample(1000))
    assert len(sample) > 900
    assert not sample & (indices(validation.random()) | indices(validation.extreme()))


def test_lazy_features_are_used_where_they_are_asked_for(validation, rng):
    lazy = ValidationRows(validation.sample, validation.extremes, N, rows_of, lambda *rows: "lazy")
    assert lazy.random(lazy=True) == lazy.extreme(lazy=True) == "lazy"
    assert indices(lazy.random()) == indices(validation.random())
    assert indices(validation.random(lazy=True)) == indices(validation.random())


def test_few_rows_have_no_validation_rows(rng):
    X, y = rng.standard_normal((19, 3)), np.arange(19.0)
    sample, extremes = Reservoir(SEED), ExtremeRows(SEED, centre=np.zeros(3), factor=np.ones(3))
    sample.update(X, y)
    extremes.update(X, y)
    few = ValidationRows(sample, extremes, 19, rows_of)
    assert few.random() is None
    assert few.extreme() is None
    assert len(few.leave_one_out().targets) == 19


@pytest.mark.parametrize("n_rows", [1000, 6000])
def test_validation_rows_hold_classes_in_proportion(rng, n_rows):
    """One row in fifty is positive. Mutant: the rows with the smallest keys hold another number of them."""
    keys = row_uniforms(0, n_rows, SEED)
    # The rows with the smallest keys are all negative.
    y = (np.argsort(np.argsort(keys)) % 50 == 49).astype(float)
    y[np.argsort(keys)[: n_held_out(n_rows)]] = 0
    X = rng.standard_normal((n_rows, 3))
    sample, extremes = Reservoir(SEED), ExtremeRows(SEED, centre=np.zeros(3), factor=np.ones(3))
    sample.update(X, y)
    extremes.update(X, y)
    share = y[np.isin(keys, sample.keys)].mean()

    def of(by_class):
        return ValidationRows(sample, extremes, n_rows, rows_of, by_class=by_class)

    validation, expected = of(True), share * n_held_out(n_rows)
    mask = np.isin(keys, validation.skipped_keys)
    assert mask.sum() == n_held_out(n_rows)
    assert abs(y[mask].sum() - expected) <= 1
    assert y[np.isin(keys, of(False).skipped_keys)].sum() == 0 < expected
    # The random rows are those that are skipped, without the extreme ones.
    assert len(validation.random().targets) + len(validation.skipped_extremes().targets) == n_held_out(n_rows)
    alone = validation.leave_one_out().targets[:, 0]
    assert abs(alone.sum() - share * len(alone)) <= 1
