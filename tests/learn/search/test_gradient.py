"""Metrics learned by the gradient of a held-out loss."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import Ridge

import phimap as pm
from phimap.learn.search import gradient
from phimap.learn.search.effort import EFFORTS
from phimap.learn.search.gradient import FourierBuffers, FourierLoss, MetricLearner, learn_together
from phimap.learn.search.sample import SearchSample

ROOTS = {
    "diagonal": np.array([0.5, 0.3, 0.4, 0.2]),
    "full": 0.4 * np.eye(4) + 0.05 * np.arange(16).reshape(4, 4) / 16,
    "of low rank": np.linspace(-0.4, 0.6, 8).reshape(4, 2),
}


def loss_in_float64(rng, root, weights):
    """The loss of 120 rows with two targets, with all arrays in float64."""
    X = rng.standard_normal((120, 4))
    Y = np.stack([np.sin(2 * X[:, 0]) + X[:, 1] ** 2, X[:, 2]], axis=1)
    loss = FourierLoss.of_rows(X, Y, weights, rng.standard_normal((root.shape[-1], 15)))
    arrays = {name: getattr(loss, name).astype(np.float64) for name in ("X", "Y", "weights", "directions")}
    return replace(loss, **arrays, buffers=FourierBuffers.of_shape(120, 15, np.float64))


@pytest.mark.parametrize("root", ROOTS.values(), ids=ROOTS)
@pytest.mark.parametrize("weighted", [False, True])
def test_derivatives_are_those_of_central_differences(root, weighted, rng):
    weights = rng.uniform(0.5, 2, 120) if weighted else np.ones(120)
    loss, step = loss_in_float64(rng, root, weights), 1e-5
    _, of_root, of_alpha = loss(root, 0.1)
    for place, slope in zip(np.eye(root.size), of_root.ravel(), strict=True):
        moved = step * place.reshape(root.shape)
        assert (loss(root + moved, 0.1)[0] - loss(root - moved, 0.1)[0]) / (2 * step) == pytest.approx(slope, abs=1e-5)
    ahead, behind = (loss(root, 0.1 * np.exp(sign * step))[0] for sign in (1, -1))
    assert (ahead - behind) / (2 * step) == pytest.approx(of_alpha, abs=1e-6)
    # A mutant: the slope at another alpha.
    assert np.abs(loss(root, 0.2)[1] - of_root).max() > 1e-3


@pytest.mark.parametrize("weighted", [False, True])
def test_the_loss_is_that_of_ridge_regression_on_held_out_rows(weighted, rng):
    weights = rng.uniform(0.5, 2, 120) if weighted else np.ones(120)
    loss, root = loss_in_float64(rng, ROOTS["diagonal"], weights), ROOTS["diagonal"]
    P = (loss.X * root) @ loss.directions
    Z, n = np.concatenate([np.cos(P), np.sin(P)], axis=1) / np.sqrt(15), loss.n_training
    ridge = Ridge(0.1).fit(Z[:n], loss.Y[:n], loss.weights[:n])
    squared = np.square(ridge.predict(Z[n:]) - loss.Y[n:]).sum(axis=1)
    assert loss(root, 0.1)[0] == pytest.approx(np.log(np.average(squared, weights=loss.weights[n:])), abs=1e-5)
    mean = loss.squares(root, 0.1).sum() / loss.weights[n:].sum()
    assert np.log(mean) == pytest.approx(loss(root, 0.1)[0], rel=1e-12)


def test_a_root_whose_projections_overflow_fits_nothing(rng):
    """A line search may try any root. Its loss is larger than that of every fit, so that the search goes back."""
    loss = FourierLoss.of_rows(rng.standard_normal((60, 3)), np.ones((60, 1)), np.ones(60), np.full((3, 16), 1e5))
    with np.errstate(over="ignore", invalid="ignore"):
        found, of_root, of_alpha = loss(np.full(3, 1e37), 0.1)
        assert loss.squares(np.full(3, 1e37), 0.1) is None
    assert found == 1e3
    assert not of_root.any()
    assert of_alpha == 0


def test_equal_targets_have_no_slope_and_no_overflow(rng):
    X = rng.standard_normal((60, 3))
    loss = FourierLoss.of_rows(X, np.full((60, 1), 2.0), np.ones(60), rng.standard_normal((3, 16)))
    found, of_root, of_alpha = loss(np.ones(3), 0.1)
    assert np.isfinite(found)
    assert not of_root.any()
    assert of_alpha == 0


def sample_of_two(rng, n_rows=1200, d=12):
    """A sample in which columns 2 and 7 matter, in a product."""
    X = rng.uniform(-1, 1, (n_rows, d)).astype(np.float32)
    y = np.sin(3 * X[:, 2]) * np.cos(2 * X[:, 7]) + 0.05 * rng.standard_normal(n_rows)
    return SearchSample(X, y[:, None], np.ones(n_rows))


def learn(sample, start, effort="normal", *, parts=None, is_over=lambda: False, rows=None):
    sample = replace(sample, parts=parts)
    kernel, rows = pm.kernels.Matern(nu=1.5), np.arange(sample.n_rows) if rows is None else rows
    learner = MetricLearner(sample, rows, start, 1e-4, kernel, EFFORTS[effort], seed=0, n_jobs=1)
    learner.learn(EFFORTS[effort].stages, is_over)
    return learner.root


@pytest.mark.parametrize("form", ["diagonal", "full"])
def test_a_metric_finds_the_columns_that_matter(form, rng):
    sample = sample_of_two(rng)
    root = learn(sample, np.full(12, 0.3) if form == "diagonal" else 0.3 * np.eye(12))
    metric = np.square(root) if form == "diagonal" else np.diag(root @ root.T)
    assert set(np.argsort(metric)[-2:]) == {2, 7}
    assert metric[[2, 7]].sum() > 0.7 * metric.sum()
    np.testing.assert_array_equal(learn(sample, np.full(12, 0.3)), learn(sample, np.full(12, 0.3)))


def test_columns_of_a_group_share_a_weight(rng):
    parts = np.array([0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5])
    root = learn(sample_of_two(rng), np.full(12, 0.3), parts=parts)
    np.testing.assert_array_equal(root[::2], root[1::2])
    assert set(np.argsort(root[::2] ** 2)[-2:]) == {1, 3}


def test_rows_that_are_not_given_take_no_part(rng):
    sample, rows = sample_of_two(rng), np.arange(300, 1200)
    spoilt = sample.Y.copy()
    spoilt[:300] = 1e6
    start = np.full(12, 0.3)
    expected = learn(sample, start, rows=rows)
    np.testing.assert_array_equal(learn(replace(sample, Y=spoilt), start, rows=rows), expected)


def test_no_stage_begins_after_the_limit(rng):
    start = np.full(12, 0.3)
    np.testing.assert_allclose(learn(sample_of_two(rng), start, is_over=lambda: True), start)


@pytest.mark.parametrize("effort", EFFORTS)
@pytest.mark.parametrize("labels", [None, np.zeros(1200, int)], ids=["numbers", "labels"])
def test_stages_without_a_gain_end_the_learning(rng, monkeypatch, effort, labels):
    """The gain is first tested after the least number of stages for numbers, after one more for labels."""
    monkeypatch.setattr(gradient, "_gain", lambda before, after: (0.0, 0.0))
    begun = []
    learn(replace(sample_of_two(rng), labels=labels), np.full(12, 0.3), effort, is_over=lambda: begun.append(1))
    # The stage that tests the gain has begun, too.
    assert len(begun) == EFFORTS[effort].least_stages + (labels is not None) + 1


@pytest.mark.parametrize(("gain", "deviation", "ends"), [(0.01, 0, False), (-0.01, 0.04, False), (-0.01, 0.02, True)])
def test_a_stage_goes_on_if_the_noise_may_hide_its_gain(rng, monkeypatch, gain, deviation, ends):
    monkeypatch.setattr(gradient, "_gain", lambda before, after: (gain, deviation))
    begun, effort = [], EFFORTS["normal"]
    learn(sample_of_two(rng), np.full(12, 0.3), is_over=lambda: begun.append(1))
    assert len(begun) == (effort.least_stages + 1 if ends else effort.stages)


def learners_of(sample):
    """A learner of a diagonal metric and one of a full metric."""
    kernel, rows = pm.kernels.Matern(nu=1.5), np.arange(sample.n_rows)
    return [
        MetricLearner(sample, rows, start, 1e-4, kernel, EFFORTS["normal"], seed=0, n_jobs=1)
        for start in (np.full(12, 0.3), 0.3 * np.eye(12))
    ]


@pytest.mark.parametrize(
    ("n_rows", "errors", "stages"),
    [(4000, 1.5, (7, 6)), (4000, 0.5, (6, 7)), (4000, 1.015, (7, 7)), (4000, 1.03, (7, 6)), (2400, 1.5, (7, 7))],
)
def test_a_learner_that_errs_clearly_more_gets_no_large_stage(rng, monkeypatch, n_rows, errors, stages):
    """With few rows, the later stages are no larger than the first, and every learner has them.

    Mutants: no standard errors, with which 1.015 stops a learner; a comparison with the first learner.
    """
    begun = {1: 0, 2: 0}

    def counted(learner, loss):
        begun[learner.root.ndim] += 1
        return learner._values

    monkeypatch.setattr(MetricLearner, "_minimised", counted)
    monkeypatch.setattr(
        MetricLearner, "_squares", lambda self, loss, values: np.full(9, {1: 1.0, 2: errors}[self.root.ndim])
    )
    monkeypatch.setattr(gradient, "_gain", lambda before, after: ((before - after).sum() / before.sum(), 0.01))
    learn_together(learners_of(sample_of_two(rng, n_rows)), EFFORTS["normal"].stages, lambda: False, 1)
    # The seventh stage is not tested. The eighth finds that it has gained nothing.
    assert tuple(begun.values()) == stages


def test_learners_are_compared_on_the_same_rows(rng):
    """The rows do not depend on the stages that a learner has had."""
    first, second = learners_of(sample_of_two(rng))
    start, expected = first._values, second.validation_squares()
    np.testing.assert_allclose(first.validation_squares(), expected, rtol=1e-3)
    first.learn(1, lambda: False)
    first._values = start
    np.testing.assert_allclose(first.validation_squares(), expected, rtol=1e-3)


def learner_with_stages(rng, monkeypatch, ends, best, n_rows=1000):
    """A learner whose stages end at `ends`, and whose squared errors are distances from `best`."""
    left = iter(ends)
    monkeypatch.setattr(MetricLearner, "_minimised", lambda self, loss: np.full(13, float(next(left))))
    monkeypatch.setattr(
        MetricLearner, "_squares", lambda self, loss, values: np.full(9, 1 + np.abs(values - best).max())
    )
    monkeypatch.setattr(gradient, "_LEAST_GAIN", -np.inf)
    learner, _ = learners_of(sample_of_two(rng, n_rows))
    learn_together([learner], len(ends), lambda: False, 1)
    return learner


@pytest.mark.parametrize(
    ("ends", "best", "expected"),
    [
        # The mean of the last five stages, which errs less than the last stage.
        ([90, 90, 40, 10, 9, 8, 7, 1], 5.0, 7.0),
        # The mean errs more.
        ([90, 90, 40, 8, 7, 6, 5, 4], 4.0, 4.0),
        # The first two stages do not count, and one stage has no mean but itself.
        ([0, 2, 4], 2.0, 4.0),
        ([0, 2, 4, 6], 5.0, 5.0),
    ],
)
def test_the_mean_of_the_last_roots_is_taken_if_it_errs_less(rng, monkeypatch, ends, best, expected):
    """Mutants: four or six stages; the mean without a comparison; one first stage or three that do not count."""
    assert learner_with_stages(rng, monkeypatch, ends, best)._values == pytest.approx(expected)


def test_a_stage_that_raised_the_error_is_not_averaged(rng, monkeypatch):
    """The seventh stage raises the error, so that the eighth undoes it. Mutant: the seventh stays in the mean."""
    ends = [0, 0, 6, 6, 6, 6, 30, 2]
    assert learner_with_stages(rng, monkeypatch, ends, 5.0)._values == pytest.approx(5.2)


def test_the_last_root_stays_with_few_rows(rng, monkeypatch):
    assert learner_with_stages(rng, monkeypatch, [0, 2, 4, 6], 5.0, n_rows=999)._values == pytest.approx(6.0)


def test_roots_are_not_averaged_after_the_limit(rng, monkeypatch):
    averaged = []
    monkeypatch.setattr(MetricLearner, "average", averaged.append)
    learn_together(learners_of(sample_of_two(rng)), 1, lambda: True, 1)
    assert not averaged


def test_the_gain_of_a_stage_has_the_standard_error_of_paired_rows():
    before, after = np.array([4.0, 2.0, 2.0]), np.array([1.0, 2.0, 3.0])
    assert gradient._gain(before, after) == pytest.approx((2 / 8, np.sqrt(10) / 8))
    # A root without a fit is never taken.
    assert gradient._gain(before, None) == (-np.inf, 0)


def test_a_metric_is_learned_from_the_rows_of_one_group(rng):
    """A fold of two groups trains on one group. Its only group was held out, and means were divided by 0 rows."""
    sample = replace(sample_of_two(rng), places=np.zeros(1200, int))
    weights = np.square(learn(sample, np.full(12, 0.5)))
    assert set(np.argsort(weights)[-2:]) == {2, 7}
