"""The protocol of solvers: weights, sums formed elsewhere, and what the driver gives back."""

from __future__ import annotations

import numpy as np
import pytest

from phimap.learn.blocks.blocks import feature_block
from phimap.learn.losses.losses import Logistic, SquaredHinge
from phimap.learn.losses.preparation import FactorPreconditioner
from phimap.learn.losses.quasi_newton import QuasiNewton
from phimap.learn.ridge.conjugate_gradients import ConjugateGradients
from phimap.learn.ridge.statistics import RidgeStatistics
from phimap.learn.solver import least, solve

N, M = 300, 40
EPS = float(np.finfo(np.float64).eps)


def rows(signs=False):
    rng = np.random.default_rng(5)
    Z = rng.standard_normal((N, M)) * np.geomspace(1, 1e-2, M) + 0.3
    Y = Z @ rng.standard_normal((M, 2)) + 0.3 * rng.standard_normal((N, 2))
    return Z, np.where(Y[:, :1] > np.median(Y[:, :1]), 1.0, -1.0) if signs else Y, rng.integers(0, 4, size=N)


def solvers(Z, signs):
    """Solvers by name; those of losses with the preconditioner of unweighted rows."""
    if not signs:
        return {"cg": lambda: ConjugateGradients(0.7, tolerance=1e-13, rank=10)}
    statistics = RidgeStatistics.empty(M, 1)
    statistics.update(Z, np.zeros((len(Z), 1)))
    factor = FactorPreconditioner(statistics.centred_gram(), EPS, None)
    mean = Z.mean(axis=0)
    return {
        loss.__class__.__name__: lambda loss=loss: QuasiNewton(
            loss, 0.7, factor.solve, mean, tolerance=1e-7, passes=300
        )
        for loss in (Logistic(), SquaredHinge())
    }


@pytest.mark.parametrize("signs", [False, True])
def test_weights_are_repeated_rows(signs):
    Z, Y, counts = rows(signs)
    index = np.repeat(np.arange(N), counts)
    for make in solvers(Z, signs).values():
        weighted = solve(make(), [(feature_block(Z), Y, counts.astype(float))], M, Y.shape[1], EPS)
        repeated = solve(make(), [(feature_block(Z[index]), Y[index], np.ones(len(index)))], M, Y.shape[1], EPS)
        assert weighted.status == repeated.status == "solved"
        np.testing.assert_allclose(weighted.coef, repeated.coef, atol=1e-6)
        np.testing.assert_allclose(weighted.intercept, repeated.intercept, atol=1e-6)
        # They matter.
        plain = solve(make(), [(feature_block(Z), Y, np.ones(N))], M, Y.shape[1], EPS)
        assert np.abs(plain.coef - weighted.coef).max() > 1e-3


class Elsewhere:
    """Blocks whose sums are formed one by one, and then merged."""

    def __init__(self, parts):
        self._parts = parts

    def accumulate(self, start):
        sums = []
        for first_row, part in enumerate(self._parts):
            sums.append(start(first_row))
            sums[-1].update(*part)
        for later in sums[1:]:
            sums[0].merge(later)
        return sums[0]


@pytest.mark.parametrize("signs", [False, True])
def test_sums_formed_elsewhere_are_merged(signs):
    Z, Y, counts = rows(signs)
    parts = [(feature_block(Z[part]), Y[part], counts[part] + 0.5) for part in (slice(0, 110), slice(110, N))]
    for make in solvers(Z, signs).values():
        expected = solve(make(), parts, M, Y.shape[1], EPS)
        found = solve(make(), Elsewhere(parts), M, Y.shape[1], EPS)
        np.testing.assert_allclose(found.coef, expected.coef, atol=1e-10)


def test_objective_is_least_at_the_solution():
    Z, Y, counts = rows(signs=True)
    for name, make in solvers(Z, True).items():
        loss = Logistic() if name == "Logistic" else SquaredHinge()
        found = solve(make(), [(feature_block(Z), Y, counts.astype(float))], M, 1, EPS)

        def objective(W, c, loss=loss):
            return counts @ loss.values(Z @ W + c, Y) + 0.35 * np.square(W).sum()

        least = objective(found.coef, found.intercept)
        rng = np.random.default_rng(0)
        for _ in range(20):
            W = found.coef + 1e-3 * rng.standard_normal((M, 1))
            assert objective(W, found.intercept + 1e-3 * rng.standard_normal()) > least


def test_empty_streams_are_told():
    with pytest.raises(ValueError, match="empty"):
        solve(ConjugateGradients(1.0), [], M, 1, EPS)


def test_least_lies_between_the_neighbours():
    alphas = np.array([1e-2, 1e-1, 1.0, 10.0])
    assert least(alphas, np.square(np.log10(alphas) + 0.3)) == pytest.approx(10**-0.3, rel=1e-2)
    # Scores near the ends of float64 overflow nothing.
    assert least(alphas, 1e300 * np.square(np.log10(alphas) + 0.3)) == pytest.approx(10**-0.3, rel=1e-2)
    assert least(alphas, np.array([1.0, 2.0, 3.0, 4.0])) == 1e-2
    assert least(alphas, np.array([2.0, 1.0, np.inf, np.inf])) == 1e-1
