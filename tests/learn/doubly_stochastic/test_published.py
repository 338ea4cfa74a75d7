"""The published steps: against the algorithm written out, the rate of its theorem, weights, model files."""

from __future__ import annotations

import numpy as np
import pytest

import phimap as pm
from phimap._random import named_streams
from phimap.kernels import Gaussian
from tests.learn.problems import problem

KERNEL = Gaussian(1.5)


def slopes_of(loss: str, scores: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Derivatives of the losses, written out."""
    if loss == "squared":
        return scores - targets
    if loss == "logistic":
        shares = np.exp(scores - scores.max(axis=1, keepdims=True))
        return shares / shares.sum(axis=1, keepdims=True) - (targets > 0)
    assert loss == "hinge"
    return -targets * np.clip(2 * (1 - targets * scores), 0, 1)


def simulated(model, X, targets, weights, X_new, *, shrinks=True, shortens=True) -> np.ndarray:
    """Algorithms 1 and 2 of Dai et al.: every block is drawn again for every evaluation of the function.

    Neither scores nor scaled features are kept: a function is a list of coefficients, of block t for its number.
    """
    X, X_new = ((rows - model.scaling_.shift) * model.scaling_.factor for rows in (X, X_new))
    seed, width = model.blocks_.seed, model.block_components
    penalty = model.alpha / weights.sum()
    alphas: list[np.ndarray] = []

    def block(number: int, rows: np.ndarray) -> np.ndarray:
        child = np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, number))
        size = min(width, model.n_components - number * width)
        phi = pm.FourierFeatures(model.kernel_, size, projection="gaussian", random_state=child)
        return phi.fit(rows[:1]).transform(rows)

    def predict(rows: np.ndarray) -> np.ndarray:
        out = np.zeros((len(rows), targets.shape[1]))
        for number, alpha in enumerate(alphas):
            out += block(number, rows) @ alpha
        return out

    rng = named_streams(model.random_state, "sample", "blocks", "order", "norm")["order"]
    n_steps = -(-model.n_components // width)
    height = max(1, round(model.n_epochs * len(X) / n_steps))
    offset = np.asarray(model.constant_).reshape(-1)
    for t in range(1, n_steps + 1):
        rows = rng.integers(len(X), size=height)
        gamma = model.step_size / (t if shortens else 1)
        slopes = slopes_of(model.loss, predict(X[rows]) + offset, targets[rows])
        slopes *= (weights[rows] / weights.mean())[:, None]
        new = -gamma * block(t - 1, X[rows]).T @ slopes / height
        if shrinks:
            alphas = [(1 - gamma * penalty) * alpha for alpha in alphas]
        alphas.append(new)
    return predict(X_new) + offset


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", ["squared", "logistic", "hinge"])
def test_fits_are_the_published_algorithm(loss, weighted):
    """Equal functions to 1e-10 of their size; mutants: coefficients that do not shrink, steps of one length."""
    X, y = problem(160)
    weights = np.random.default_rng(0).uniform(0.5, 2, 160) if weighted else np.ones(160)
    options = {"alpha": 16.0, "length_scale": 1.5, "n_epochs": 2, "step_size": 1.2, "block_components": 6}
    options |= {"n_components": 58, "construction": "published", "random_state": 3}
    if loss == "squared":
        model = pm.DoublyStochasticRegressor(KERNEL, **options)
        targets = np.column_stack([y, np.cos(y)])
        model.fit(X, targets, sample_weight=weights if weighted else None)
        found = model.predict(X[:40])
    else:
        model = pm.DoublyStochasticClassifier(KERNEL, loss=loss, **options)
        labels = np.digitize(y, [-0.5, 0.5])
        targets = np.where(labels[:, None] == np.arange(3), 1.0, -1.0)
        model.fit(X, labels, sample_weight=weights if weighted else None)
        found = model.decision_function(X[:40])
    oracle = simulated(model, X, targets, weights, X[:40])
    size = np.abs(oracle).max()
    assert np.abs(found - oracle).max() < 1e-10 * size
    for mutant in ({"shrinks": False}, {"shortens": False}):
        assert np.abs(found - simulated(model, X, targets, weights, X[:40], **mutant)).max() > 1e-2 * size
    assert model.n_steps_ == len(model.losses_) == 10
    assert model.coef_.shape == (targets.shape[1], 58)


def slope_of_errors(product: float, n_seeds: int) -> float:
    """Slope of log error against log t, for the root mean square distance from the minimiser over rows and seeds.

    `product` is the step size times the penalty. The minimiser is ridge regression with the exact kernel.
    """
    X, y = problem(64)
    penalty, steps = 0.5, np.array([32, 128, 512])
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    K = KERNEL(X)
    best = y.mean() + K @ np.linalg.solve(K + 64 * penalty * np.eye(64), y - y.mean())
    errors = []
    for n_steps in steps:
        options = {"n_components": 8 * int(n_steps), "block_components": 8, "n_epochs": 1, "standardize": None}
        options |= {"construction": "published", "alpha": 64 * penalty, "step_size": product / penalty}
        squares = [
            np.square(pm.DoublyStochasticRegressor(KERNEL, **options, random_state=seed).fit(X, y).predict(X) - best)
            for seed in range(n_seeds)
        ]
        errors.append(np.mean(squares) ** 0.5)
    return float(np.polyfit(np.log(steps), np.log(errors), 1)[0])


@pytest.mark.slow
def test_errors_fall_like_one_over_the_root_of_the_steps():
    """The theorem's rate, with one row a step, where step size times penalty is above 1.

    Mutant: a product of 0.2, for which the expected error falls only like t^-0.2.
    """
    assert -0.65 < slope_of_errors(1.5, 6) < -0.4
    assert slope_of_errors(0.2, 2) > -0.33


def test_weights_and_threads_and_dtype():
    """Rows of weight 0 never count, threads change no bit, and float32 comes near float64."""
    X, y = problem(300)
    options = {"length_scale": 1.5, "construction": "published", "n_components": 256, "random_state": 0}
    fits = [pm.DoublyStochasticRegressor(KERNEL, **options, n_jobs=n_jobs).fit(X, y) for n_jobs in (1, 2)]
    np.testing.assert_array_equal(fits[0].coef_, fits[1].coef_)
    single = pm.DoublyStochasticRegressor(KERNEL, **options).fit(X.astype(np.float32), y)
    np.testing.assert_allclose(single.predict(X), fits[0].predict(X), atol=1e-4 * np.abs(y).max())
    weights = np.r_[np.ones(200), np.zeros(100)]
    changed = y.copy()
    changed[200:] = 1e3
    found = [pm.DoublyStochasticRegressor(KERNEL, **options).fit(X, z, sample_weight=weights) for z in (y, changed)]
    np.testing.assert_array_equal(found[0].coef_, found[1].coef_)


def test_model_files_and_what_cannot_be(tmp_path):
    X, y = problem(300)
    options = {"construction": "published", "n_components": 250, "block_components": 20, "random_state": 0}
    model = pm.DoublyStochasticRegressor(**options).fit(X, y)
    assert model.blocks_.projection == "gaussian"
    pm.save(model, tmp_path / "model.phimap")
    loaded = pm.load(tmp_path / "model.phimap")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert loaded.get_params() == model.get_params()
    assert not hasattr(loaded, "solver_")
    for name in ("partial_fit", "fit_batches"):
        assert not hasattr(loaded, name)
        assert hasattr(pm.DoublyStochasticRegressor(), name)
    for changed, message in (
        ({"construction": "printed"}, "`construction` must be one of"),
        ({"step_size": 0.0}, "`step_size` must be greater than 0.0, got 0.0"),
        ({"block_components": 0}, "`block_components` must be at least 1, got 0"),
    ):
        with pytest.raises(ValueError, match=message):
            pm.DoublyStochasticRegressor(**{**options, **changed}).fit(X, y)
