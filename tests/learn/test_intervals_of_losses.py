"""Conformal intervals of quantiles and of means with a deviance."""

import numpy as np
import pytest

import phimap as pm
from tests.support.learners import GAUSSIAN

COVERAGE = 0.8


def counts(n, rng):
    X = rng.uniform(-1, 1, (n, 2))
    return X, rng.poisson(np.exp(2 + 2 * X[:, 0])).astype(float)


def noisy(n, rng):
    X = rng.uniform(-1, 1, (n, 2))
    return X, X[:, 1] + np.exp(2 * X[:, 0]) * rng.standard_normal(n)


@pytest.mark.parametrize(
    ("loss", "draw", "more"),
    [
        ("poisson", counts, {}),
        ("quantile", noisy, {"quantile": (0.2, 0.8)}),
        ("quantile", noisy, {"quantile": 0.5}),
        ("huber", noisy, {}),
    ],
)
def test_intervals_hold_their_share_of_new_targets(loss, draw, more, tmp_path):
    rng = np.random.default_rng(5)
    X, y = draw(3000, rng)
    model = pm.KernelRegressor(n_components=64, loss=loss, random_state=0, **more, **GAUSSIAN).fit(X[:1500], y[:1500])
    bounds = model.predict_interval(X[1500:], coverage=COVERAGE)
    inside = (bounds[:, 0] <= y[1500:]) & (y[1500:] <= bounds[:, 1])
    # Standard deviation of the share: 0.010 from the new rows, 0.010 from those of the scores. Five of their sum.
    assert abs(inside.mean() - COVERAGE) < 0.075
    lengths = np.diff(bounds, axis=1)[:, 0]
    wide = X[1500:, 0] > 0.5
    if loss == "poisson" or np.ndim(more.get("quantile", 0)):
        assert lengths[wide].mean() > 2 * lengths[X[1500:, 0] < -0.5].mean()
    if loss == "poisson":
        assert bounds.min() >= 0
    pm.save(model, tmp_path / "model.phimap")
    loaded = pm.load(tmp_path / "model.phimap")
    np.testing.assert_array_equal(loaded.predict_interval(X[1500:], COVERAGE), bounds)
