"""The chosen alpha on real tables: the script that measures it against hindsight."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import Ridge

ROOT = Path(__file__).parents[2]


@pytest.fixture
def script(monkeypatch):
    """The script's module."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import alpha

    yield alpha
    sys.modules.pop("alpha")


def test_errors_in_hindsight_are_those_of_ridge_regression(script, rng):
    Z, test = rng.standard_normal((40, 12)), rng.standard_normal((9, 12))
    y, targets = rng.standard_normal(40), rng.standard_normal(9)
    alphas = np.array([1e-6, 0.3, 20.0])
    expected = [np.square(Ridge(alpha=one, solver="svd").fit(Z, y).predict(test) - targets) for one in alphas]
    np.testing.assert_allclose(script.errors(Z, y, test, targets, alphas), expected, rtol=1e-9)


@pytest.mark.slow
@pytest.mark.skipif("PHIMAP_DATA" not in os.environ, reason="needs the folder that PHIMAP_DATA names")
@pytest.mark.parametrize("name", ["gas", "airfoil", "energy", "yacht", "pendulum"])
def test_excess_over_hindsight_is_small(script, name):
    """Issue 18, row 12: over five splits of tables of 200 rows and more. Mutant: an alpha a million times the best."""
    options = argparse.Namespace(data=Path(os.environ["PHIMAP_DATA"]), rows=5000, features=1024)
    means = np.mean([script.measured(name, split, "gaussian", options)["means"] for split in range(5)], axis=0)
    chosen, best = means[-1], means[:-1].min()
    assert np.sqrt(chosen / best) < 1.15
    grid = script.GRID
    mutant = np.interp(np.log(grid[means[:-1].argmin()] * 1e6), np.log(grid), means[:-1])
    assert np.sqrt(mutant / best) > 1.15
