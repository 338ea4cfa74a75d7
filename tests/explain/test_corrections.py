"""Models with corrections: the features are exact, corrections in regions alone are sampled."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import phimap as pm
from phimap.explain.sampling import sampled_values
from phimap.explain.subject import subject_of
from phimap.kernels import Gaussian
from phimap.learn.corrections.corrections import Corrections, PartitionModel
from phimap.learn.corrections.partition import Partition
from tests.explain.models import brute_force, data, fitted, function_of

D = 5
PLAYERS = [np.array([j]) for j in range(D)]


def corrected(n_regions, seed=0):
    """A model with small corrections of random coefficients, and rows."""
    X, y = data(D, n=300)
    model, rng = fitted("gaussian phases", X, y), np.random.default_rng(seed)
    rows = rng.standard_normal((80, D))
    models = []
    # All partitions into a single region are the same.
    for stream in [None] if n_regions == 1 else [None, rng]:
        partition = Partition.of_rows(rows, n_regions, rng=stream)
        order = np.argsort(partition.assign(rows), kind="stable")
        ends = np.cumsum(np.bincount(partition.assign(rows), minlength=n_regions))
        models.append(PartitionModel(partition, order, ends, 0.02 * rng.standard_normal((80, 1))))
    none = np.zeros((0, 1))
    corrections = Corrections(Gaussian(2.0), None, 1.0, rows, tuple(models), none[:, 0], none, 1.0)
    model.__dict__["_fitted"] = replace(model._fitted, corrections=corrections)
    return model, X


def test_corrections_without_regions_are_exact():
    model, X = corrected(1)
    found = pm.explain.shapley_values(model, X[:3], X[50:57])
    wanted = brute_force(function_of(model), X[:3], X[50:57], PLAYERS)[..., 0]
    assert found.exact
    assert found.standard_errors is None
    np.testing.assert_allclose(found.values, wanted, rtol=0, atol=1e-10)


def test_corrections_in_regions_alone_are_sampled():
    """Mutant: the same values from sampling the whole model, whose errors are several times as large."""
    model, X = corrected(4)
    rows, background = X[:4], X[50:80]
    wanted = brute_force(function_of(model), rows, background, PLAYERS)[..., 0]
    found = [pm.explain.shapley_values(model, rows, background, random_state=seed) for seed in range(16)]
    values = np.stack([one.values for one in found])
    assert not found[0].exact
    assert (found[0].standard_errors > 0).all()
    np.testing.assert_allclose(values.sum(axis=2) + found[0].base_values, np.tile(model.predict(rows), (16, 1)))
    # Sixteen seeds give 15 degrees of freedom; the largest of 20 such statistics exceeds 6 once in 1,000 times.
    spread = values.std(axis=0, ddof=1)
    assert (np.abs(values.mean(axis=0) - wanted) / (spread / 4)).max() < 6
    claimed = np.sqrt(np.mean([np.square(one.standard_errors) for one in found], axis=0))
    assert 0.8 < np.mean(spread) / np.mean(claimed) < 1.25
    whole = sampled_values(subject_of(model, X).outputs, rows, background, PLAYERS, 0)[1]
    assert whole.mean() > 3 * claimed.mean()


def test_effects_of_corrections_in_regions_are_sampled():
    model, X = corrected(4)
    found, plain = pm.explain.effects(model, X), fitted("gaussian phases", *data(D, n=300))
    assert not found.exact
    wanted = pm.explain.effects(plain, X)
    # The corrections are small: the shares are nearly those of the features.
    assert np.abs(found.first - wanted.first).max() < 0.05
    assert found.first_errors.max() < 0.02


@pytest.mark.parametrize("explain", [pm.explain.shapley_values, pm.explain.interactions])
def test_progress_is_shown_for_both_parts(explain, capsys):
    model, X = corrected(4)
    quiet = explain(model, X[:3], X[50:60])
    assert not capsys.readouterr().err
    shown = explain(model, X[:3], X[50:60], verbose=True)
    told = capsys.readouterr().err
    assert "exact values: " in told
    assert "sampled values: " in told
    np.testing.assert_array_equal(quiet.values, shown.values)
