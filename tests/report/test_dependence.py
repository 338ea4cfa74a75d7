"""Partial dependence: what scikit-learn's slow form gives, which asks the model once for each point of the grid."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.inspection import partial_dependence

import phimap as pm
from phimap.report import axis_of_numbers, dependences


def along(model, X, places):
    """Dependences on columns of numbers."""
    return dependences(model, X, [axis_of_numbers(X, place, f"column {place}") for place in places])


FIXED = {"metric": None, "length_scale": "median", "random_state": 0}


def agrees(found, model, X, places) -> None:
    """Raise unless every mean is scikit-learn's at the same points."""
    rows = X[: found.n_rows]
    for one, columns in [*zip(found.singles, ([place] for place in places), strict=True), (found.pair, places)]:
        values = dict(zip(columns, one.grids, strict=True))
        slow = partial_dependence(
            model, rows, columns, custom_values=values, method="brute", kind="average", response_method="auto"
        )["average"]
        classes = getattr(model, "classes_", ())
        # Of two classes scikit-learn tells the second alone.
        shown = [str(label) for label in classes].index(found.output) if len(classes) > 2 else 0
        # Both are sums of at most 2,000 rounded terms in float64, whose coefficients reach 1e4 of the outputs.
        np.testing.assert_allclose(one.mean, slow[shown], rtol=0, atol=1e-8 * np.abs(slow).max())


@pytest.fixture
def rows(rng):
    X = rng.standard_normal((300, 4))
    X[:, 2] = rng.integers(0, 3, 300)
    return X


@pytest.mark.parametrize("features", [pm.FourierFeatures, pm.NystroemFeatures])
@pytest.mark.parametrize("n_classes", [0, 2, 3])
def test_means_are_those_of_the_slow_form(rows, features, n_classes):
    y = np.sin(2 * rows[:, 1]) + rows[:, 2]
    phi = features(pm.kernels.Gaussian(2.0), 32, random_state=0)
    if n_classes:
        y = np.digitize(y, np.quantile(y, np.arange(1, n_classes) / n_classes))
        model = pm.KernelClassifier(phi, **FIXED).fit(rows, y)
    else:
        model = pm.KernelRegressor(phi, **FIXED).fit(rows, y)
    found = along(model, rows, [1, 2])
    assert found.pair is not None
    assert found.pair.mean.shape == (10, 3)
    assert found.singles[1].grids[0].tolist() == [0, 1, 2]
    agrees(found, model, rows, [1, 2])
    # Mutant: the pair's columns change places.
    swapped = along(model, rows, [2, 1])
    with pytest.raises(AssertionError):
        agrees(swapped, model, rows, [1, 2])


def test_targets_far_from_zero_keep_their_units(rows):
    y = 1.7e9 + 3 * rows[:, 0]
    model = pm.KernelRegressor("gaussian", 64, **FIXED).fit(rows.astype(np.float32), y)
    found = along(model, rows, [0, 1])
    mean = found.singles[0].mean
    # The slope is 3 between the tails, at which a normal column is at -1.64 and 1.64.
    assert 1.7e9 - 10 < mean[0] < mean[-1] < 1.7e9 + 10
    assert mean[-1] - mean[0] == pytest.approx(3 * np.ptp(found.singles[0].grids[0]), rel=0.2)
    # Mutant: without the units of the target the mean is not near it.
    assert not 1.7e9 - 10 < mean[0] - model.constant_ < 1.7e9 + 10


def test_one_column_has_no_pair(rows):
    model = pm.KernelRegressor("gaussian", 32, **FIXED).fit(rows, rows[:, 0])
    found = along(model, rows, [0])
    assert found.pair is None
    assert len(found.singles) == 1


def test_bands_hold_four_in_five_rows_and_three_columns_have_one_pair(rows):
    model = pm.KernelRegressor("gaussian", 32, **FIXED).fit(rows, rows[:, 0] + rows[:, 1])
    found = along(model, rows, [0, 1, 2])
    assert [one.names for one in found.singles] == [("column 0",), ("column 1",), ("column 2",)]
    assert found.pair is not None
    assert found.pair.names == ("column 0", "column 1")
    moved = rows[: found.n_rows].copy()
    moved[:, 2] = 1
    expected = np.quantile(model.predict(moved), [0.1, 0.9])
    np.testing.assert_allclose(found.singles[2].band[:, 1], expected, rtol=1e-6)


def test_wide_models_take_fewer_rows(rows, monkeypatch):
    model = pm.KernelRegressor("gaussian", 32, **FIXED).fit(rows, rows[:, 0])
    assert along(model, rows, [0, 1]).n_rows == 200
    monkeypatch.setattr("phimap.report.dependence._MOST_FEATURES", 32 * 140 * 50)
    assert along(model, rows, [0, 1]).n_rows == 50
