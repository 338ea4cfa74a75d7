"""Paths: their ends against an independent minimiser, and the passes that they save."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.datasets import load_digits

from phimap._progress import Stages
from phimap.learn.blocks.blocks import feature_block
from phimap.learn.losses.losses import Logistic, SquaredHinge
from phimap.learn.losses.preparation import FactorPreconditioner, LossPreparation, LossSample, Path
from phimap.learn.losses.quasi_newton import Steps
from phimap.learn.ridge.statistics import RidgeStatistics
from phimap.learn.solver import Problem

LOSSES = [Logistic(), SquaredHinge()]
EPS = float(np.finfo(np.float64).eps)


def problem(n=400, n_classes=4):
    X, y = load_digits(n_class=n_classes, return_X_y=True)
    X = X[:n] / 16
    # A few nonlinear features make the classes separable.
    X = np.hstack([X, np.cos(X @ np.random.default_rng(0).standard_normal((X.shape[1], 40)))])
    return X, np.where(y[:n, None] == np.arange(n_classes), 1.0, -1.0)


def path(loss, Z, signs, kind=Path):
    statistics = RidgeStatistics.empty(Z.shape[1], signs.shape[1])
    statistics.update(Z, signs)
    factor = FactorPreconditioner(statistics.centred_gram(), EPS, 1)
    rows = [(feature_block(Z), signs, np.ones(len(Z)))]
    problem = Problem(rows, len(Z), *Z.shape[1:], *signs.shape[1:], EPS, "auto", None, 0, None, None, 1, Stages())
    return kind(loss, LossPreparation(problem, LossSample(len(Z), 0, 0), factor, Z.mean(axis=0), Steps()), rows, 1.0)


def objective(loss, Z, signs, alpha, W, c):
    return loss.values(Z @ W + c, signs).sum() + 0.5 * alpha * np.square(W).sum()


@pytest.mark.parametrize("loss", LOSSES)
def test_the_path_ends_near_the_minimum(loss):
    """The tolerance means an excess of 5e-5 where the curvature is known. Mutant: the solution one alpha before."""
    Z, signs = problem()
    m, t = Z.shape[1], signs.shape[1]

    def value(flat):
        point = flat.reshape(m + 1, t)
        scores = Z @ point[:-1] + point[-1]
        slopes = loss.slopes(scores, signs)
        gradient = np.vstack([Z.T @ slopes + alpha * point[:-1], slopes.sum(axis=0)])
        return objective(loss, Z, signs, alpha, point[:-1], point[-1]), gradient.ravel()

    alphas = (3.0, 1.0, 0.3, 0.1)
    found = path(loss, Z, signs)
    *_, before, solution = [found.solve(alpha) for alpha in alphas]
    alpha = alphas[-1]
    least = minimize(value, np.zeros((m + 1) * t), jac=True, method="L-BFGS-B", options={"maxiter": 500}).fun
    assert objective(loss, Z, signs, alpha, solution.coef, solution.intercept) <= least * (1 + 1e-3)
    assert objective(loss, Z, signs, alpha, before.coef, before.intercept) > least * (1 + 3e-2)


class _Halting(Path):
    """A mutant that begins where the last solution is."""

    def _extrapolated(self, alpha):
        return (self._last[-1].coef, self._last[-1].intercept) if self._last else None


def test_lines_save_passes():
    """Mutant: the last solution as it is. The squared hinge has another Hessian at every alpha, and gains little."""
    Z, signs = problem()
    alphas = 10.0 ** -np.arange(0, 3.5, 0.5)

    def passes(kind):
        found = path(Logistic(), Z, signs, kind)
        return sum(found.solve(alpha).n_passes for alpha in alphas)

    assert passes(Path) < 0.9 * passes(_Halting)
