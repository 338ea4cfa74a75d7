"""The learners: scikit-learn's contract, streaming, merging, and equality with plain ridge regression."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.metrics import r2_score
from sklearn.utils.estimator_checks import parametrize_with_checks

import phimap as pm
from phimap.learn.extrapolation import OutsideWarning
from phimap.learn.ridge import solve as ridge
from tests.learn.problems import problem
from tests.support.learners import FIXED, GAUSSIAN


def unlike_repeated_rows(estimator) -> dict[str, str]:
    """Checks that fail where a fit leaves rows out, or a map looks at them: it sees a row once, whatever its weight."""
    names = [f"check_sample_weight_equivalence_on_{layout}_data" for layout in ("dense", "sparse")]
    if estimator.alpha == "auto":
        reason = "leave-one-out errors leave a row out with its whole weight, so alpha is not that of repeated rows"
    elif isinstance(estimator, pm.KernelClassifier):
        reason = "probabilities are calibrated on rows that are left out with their whole weight"
    elif estimator.kernel == "polynomial":
        reason = "the split of the powers is planned on the rows as they are, so the map is not that of repeated rows"
    else:
        return {}
    return dict.fromkeys(names, reason)


@parametrize_with_checks(
    [
        pm.KernelRegressor(n_components=64, random_state=0, **GAUSSIAN),
        pm.KernelRegressor("ntk", n_components=64, random_state=0, **FIXED),
        pm.KernelRegressor("polynomial", n_components=64, random_state=0, **FIXED),
        pm.KernelRegressor(n_components=64, alpha=0.1, random_state=0, **GAUSSIAN),
        pm.KernelRegressor("ntk", n_components=64, alpha=0.1, random_state=0, **FIXED),
        pm.KernelRegressor("polynomial", n_components=64, alpha=0.1, random_state=0, **FIXED),
        pm.KernelClassifier(n_components=64, random_state=0, **GAUSSIAN),
        pm.KernelClassifier("laplacian", n_components=64, standardize="global", random_state=0, **FIXED),
        pm.KernelClassifier(n_components=64, alpha=0.1, random_state=0, **GAUSSIAN),
        pm.KernelClassifier("laplacian", n_components=64, alpha=0.1, standardize="global", random_state=0, **FIXED),
    ],
    expected_failed_checks=unlike_repeated_rows,
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def test_fit_is_ridge_on_the_features(streamed):
    X, y = problem(600)
    model = pm.KernelRegressor(n_components=100, alpha=0.3, random_state=0, **GAUSSIAN).fit(X, y)
    Z = model.feature_map_.transform((X - model.scaling_.shift) * model.scaling_.factor)
    oracle = Ridge(alpha=0.3, solver="svd").fit(Z, y)
    np.testing.assert_allclose(model.predict(X), oracle.predict(Z), atol=1e-9)
    np.testing.assert_allclose(model.coef_, oracle.coef_, atol=1e-8 * np.abs(oracle.coef_).max())
    assert model.constant_ == pytest.approx(oracle.intercept_, abs=1e-8)
    assert model.solution_.form == "primal"


def test_primal_and_dual_agree(monkeypatch):
    X, y = problem(500)
    dual = pm.KernelRegressor(n_components=300, alpha=0.1, random_state=0, **GAUSSIAN).fit(X, y)
    monkeypatch.setattr("phimap.learn.ridge.solver.LEAVE_ONE_OUT_ROWS", 0)
    primal = pm.KernelRegressor(n_components=300, alpha=0.1, random_state=0, **GAUSSIAN).fit(X, y)
    assert (dual.solution_.form, primal.solution_.form) == ("dual", "primal")
    np.testing.assert_allclose(dual.predict(X), primal.predict(X), atol=1e-8)


@pytest.mark.parametrize("kernel", ["gaussian", "ntk"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_number_of_threads_changes_no_bit(streamed, kernel, dtype):
    X, y = problem(1500, dtype=dtype)
    one, two = (
        pm.KernelRegressor(kernel, n_components=700, random_state=0, n_jobs=n_jobs, **FIXED).fit(X, y)
        for n_jobs in (1, 2)
    )
    assert one.alpha_ == two.alpha_
    np.testing.assert_array_equal(one.coef_, two.coef_)
    np.testing.assert_array_equal(one.predict(X), two.predict(X))
    assert one.predict(X).dtype == dtype


def test_batches_have_the_same_targets():
    X, y = problem(60)
    one, two = y[:, None], np.stack([y, y], axis=1)
    model = pm.KernelRegressor(n_components=8, random_state=0, **GAUSSIAN)
    for batches in ([(X, y), (X, two)], [(X, two), (X, y)]):
        with pytest.raises(ValueError, match=r"`y` must have as many targets as in the first rows, [12], got [12]"):
            clone(model).fit_batches(batches)
        with pytest.raises(ValueError, match=r"`y` must have as many targets"):
            clone(model).partial_fit(*batches[0]).partial_fit(*batches[1])
    assert clone(model).partial_fit(X, y).partial_fit(X, one).predict(X).shape == (60,)
    assert clone(model).partial_fit(X, one).partial_fit(X, y).predict(X).shape == (60, 1)


def test_only_all_rows_together_look_like_regression():
    X, _ = problem(160)
    y = np.arange(160) % 30
    model = pm.KernelClassifier(n_components=8, random_state=0, **GAUSSIAN)
    # The last batch has 30 classes in 40 rows.
    model.fit_batches([(X[:120], y[:120]), (X[120:], y[120:])])
    with pytest.warns(UserWarning, match=r"`y` holds 30 classes in 40 rows, which look like a regression") as issued:
        model.fit_batches([(X[:20], y[:20]), (X[20:40], y[20:40])])
    assert len(issued) == 1


@pytest.mark.parametrize("kind", [int, str])
def test_labels_of_single_rows_are_no_classes(kind):
    X, _ = problem(200)
    labels = np.arange(200).astype(kind)
    with pytest.raises(ValueError, match=r"got 200 labels in 200 rows: nearly every row has its own. Use KernelReg"):
        pm.KernelClassifier().fit(X, labels)
    model = pm.KernelClassifier(n_components=8, random_state=0, **GAUSSIAN)
    # Later rows may repeat the labels.
    with pytest.warns(UserWarning, match="look like a regression"):
        model.partial_fit(X, labels, classes=np.arange(201).astype(kind))


def test_classes_stay_those_of_the_first_call():
    X, y = problem(60)
    labels = np.where(y > 0, "up", "down")
    model = pm.KernelClassifier(n_components=8, random_state=0, **GAUSSIAN).partial_fit(
        X, labels, classes=["up", "down"]
    )
    model.partial_fit(X, labels, classes=["down", "up"])
    with pytest.raises(ValueError, match=r"`classes` must be those of the first call, \['down', 'up'\], got"):
        model.partial_fit(X, labels, classes=["down", "up", "level"])


def test_many_targets_are_separate_fits(streamed):
    X, y = problem(600)
    Y = np.stack([y, 3 * y**2], axis=1)
    both = pm.KernelRegressor(n_components=50, alpha=0.5, random_state=0, **GAUSSIAN).fit(X, Y)
    assert both.predict(X).shape == (600, 2)
    assert both.coef_.shape == (2, 50)
    single = pm.KernelRegressor(n_components=50, alpha=0.5, random_state=0, **GAUSSIAN).fit(X, Y[:, 1])
    np.testing.assert_allclose(both.predict(X)[:, 1], single.predict(X), atol=1e-9)


def test_automatic_choices_find_the_signal(streamed):
    X, y = problem(2000)
    X_test, y_test = X[1500:], y[1500:]
    scales = np.array([1.0, 1e4, 1e-3, 7.0])
    model = pm.KernelRegressor(n_components=400, random_state=0, **GAUSSIAN).fit(X[:1500] * scales, y[:1500])
    assert r2_score(y_test, model.predict(X_test * scales)) > 0.9
    assert model.solution_.criterion == "held-out"
    assert 1 < model.kernel_.length_scale < 4
    best = max(
        pm.KernelRegressor(n_components=400, alpha=alpha, random_state=0, **GAUSSIAN)
        .fit(X[:1500] * scales, y[:1500])
        .score(X_test * scales, y_test)
        for alpha in np.logspace(-6, 3, 10)
    )
    assert model.score(X_test * scales, y_test) > best - 0.03


def test_constant_columns_and_rows_give_no_nan(streamed):
    X, y = problem(200)
    X[:, 2] = 5.0
    assert np.isfinite(pm.KernelRegressor(n_components=20, random_state=0, **GAUSSIAN).fit(X, y).predict(X)).all()
    same = np.ones((200, 3))
    model = pm.KernelRegressor(n_components=20, random_state=0, **GAUSSIAN).fit(same, y)
    np.testing.assert_allclose(model.predict(same), y.mean(), atol=1e-6)


@pytest.mark.parametrize("learner", [pm.KernelRegressor, pm.KernelClassifier])
def test_first_rows_say_what_they_fix(learner, capsys, rng):
    X = rng.normal(size=(80, 2))
    y = (X[:, 0] > 0).astype(int)
    model = learner("gaussian", 32, metric=None, verbose=True).partial_fit(X[:40], y[:40])
    told = "fixed by these first rows: kernel (Gaussian), width (32), scaling and map. Later rows change coefficients"
    assert capsys.readouterr().err.count(told) == 1
    # The second call, and a model that is not verbose, say nothing of it.
    model.partial_fit(X[40:], y[40:])
    learner("gaussian", 32, metric=None).partial_fit(X, y)
    assert "fixed by" not in capsys.readouterr().err


def test_constant_columns_are_left_out_and_told(capsys):
    X, y = problem(200)
    X[:, 2] = 5.0
    settings = {"n_components": 20, "random_state": 0, "verbose": True} | GAUSSIAN
    model = pm.KernelRegressor(**settings).fit(X, y)
    assert "note: left out as columns: 2 (constant).\n" in capsys.readouterr().err
    # What new rows have there makes no difference; rows to come may tell of the column.
    other = X.copy()
    other[:, 2] = 7.0
    np.testing.assert_array_equal(model.predict(other), model.predict(X))
    part = pm.KernelRegressor(**settings).partial_fit(X, y)
    with pytest.warns(
        OutsideWarning, match=r"100 % of the rows \(200 of 200\) .* with 7 in column '2', which was 5 to 5"
    ):
        assert np.abs(part.predict(other) - part.predict(X)).max() > 1e-3
    assert "left out" not in capsys.readouterr().err


def test_classes_of_any_kind():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 3))
    names = np.array(["left", "middle", "right"])
    y = names[np.digitize(X[:, 0] + 0.1 * rng.standard_normal(600), [-0.5, 0.5])]
    model = pm.KernelClassifier(n_components=64, random_state=0, **GAUSSIAN).fit(X[:400], y[:400])
    assert model.score(X[400:], y[400:]) > 0.8
    assert set(model.predict(X)) <= set(names)
    assert model.decision_function(X).shape == (600, 3)
    part = clone(model).partial_fit(X[:200], y[:200], classes=names).partial_fit(X[200:400], y[200:400])
    assert part.score(X[400:], y[400:]) > 0.8
    with pytest.raises(ValueError, match=r"labels among classes_.*partial_fit"):
        clone(model).partial_fit(X[:200][y[:200] != "right"], y[:200][y[:200] != "right"]).partial_fit(X, y)


def test_sparse_rows_are_scaled_and_not_filled(streamed):
    X, y = problem(400)
    X[np.abs(X) < 1] = 0
    dense = pm.KernelRegressor(
        n_components=50, alpha=0.1, standardize=False, length_scale=2.0, random_state=0, kernel="gaussian", metric=None
    )
    csr = clone(dense).fit(sparse.csr_matrix(X), y)
    np.testing.assert_allclose(csr.predict(sparse.csr_matrix(X)), dense.fit(X, y).predict(X), atol=1e-9)
    scaled = clone(dense).set_params(standardize="columns").fit(sparse.csr_matrix(X), y)
    assert not scaled.scaling_.shift.any()


def test_tensors_fit_like_arrays(streamed):
    torch = pytest.importorskip("torch")
    X, y = problem(400)
    model = pm.KernelRegressor(n_components=50, alpha=0.1, random_state=0, **GAUSSIAN)
    expected = model.fit(X, y).predict(X)
    tensors = clone(model).fit(torch.tensor(X), torch.tensor(y))
    np.testing.assert_allclose(tensors.predict(torch.tensor(X)), expected, atol=1e-8)
    on_device = clone(model).set_params(device="cpu").fit(X, y)
    np.testing.assert_allclose(on_device.predict(X), expected, atol=1e-8)


def texts(n_rows, rng):
    """Texts of 40 words: one in five is among the ten of its class, the others among 3,000 of which most are rare."""
    y = rng.integers(0, 2, n_rows)
    common = 1 / np.arange(1, 3001)
    words = rng.choice(3000, (n_rows, 40), p=common / common.sum())
    topical = rng.random((n_rows, 40)) < 0.2
    words[topical] = (3000 + 10 * y[:, None] + rng.integers(0, 10, (n_rows, 40)))[topical]
    return [" ".join(f"word{word}" for word in row) for row in words], y


def test_sparse_texts_are_not_scaled_by_default(rng):
    from sklearn.feature_extraction.text import TfidfVectorizer

    documents, y = texts(900, rng)
    X = TfidfVectorizer().fit_transform(documents)
    auto, plain, scaled = (
        pm.KernelClassifier("gaussian", 256, length_scale="median", metric=None, random_state=0, **options)
        .fit(X[:600], y[:600])
        .score(X[600:], y[600:])
        for options in ({}, {"standardize": False}, {"standardize": "columns"})
    )
    assert auto == plain
    assert auto > scaled + 0.05


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"alpha": -1.0}, r"`alpha` must be greater than 0"),
        ({"alpha": "cv"}, r"`alpha` must be a positive number or 'auto', got 'cv'"),
        ({"kernel": "gausian"}, r"`kernel` must be one of.*got 'gausian'. Did you mean 'gaussian'\?"),
        ({"length_scale": 0.0}, r"`length_scale` must be greater than 0"),
        ({"length_scale": "mean"}, r"`length_scale` must be a positive number, 'auto' or 'median', got 'mean'"),
        ({"standardize": "rows"}, r"`standardize` must be one of"),
        ({"standardize": True}, r"`standardize` must be one of 'auto', 'columns', 'global' or None, got True"),
        ({"n_components": 0}, r"`n_components` must be at least 1, got 0"),
        ({"n_components": "lots"}, r"`n_components` must be a whole number or 'auto', got 'lots'. Use for example"),
        ({"device": "tpu:x"}, r"`device` must be"),
        ({"memory": "lots"}, r"`memory` must be a positive number of bytes"),
    ],
)
def test_bad_parameters_name_the_remedy(parameters, message):
    X, y = problem(50)
    with pytest.raises(ValueError, match=message):
        pm.KernelRegressor(**{**GAUSSIAN, "n_components": 8, **parameters}).fit(X, y)


@pytest.mark.parametrize("nothing", [None, False, "none"])
def test_three_spellings_of_nothing_are_one(nothing):
    X, y = problem(60)
    fixed = {"kernel": "gaussian", "n_components": 16, "length_scale": "median", "random_state": 0}
    model = pm.KernelRegressor(**fixed, metric=nothing, corrections=nothing, standardize=nothing)
    plain = pm.KernelRegressor(**fixed, metric=None, corrections=None, standardize=False)
    np.testing.assert_array_equal(model.fit(X, y).predict(X), plain.fit(X, y).predict(X))


def test_a_kernel_has_the_names_of_other_libraries():
    X, y = problem(60)
    fixed = {"n_components": 16, "length_scale": "median", "metric": None, "random_state": 0}
    expected = pm.KernelRegressor("gaussian", **fixed).fit(X, y).predict(X)
    model = pm.KernelRegressor("rbf", **fixed)
    np.testing.assert_array_equal(model.fit(X, y).predict(X), expected)
    assert model.kernel == "rbf"


@pytest.mark.parametrize("kernel", ["ntk", pm.kernels.Gaussian(3.0)])
def test_a_length_scale_that_nothing_takes_is_ignored_with_one_warning(kernel):
    X, y = problem(60)
    fixed = {"kernel": kernel, "n_components": 16, "metric": None, "random_state": 0}
    with pytest.warns(UserWarning, match=r"`length_scale`=2.0 is ignored: .*Set the width on the kernel") as caught:
        found = pm.KernelRegressor(**fixed, length_scale=2.0).fit(X, y)
    assert len(caught) == 1
    np.testing.assert_array_equal(found.predict(X), pm.KernelRegressor(**fixed).fit(X, y).predict(X))


def test_forgotten_targets_are_told_in_a_users_words():
    with pytest.raises(ValueError, match="KernelRegressor requires y to be passed"):
        pm.KernelRegressor().fit(problem(20)[0])


def test_too_little_memory_is_said_before_the_work():
    X, y = problem(50)
    with pytest.raises(MemoryError, match=r"`n_components`=4096 .* needs [\d.]+ MB"):
        pm.KernelRegressor(n_components=4096, memory="5MB", **GAUSSIAN).fit(X, y)


@pytest.mark.parametrize("statistics", [False, True])
def test_saved_models_predict_the_same_bits(streamed, tmp_path, statistics):
    X, y = problem(400)
    model = pm.KernelRegressor(n_components=50, random_state=0, **GAUSSIAN).fit(X, y)
    pm.save(model, tmp_path / "m.phimap", statistics=statistics)
    loaded = pm.load(tmp_path / "m.phimap")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert loaded.alpha_ == model.alpha_
    if statistics:
        np.testing.assert_array_equal(
            loaded.partial_fit(X[:50], y[:50]).predict(X), model.partial_fit(X[:50], y[:50]).predict(X)
        )
    else:
        with pytest.raises(ValueError, match=r"saved without its statistics"):
            loaded.partial_fit(X, y)


def test_more_rows_than_leave_one_out_takes_in_dual_form(monkeypatch):
    monkeypatch.setattr(ridge, "LEAVE_ONE_OUT_ROWS", 100)
    X, y = problem(900)
    model = pm.KernelRegressor(n_components=1000, random_state=0, **GAUSSIAN).fit(X, y)
    assert (model.solution_.form, model.solution_.criterion) == ("dual", "held-out")
    # Rounding of a system whose solution is 1 / alpha times its right-hand side.
    assert model.solution_.residual < 64 * np.finfo(float).eps * 900 / model.alpha_
    assert model.score(X, y) > 0.9
