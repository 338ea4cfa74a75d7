"""Boosted trees as records: against scikit-learn's histogram gradient boosting."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from phimap.learn.trees.growth import Boosting, TreeRows


def table(rng, kind, dtype=np.float64, n=700):
    """Rows, and steps as their targets: two numbers, two classes or three classes."""
    # Few distinct numbers, so that scikit-learn, too, has a bin for each.
    X = np.round(rng.standard_normal((n, 4)), 1).astype(dtype)
    X[:, 3] = rng.random(n) < 0.2
    y = np.sign(X[:, 0]) + X[:, 1] * (X[:, 2] > 0) + 0.1 * rng.standard_normal(n)
    if kind == "numbers":
        return X, np.stack([y, 100 + 7 * y * X[:, 3]], axis=1)
    if kind == "two classes":
        return X, np.where(y > 0, 1.0, -1.0)[:, None]
    return X, np.eye(3)[np.digitize(y, [-0.5, 0.5])]


def rows(X, Y, weights=None):
    return TreeRows.of(X, Y, weights, has_labels=bool(np.isin(Y, (-1, 0, 1)).all()))


KINDS = ["numbers", "two classes", "three classes"]


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", KINDS)
def test_outputs_are_those_of_scikit_learn(rng, kind, dtype, weighted):
    """Mutants: no penalty; leaves of 19 rows; sums of the larger child without those of the smaller one."""
    X, Y = table(rng, kind, dtype)
    weights = rng.uniform(0.5, 2, len(X)) if weighted else None
    boosting = Boosting(rows(X, Y, weights), rate=0.1, n_leaves=16, n_jobs=1)
    boosting.grow(10)
    boosting.grow(20)
    trees, test = boosting.rounds(0, 20), table(rng, kind, dtype, 300)[0]
    model = HistGradientBoostingRegressor if kind == "numbers" else HistGradientBoostingClassifier
    settings = {"max_leaf_nodes": 16, "l2_regularization": 0.1, "max_iter": 20, "early_stopping": False}
    if kind == "numbers":
        # In other units, scikit-learn's penalty and its least hessian would have another size.
        spreads = Y.std(axis=0)
        fits = [model(**settings).fit(X, y / spread, weights) for y, spread in zip(Y.T, spreads, strict=True)]
        expected = spreads * np.stack([fit.predict(test) for fit in fits], axis=1)
    else:
        shares = model(**settings).fit(X, rows(X, Y).labels, weights).predict_proba(test)
        expected = 2 * shares[:, 1:] - 1 if kind == "two classes" else shares
    np.testing.assert_allclose(trees.outputs(test, 1), expected, rtol=1e-5, atol=1e-5)
    assert trees.roots.size == 20 * Y.shape[1]
    assert all(holds for holds, _ in trees.requirements())


@pytest.mark.parametrize("kind", KINDS)
def test_rounds_add_up(rng, kind):
    X, Y = table(rng, kind)
    trees = Boosting(rows(X, Y), rate=0.1, n_jobs=1).grow(15)
    parts = [trees.rounds(first, last).sums(X, 1) for first, last in [(0, 4), (4, 5), (5, 15)]]
    np.testing.assert_allclose(sum(parts), trees.sums(X, 1), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_threads_change_no_bit(rng, kind):
    X, Y = table(rng, kind, n=3000)
    one, three = (Boosting(rows(X, Y), rate=0.1, n_jobs=n_jobs).grow(10) for n_jobs in (1, 3))
    for name in ("columns", "thresholds", "children", "values", "roots", "baseline"):
        np.testing.assert_array_equal(getattr(one, name), getattr(three, name))
    np.testing.assert_array_equal(one.outputs(X, 1), three.outputs(X, 3))


@pytest.mark.parametrize("kind", KINDS)
def test_parts_of_rounds_are_the_rounds_of_one_fit(rng, kind):
    """Mutant: sums of the rows that lack the trees of an earlier part."""
    X, Y = table(rng, kind)
    at_once, in_parts = (Boosting(rows(X, Y), rate=0.1, n_jobs=1) for _ in range(2))
    whole = at_once.grow(30)
    added = [in_parts.grow(n_rounds) for n_rounds in (10, 20, 30)]
    assert [part.roots.size for part in added] == [10 * Y.shape[1]] * 3
    np.testing.assert_array_equal(in_parts.rounds(0, 30).values, whole.values)
    np.testing.assert_allclose(sum(part.sums(X, 1) for part in added), whole.sums(X, 1), rtol=1e-12)


def test_trees_of_one_leaf_keep_their_places(rng):
    """Of two targets one is constant. Mutant: a root that counts the splits of the trees before it wrongly."""
    X, Y = table(rng, "numbers")
    Y[:, 0] = 3
    trees = Boosting(rows(X, Y), rate=0.1, n_jobs=1).grow(4)
    np.testing.assert_allclose(trees.outputs(X, 1)[:, 0], 3, rtol=1e-12)
    alone = Boosting(rows(X, Y[:, 1:]), rate=0.1, n_jobs=1).grow(4)
    np.testing.assert_allclose(trees.outputs(X, 1)[:, 1:], alone.outputs(X, 1), rtol=1e-12)


def test_rows_at_a_threshold_go_below_in_float32(rng):
    X = rng.integers(0, 5, (400, 1)).astype(np.float32) / 3
    y = (X[:, 0] > np.float32(2 / 3)).astype(np.float64)
    trees = Boosting(TreeRows.of(X, y[:, None], None, has_labels=False), rate=1.0, n_jobs=1).grow(1)
    assert trees.thresholds.dtype == np.float32
    at, next_after = trees.thresholds, np.nextafter(trees.thresholds, np.float32(np.inf))
    np.testing.assert_array_equal(
        trees.outputs(at[:, None], 1), trees.outputs(X[at >= X].min(keepdims=True)[:, None], 1)
    )
    assert (trees.outputs(next_after[:, None], 1) != trees.outputs(at[:, None], 1)).all()


def test_rows_of_large_weight_are_fitted_better(rng):
    X, Y = table(rng, "numbers")
    heavy = rng.random(len(X)) < 0.5
    # The sign of the target differs between heavy and light rows, which the trees cannot tell apart.
    Y = np.where(heavy[:, None], Y, -Y)
    weights = np.where(heavy, 100.0, 1.0)
    errors = np.square(Y - Boosting(rows(X, Y, weights), rate=0.1, n_jobs=1).grow(40).outputs(X, 1))[:, 0]
    assert errors[heavy].mean() < 0.1 * errors[~heavy].mean()


def test_a_class_without_rows_is_noticed(rng):
    X, Y = table(rng, "three classes")
    data = rows(X, Y)
    assert Boosting(data, rate=0.1, n_jobs=1).knows_all_classes
    without = data.rows(np.flatnonzero(data.labels != 1))
    assert not Boosting(without, rate=0.1, n_jobs=1).knows_all_classes
