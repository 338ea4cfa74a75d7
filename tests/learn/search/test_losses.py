"""The choice of the loss of a classifier."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

import phimap as pm
from phimap.learn import fit
from phimap.learn.calibration import Calibration
from phimap.learn.search.effort import EFFORTS
from phimap.learn.search.families import radial
from phimap.learn.search.log import SearchLog, TrialLog
from phimap.learn.search.losses import losses_tried
from phimap.learn.search.sample import SearchSample
from phimap.learn.search.search import SearchResult


def problem(n, rng, classes=2, *, size=2.0):
    """Rows (n, 4) and labels, drawn from probabilities that are a smooth function of the rows of this `size`."""
    X = rng.standard_normal((n, 4)).astype(np.float32)
    score = size * (X[:, 0] * X[:, 1] + np.sin(2 * X[:, 2])) + rng.logistic(size=n)
    return X, np.digitize(score, np.quantile(score, np.arange(1, classes) / classes))


@pytest.mark.parametrize("classes", [2, 3])
def test_log_losses_are_those_of_another_solver(classes, rng):
    X, y = problem(2400, rng, classes)
    Y = np.where(y == 1, 1.0, -1.0)[:, None] if classes == 2 else np.eye(classes)[y]
    sample = SearchSample(X, Y, np.ones(len(y)))
    family = radial(1.5, ())
    found = SearchResult(family.make(3.0), family, None, None)
    tried = losses_tried(found, sample, EFFORTS["fast"], None, seed=0, n_jobs=1, log=TrialLog())
    assert list(tried) == ["squared", "logistic", "squared_hinge"]
    training, held_out = sample.folds()[0]
    phi = family.trial_features(found.kernel, 512, 0, 1).fit(X[training])
    others = [
        log_loss(
            y[held_out],
            LogisticRegression(C=C, max_iter=500)
            .fit(phi.transform(X[training]), y[training])
            .predict_proba(phi.transform(X[held_out])),
        )
        for C in (0.03, 0.3, 3.0, 30.0)
    ]
    assert tried["logistic"] == pytest.approx(min(others), rel=0.02)


@pytest.mark.usefixtures("brief_search")
def test_the_logistic_loss_is_taken_where_it_gives_better_probabilities(tmp_path):
    # Certain labels favour the logistic loss. On these rows its log loss is lower by 20 %.
    X, y = problem(1500, np.random.default_rng(2), size=16.0)
    models = [
        pm.KernelClassifier(n_components=256, loss=loss, random_state=0).fit(X[:1000], y[:1000])
        for loss in ("auto", "squared", "logistic")
    ]
    search = models[0].search_
    assert models[0].loss_ == search.best_loss()[0] == "logistic"
    np.testing.assert_array_equal(models[0].predict_proba(X), models[2].predict_proba(X))
    losses = [log_loss(y[1000:], model.predict_proba(X[1000:])) for model in models[:2]]
    assert losses[0] < losses[1]
    pm.save(models[0], tmp_path / "model.phimap")
    loaded = pm.load(tmp_path / "model.phimap")
    assert loaded.loss_ == "logistic"
    np.testing.assert_array_equal(loaded.predict_proba(X), models[0].predict_proba(X))


def test_the_squared_loss_stays_where_others_gain_little():
    def log(*losses):
        empty = np.zeros(0)
        found = np.array(losses)
        return SearchLog((), (), empty, empty, empty, empty, empty, losses=("squared", "logistic"), log_losses=found)

    assert log(1.0, 0.99).best_loss() == ("squared", 1.0)
    assert log(1.0, 0.97).best_loss() == ("logistic", 0.97)
    # A few rows decide between losses that are almost 0.
    assert log(2e-4, 1e-4).best_loss() == ("squared", 1.0)
    assert log(1e-3, 5e-4).best_loss() == ("logistic", 0.5)
    # A scorer may have no error to compare with.
    assert log(0.0, 0.0).best_loss() == ("squared", 1.0)


@pytest.mark.parametrize(("of_parts", "expected"), [(0.91, "squared"), (0.93, "logistic")])
@pytest.mark.usefixtures("brief_search")
def test_another_loss_must_gain_two_percent_more_than_trees(rng, monkeypatch, of_parts, expected):
    monkeypatch.setattr(SearchLog, "best_loss", lambda self: ("logistic", 0.9))
    monkeypatch.setattr(fit._Solved, "ratio_of_log_losses", lambda self: of_parts)
    monkeypatch.setattr(fit, "held_out_log_loss", lambda held_out, loss: 0.0)
    X, y = problem(1000, rng, size=4.0)
    assert pm.KernelClassifier(n_components=64, effort="fast", random_state=0).fit(X, y).loss_ == expected


@pytest.mark.parametrize(("jumps", "scoring"), [(True, None), (True, "accuracy"), (False, None)])
@pytest.mark.usefixtures("brief_search")
def test_another_loss_must_have_the_smaller_held_out_log_loss(rng, monkeypatch, jumps, scoring):
    monkeypatch.setattr(SearchLog, "best_loss", lambda self: ("logistic", 0.0))
    monkeypatch.setattr(fit._Solved, "ratio_of_log_losses", lambda self: 1.0)
    X, y = problem(1000, rng, size=16.0)
    if jumps:
        X = rng.uniform(-1, 1, (1000, 2))
        y = (np.floor(3 * X).sum(axis=1) % 2).astype(int)
    model = pm.KernelClassifier(n_components=64, effort="fast", scoring=scoring, random_state=0).fit(X, y)
    keeps_trees = jumps and scoring is None
    assert (model.trees_ is not None) == keeps_trees
    assert model.loss_ == ("squared" if keeps_trees else "logistic")


@pytest.mark.usefixtures("brief_search")
def test_no_other_loss_is_fitted_if_trees_lower_the_log_loss_much(rng, monkeypatch):
    monkeypatch.setattr(SearchLog, "best_loss", lambda self: ("logistic", 0.0))
    monkeypatch.setattr(fit, "_of_less_log_loss", lambda *models: pytest.fail("another loss was fitted"))
    X = rng.uniform(-1, 1, (1000, 2))
    y = np.floor(3 * X).sum(axis=1) % 2
    model = pm.KernelClassifier(n_components=64, effort="fast", random_state=0).fit(X, y)
    assert model.trees_ is not None
    assert model.loss_ == "squared"


@pytest.mark.parametrize(("n", "part"), [(2600, "trees"), (9000, "corrections")])
@pytest.mark.usefixtures("brief_search")
def test_log_losses_with_and_without_a_part_are_of_the_same_rows(rng, monkeypatch, n, part):
    """A part is only kept if it lowers the error at these rows."""
    monkeypatch.setattr(SearchLog, "best_loss", lambda self: ("logistic", 0.9))
    ratio_of, found = fit._Solved.ratio_of_log_losses, []
    monkeypatch.setattr(fit._Solved, "ratio_of_log_losses", lambda self: found.append(self) or ratio_of(self))
    X = rng.uniform(-1, 1, (n, 2))
    y = (np.floor(3 * X).sum(axis=1) + (rng.random(n) < 0.2)) % 2
    other = {"trees": "corrections", "corrections": "trees"}[part]
    pm.KernelClassifier(n_components=64, effort="fast", random_state=0, **{other: False}).fit(X, y)
    (solved,) = found
    ((before, after),) = solved.parts
    kept = getattr(solved.fitted, part)
    assert len(before.targets) == len(kept.keys)
    averaged = replace(before, predictions=before.targets - kept.errors)
    assert after.log_loss == pytest.approx(Calibration.of(averaged).log_loss)
    assert solved.ratio_of_log_losses() < 1


def test_a_given_kernel_has_the_squared_loss(rng):
    X, y = problem(400, rng)
    models = [pm.KernelClassifier("gaussian", 64, loss=loss, random_state=0).fit(X, y) for loss in ("auto", "squared")]
    assert models[0].loss_ == "squared"
    np.testing.assert_array_equal(models[0].predict_proba(X), models[1].predict_proba(X))
    models[0].partial_fit(X, y)
    assert models[0].loss_ == "squared"


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_that_say_nothing_and_rows_that_say_all_have_losses(dtype, rng):
    """The Gram matrix of the trial is singular, or the least alpha of the search is far below its rounding."""
    y = np.arange(240) % 2
    for X in (np.ones((240, 3)), np.repeat(rng.standard_normal((4, 2)), 60, axis=0), y[:, None] + np.zeros((1, 2))):
        model = pm.KernelClassifier(effort="fast", random_state=0).fit(X.astype(dtype), y)
        assert np.isfinite(model.search_.log_losses).all()
        assert np.isfinite(model.predict_proba(X.astype(dtype))).all()
