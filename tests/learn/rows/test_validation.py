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
    assert len(extreme) == n_extreme(N)
    assert random == small - extreme
    # Mutant: a sample that includes the extreme rows.
    assert small & extreme


def test_a_pass_that_skips_small_keys_skips_held_out_rows_and_the_extreme_rows_among_them(validation):
    skipped = set(np.flatnonzero(row_uniforms(0, N, SEED) <= validation.largest_key))
    back = indices(validation.extreme_with_small_keys())
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
