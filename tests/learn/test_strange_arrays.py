"""Arrays of unusual size, masked arrays, and tensors and CSR matrices that are not what they seem."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import phimap as pm
from phimap.kernels import NTK, Gaussian
from tests.support.learners import GAUSSIAN

SETTINGS = {"n_components": 64, "random_state": 0}


@pytest.fixture(scope="module")
def data():
    X = np.random.default_rng(0).standard_normal((300, 4))
    return X, np.sin(X[:, 0]) + X[:, 1]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("factor", [1e39, 1e-60, 1e140])
def test_doubly_stochastic_targets_of_any_size(dtype, factor, data):
    """Targets of 1e39 were infinite in float32: an error of SciPy, or predictions that are not numbers."""
    X, y = data[0].astype(dtype), data[1]

    def fitted(targets):
        return pm.DoublyStochasticRegressor(n_components=64, n_epochs=2, random_state=0).fit(X, targets)

    model, plain = fitted(factor * y), fitted(y)
    # Steps in float32 add up their rounding errors, which some hundredths of the predictions are.
    atol = 0.05 if dtype == np.float32 else 1e-6
    np.testing.assert_allclose(model.predict(X) / factor, plain.predict(X), rtol=0, atol=atol)
    np.testing.assert_allclose(model.coef_ / factor, plain.coef_, rtol=0, atol=atol * np.abs(plain.coef_).max())
    model.partial_fit(X, factor * y)
    plain.partial_fit(X, y)
    np.testing.assert_allclose(model.predict(X) / factor, plain.predict(X), rtol=0, atol=atol)


def test_a_doubly_stochastic_model_of_large_targets_is_saved(data, tmp_path):
    X, y = data
    model = pm.DoublyStochasticRegressor(n_components=64, n_epochs=1, random_state=0).fit(X, 1e39 * y)
    pm.save(model, tmp_path / "m")
    np.testing.assert_array_equal(pm.load(tmp_path / "m").predict(X.astype(np.float32)), model.predict(X.astype("f")))


@pytest.mark.parametrize(
    "changed",
    [lambda X: X * 1e-300, lambda X: X * 1e-170, lambda X: X * 1e200, lambda X: X + 1e15],
    ids=["1e-300", "1e-170", "1e200", "+1e15"],
)
@pytest.mark.parametrize("batches", [False, True])
def test_columns_of_any_size_and_place(changed, batches, data):
    """Squares of these deviations leave float64, or the rounding of the mean hides them: R2 was 0 without a word."""
    X, y = changed(data[0]), data[1]
    model = pm.KernelRegressor("gaussian", **SETTINGS)
    model = model.fit_batches([(X[:150], y[:150]), (X[150:], y[150:])]) if batches else model.fit(X, y)
    assert model.score(X, y) > 0.99
    if not batches:
        assert pm.DoublyStochasticRegressor(n_components=64, random_state=0).fit(X, y).score(X, y) > 0.5


def test_rounding_errors_are_constant_columns(data):
    X, y = data
    X = np.column_stack([X, np.where(X[:, 0] > 0, 0.1 + 0.2, 0.3)])
    scaling = pm.KernelRegressor("gaussian", **SETTINGS).fit(X, y).scaling_
    assert scaling.factor[4] == 0
    assert (scaling.factor[:4] > 0).all()


def test_constant_columns_with_every_kernel_of_the_search(data, capfd):
    """The NTK is 0 at rows of zeros: LAPACK printed an error, and then no landmark was left."""
    y = data[1]
    model = pm.KernelRegressor(effort="fast", **SETTINGS).fit(np.ones((300, 3)), y)
    np.testing.assert_allclose(model.predict(np.ones((2, 3))), y.mean(), atol=1e-6)
    features = pm.NystroemFeatures(NTK(2), 8, random_state=0).fit_transform(np.zeros((20, 3)))
    np.testing.assert_array_equal(features, np.zeros((20, 8)))
    assert "DTRTRI" not in "".join(capfd.readouterr())


def masked(values):
    return np.ma.masked_array(values, mask=np.arange(values.size).reshape(values.shape) == 5)


def test_masked_cells_are_no_numbers(data):
    """The values below the mask were taken as numbers."""
    X, y = data
    model = pm.KernelRegressor(**SETTINGS, **GAUSSIAN).fit(X, y)
    for call in (
        lambda: model.fit(masked(X), y),
        lambda: model.predict(masked(X)),
        lambda: model.fit_batches([(masked(X), y)]),
        lambda: pm.FourierFeatures(**SETTINGS).fit(masked(X)),
        lambda: Gaussian()(masked(X)),
        lambda: pm.TableEncoder().fit(masked(X)),
    ):
        with pytest.raises(ValueError, match="`X` has masked cells, the first at row 1, column 1, which are missing"):
            call()
    for learner in (pm.KernelRegressor, pm.DoublyStochasticRegressor):
        with pytest.raises(ValueError, match="`y` has masked cells, the first at row 5"):
            learner(**SETTINGS).fit(X, masked(y))
    with pytest.raises(ValueError, match="`y` has masked cells, the first at row 5"):
        pm.KernelClassifier(**SETTINGS).fit(X, masked(y > 0))
    with pytest.raises(ValueError, match="`sample_weight` has masked cells"):
        model.fit(X, y, masked(np.ones(300)))
    unmasked = np.ma.masked_array(X, mask=False)
    np.testing.assert_array_equal(model.fit(unmasked, y).predict(X[:5]), model.fit(X, y).predict(X[:5]))


def test_tensors_with_gradients_and_sparse_tensors(data):
    torch = pytest.importorskip("torch")
    X, y = data
    model = pm.KernelRegressor(**SETTINGS, **GAUSSIAN).fit(X, y)
    for tensor, words in (
        (torch.tensor(X, requires_grad=True), r"must not record gradients, got requires_grad=True. Use detach"),
        (torch.tensor(X).to_sparse(), r"must be dense, got the layout torch.sparse_coo. Use to_dense"),
    ):
        for call in (
            lambda X: model.fit(X, y),
            model.predict,
            pm.FourierFeatures(**SETTINGS).fit,
            Gaussian(),
        ):
            with pytest.raises(ValueError, match=words):
                call(tensor)
    with pytest.raises(ValueError, match="must not record gradients"):
        model.fit(X, torch.tensor(y, requires_grad=True))


@pytest.mark.parametrize(("part", "place", "value"), [("indptr", 5, 10**6), ("indptr", 5, -3), ("indices", 3, 99)])
def test_damaged_csr_matrices(part, place, value, data):
    """These ended the process: "realloc(): invalid pointer"."""
    X, y = data
    whole = sparse.csr_matrix(np.where(np.abs(X) > 1, X, 0))
    damaged = whole.copy()
    setattr(damaged, part, getattr(damaged, part).copy())
    getattr(damaged, part)[place] = value
    model = pm.KernelRegressor(**SETTINGS, **GAUSSIAN).fit(whole, y)
    for call in (
        lambda X: model.fit(X, y),
        model.predict,
        pm.FourierFeatures(**SETTINGS).fit,
        Gaussian(),
        pm.sketches.CountSketch(8).fit(whole).transform,
    ):
        with pytest.raises(ValueError, match="`X` is a damaged CSR matrix: ind"):
            call(damaged)


def test_weights_are_repetitions_at_a_given_alpha(data):
    """The automatic alpha differs: a row is held out with its whole weight, and repeated rows are held out singly."""
    X, y = data
    model = pm.KernelRegressor(alpha=0.1, **SETTINGS, **GAUSSIAN)
    weighted = model.fit(X, y, np.full(300, 2.0)).predict(X)
    repeated = model.fit(np.repeat(X, 2, axis=0), np.repeat(y, 2)).predict(X)
    np.testing.assert_allclose(weighted, repeated, atol=1e-8)
