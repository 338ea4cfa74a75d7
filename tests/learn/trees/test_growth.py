"""Boosted trees as records: against scikit-learn's histogram gradient boosting."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import logsumexp, softmax
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from phimap.learn.trees.growth import Boosting, TreeRows, _exponentials


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


def boosting_of(data, rate=0.1, **settings):
    return Boosting(data, rate=rate, rng=np.random.default_rng(0), **settings)


KINDS = ["numbers", "two classes", "three classes"]


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["numbers", "two classes"])
def test_outputs_of_one_target_are_those_of_scikit_learn(rng, kind, dtype, weighted):
    """Mutants: no penalty; leaves of 19 rows; sums of the larger child without those of the smaller one."""
    X, Y = table(rng, kind, dtype)
    Y = Y[:, -1:]
    weights = rng.uniform(0.5, 2, len(X)) if weighted else None
    boosting = boosting_of(rows(X, Y, weights), n_leaves=16)
    boosting.grow(10)
    boosting.grow(20)
    trees, test = boosting.rounds(0, 20), table(rng, kind, dtype, 300)[0]
    model = HistGradientBoostingRegressor if kind == "numbers" else HistGradientBoostingClassifier
    settings = {"max_leaf_nodes": 16, "l2_regularization": 0.1, "max_iter": 20, "early_stopping": False}
    if kind == "numbers":
        # In other units, scikit-learn's penalty and its least hessian would have another size.
        expected = Y.std() * model(**settings).fit(X, Y[:, 0] / Y.std(), weights).predict(test)[:, None]
    else:
        expected = 2 * model(**settings).fit(X, rows(X, Y).labels, weights).predict_proba(test)[:, 1:] - 1
    np.testing.assert_allclose(trees.outputs(test, 1), expected, rtol=1e-5, atol=1e-5)
    assert trees.roots.size == 20
    assert all(holds for holds, _ in trees.requirements())


@pytest.mark.parametrize("shift", [0, 60, -60, -95, 800, -800])
def test_probabilities_of_sums_of_any_size(shift, rng):
    """Mutants: exponentials of the sums themselves, which overflow or vanish; totals with few digits, as at -95."""
    sums = shift + rng.standard_normal((50, 4))
    exponentials, totals = _exponentials(sums)
    np.testing.assert_allclose(exponentials / totals[:, None], softmax(sums, axis=1), rtol=1e-5)


def log_losses(sums, Y):
    """The log loss of each row, given the sums (n, t) of its classes and its class as indicators."""
    return logsumexp(sums, axis=1) - (sums * Y).sum(axis=1)


@pytest.mark.parametrize("weighted", [True, False])
def test_derivatives_are_those_of_the_loss(rng, weighted):
    """By differences. Mutant: second derivatives along the direction without those of pairs of classes."""
    X, Y = table(rng, "three classes")
    weights = rng.uniform(0.5, 2, len(X)) if weighted else None
    boosting = boosting_of(rows(X, Y, weights))
    sums, counted, step = boosting.grow(5).sums(X, 1), np.ones(len(X)) if weights is None else weights, 1e-4
    direction = boosting_of(rows(X, Y))._rng.standard_normal((5, 3))[-1]
    boosting._direction = lambda: direction
    slopes, curvatures, gradients, hessians = boosting._derivatives()

    def differences(along):
        below, at, above = (counted * log_losses(sums + k * step * along, Y) for k in (-1, 0, 1))
        return (above - below) / (2 * step), (above - 2 * at + below) / step**2

    found = [(slopes, curvatures), *zip(gradients.T, hessians.T, strict=True)]
    for along, (first, second) in zip([direction, *np.eye(3)], found, strict=True):
        expected = differences(along)
        np.testing.assert_allclose(first, expected[0], atol=2e-6)
        np.testing.assert_allclose(second, expected[1], atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_leaf_values_are_newton_steps(rng, kind):
    """For each target, from the rows of the leaf. Mutant: the value of the direction's derivatives for all targets."""
    X, Y = table(rng, kind, n=3000)
    boosting = boosting_of(rows(X, Y), rate=0.3)
    _, _, gradients, hessians = boosting_of(rows(X, Y))._derivatives()
    trees = boosting.grow(1)
    spread = Y.std(axis=0) if kind == "numbers" else 1.0
    steps = (trees.sums(X, 1) - trees.baseline) / spread
    numbers = np.tile(np.arange(len(trees.values))[:, None], (1, Y.shape[1]))
    leaves = replace(trees, values=numbers.astype(float), baseline=np.zeros(Y.shape[1])).sums(X, 1)[:, 0]
    assert len(numbers) >= 5
    for leaf in range(len(numbers)):
        own = leaves == leaf
        sums = (derivatives[own].sum(axis=0, dtype=np.float64) for derivatives in (gradients, hessians))
        expected = -0.3 * next(sums) / (next(sums) + 0.1)
        np.testing.assert_allclose(steps[own], np.tile(expected, (own.sum(), 1)), rtol=1e-9, atol=1e-12)


def test_splits_lower_the_loss_along_the_direction(rng, monkeypatch):
    """Along the first of two targets, the splits and values are those of this target alone."""
    X, Y = table(rng, "numbers")
    alone = boosting_of(rows(X, Y[:, :1])).grow(8)
    monkeypatch.setattr(Boosting, "_direction", lambda self: np.array([1.0, 0.0]))
    both = boosting_of(rows(X, Y)).grow(8)
    for name in ("columns", "thresholds", "children", "roots"):
        np.testing.assert_array_equal(getattr(both, name), getattr(alone, name))
    np.testing.assert_allclose(both.values[:, :1], alone.values, rtol=1e-9)


@pytest.mark.parametrize("t", [1, 2, 3, 5])
def test_every_target_has_its_turn(rng, t):
    """Mutants: random directions alone, which neglect rare classes; or none with many targets."""
    boosting, directions = boosting_of(rows(rng.standard_normal((100, 2)), rng.standard_normal((100, t)))), []
    for number in range(1, 6 * t + 1):
        directions.append(boosting._direction())
        boosting.grow(number)
    turn = 1 if t <= 3 else 3
    np.testing.assert_array_equal(directions[turn - 1 :: turn], np.tile(np.eye(t), (6 // turn, 1)))
    assert sum(np.count_nonzero(direction) == t > 1 for direction in directions) == 6 * t - 6 * t // turn


@pytest.mark.parametrize("kind", KINDS)
def test_rounds_add_up(rng, kind):
    X, Y = table(rng, kind)
    trees = boosting_of(rows(X, Y)).grow(15)
    parts = [trees.rounds(first, last).sums(X, 1) for first, last in [(0, 4), (4, 5), (5, 15)]]
    np.testing.assert_allclose(sum(parts), trees.sums(X, 1), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_threads_change_no_bit(rng, kind):
    X, Y = table(rng, kind, n=3000)
    trees = boosting_of(rows(X, Y)).grow(10)
    np.testing.assert_array_equal(trees.outputs(X, 1), trees.outputs(X, 3))


@pytest.mark.parametrize("kind", KINDS)
def test_parts_of_rounds_are_the_rounds_of_one_fit(rng, kind):
    """Mutant: sums of the rows that lack the trees of an earlier part."""
    X, Y = table(rng, kind)
    at_once, in_parts = (boosting_of(rows(X, Y)) for _ in range(2))
    whole = at_once.grow(30)
    added = [in_parts.grow(n_rounds) for n_rounds in (10, 20, 30)]
    assert [part.roots.size for part in added] == [10] * 3
    np.testing.assert_array_equal(in_parts.rounds(0, 30).values, whole.values)
    np.testing.assert_allclose(sum(part.sums(X, 1) for part in added), whole.sums(X, 1), rtol=1e-12)


def test_trees_of_one_leaf_keep_their_places(rng, monkeypatch):
    """One of two targets is constant. Mutant: a root that counts the splits of the trees before it wrongly."""
    X, Y = table(rng, "numbers")
    Y[:, 0] = 3
    # Every second tree is grown along the constant target, so it has one leaf, with the value 0 but for the penalty.
    monkeypatch.setattr(Boosting, "_direction", lambda self: np.eye(2)[len(self._trees) % 2])
    trees, alone = boosting_of(rows(X, Y)).grow(8), boosting_of(rows(X, Y[:, 1:]))
    monkeypatch.undo()
    assert np.count_nonzero(trees.roots < 0) == 4
    np.testing.assert_allclose(trees.outputs(X, 1)[:, 0], 3, rtol=1e-12)
    np.testing.assert_allclose(trees.outputs(X, 1)[:, 1:], alone.grow(4).outputs(X, 1), rtol=1e-3)


def test_rows_at_a_threshold_go_below_in_float32(rng):
    X = rng.integers(0, 5, (400, 1)).astype(np.float32) / 3
    y = (X[:, 0] > np.float32(2 / 3)).astype(np.float64)
    trees = boosting_of(TreeRows.of(X, y[:, None], None, has_labels=False), rate=1.0).grow(1)
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
    errors = np.square(Y - boosting_of(rows(X, Y, weights)).grow(40).outputs(X, 1))[:, 0]
    assert errors[heavy].mean() < 0.1 * errors[~heavy].mean()


def test_a_class_without_rows_is_noticed(rng):
    X, Y = table(rng, "three classes")
    data = rows(X, Y)
    assert boosting_of(data).knows_all_classes
    without = data.rows(np.flatnonzero(data.labels != 1))
    assert not boosting_of(without).knows_all_classes
