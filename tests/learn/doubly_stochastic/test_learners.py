"""The learners: scikit-learn's contract, the closed form, memory, bits, streams, weights, model files."""

from __future__ import annotations

import os

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.utils.estimator_checks import parametrize_with_checks

import phimap as pm
from phimap.learn.doubly_stochastic import model as model_module
from phimap.ops import host
from tests.learn.problems import problem
from tests.support.memory import traced


@pytest.fixture(autouse=True)
def small_samples(monkeypatch):
    """Samples of 256 rows: what is tested does not depend on their number."""
    monkeypatch.setattr(model_module, "SAMPLE_ROWS", 256)
    monkeypatch.setattr(model_module, "VALIDATION_ROWS", 128)


WEIGHTS = {
    f"check_sample_weight_equivalence_on_{layout}_data": "the order of rows, and with it the path, is another one"
    for layout in ("dense", "sparse")
}


@parametrize_with_checks(
    [
        pm.DoublyStochasticRegressor(n_components=64, random_state=0),
        pm.DoublyStochasticClassifier(n_components=64, random_state=0),
        pm.DoublyStochasticRegressor(
            n_components=512, construction="published", block_components=16, step_size=8.0, random_state=0
        ),
        pm.DoublyStochasticClassifier(
            n_components=160, construction="published", block_components=4, step_size=4.0, random_state=0
        ),
    ],
    expected_failed_checks=lambda estimator: WEIGHTS,
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def features(model, X: np.ndarray) -> np.ndarray:
    """The features of a fitted model."""
    scaled = (X - model.scaling_.shift) * model.scaling_.factor
    return np.hstack([Z for _, (Z,) in model.blocks_.features(host(), (scaled,), 1)])


def test_fit_is_ridge_on_the_same_features():
    """Test errors within 2 %; mutant: one epoch is not."""
    X, y = problem(1500)
    ratios = []
    for n_epochs in (10, 1):
        model = pm.DoublyStochasticRegressor(n_components=400, alpha=0.3, n_epochs=n_epochs, random_state=0)
        model.fit(X[:1200], y[:1200])
        oracle = Ridge(alpha=0.3, solver="cholesky").fit(features(model, X[:1200]), y[:1200])
        errors = [model.predict(X[1200:]) - y[1200:], oracle.predict(features(model, X[1200:])) - y[1200:]]
        ratios.append(np.linalg.norm(errors[0]) / np.linalg.norm(errors[1]))
    assert abs(ratios[0] - 1) < 0.02 < abs(ratios[1] - 1)


@pytest.mark.skipif("PHIMAP_DATA" not in os.environ, reason="needs PHIMAP_DATA, the folder of the data sets")
def test_protein_is_within_two_percent_of_the_closed_form():
    """A tenth of the rows at 256 features; `benchmarks/doubly_stochastic.py` has all of them."""
    from phimap.bench.uci import load_regression

    X, y = load_regression("protein", os.environ["PHIMAP_DATA"])
    order = np.random.default_rng(0).permutation(len(y))[:5500]
    X, y = X[order], y[order]
    model = pm.DoublyStochasticRegressor(n_components=256, alpha=0.03, random_state=0).fit(X[:4500], y[:4500])
    oracle = Ridge(alpha=0.03, solver="cholesky").fit(features(model, X[:4500]), y[:4500])
    errors = [model.predict(X[4500:]) - y[4500:], oracle.predict(features(model, X[4500:])) - y[4500:]]
    assert np.linalg.norm(errors[0]) < 1.02 * np.linalg.norm(errors[1])


def test_logistic_fit_is_that_of_scikit_learn():
    """Probabilities on the same features; three classes, and two."""
    X, y = load_digits(n_class=3, return_X_y=True)
    for rows in (y >= 0, y > 0):
        model = pm.DoublyStochasticClassifier(n_components=200, alpha=1.0, n_epochs=20, random_state=0)
        model.fit(X[rows], y[rows])
        Z = features(model, X[rows])
        oracle = LogisticRegression(C=1.0, max_iter=2000).fit(Z, y[rows])
        assert np.abs(model.predict_proba(X[rows]) - oracle.predict_proba(Z)).max() < 0.03


@pytest.mark.parametrize("loss", ["logistic", "hinge", "squared_hinge", "squared"])
def test_digits_are_told_apart_by_every_loss(loss):
    X, y = load_digits(return_X_y=True)
    X = X.astype(np.float32)
    model = pm.DoublyStochasticClassifier(n_components=256, loss=loss, standardize="global", random_state=0)
    model.fit(X[:1200], y[:1200])
    assert model.score(X[1200:], y[1200:]) > 0.9
    assert hasattr(model, "predict_proba") == (loss == "logistic")
    assert model.decision_function(X[:5]).shape == (5, 10)
    assert model.losses_[-1] < model.losses_[0]


def peak(n: int, m: int) -> int:
    """Bytes that a fit and a prediction take beside the data and the coefficients (float64, twice)."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 3)).astype(np.float32)
    y = X[:, 0].astype(np.float64)
    model = pm.DoublyStochasticRegressor(n_components=m, projection="gaussian", n_epochs=1, n_jobs=1, random_state=0)
    return traced(lambda: model.fit(X, y).predict(X[:5000])).peak - 16 * m


def test_memory_is_flat_in_rows_and_features(monkeypatch):
    """Three times the rows or eight times the features: less than a tenth of what one more block of features takes.

    Blocks, samples and batches are small, so that a few rows and features are many of them.
    """
    for name, value in (
        ("base.ROWS_AT_A_TIME", 512),
        ("model.ROWS_AT_A_TIME", 512),
        ("model._MOST_ROWS", 512),
        ("model.WIDTH", 256),
    ):
        monkeypatch.setattr(f"phimap.learn.doubly_stochastic.{name}", value)
    peak(1000, 256)
    small, many_rows, many_features = peak(3000, 256), peak(9000, 256), peak(3000, 2048)
    block = 512 * 256 * 4
    assert abs(many_rows - small) < block / 10
    assert abs(many_features - small) < block / 10


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_number_of_threads_changes_no_bit(dtype):
    X, y = problem(1200, dtype=dtype)
    one, two, other = (
        pm.DoublyStochasticRegressor(n_components=1100, n_epochs=1, n_jobs=n_jobs, random_state=seed).fit(X, y)
        for n_jobs, seed in ((1, 0), (2, 0), (1, 1))
    )
    assert one.predict(X).dtype == dtype
    np.testing.assert_array_equal(one.coef_, two.coef_)
    np.testing.assert_array_equal(one.predict(X), two.predict(X))
    assert (one.coef_ != other.coef_).any()


def test_streams_and_parts_come_near_a_fit():
    X, y = problem(2400)
    batches = [(X[start : start + 250], y[start : start + 250]) for start in range(0, 2000, 250)]
    settings = {"n_components": 300, "alpha": 0.1, "random_state": 0}
    fitted = pm.DoublyStochasticRegressor(**settings).fit(X[:2000], y[:2000])
    streamed = pm.DoublyStochasticRegressor(**settings).fit_batches(batches)
    parts = pm.DoublyStochasticRegressor(**settings)
    for _ in range(4):
        parts.partial_fit(X[:2000], y[:2000])
    assert parts.n_samples_seen_ == 8000
    scores = [model.score(X[2000:], y[2000:]) for model in (fitted, streamed, parts)]
    assert min(scores) > 0.96 * max(scores) > 0.8
    with pytest.raises(TypeError, match="`batches` must be iterable more than once"):
        pm.DoublyStochasticRegressor().fit_batches(iter(batches))


def test_weights_count_like_repeated_rows():
    """In what is learned, not to the bit; mutant: weights left out."""
    X, y = problem(1000)
    counts = np.where(np.random.default_rng(1).random(1000) < 0.5, 9, 1)
    y = y + counts / 2
    settings = {"n_components": 100, "alpha": 1.0, "n_epochs": 20, "length_scale": 2.0, "random_state": 0}
    weighted, repeated, plain = (
        pm.DoublyStochasticRegressor(**settings).fit(rows, targets, weights).predict(X)
        for rows, targets, weights in (
            (X, y, counts),
            (np.repeat(X, counts, axis=0), np.repeat(y, counts), None),
            (X, y, None),
        )
    )
    spread = np.std(repeated)
    assert np.abs(weighted - repeated).mean() < 0.05 * spread
    assert np.abs(plain - repeated).mean() > 0.5 * spread


def test_labels_in_parts_must_be_named():
    X, y = load_digits(return_X_y=True)
    model = pm.DoublyStochasticClassifier(n_components=128, random_state=0)
    model.partial_fit(X[:900], y[:900] % 5, classes=range(6))
    assert model.predict_proba(X[:3]).shape == (3, 6)
    with pytest.raises(ValueError, match="`y` must hold labels among classes_, got 9"):
        model.partial_fit(X[900:], y[900:])
    with pytest.raises(ValueError, match="`classes` must be those of the first call"):
        model.partial_fit(X[900:], y[900:], classes=range(3))


@pytest.mark.parametrize("statistics", [False, True])
def test_model_files_hold_coefficients_and_a_seed(tmp_path, statistics):
    X, y = problem(1500, dtype=np.float32)
    model = pm.DoublyStochasticRegressor("matern", n_components=1100, n_epochs=1, random_state=0).fit(X, y)
    path = tmp_path / "model.phimap"
    pm.save(model, path, statistics=statistics)
    loaded = pm.load(path)
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert hasattr(loaded, "solver_") == statistics
    if not statistics:
        # Coefficients in float64, four columns' scaling, and text.
        assert path.stat().st_size < 8 * 1100 + 8000
    before = loaded.coef_.copy()
    loaded.partial_fit(X[:400], y[:400])
    assert (loaded.coef_ != before).any()


def test_blocks_of_dask_arrays_are_predicted_where_they_are():
    da = pytest.importorskip("dask.array")
    X, y = load_digits(return_X_y=True)
    model = pm.DoublyStochasticClassifier(n_components=64, n_epochs=1, random_state=0).fit(X[:500], y[:500])
    blocks = da.from_array(X, chunks=(700, -1))
    assert np.array_equal(model.predict(blocks).compute(scheduler="sync"), model.predict(X))
    for method in ("decision_function", "predict_proba"):
        # A product rounds the last rows of a block in its own way.
        found = getattr(model, method)(blocks).compute(scheduler="sync")
        np.testing.assert_allclose(found, getattr(model, method)(X), atol=1e-12)


def test_sparse_rows_and_several_targets():
    X, y = problem(800)
    X[np.random.default_rng(0).random(X.shape) < 0.5] = 0
    targets = np.column_stack([y, 2 * y])
    fitted = [
        pm.DoublyStochasticRegressor(n_components=128, standardize=None, random_state=0).fit(rows, targets)
        for rows in (X, sparse.csr_matrix(X))
    ]
    found = [model.predict(X) for model in fitted]
    assert found[0].shape == (800, 2)
    np.testing.assert_allclose(found[0], found[1], atol=1e-6)
    np.testing.assert_allclose(found[0][:, 1], 2 * found[0][:, 0], atol=1e-6)
    assert fitted[0].coef_.shape == (2, 128)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"n_components": 0}, "`n_components` must be at least 1, got 0"),
        ({"n_epochs": 0}, "`n_epochs` must be at least 1, got 0"),
        ({"alpha": -1.0}, "`alpha` must be at least 0.0, got -1.0"),
        ({"loss": "hinge"}, "`loss` must be one of 'squared', got 'hinge'"),
        ({"kernel": "ntk"}, "`kernel` must be one of .*'gaussian'.*, got 'ntk'"),
        ({"kernel": pm.kernels.NTK()}, "`kernel` must be a stationary kernel or the name of one, got NTK"),
        ({"length_scale": "auto"}, "`length_scale` must be a positive number or 'median', got 'auto'"),
        ({"length_scale": 0.0}, "`length_scale` must be greater than 0.0, got 0.0"),
        ({"standardize": "rows"}, "`standardize` must be one of"),
        ({"projection": "gausian"}, "`projection`"),
    ],
)
def test_bad_parameters_are_named(changed, message):
    with pytest.raises((ValueError, TypeError), match=message):
        pm.DoublyStochasticRegressor(**changed).fit(np.eye(10), np.arange(10.0))


def test_a_fit_over_the_budget_is_refused():
    with pm.config(memory="1MB"), pytest.raises(MemoryError, match="a fit of `n_components`=8192 with 1 targets"):
        pm.DoublyStochasticRegressor().fit(np.eye(10), np.arange(10.0))
