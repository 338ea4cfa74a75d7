"""Boosted trees as records: against scikit-learn's own predictions."""

from __future__ import annotations

import numpy as np
import pytest

from phimap.learn.trees import growth
from phimap.learn.trees.growth import Boosting, TreeRows


def rows(rng, kind, dtype=np.float64, n=700):
    """Rows with steps in their targets: two numbers, two classes or three classes."""
    X = rng.standard_normal((n, 4)).astype(dtype)
    y = np.sign(X[:, 0]) + X[:, 1] * (X[:, 2] > 0)
    if kind == "numbers":
        return TreeRows(X, np.stack([y, 100 + 7 * y * X[:, 3]], axis=1), None, has_labels=False)
    if kind == "two classes":
        return TreeRows(X, np.where(y > 0, 1.0, -1.0)[:, None], None, has_labels=True)
    return TreeRows(X, np.eye(3)[np.digitize(y, [-0.5, 0.5])], None, has_labels=True)


KINDS = ["numbers", "two classes", "three classes"]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", KINDS)
def test_outputs_are_those_of_scikit_learn(rng, kind, dtype):
    data = rows(rng, kind, dtype)
    boosting = Boosting(data, rate=0.1, seed=0, n_jobs=1)
    boosting.grow(20)
    boosting.grow(40)
    trees = boosting.rounds(0, 40)
    X = rng.standard_normal((300, 4)).astype(dtype)
    if kind == "numbers":
        units = zip(boosting._models, boosting._spread, boosting._centre, strict=True)
        expected = np.stack([model.predict(X) * spread + centre for model, spread, centre in units], axis=1)
    else:
        shares = boosting._models[0].predict_proba(X)
        expected = 2 * shares[:, 1:] - 1 if kind == "two classes" else shares
    np.testing.assert_allclose(trees.outputs(X, 1), expected, rtol=1e-5, atol=1e-5)
    assert trees.roots.size == 40 * data.Y.shape[1]
    assert all(holds for holds, _ in trees.requirements())


@pytest.mark.parametrize("kind", KINDS)
def test_rounds_add_up(rng, kind):
    data = rows(rng, kind)
    trees = Boosting(data, rate=0.1, seed=0, n_jobs=1).grow(15)
    parts = [trees.rounds(first, last).sums(data.X, 1) for first, last in [(0, 4), (4, 5), (5, 15)]]
    np.testing.assert_allclose(sum(parts), trees.sums(data.X, 1), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_threads_change_no_bit(rng, kind, monkeypatch):
    monkeypatch.setattr(growth, "ROWS_OF_THREAD", 100)
    data = rows(rng, kind, n=3000)
    one, three = (Boosting(data, rate=0.1, seed=0, n_jobs=n_jobs).grow(10) for n_jobs in (1, 3))
    for name in ("columns", "thresholds", "children", "values", "roots", "baseline"):
        np.testing.assert_array_equal(getattr(one, name), getattr(three, name))
    np.testing.assert_array_equal(one.outputs(data.X, 1), three.outputs(data.X, 3))


@pytest.mark.parametrize("kind", KINDS)
def test_parts_of_rounds_are_the_rounds_of_one_fit(rng, kind):
    """Mutants: sums of the rows that lack the trees of an earlier part; bins of other rows."""
    data = rows(rng, kind)
    at_once, in_parts = (Boosting(data, rate=0.1, seed=0, n_jobs=1) for _ in range(2))
    whole = at_once.grow(30)
    added = [in_parts.grow(n_rounds) for n_rounds in (10, 20, 30)]
    assert [part.roots.size for part in added] == [10 * data.Y.shape[1]] * 3
    np.testing.assert_array_equal(in_parts.rounds(0, 30).values, whole.values)
    np.testing.assert_allclose(sum(part.sums(data.X, 1) for part in added), whole.sums(data.X, 1), rtol=1e-12)


@pytest.mark.parametrize(("n_values", "expected"), [(1, 2), (2, 2), (30, 30), (255, 255), (300, 255)])
def test_fewer_bins_change_no_tree(rng, monkeypatch, n_values, expected):
    """Mutant: one bin too few, which joins two numbers of a column."""
    X = np.stack([rng.integers(0, 2, 3000), rng.permutation(3000) % n_values], axis=1).astype(np.float32)
    data = TreeRows(X, np.where(X[:, :1] > X[:, 1:] % 2, 1.0, -1.0), None, has_labels=True)
    assert growth._n_bins(X) == expected
    few = Boosting(data, rate=0.1, seed=0, n_jobs=1).grow(10)
    monkeypatch.setattr(growth, "_n_bins", lambda X: 255)
    many = Boosting(data, rate=0.1, seed=0, n_jobs=1).grow(10)
    for name in ("columns", "thresholds", "children", "values", "roots"):
        np.testing.assert_array_equal(getattr(few, name), getattr(many, name))


def test_rows_at_a_threshold_go_below_in_float32(rng):
    X = rng.integers(0, 5, (400, 1)).astype(np.float32) / 3
    y = (X[:, 0] > np.float32(2 / 3)).astype(np.float64)
    trees = Boosting(TreeRows(X, y[:, None], None, has_labels=False), rate=1.0, seed=0, n_jobs=1).grow(1)
    assert trees.thresholds.dtype == np.float32
    at, next_after = trees.thresholds, np.nextafter(trees.thresholds, np.float32(np.inf))
    np.testing.assert_array_equal(
        trees.outputs(at[:, None], 1), trees.outputs(X[at >= X].min(keepdims=True)[:, None], 1)
    )
    assert (trees.outputs(next_after[:, None], 1) != trees.outputs(at[:, None], 1)).all()


def test_rows_of_large_weight_are_fitted_better(rng):
    data = rows(rng, "numbers")
    heavy = data.X[:, 3] > 0
    # The sign of the target differs between heavy and light rows, which the trees cannot tell apart.
    Y = np.where(heavy[:, None], data.Y, -data.Y)
    weights = np.where(heavy, 100.0, 1.0)
    train = TreeRows(data.X[:, :3], Y, weights, has_labels=False)
    errors = np.square(Y - Boosting(train, rate=0.1, seed=0, n_jobs=1).grow(40).outputs(train.X, 1))[:, 0]
    assert errors[heavy].mean() < 0.1 * errors[~heavy].mean()


def test_a_class_without_rows_is_noticed(rng):
    data = rows(rng, "three classes")
    assert Boosting(data, rate=0.1, seed=0, n_jobs=1).knows_all_classes
    without = data.rows(np.flatnonzero(data.labels != 1))
    assert not Boosting(without, rate=0.1, seed=0, n_jobs=1).knows_all_classes
