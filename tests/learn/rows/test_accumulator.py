"""Passes in parts: what parts of the rows make, merged, is what one pass over all rows makes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import phimap as pm
from phimap.learn.fit import fit
from phimap.learn.inputs import InputEncoding
from phimap.learn.rows.accumulator import accumulate
from phimap.learn.rows.batches import ArrayBatches
from phimap.learn.rows.summary import Labels, RowSummary
from tests.support.learners import GAUSSIAN

N, D = 3000, 3
#: Rows of the parts; batches of 500 rows are cut at the same places in all of them.
PARTS = [(0, 500), (500, 2000), (2000, 3000)]


class Parted:
    """Rows in parts, each with a fold of its own, which are merged two by two."""

    def __init__(self, X, y, weights=None, rows=500, *, shifted=0, parts=PARTS):
        self._parts = [
            (first, ArrayBatches(X[first:stop], y[first:stop], None if weights is None else weights[first:stop], rows))
            for first, stop in parts
        ]
        self._shifted = shifted

    def accumulate(self, start):
        folds = []
        for first, batches in self._parts:
            fold = start(first + self._shifted)
            for batch in batches:
                fold.update(*batch)
            folds.append(fold)
        while len(folds) > 1:
            pairs = [folds[i : i + 2] for i in range(0, len(folds), 2)]
            for one, *others in pairs:
                for other in others:
                    one.merge(other)
            folds = [pair[0] for pair in pairs]
        return folds[0]


def problem(rng, *, classes=False, weighted=False):
    X = rng.standard_normal((N, D)) * [1, 2, 3] + [0, 5, 0]
    y = np.sin(X[:, 0]) + X[:, 1] ** 2 / 10 + 0.1 * rng.standard_normal(N)
    return X, np.digitize(y, [1, 3]) if classes else y, rng.uniform(0.5, 2, N) if weighted else None


def fitted(rows, kind, **settings):
    model = getattr(pm, kind)(n_components=40, random_state=0, n_jobs=1, **GAUSSIAN, **settings)
    return fitted_on(rows, model)


def fitted_on(rows, model):
    """A learner fitted on batches, or on a source of rows."""
    inputs, targets = InputEncoding(model._kind.name, D), model._targets_type.of_first(np.zeros(1), 1)
    with model._settings() as settings:
        return model._keep(fit(rows, inputs, targets, settings))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("KernelRegressor", {}),
        ("KernelRegressor", {"solver": "cg"}),
        ("KernelRegressor", {"loss": "huber", "alpha": 1.0}),
        ("KernelClassifier", {}),
        ("KernelClassifier", {"loss": "logistic", "alpha": 1.0}),
    ],
)
def test_a_model_of_parts_is_that_of_one_pass(rng, kind, settings, weighted):
    """Mutant: parts that all begin with row 0 draw the keys of their samples twice, and choose another alpha."""
    X, y, weights = problem(rng, classes=kind == "KernelClassifier", weighted=weighted)
    whole = fitted(ArrayBatches(X, y, weights, 500), kind, **settings)
    parted = fitted(Parted(X, y, weights), kind, **settings)
    # Sums in another order: rounding, times the condition of the system.
    np.testing.assert_allclose(parted.alpha_, whole.alpha_, rtol=1e-4)
    np.testing.assert_allclose(parted.coef_, whole.coef_, rtol=1e-5, atol=1e-6 * np.abs(whole.coef_).max())
    mutant = fitted(Parted(X, y, weights, shifted=1), kind, **settings)
    if settings:
        # Solvers in passes keep no sample.
        assert not np.array_equal(mutant.coef_, whole.coef_)
        return
    np.testing.assert_array_equal(parted._state.sample.keys, whole._state.sample.keys)
    np.testing.assert_array_equal(parted._state.sample.X, whole._state.sample.X)
    np.testing.assert_array_equal(np.sort(parted._state.extreme.keys), np.sort(whole._state.extreme.keys))
    assert not np.array_equal(mutant._state.sample.keys, whole._state.sample.keys)


@pytest.mark.usefixtures("streamed")
def test_rows_in_dual_form_are_joined(rng):
    X, y, _ = problem(rng)
    # Few rows: what is tested is their order, and a solution takes the third power of their number.
    X, y, parts = X[:900], y[:900], [(0, 150), (150, 600), (600, 900)]
    settings = {"length_scale": 1.0, "alpha": 0.1, "corrections": None, "metric": None}
    models = [
        fitted_wide(rows, settings) for rows in (ArrayBatches(X, y, None, 150), Parted(X, y, rows=150, parts=parts))
    ]
    assert [model.solution_.form for model in models] == ["dual", "dual"]
    # The features are the same; only sums for the origin of the inputs are in another order.
    np.testing.assert_allclose(models[0].coef_, models[1].coef_, rtol=1e-7, atol=1e-10)


def fitted_wide(rows, settings):
    model = pm.KernelRegressor("gaussian", 1200, random_state=0, n_jobs=1, **settings)
    return fitted_on(rows, model)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
def test_first_passes_of_parts_merge(rng, kind):
    X, y, weights = problem(rng, weighted=True)
    y[2200] = 1e6

    def start(first_row):
        return RowSummary.start(first_row, seed=3, labels=False, map_rows=5000, budget=10**10)

    whole = accumulate(ArrayBatches(kind(X), y, weights, 500), start)
    parted = accumulate(Parted(kind(X), y, weights), start)
    np.testing.assert_allclose(parted.moments.mean, whole.moments.mean, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(parted.moments.squared_deviations, whole.moments.squared_deviations, rtol=1e-12)
    assert parted.extremes.message("y") == whole.extremes.message("y")
    assert "row 2200" in parted.extremes.message("y")
    np.testing.assert_array_equal(parted.target_range, whole.target_range)
    assert parted.n_rows == N
    assert parted.map_sample.X.shape == (N, D)
    np.testing.assert_array_equal(parted.map_sample.keys, whole.map_sample.keys)


def test_labels_of_parts_merge(rng):
    y, weights = rng.integers(0, 5, 100), rng.uniform(0.5, 2, 100)
    parts = Labels()
    parts.merge(Labels())
    for part in (slice(0, 3), slice(3, 50), slice(50, 100)):
        other = Labels()
        other.update(y[part], weights[part])
        parts.merge(other)
    np.testing.assert_array_equal(parts.values, np.unique(y))
    np.testing.assert_allclose(parts.weights, [weights[y == label].sum() for label in np.unique(y)])


def test_a_fold_goes_on_from_its_state(rng):
    X, y, _ = problem(rng)
    batches = list(ArrayBatches(X, y, None, 500))

    def start(first_row):
        return RowSummary.start(first_row, seed=3, labels=False)

    begun, other = start(0), start(0)
    for batch in batches[:2]:
        begun.update(*batch)
    other.resume(begun.state)
    for batch in batches[2:]:
        other.update(*batch)
    whole = accumulate(batches, start)
    np.testing.assert_array_equal(other.moments.mean, whole.moments.mean)
    np.testing.assert_array_equal(other.sample.X, whole.sample.X)
    assert other.n_rows == N
