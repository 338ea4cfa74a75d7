"""Learners with a spectral mixture that is fitted to a sample of the rows."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import phimap as pm
from tests.support.learners import FIXED


def waves(n=280):
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 12, (n, 2))
    return X, np.sin(4 * X[:, 0]) + 0.1 * rng.standard_normal(n)


SETTINGS = {"kernel": "spectral-mixture", "n_components": 64, "effort": "fast", "random_state": 0}


@pytest.fixture(scope="module")
def model():
    X, y = waves()
    return pm.KernelRegressor(**SETTINGS).fit(X[:220], y[:220])


def test_the_fitted_kernel_sees_a_wave_that_no_width_shows(model):
    """A mutant: a Gaussian kernel, whose best width sees next to nothing of it at this width of the map."""
    X, y = waves()
    assert isinstance(model.kernel_, pm.kernels.SpectralMixture)
    assert (model.metric_ == 1).all()
    assert set(model.search_.kernels) == {"spectral-mixture"}
    strongest = np.abs(model.kernel_.means[0] * model.scaling_.factor)
    np.testing.assert_allclose(strongest, [4.0, 0.0], atol=0.2)
    assert model.score(X[220:], y[220:]) > 0.9
    gaussian = pm.KernelRegressor("gaussian", 64, random_state=0, **FIXED).fit(X[:220], y[:220])
    assert gaussian.score(X[220:], y[220:]) < 0.5


def test_streamed_rows_and_files_give_the_same(model, tmp_path):
    X, y = waves()
    streamed = pm.KernelRegressor(**SETTINGS, n_jobs=2).fit_batches(
        [(X[start : start + 55], y[start : start + 55]) for start in range(0, 220, 55)]
    )
    np.testing.assert_allclose(streamed.predict(X[220:]), model.predict(X[220:]), atol=1e-6)
    pm.save(model, tmp_path / "model.phimap")
    np.testing.assert_array_equal(pm.load(tmp_path / "model.phimap").predict(X[220:]), model.predict(X[220:]))


def test_classes_are_fitted_too():
    X, y = waves(150)
    classifier = pm.KernelClassifier(**SETTINGS).fit(X, y > 0)
    assert classifier.score(X, y > 0) > 0.9


def test_what_a_mixture_cannot_take_is_refused():
    X, y = waves(40)
    with pytest.raises(ValueError, match=r"`metric` must be 'auto' or None with kernel='spectral-mixture'.*got 'full'"):
        pm.KernelRegressor(**SETTINGS, metric="full").fit(X, y)
    with pytest.raises(ValueError, match="`kernel`='spectral-mixture' needs dense rows, got sparse ones"):
        pm.KernelRegressor(**SETTINGS).fit(sparse.csr_array(X), y)
    with pytest.raises(ValueError, match=r"fitted to targets. Give the kernel SpectralMixture.fitted\(X, y\)"):
        pm.suggest(X, "spectral-mixture")
