"""The outlying rows of a stream: the same however it is cut, and the rows on which a choice of alpha hangs."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import phimap as pm
from phimap.learn.blocks.blocks import FeatureRows, feature_block
from phimap.learn.ridge.solve import solve_ridge
from phimap.learn.rows import samples
from phimap.learn.rows.samples import ExtremeRows, Reservoir
from tests.support.learners import GAUSSIAN

CAPACITY = 20


@pytest.fixture
def few(monkeypatch):
    """Keep few rows against streams of a few hundred."""
    monkeypatch.setattr(samples, "EXTREME_CAPACITY", CAPACITY)


def collect(X, cuts, seed: int = 1, centre=(0.5, -1.0, 0.0), factor=(1.0, 2.0, 0.1)) -> ExtremeRows:
    rows = ExtremeRows(seed, centre=np.array(centre), factor=np.array(factor))
    for start, stop in zip([0, *cuts], [*cuts, X.shape[0]], strict=True):
        rows.update(X[start:stop], np.arange(start, stop))
    return rows


@pytest.mark.parametrize("cuts", [[1], [19, 20, 21], list(range(7, 300, 7))])
@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_matrix])
def test_outlying_rows_whatever_the_batches(few, cuts, layout, rng):
    X = rng.standard_normal((300, 3)) * (rng.random((300, 3)) < 0.7)
    distances = np.square((X - [0.5, -1.0, 0.0]) * [1.0, 2.0, 0.1]).sum(axis=1)
    rows = collect(layout(X), cuts)
    assert rows.n_seen == 300
    for n_rows in (0, 5, CAPACITY, 300):
        (kept, indices, _), keys = rows.first(n_rows)
        np.testing.assert_array_equal(indices, np.argsort(-distances)[: min(n_rows, CAPACITY)])
        np.testing.assert_array_equal(kept.toarray() if sparse.issparse(kept) else kept, X[indices])
        assert keys.shape == indices.shape


def test_among_equals_the_first_to_come(few):
    for cuts in ([], [3, 30, 31]):
        np.testing.assert_array_equal(collect(np.ones((100, 3)), cuts).first(CAPACITY)[0].y, np.arange(CAPACITY))


def test_rows_have_the_keys_of_the_random_sample(few, rng):
    X = rng.standard_normal((200, 3))
    sample = Reservoir(1)
    sample.update(X, np.arange(200))
    (_, indices, _), keys = collect(X, [50]).first(CAPACITY)
    others = sample.first(200, without=keys).y
    assert set(others) == set(range(200)) - set(indices)


def test_merged_rows_are_the_most_outlying_of_both(few, rng):
    X = rng.standard_normal((200, 3))
    one, other = collect(X[:80], []), collect(X[80:], [40], seed=2)
    one.merge(other)
    one.merge(ExtremeRows(3, centre=one.centre, factor=one.factor))
    assert one.n_seen == 200
    np.testing.assert_array_equal(one.first(CAPACITY)[0].X, collect(X, []).first(CAPACITY)[0].X)


def two_scales(n: int, n_extreme: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Inputs of which `n_extreme` spread over four times the width of the others."""
    X = rng.standard_normal((n, 3))
    X[:n_extreme] *= 4
    X = X[rng.permutation(n)]
    return X, np.sin(X[:, 0]) + 0.5 * X[:, 1] + 0.5 * rng.standard_normal(n)


# With these seeds the held-out tenth has few of the outlying rows.
@pytest.mark.parametrize(("n_extreme", "seed"), [(30, 7), (60, 2)])
def test_outlying_rows_keep_alpha_large_enough(n_extreme, seed):
    rng = np.random.default_rng(seed)
    X, y = two_scales(2400, n_extreme, rng)
    X_new, y_new = two_scales(8000, 4 * n_extreme, rng)
    model = pm.KernelRegressor(n_components=200, random_state=seed, **GAUSSIAN).fit(X, y)
    statistics, map_rows = model.statistics_, model.feature_map_.transform
    assert statistics is not None

    def features(X: np.ndarray) -> np.ndarray:
        return map_rows((X - model.scaling_.shift) * model.scaling_.factor)

    def error(alpha: float) -> float:
        solution = solve_ridge(statistics, alpha)
        return float(np.square(features(X_new) @ solution.coef[:, 0] + solution.intercept - y_new).mean())

    least = min(error(alpha) for alpha in np.geomspace(1e-3, 1e2, 11))
    rows, targets, _ = model._state.sample.first(240)
    assert (
        error(solve_ridge(statistics, held_out=FeatureRows(feature_block(features(rows)), targets[:, None])).alpha)
        > 1.15 * least
    )
    assert error(model.alpha_) < 1.05 * least
