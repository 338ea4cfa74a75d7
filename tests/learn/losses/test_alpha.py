"""The choice of alpha: its scores against scikit-learn on the same folds, and its loss against hindsight."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.svm import LinearSVC

import phimap as pm
from phimap.learn.losses.losses import SquaredHinge
from phimap.learn.losses.preparation import FOLDS, LossSample
from phimap.learn.losses.solver import alphas_from, choose_alpha
from tests.support.learners import GAUSSIAN


def fitted_with_folds(model, X, y, monkeypatch):
    """The solution, and features and labels of ``rows(fold, held_out)``."""
    samples = []

    class Recorded(LossSample):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            samples.append(self)

    monkeypatch.setattr("phimap.learn.losses.preparation.LossSample", Recorded)
    model.fit(X, y)
    (sample,) = samples

    def rows(fold, held_out):
        blocks, signs, _ = zip(*sample.rows(fold, held_out=held_out), strict=True)
        return np.concatenate([block.to_host() for block in blocks]), np.concatenate(signs).argmax(axis=1)

    return model.solution_, rows


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
def test_a_classifier_holds_classes_out_in_proportion(monkeypatch, loss):
    """Of a class of 12 among 300 rows, each of five folds holds two or three, as chance would do in 7 % of fits."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((300, 3)), np.searchsorted([12, 150], rng.permutation(300), side="right")
    model = pm.KernelClassifier(**GAUSSIAN, n_components=16, loss=loss, trees=None, random_state=0)
    _, rows = fitted_with_folds(model, X, y, monkeypatch)
    for fold in range(FOLDS):
        assert (rows(fold, True)[1] == 0).sum() in (2, 3)


def test_scores_are_the_losses_on_held_out_rows(monkeypatch):
    """Within 2 %: the tolerance of the path. Mutant: the losses of models fitted to the rows."""
    X, y = load_digits(n_class=4, return_X_y=True)
    model = pm.KernelClassifier(n_components=80, loss="logistic", random_state=0, **GAUSSIAN)
    solution, rows = fitted_with_folds(model, X[:300], y[:300], monkeypatch)
    for alpha, score in [list(zip(solution.alphas, solution.scores, strict=True))[4]]:
        found, knowing, count = 0.0, 0.0, 0
        for fold in range(FOLDS):
            (Z, labels), (Zt, tests) = rows(fold, False), rows(fold, True)
            peer = LogisticRegression(C=1 / alpha, tol=1e-8, max_iter=5000)
            found += len(tests) * log_loss(tests, peer.fit(Z, labels).predict_proba(Zt), labels=range(4))
            both = peer.fit(np.vstack([Z, Zt]), np.concatenate([labels, tests]))
            knowing += len(tests) * log_loss(tests, both.predict_proba(Zt), labels=range(4))
            count += len(tests)
        assert score == pytest.approx(found / count, rel=2e-2)
        assert score != pytest.approx(knowing / count, rel=2e-2)


@pytest.mark.parametrize("alpha", [0.05, 1e6])
def test_rows_are_held_out_at_an_alpha_that_is_given(alpha, monkeypatch):
    """Losses within 2 %, as above; an alpha beyond those that are tried. Mutant: models fitted to the rows."""
    X, y = load_digits(n_class=4, return_X_y=True)
    model = pm.KernelClassifier(n_components=80, loss="squared_hinge", alpha=alpha, random_state=0, **GAUSSIAN)
    solution, rows = fitted_with_folds(model, X[:300], y[:300], monkeypatch)
    assert (solution.alpha, solution.criterion, solution.alphas.size) == (alpha, "given", 0)
    found, knowing = 0.0, 0.0
    for fold in range(FOLDS):
        (Z, labels), (Zt, tests) = rows(fold, False), rows(fold, True)
        signs = np.where(tests[:, None] == np.arange(4), 1.0, -1.0)
        # A large constant input, whose coefficient is hardly penalised.
        peer = LinearSVC(C=1 / alpha, dual=False, intercept_scaling=1e4, tol=1e-8)
        found += SquaredHinge().values(peer.fit(Z, labels).decision_function(Zt), signs).sum() / 300
        both = peer.fit(np.vstack([Z, Zt]), np.concatenate([labels, tests]))
        knowing += SquaredHinge().values(both.decision_function(Zt), signs).sum() / 300
    score = SquaredHinge().values(solution.held_out.predictions, solution.held_out.targets).mean()
    assert score == pytest.approx(found, rel=2e-2)
    if alpha < 1:
        assert score != pytest.approx(knowing, rel=2e-2)


@pytest.mark.parametrize(("rise", "n_tried"), [(0.003, 6), (0.015, 4)])
def test_a_rise_of_one_percent_ends_the_search(monkeypatch, rise, n_tried):
    """A smaller rise may be chance, so three alphas without a gain end the search."""
    losses = [1.0, 0.8, 0.7, *[0.7 * (1 + rise)] * 10]
    search = SimpleNamespace(
        solve=lambda alpha: [SimpleNamespace(coef=np.zeros((2, 1)), intercept=np.zeros(1))],
        held_out_scores=lambda solutions: None,
        score=lambda held_out: losses.pop(0),
    )
    monkeypatch.setattr("phimap.learn.losses.solver.HeldOutLoss", lambda *arguments: search)
    chosen, _ = choose_alpha(SquaredHinge(), SimpleNamespace(scale=1.0))
    assert len(chosen.alphas) == n_tried
    assert chosen.alpha == chosen.alphas[2]


def test_alphas_reach_the_one_that_is_given():
    alphas = alphas_from(0.5, least=0.07)
    assert alphas[-1] == 0.07
    np.testing.assert_allclose(alphas[:-2] / alphas[1:-1], np.sqrt(10))
    assert 1 < alphas[-2] / alphas[-1] <= np.sqrt(10) * (1 + 1e-12) * np.sqrt(10)
    np.testing.assert_array_equal(alphas_from(0.5, least=1e4), [1e4])


@pytest.mark.filterwarnings("ignore:.*far outside of the training rows")
@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
def test_default_settings_solve_without_a_warning(loss):
    """Warnings are errors here. Classes that can be told apart ask for a small alpha."""
    X, y = load_digits(return_X_y=True)
    model = pm.KernelClassifier(n_components=200, loss=loss, random_state=0, **GAUSSIAN).fit(X[:500], y[:500])
    assert model.solution_.status == "solved"
    assert model.solution_.n_passes <= 15
    assert model.score(X[500:], y[500:]) > 0.85


@pytest.mark.skipif("PHIMAP_DATA" not in os.environ, reason="needs the folder that PHIMAP_DATA names")
def test_the_choice_is_near_hindsight():
    """Test loss within 3 % of the best over two decades. Mutant: an alpha ten times as large."""
    with np.load(Path(os.environ["PHIMAP_DATA"]) / "medium_classification.npz", allow_pickle=False) as sets:
        X, y, Xt, yt = (sets[f"adult_{part}"] for part in ("Xtr", "ytr", "Xte", "yte"))
    X, y = X[:3000].astype(np.float32), y[:3000]
    model = pm.KernelClassifier(n_components=128, loss="logistic", random_state=0, **GAUSSIAN)

    def test_loss(alpha):
        probabilities = model.set_params(alpha=alpha).fit(X, y).predict_proba(Xt)
        return log_loss(yt, probabilities, labels=model.classes_)

    found = test_loss("auto")
    alpha = model.alpha_
    losses = {factor: test_loss(factor * alpha) for factor in (0.1, 0.3, 1.0, 3.0, 10.0)}
    assert found < 1.03 * min(losses.values())
    assert losses[10.0] > 1.03 * min(losses.values())
