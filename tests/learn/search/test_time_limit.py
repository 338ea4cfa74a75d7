"""Searches with a limit of time."""

from __future__ import annotations

import numpy as np
import pytest

import phimap as pm
from phimap.io.checkpoint import Checkpoint


@pytest.fixture
def rows(rng):
    X = rng.standard_normal((2600, 6))
    return X, np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.standard_normal(len(X))


def test_a_search_without_time_takes_the_first_kernel(rows, tmp_path):
    X, y = rows
    model = pm.KernelRegressor(n_components=64, time_limit=1e-9, random_state=0).fit(X, y)
    # The widths of the first kernel.
    assert len(model.search_.errors) == 3
    assert not model.search_.is_complete
    assert model.score(X, y) > 0
    pm.save(model, tmp_path / "model.phimap")
    again = pm.load(tmp_path / "model.phimap")
    assert not again.search_.is_complete
    assert again.time_limit == 1e-9


@pytest.mark.usefixtures("brief_search")
def test_a_limit_that_is_not_reached_changes_no_bit(rows):
    X, y = rows
    limited, free = (
        pm.KernelRegressor(n_components=64, effort="fast", time_limit=limit, random_state=0).fit(X[:600], y[:600])
        for limit in (3600, None)
    )
    assert free.search_.is_complete
    np.testing.assert_array_equal(limited.predict(X), free.predict(X))


def test_a_limit_does_not_go_with_a_checkpoint(rows, tmp_path):
    model = pm.KernelRegressor(time_limit=60, random_state=0)
    with pytest.raises(ValueError, match="`time_limit` must be None where a checkpoint is written, got 60"):
        model.fit_batches([rows], checkpoint=Checkpoint(tmp_path / "store"))
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("limit", [0, -1, np.nan])
def test_a_limit_is_positive(limit, rows):
    with pytest.raises(ValueError, match="`time_limit` must be"):
        pm.KernelRegressor(time_limit=limit).fit(*rows)


def test_a_limit_is_in_seconds(rows):
    with pytest.raises(TypeError, match="`time_limit` must be a number of seconds or None, got '5s'"):
        pm.KernelRegressor(time_limit="5s").fit(*rows)
