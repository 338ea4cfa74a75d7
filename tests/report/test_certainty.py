"""Intervals, standard deviations and probabilities of held-out rows, against counts by hand, and their figures."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

import phimap as pm
from phimap.report import certainty, certainty_figures
from phimap.report.certainty import HeldOutIntervals, HeldOutProbabilities
from phimap.report.certainty_figures import Groups
from tests.support.learners import GAUSSIAN

N = 1500
COVERAGES = np.array([0.5, 0.6, 0.7, 0.8, 0.9, 0.95])


def problem():
    X = np.random.default_rng(0).uniform(-1, 1, (2 * N, 2))
    return X, np.sin(3 * X[:, 0]) + 0.3 * np.random.default_rng(1).standard_normal(2 * N)


def batches(X, y):
    """Held-out rows in two batches, of which the second is cut."""
    return [(X[N : N + 700], y[N : N + 700]), (X[N + 700 :], y[N + 700 :])]


def learner(kind, **given):
    return kind(n_components=64, random_state=0, **GAUSSIAN, **given)


def test_shares_are_those_of_the_first_rows():
    X, y = problem()
    model = learner(pm.KernelRegressor).fit(X[:N], y[:N])
    found = certainty(model, batches(X, y))
    rows, true = X[N : N + 1000], y[N : N + 1000]
    np.testing.assert_array_equal(found.coverages, COVERAGES)
    mean, deviations = model.predict(rows, return_std=True)
    # Batches round otherwise.
    np.testing.assert_allclose(found.predicted, mean, atol=1e-9)
    np.testing.assert_allclose(found.deviations, deviations, atol=1e-9)
    np.testing.assert_allclose(found.bounds, model.predict_interval(rows, 0.9), atol=1e-9)
    shares, normal = [], []
    for coverage in COVERAGES:
        low, high = model.predict_interval(rows, coverage).T
        shares.append(np.mean((low <= true) & (true <= high)))
        low, high = norm.interval(coverage, mean, deviations)
        normal.append(np.mean((low <= true) & (true <= high)))
    np.testing.assert_allclose(found.shares, shares, atol=1e-3)
    np.testing.assert_allclose(found.shares_of_deviations(), normal, atol=1e-3)


def test_few_rows_have_finite_intervals_alone():
    X, y = problem()
    model = learner(pm.KernelRegressor).fit(X[:12], y[:12])
    assert not model.conformal_.reaches(0.95)
    found = certainty(model, batches(X, y))
    np.testing.assert_array_equal(found.coverages, COVERAGES[:-1])
    assert np.isfinite(found.bounds).all()


def test_models_in_passes_have_intervals_without_deviations():
    X, y = problem()
    found = certainty(learner(pm.KernelRegressor, solver="cg").fit(X[:N], y[:N]), batches(X, y))
    assert found.deviations is None
    assert found.shares_of_deviations() is None
    assert found.shares[4] == pytest.approx(0.9, abs=0.05)


def test_groups_hold_means_and_errors():
    predicted = np.repeat(np.arange(10.0), 20)
    found = np.random.default_rng(0).standard_normal((10, 20))
    groups = Groups.of_rows(predicted, found.ravel())
    np.testing.assert_allclose(groups.means, np.arange(10))
    np.testing.assert_allclose(groups.found, found.mean(axis=1))
    np.testing.assert_allclose(groups.reach, 2 * found.std(axis=1) / np.sqrt(20))
    assert len(Groups.of_rows(predicted[:30], found.ravel()[:30]).means) == 3


def test_error_bars_of_roots_hold_the_root_of_the_mean():
    """The delta method: 95 % of two standard errors. Mutant: bars of the squares."""
    squares = np.random.default_rng(0).standard_normal((400, 200)) ** 2
    inside, mutant = [], []
    for one in squares:
        groups = Groups(*_one_group(one)).roots()
        inside.append(abs(groups.found[0] - 1) <= groups.reach[0])
        mutant.append(abs(groups.found[0] - 1) <= _one_group(one)[2][0] / 4)
    assert 0.91 < np.mean(inside) < 0.985
    assert not 0.91 < np.mean(mutant) < 0.985


def _one_group(values):
    return np.ones(1), values.mean(keepdims=True), np.array([2 * values.std() / np.sqrt(values.size)])


def labelled(n_classes):
    X, y = problem()
    edges = np.quantile(y, np.linspace(0, 1, n_classes + 1)[1:-1]) if n_classes > 2 else np.quantile(y, [0.8])
    labels = np.array(["a", "b", "c"])[np.digitize(y, edges)]
    return X, labels, learner(pm.KernelClassifier, loss="squared").fit(X[:N], labels[:N])


def test_the_rarer_of_two_classes_is_shown():
    X, labels, model = labelled(2)
    found = certainty(model, batches(X, labels))
    label, is_class, probabilities = found.shown_class()
    assert label == "b"
    np.testing.assert_array_equal(is_class, labels[N:] == "b")
    np.testing.assert_allclose(probabilities, model.predict_proba(X[N:])[:, 1], atol=1e-6)
    swapped = HeldOutProbabilities(np.where(is_class, "a", "b"), found.classes, found.probabilities[:, ::-1])
    assert swapped.shown_class()[0] == "a"
    assert HeldOutProbabilities(labels[:0], found.classes, found.probabilities[:0]).shown_class() is None


def test_of_three_classes_the_named_one_is_shown():
    X, labels, model = labelled(3)
    unseen = labels.copy()
    unseen[N] = "never seen"
    found = certainty(model, batches(X, unseen))
    assert found.shown_class() is None
    right, probabilities = found.named_class()
    np.testing.assert_array_equal(right, model.predict(X[N + 1 :]) == labels[N + 1 :])
    np.testing.assert_allclose(probabilities, model.predict_proba(X[N + 1 :]).max(axis=1), atol=1e-6)


def test_scores_without_probabilities_are_not_shown():
    X, labels, model = labelled(2)
    model._fitted = model._fitted.__class__(**{**vars(model._fitted), "calibration": None})
    assert certainty(model, batches(X, labels)) is None


def test_the_curve_ends_at_the_share_of_the_class():
    is_class = np.arange(1000) % 10 == 0
    perfect, average = certainty_figures.precision_recall(is_class, np.where(is_class, 0.9, 0.1), "yes")
    assert average == pytest.approx(1)
    assert "average precision is 1" in perfect.alt
    recall, precision = perfect.axes.lines[0].get_data()
    # Every row named: all of the class are found, and its share is right.
    assert (recall[0], precision[0]) == (1, 0.1)
    mark = perfect.axes.lines[2].get_data()
    assert (mark[0][0], mark[1][0]) == (1, 1)
    # No row has a probability of one half.
    unsure, average = certainty_figures.precision_recall(is_class, np.full(1000, 0.1), "yes")
    assert average == pytest.approx(0.1)
    assert len(unsure.axes.lines) == 2


def test_the_band_shows_rows_in_the_order_of_its_middle(rng):
    middle = rng.permutation(900).astype(float)
    true = middle + np.where(np.arange(900) < 90, 9, 0)
    plot = certainty_figures.band(true, middle[:, None] + np.array([-2.0, 0, 2]), ("90 %", "median"), "y")
    assert "90 percent of the true values lie within it" in plot.alt
    drawn = plot.axes.lines[0].get_ydata()
    assert len(drawn) == 400
    assert (np.diff(drawn) > 0).all()


@pytest.mark.parametrize("with_deviations", [False, True])
def test_pages_show_what_there_is(with_deviations, rng):
    from phimap.report.page import _intervals

    true = rng.standard_normal(300)
    deviations = np.full(300, 1.0) if with_deviations else None
    found = HeldOutIntervals(
        true, np.zeros(300), np.tile([-1.6, 1.6], (300, 1)), 0.9, COVERAGES, COVERAGES - 0.01, deviations
    )
    drawn = _intervals(found, "price")
    assert len(drawn) == 2 + with_deviations
    assert ("normal law" in drawn[1][1]) == with_deviations
    assert f"hold {100 * np.mean(np.abs(true) <= 1.6):.1f} % of 300" in drawn[0][1]


@pytest.mark.parametrize("diagonal", [False, True])
def test_two_series_are_drawn_beside_each_other(diagonal):
    x = np.array([1.0, 2, 3])
    found = [("a", x, x + 1), ("b", x, x - 1)]
    lines = certainty_figures.beside(found, "pair", ("x", "y"), "Two.", diagonal=diagonal).axes.lines
    assert len(lines) == 2 + diagonal
    for line, (label, _, y) in zip(lines[diagonal:], found, strict=True):
        assert line.get_label() == label
        np.testing.assert_array_equal(line.get_ydata(), y)
    if diagonal:
        # The line spans all values.
        assert lines[0].get_xdata().tolist() == lines[0].get_ydata().tolist() == [0, 4]


def test_files_of_figures_have_plain_colours_and_the_same_bits(tmp_path):
    x = np.arange(3.0)
    written = []
    for k in range(2):
        plot = certainty_figures.beside([("a", x, x), ("b", x, -x)], "pair", ("x", "y"), "Two.")
        plot.write(tmp_path / f"{k}.svg")
        written.append((tmp_path / f"{k}.svg").read_text())
    assert written[0] == written[1]
    assert "#2a6f97" in written[0]
    # Mutant: the placeholders, which are all dark red.
    assert "#a100" not in written[0]
    assert "#a100" in plot.figure.axes[0].lines[0].get_color()


def test_a_factor_of_the_numbers_stands_beside_the_label():
    """Above the axes it would lie under the legend."""
    values = 1e6 * np.linspace(1.2, 4.8, 60)
    plot = certainty_figures.band(values, values[:, None] + 1e5 * np.array([-1.0, 0, 1]), ("90 %", "median"), "price")
    assert plot.axes.get_ylabel() == "price (1e6)"
    assert plot.svg.count("1e6") == 1
