"""Errors of rows left out by formulas, against fits without these rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import phimap as pm
from phimap.kernels import Matern
from phimap.learn.blocks.blocks import FeatureRows, feature_block
from phimap.learn.corrections.fit import learn_corrections, left_out_memory
from phimap.learn.corrections.left_out import LeftOutRows, corrected_errors
from phimap.learn.corrections.residuals import Outputs, Residuals
from phimap.learn.left_out import left_out_errors
from phimap.learn.ridge.solver import RidgeSolver

ALPHA, N, M = 0.3, 240, 20
UNITS = [np.array([0, 5, 6, 17]), np.array([3, 40, 41]), np.array([80])]


@pytest.fixture(params=[None, 1], ids=["plain", "weighted"])
def data(request, rng):
    X = rng.uniform(-1, 1, (N, 2))
    Y = np.sin(5 * X[:, :1] + np.arange(2)) + 0.1 * rng.standard_normal((N, 2))
    return X, Y, None if request.param is None else rng.uniform(0.5, 3, N)


def solved(Z, Y, weights, n_rows=None):
    solver = RidgeSolver.start(Z.shape[1], Y.shape[1], n_rows)
    solver.update(feature_block(Z), Y, 1, weights)
    return solver, solver.finish(ALPHA, None, 0, 1)


def some(values, rows):
    return None if values is None else values[rows]


@pytest.mark.parametrize("n_rows", [None, N], ids=["primal", "dual"])
@pytest.mark.parametrize("units", [None, UNITS], ids=["rows", "units"])
def test_errors_are_those_of_fits_without_the_rows(data, units, n_rows, rng):
    _, Y, weights = data
    Z = rng.standard_normal((N, M)) + 1
    solver, solution = solved(Z, Y, weights, n_rows)
    left = np.concatenate(UNITS)
    # The indices of the units count from the first of the rows left out.
    together = None if units is None else [np.arange(4), np.arange(4, 7), np.array([7])]
    rows = FeatureRows(feature_block(Z[left]), Y[left], some(weights, left))
    found = left_out_errors(rows, solution, solver.leverages(ALPHA, 1), together)
    for unit in [np.array([i]) for i in left] if units is None else units:
        kept = np.setdiff1d(np.arange(N), unit)
        _, other = solved(Z[kept], Y[kept], some(weights, kept))
        expected = Y[unit] - Z[unit] @ other.coef - other.intercept
        np.testing.assert_allclose(found[np.isin(left, unit)][: len(unit)], expected, rtol=1e-6, atol=1e-9)


def test_outputs_of_float32_features_are_those_of_float64_features(data, rng):
    X = data[0].astype(np.float32)
    record = pm.NystroemFeatures(Matern(1.5, 1.0), M, random_state=0).fit(X).record_
    coef = rng.standard_normal((M, 2))
    single, double = (Outputs(record, 1, dtype)(X, coef) for dtype in (np.float32, np.float64))
    assert single.dtype == np.float64
    np.testing.assert_allclose(single, double, atol=1e-4 * np.linalg.norm(coef, axis=0).max())


@pytest.mark.parametrize("units", [None, UNITS], ids=["rows", "units"])
@pytest.mark.parametrize("n_models", [1, 3])
def test_corrected_errors_are_those_of_models_without_the_rows(data, units, n_models, rng, monkeypatch):
    X, Y, weights = data
    for name, value in {
        "regions.MOST_ROWS": 130,
        "fit.MOST_PARTITIONS": n_models,
        "fit._GAIN": -np.inf,
        "fit._MOST_SHARE": np.inf,
        # Several passes over the features, each for a few of the rows left out.
        "left_out._MOST_COLUMNS": 7,
    }.items():
        monkeypatch.setattr(f"phimap.learn.corrections.{name}", value)
    record = pm.FourierFeatures(Matern(1.5, 1.0), M, random_state=0).fit(X).record_
    Z = np.asarray(record.transform(X)) if hasattr(record, "transform") else Outputs(record, 1)(X, np.eye(M))
    solver, solution = solved(Z, Y, weights)
    keys, held_out = rng.random(N), np.zeros(N, bool)
    held_out[100:160] = True
    _, training = solved(Z[~held_out], Y[~held_out], some(weights, ~held_out))
    errors, of_training = (Y - Z @ one.coef - one.intercept for one in (solution, training))
    residuals = Residuals(X, weights, keys, errors, held_out, of_training)
    left = np.concatenate(UNITS)
    # More rows may be left out than are left out.
    learned = learn_corrections(Matern(1.5, 1.0), residuals, left_out=keys[np.append(left, [0, 150])])
    assert learned is not None
    assert 0 < learned.inverses_bytes <= left_out_memory(left.size + 2)
    corrections = replace(learned.corrections, shrinkage=0.7)
    assert (corrections.n_regions, len(corrections.models)) == (2, n_models)
    learned = learned._replace(corrections=corrections)

    left = left[np.argsort(keys[left])]
    together = None if units is None else [np.flatnonzero(np.isin(left, unit)) for unit in units]
    rows = FeatureRows(feature_block(Z[left]), Y[left], some(weights, left))
    leverages = solver.leverages(ALPHA, 1)
    first = left_out_errors(rows, solution, leverages, together)
    found = corrected_errors(learned, LeftOutRows(rows, keys[left], first, together), leverages, Outputs(record, 1))
    kernel, scale = corrections.kernel, corrections.scale
    for unit in [np.array([i]) for i in left] if units is None else units:
        kept = np.setdiff1d(np.arange(N), unit)
        _, other = solved(Z[kept], Y[kept], some(weights, kept))
        E = Y - Z @ other.coef - other.intercept
        for i in unit:
            values = []
            for model in corrections.models:
                regions = model.partition.assign(X)
                part = kept[regions[kept] == regions[i]]
                roots = np.ones(part.size) if weights is None else np.sqrt(weights[part])
                K = kernel(scale * X[part]) * np.outer(roots, roots) + corrections.alpha * np.eye(part.size)
                coefs = roots[:, None] * np.linalg.solve(K, roots[:, None] * E[part])
                values.append(kernel(scale * X[[i]], scale * X[part]) @ coefs)
            expected = E[[i]] - 0.7 * np.mean(values, axis=0)
            np.testing.assert_allclose(found[left == i], expected, rtol=1e-6, atol=1e-9)
