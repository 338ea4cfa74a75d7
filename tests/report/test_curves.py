"""Error against width and regularisation: what models fitted anew give."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Ridge

import phimap as pm
from phimap.report import error_curves
from phimap.report.curves import WidthAdvice, _is_lower


@pytest.mark.parametrize("n_rows", [40, 400], ids=["dual", "primal"])
@pytest.mark.parametrize("labels", [False, True], ids=["numbers", "labels"])
def test_curves_agree_with_models_fitted_anew(rng, n_rows, labels):
    X = rng.standard_normal((n_rows + 300, 3))
    y = np.sin(2 * X[:, 0]) + X[:, 1]
    if labels:
        y = np.digitize(y, [-0.5, 0.5])
    kind = pm.KernelClassifier if labels else pm.KernelRegressor
    model = kind("gaussian", 128, metric=None, length_scale="median", alpha=0.1, random_state=0).fit(
        X[:n_rows], y[:n_rows]
    )
    held_out = X[n_rows:], y[n_rows:]
    curves = error_curves(model, [held_out])
    assert curves.width is not None
    assert curves.path is not None
    assert curves.width.x.tolist() == [16, 32, 64, 128]

    def error(fitted) -> float:
        errors = fitted.predict(held_out[0]) - held_out[1]
        return float(np.mean(errors != 0) if labels else np.sqrt(np.mean(errors**2)))

    # The curve multiplies the same features by the same coefficients in another order.
    assert curves.width.y[-1] == pytest.approx(error(model), rel=1e-9)
    # The model's path at its own alpha is the narrower model of that width.
    at = np.flatnonzero(curves.width.x == curves.path_width)[0]
    middle = np.flatnonzero(np.isclose(curves.path.x, 0.1))[0]
    assert curves.path.y[middle] == pytest.approx(curves.width.y[at], rel=1e-9)
    # Half the features, scaled as a map of that width, give that point of the curve.
    columns, factor = model.feature_map_.record_.truncated(64)
    Z = model.feature_map_.transform((X - model.scaling_.shift) * model.scaling_.factor)[:, columns] * factor
    if not labels:
        ridge = Ridge(alpha=0.1, solver="cholesky").fit(Z[:n_rows], y[:n_rows])
        expected = np.sqrt(np.mean((ridge.predict(Z[n_rows:]) - held_out[1]) ** 2))
        # Both solve a system of condition below 1e5 in float64: relative agreement to 1e5 eps, and a margin of 100.
        assert curves.width.y[-2] == pytest.approx(expected, rel=1e7 * np.finfo(np.float64).eps)


@pytest.mark.parametrize("n_rows", [100, 2100], ids=["dual", "primal"])
def test_packed_features_have_the_curves_of_dense_ones(rng, n_rows):
    X = rng.standard_normal((n_rows + 100, 4))
    y = np.sin(X[:, 0]) + X[:, 1]
    found = []
    for packed in (True, False):
        phi = pm.TernaryFeatures("relu", 64, sparsity=0.2, packed=packed, random_state=0)
        model = pm.KernelRegressor(phi, alpha=0.1, random_state=0).fit(X[:n_rows], y[:n_rows])
        curves = error_curves(model, [(X[n_rows:], y[n_rows:])])
        assert curves.width is not None
        found.append(curves.width.y)
    np.testing.assert_allclose(*found, rtol=1e-7)


def test_models_solved_in_passes_have_no_curves():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 3))
    model = pm.KernelRegressor(
        "gaussian", 256, metric=None, length_scale="median", solver="cg", alpha=1.0, random_state=0
    ).fit(X, X[:, 0])
    curves = error_curves(model, [(X, X[:, 0])])
    assert (curves.width, curves.path) == (None, None)


@pytest.mark.parametrize("labels", [False, True], ids=["numbers", "labels"])
def test_advice_on_the_width_takes_no_test_row(rng, labels):
    """Test rows of pure noise, which favour the narrowest model, do not change the advice; few rows give none."""
    X = rng.uniform(-2, 2, (4000, 2))
    y = np.sin(2 * X[:, 0]) * np.sin(2 * X[:, 1])
    y = np.where(y > 0, "a", "b") if labels else y
    kind = pm.KernelClassifier if labels else pm.KernelRegressor

    def curves_of(n_rows):
        fixed = {"metric": None, "length_scale": 0.7, "alpha": 1e-3, "corrections": None, "random_state": 0}
        model = kind("gaussian", 64, **fixed).fit(X[:n_rows], y[:n_rows])
        return error_curves(model, [(X[:500], rng.permutation(y)[:500])])

    assert curves_of(4000).advice == WidthAdvice(400, 64, None, falls=not labels)
    assert curves_of(900).advice is None


def test_a_narrower_width_is_advised_only_beyond_noise(rng):
    losses = rng.random(200)
    assert _is_lower(losses, losses + 0.1)
    assert not _is_lower(losses, losses + 0.001)
    # A mean difference that a single row makes is noise.
    one_row = losses + 20 * (np.arange(200) == 3)
    assert one_row.mean() > 1.1 * losses.mean()
    assert not _is_lower(losses, one_row)
