"""Held-out scores of learners, however the rows came."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from sklearn.linear_model import Ridge

import phimap as pm
from phimap.learn.rows.samples import Reservoir
from phimap.records import equal_records
from tests.learn.problems import problem
from tests.support.learners import FIXED, features_of


def model(**options) -> pm.KernelRegressor:
    return pm.KernelRegressor(pm.kernels.Gaussian(2.0), 40, random_state=0, **options, **FIXED)


def features(fitted, X: np.ndarray) -> np.ndarray:
    return features_of(fitted, X)


def is_without(fitted, X: np.ndarray, y: np.ndarray, together: bool) -> None:
    """Assert that predictions are those of ridge regression on the others, left out together or one at a time."""
    held_out, alpha, Z = fitted.solution_.held_out, fitted.alpha_, features(fitted, X)
    rows = np.array([int(np.flatnonzero(y == target)[0]) for target in held_out.targets[:, 0]])
    for i in range(0, len(rows), 1 + len(rows) // 20):
        kept = np.setdiff1d(np.arange(len(y)), rows if together else rows[i])
        oracle = Ridge(alpha=alpha, solver="svd").fit(Z[kept], y[kept]).predict(Z[rows[i : i + 1]])
        np.testing.assert_allclose(held_out.predictions[i, 0], oracle[0], rtol=0, atol=1e-6)


@pytest.mark.parametrize("alpha", ["auto", 0.5])
def test_however_rows_come(alpha, streamed, monkeypatch):
    monkeypatch.setattr("phimap.learn.rows.validation._EXTREME_SHARE", 10**6)
    X, y = problem(400)
    whole = model(alpha=alpha).fit(X, y)
    assert len(whole.solution_.held_out.targets) == (40 if alpha == "auto" else 256)
    is_without(whole, X, y, together=alpha == "auto")
    batches = [(X[:150], y[:150]), (X[150:], y[150:])]
    streamed_model = model(alpha=alpha).fit_batches(batches)
    np.testing.assert_allclose(
        streamed_model.solution_.held_out.predictions, whole.solution_.held_out.predictions, rtol=0, atol=1e-6
    )
    added = model(alpha=alpha).partial_fit(*batches[0])
    other = copy.deepcopy(added).partial_fit(*batches[1])
    is_without(other, X, y, together=alpha == "auto")
    added.partial_fit(X[150:300], y[150:300])
    late = copy.deepcopy(added).partial_fit(X[300:], y[300:])
    merged = copy.deepcopy(added).merge(late, shared=added)
    is_without(merged, X, y, together=alpha == "auto")


def test_are_of_the_same_bits_for_any_number_of_threads():
    X, y = problem(600)
    one, two = (model(n_jobs=n_jobs).fit(X, y).solution_.held_out for n_jobs in (1, 2))
    assert equal_records(one, two)


def test_are_in_the_units_of_the_targets():
    X, y = problem(300)
    near, far = model().fit(X, y), model().fit(X, 1e9 + y)
    assert far.target_units_ is not None
    for field in ("predictions", "targets"):
        found = getattr(far.solution_.held_out, field) - 1e9
        np.testing.assert_allclose(found, getattr(near.solution_.held_out, field), rtol=0, atol=1e-5)


def test_are_in_no_model_file(tmp_path):
    X, y = problem(300)
    fitted = model().fit(X, y)
    pm.save(fitted, tmp_path / "model", statistics=True)
    loaded = pm.load(tmp_path / "model")
    assert fitted.solution_.held_out is not None
    assert loaded.solution_.held_out is None
    # With rows added there is a new solution, and they are there again.
    loaded.partial_fit(X[:5], y[:5])
    loaded.predict(X)
    assert loaded.solution_.held_out is not None


@pytest.mark.parametrize(
    "fitted", [model(solver="cg"), pm.KernelClassifier("gaussian", 40, loss="squared_hinge", **FIXED)]
)
def test_solutions_in_passes_have_those_of_their_choice_of_alpha(fitted):
    X, y = problem(600)
    y = y if isinstance(fitted, pm.KernelRegressor) else np.sign(y)
    held_out, errors = fitted.fit(X, y).solution_.held_out, []
    if isinstance(fitted, pm.KernelRegressor):
        errors = np.square(held_out.predictions - held_out.targets)
    else:
        errors = np.square(np.maximum(1 - held_out.targets * held_out.predictions, 0))
    # The alpha that is chosen lies between those of the curve.
    assert np.average(errors[:, 0], weights=held_out.weights) == pytest.approx(fitted.solution_.scores.min(), rel=0.02)


def classifier(**options) -> pm.KernelClassifier:
    return pm.KernelClassifier(pm.kernels.Gaussian(2.0), 40, random_state=0, **options, **FIXED)


def test_conjugate_gradients_leave_rows_out_at_an_alpha_that_is_given(streamed, monkeypatch):
    """Mutant: a model that has seen the rows."""
    monkeypatch.setattr("phimap.learn.rows.validation._EXTREME_SHARE", 10**6)
    X, y = problem(400)
    y = np.sign(y)
    fitted = classifier(solver="cg", alpha=0.5).fit(X, y)
    solution, Z = fitted.solution_, features(fitted, X)
    assert (solution.alpha, solution.criterion, solution.alphas.size) == (0.5, "given", 0)
    # The peer is factorised, and keeps the sample.
    sample = classifier(alpha=0.5).fit(X, y)._state.sample
    rows = [int(np.flatnonzero((x == X).all(axis=1))[0]) for x in sample.first(40, by_class=True).X]
    others = np.setdiff1d(np.arange(400), rows)
    oracle, mutant = (
        Ridge(alpha=0.5, solver="svd").fit(Z[kept], y[kept]).predict(Z[rows]) for kept in (others, slice(None))
    )
    # The search has settled where its error moves by a ten-thousandth.
    slack = 1e-2 * np.linalg.norm(oracle - y[rows])
    assert np.linalg.norm(solution.held_out.predictions[:, 0] - oracle) < slack
    assert np.linalg.norm(mutant - oracle) > 2 * slack


@pytest.mark.parametrize(("dtype", "alpha"), [(np.float64, 0.5), (np.float32, 1e-9)])
def test_few_rows_are_left_out_one_by_one_whatever_the_solver(dtype, alpha):
    """The smaller alpha is below the rounding of the Gram matrix, where a factorisation refuses."""
    X, y = problem(100, dtype=dtype)
    fitted = classifier(solver="cg", alpha=alpha).fit(X, np.sign(y))
    assert (fitted.alpha_, fitted.solution_.form) == (alpha, "cg")
    held_out = fitted.solution_.held_out
    assert held_out.predictions.shape == (100, 1)
    if dtype == np.float64:
        peer = classifier(alpha=alpha).fit(X, np.sign(y)).solution_.held_out
        np.testing.assert_allclose(np.sort(held_out.predictions[:, 0]), np.sort(peer.predictions[:, 0]), atol=1e-9)


def test_regressors_spend_no_pass_on_held_out_rows(streamed):
    X, y = problem(400)
    assert model(solver="cg", alpha=0.5).fit(X, y).solution_.held_out is None


def narrow(seed: int) -> tuple[pm.KernelRegressor, float]:
    """A model whose kernel is so narrow that rows other than landmarks have small features; and its true error."""
    X = np.random.default_rng(seed).uniform(-1, 1, (6000, 4))
    y = np.sin(4 * X).sum(axis=1)
    fitted = pm.KernelRegressor(pm.NystroemFeatures(pm.kernels.Laplacian(0.3), 1000), random_state=seed, **FIXED)
    fitted.fit(X[:4000], y[:4000])
    return fitted, float(np.square(fitted.predict(X[4000:]) - y[4000:]).mean())


def test_validation_rows_are_not_landmarks(seed, monkeypatch):
    fitted, error = narrow(seed)
    validation = fitted._fitted.map.on_host(fitted._state.sample.first(400).X)
    landmarks = fitted.feature_map_.record_.landmarks
    assert not (landmarks[:, None, :] == validation[None]).all(axis=2).any()
    assert fitted.solution_.scores.min() == pytest.approx(error, rel=0.4)
    # Mutant: landmarks among the validation rows, whose errors are smaller than those of new rows.
    monkeypatch.setattr(Reservoir, "skipping", lambda self, skipped, n_rows, without: self.first(n_rows))
    flattered, error = narrow(seed)
    assert flattered.solution_.scores.min() < 0.7 * error
