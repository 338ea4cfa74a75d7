"""Ridge regression in passes: its criterion, its choice of alpha and its solution, against slow oracles."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from phimap.learn.blocks.blocks import FeatureRows, feature_block
from phimap.learn.ridge import conjugate_gradients
from phimap.learn.ridge.alpha_in_passes import AlphaSearch, HeldOutErrorInPasses, ValidationFeatures
from phimap.learn.ridge.conjugate_gradient_steps import ConjugateGradientState
from phimap.learn.ridge.conjugate_gradients import ConjugateGradients
from phimap.learn.ridge.normal_equations import NormalEquations, NormalSums
from phimap.learn.ridge.nystroem_preconditioner import GramSketch, SketchRows, WoodburyPreconditioner
from phimap.learn.ridge.solve import solve_ridge
from phimap.learn.ridge.statistics import RidgeStatistics
from phimap.learn.solver import solve
from tests.support.memory import traced

N, M, R, K = 500, 120, 60, 20
EPS = float(np.finfo(np.float64).eps)
HELD_OUT, EXTREME = slice(0, R), slice(R, R + K)


def problem(seed: int = 0, dtype: type = np.float64):
    """Fourier features of nine inputs, two targets that they explain in part, and a few extreme rows, some alike."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, 9))
    X[EXTREME] *= 2
    # Some of the extreme rows are alike.
    X[R + 3 : R + K] = X[R + 2] + 0.3 * rng.standard_normal((K - 3, 9))
    Z = np.cos(X @ rng.standard_normal((9, M)) / 6 + rng.uniform(0, 6, M)) * np.sqrt(2 / M)
    Y = np.stack([np.sin(X[:, 0]) + X[:, 1], X[:, 2] ** 2], axis=1) + rng.standard_normal((N, 2))
    return Z.astype(dtype), Y, rng.integers(1, 4, N).astype(float)


def validation(Z, Y, weights=None, *, extreme=True):
    def rows(part):
        return FeatureRows(feature_block(Z[part]), Y[part], None if weights is None else weights[part])

    return ValidationFeatures(rows(HELD_OUT), rows(EXTREME) if extreme else None)


def stream(Z, Y, weights=None):
    counted = np.ones(len(Y)) if weights is None else weights
    return [
        (feature_block(Z[part]), Y[part], counted[part]) for part in (slice(0, 130), slice(130, 400), slice(400, None))
    ]


def brute_score(Z, Y, weights, alpha, *, leave_one_out=True):
    """The score, with a fit for each extreme row; in a mutant the fit without all of them."""
    w = np.ones(len(Y)) if weights is None else weights

    def squares(kept, tested):
        fitted = Ridge(alpha=alpha, solver="cholesky").fit(Z[kept], Y[kept], sample_weight=w[kept])
        return w[tested] * np.square(fitted.predict(Z[tested]) - Y[tested]).sum(axis=1)

    rest, every = np.arange(R, len(Y)), np.arange(len(Y))
    far = 0.0
    for i in range(R, R + K):
        far += squares(rest[rest != i] if leave_one_out else np.arange(R + K, len(Y)), [i])[0]
    near = squares(rest, every[HELD_OUT]).sum() / w[HELD_OUT].sum()
    return ((w.sum() - w[EXTREME].sum()) * near + far) / w.sum()


def errors_without(Z, Y, weights, alpha, rank):
    """The score of the exact solutions without the validation rows, with a preconditioner of some rank."""
    counted = np.ones(len(Y)) if weights is None else weights
    rows, block = validation(Z, Y, weights), feature_block(Z)
    system = NormalEquations(NormalSums.of(block, Y, counted, 1), 1)
    systems = rows.systems(system)
    sketch = GramSketch(M, rank, np.random.default_rng(0))
    sketch.add(block.cross_products(counted[:, None] * (Z @ sketch.test), 1)[0])
    added = (Z[EXTREME] - systems[1].sum_z / systems[1].weight) * np.sqrt(counted[EXTREME])[:, None]
    preconditioner = WoodburyPreconditioner(sketch.preconditioner(systems[1], EPS), added.T)
    solutions = [
        Ridge(alpha=alpha, solver="cholesky").fit(Z[first:], Y[first:], sample_weight=counted[first:]).coef_.T
        for first in (R, R + K)
    ]
    return HeldOutErrorInPasses(rows, systems, preconditioner, 1).scores([(alpha, solutions)])[0]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("alpha", [1e-4, 1e-2, 1.0])
def test_extreme_rows_are_scored_by_leave_one_out(alpha, weighted):
    """Mutant: the errors of the fit without all extreme rows."""
    Z, Y, weights = problem()
    weights = weights if weighted else None
    expected = brute_score(Z, Y, weights, alpha)
    assert errors_without(Z, Y, weights, alpha, M) == pytest.approx(expected, rel=1e-7)
    mutant = brute_score(Z, Y, weights, alpha, leave_one_out=False)
    assert abs(mutant - expected) > 0.005 * expected


def test_a_third_of_the_rank_moves_the_score_little():
    """Mutant: the errors of the fit without all extreme rows."""
    Z, Y, _ = problem()
    expected = brute_score(Z, Y, None, 1.0)
    assert errors_without(Z, Y, None, 1.0, 40) == pytest.approx(expected, rel=0.001)
    assert abs(brute_score(Z, Y, None, 1.0, leave_one_out=False) - expected) > 0.02 * expected


def test_rows_far_out_cost_no_steps():
    """The extended preconditioner serves the matrix with the added rows; mutant: the one without them."""
    rng = np.random.default_rng(0)
    Z, far = rng.standard_normal((200, 50)) * 0.7 ** np.arange(50), 10 * rng.standard_normal((50, 7))
    sketch = GramSketch(50, 15, np.random.default_rng(0))
    block, Y = feature_block(Z), np.zeros((200, 1))
    sketch.add(block.cross_products(Z @ sketch.test, 1)[0])
    system = NormalEquations(NormalSums.of(block, Y, np.ones(200), 1), 1)
    gram, preconditioner = np.cov(Z.T, bias=True) * 200, sketch.preconditioner(system, EPS)

    def condition(matrix, inverse):
        values = np.linalg.eigvals(inverse.solve(matrix + 0.1 * np.eye(50), 0.1)).real
        return values.max() / values.min()

    without, added = condition(gram, preconditioner), WoodburyPreconditioner(preconditioner, far)
    assert condition(gram + far @ far.T, added) < 1.01 * without
    assert condition(gram + far @ far.T, preconditioner) > 100 * without
    np.testing.assert_allclose(
        added.solve(far, 0.1), preconditioner.solve(far, 0.1) @ np.linalg.inv(added.middle(0.1)), rtol=1e-6, atol=1e-12
    )


@pytest.mark.parametrize("extreme", [False, True])
def test_alpha_is_that_of_a_factorisation(extreme):
    """Mutant: validation rows that are fitted as well."""
    Z, Y, _ = problem()
    # The held-out rows have other targets: were they fitted, the least alpha would win.
    Y[HELD_OUT] += np.random.default_rng(1).standard_normal((R, 2))
    rows = validation(Z, Y, extreme=extreme)
    statistics = RidgeStatistics.empty(M, 2)
    statistics.update(Z, Y)
    peer = solve_ridge(statistics, held_out=rows.random, extreme=rows.extreme)
    found = solve(ConjugateGradients(rows=lambda: rows, rank=80, most_rank=80), stream(Z, Y), M, 2, EPS)
    assert (found.status, found.criterion) == ("solved", "held-out")
    # The best of the alphas that were followed and its neighbours have settled.
    best = int(found.scores.argmin())
    settled = slice(best - 1, best + 2)
    expected = np.interp(np.log(found.alphas[settled]), np.log(peer.alphas), peer.scores)
    np.testing.assert_allclose(found.scores[settled], expected, rtol=1e-2)
    assert np.interp(np.log(found.alpha), np.log(peer.alphas), peer.scores) < 1.002 * peer.scores.min()
    fitted = Ridge(alpha=found.alpha).fit(Z, Y)
    np.testing.assert_allclose(found.coef, fitted.coef_.T, atol=1e-9)
    mutant = np.square(fitted.predict(Z[HELD_OUT]) - Y[HELD_OUT]).sum(axis=1).mean()
    assert mutant < 0.97 * found.scores.min()


def test_a_weak_sketch_finds_the_alpha_all_the_same(monkeypatch):
    """Ten directions of a slowly falling spectrum. Mutants: each alpha begins at zero; at most twelve passes."""
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((N, M)) * 0.96 ** np.arange(M)
    Y = Z @ rng.standard_normal((M, 1)) + 0.3 * rng.standard_normal((N, 1))
    rows = validation(Z, Y, extreme=False)
    statistics = RidgeStatistics.empty(M, 1)
    statistics.update(Z, Y)
    peer = solve_ridge(statistics, held_out=rows.random)

    def excess() -> float:
        """The score at the alpha that is found over the least of the curve of a factorisation."""
        found = solve(ConjugateGradients(rows=lambda: rows, rank=10, most_rank=10), stream(Z, Y), M, 1, EPS)
        return float(np.interp(np.log(found.alpha), np.log(peer.alphas), peer.scores) / peer.scores.min())

    assert excess() < 1.02

    new_states = AlphaSearch._new_states

    def from_zero(search: AlphaSearch, i: int) -> list[ConjugateGradientState]:
        states, search._states = search._states, {}
        try:
            return new_states(search, i)
        finally:
            search._states = states

    monkeypatch.setattr(AlphaSearch, "_new_states", from_zero)
    assert excess() > 1.2
    monkeypatch.setattr(conjugate_gradients, "_MOST_SEARCH_PASSES", 12)
    assert excess() > 2


def test_a_weak_sketch_grows():
    """A pass with further directions saves several; what is found is the same."""
    Z, Y, _ = problem()
    few, more = (
        solve(ConjugateGradients(1e-3, rank=60, most_rank=most), stream(Z, Y), M, 2, EPS) for most in (60, 120)
    )
    assert few.status == more.status == "solved"
    assert more.n_passes < 0.5 * few.n_passes
    np.testing.assert_allclose(more.coef, few.coef, atol=1e-6 * np.abs(few.coef).max())
    fitted = Ridge(alpha=1e-3, solver="svd").fit(Z, Y)
    np.testing.assert_allclose(more.coef, fitted.coef_.T, atol=1e-6 * np.abs(few.coef).max())


@pytest.mark.parametrize("rank", [1, 15, 60, M])
def test_a_sketch_that_grew_is_one_drawn_at_once(rank):
    Z, Y, _ = problem()
    block = feature_block(Z)
    system = NormalEquations(NormalSums.of(block, Y, np.ones(N), 1), 1)
    sketch = GramSketch(M, rank, np.random.default_rng(0))
    sketch.add(Z.T @ (Z @ sketch.test))
    if rank < M:
        sketch.add(Z.T @ (Z @ sketch.extend(M)))
    np.testing.assert_allclose(sketch.test.T @ sketch.test, np.eye(M), atol=1e-12)
    # All directions are the matrix itself.
    preconditioner = sketch.preconditioner(system, EPS)
    centred = Z - Z.mean(axis=0)
    V = np.random.default_rng(1).standard_normal((M, 3))
    expected = np.linalg.solve(centred.T @ centred + 0.1 * np.eye(M), V)
    np.testing.assert_allclose(preconditioner.solve(V, 0.1), expected, atol=1e-9 * np.abs(expected).max())


@pytest.mark.parametrize("passes", [4, 60])
def test_the_residual_is_that_of_the_system(passes):
    """Mutant: the residual of the recurrence, which rounding leaves behind."""
    Z, Y, _ = problem(dtype=np.float32)
    eps, tolerance, alpha = float(np.finfo(np.float32).eps), 1e-10, 1e-2
    solver = ConjugateGradients(alpha, rank=60, most_rank=60, passes=passes, tolerance=tolerance)
    found = solve(solver, stream(Z, Y), M, 2, eps)
    centred = Z - Z.mean(axis=0, dtype=np.float64)
    rhs = centred.T @ (Y - Y.mean(axis=0))
    residual = rhs - centred.T @ (centred @ found.coef) - alpha * found.coef
    assert found.residual == pytest.approx(np.linalg.norm(residual) / np.linalg.norm(rhs), rel=0.9)
    assert found.status == ("stopped" if passes == 4 else "solved")
    assert (found.n_passes == 4) == (passes == 4)
    if passes == 60:
        assert 10 * tolerance < found.residual < 1e-5
    np.testing.assert_allclose(found.intercept, (Y - Z @ found.coef).mean(axis=0), atol=1e-5)


def test_held_out_rows_must_be_given():
    Z, Y, _ = problem()
    with pytest.raises(ValueError, match=r"`rows` must give held-out rows .*got none"):
        solve(ConjugateGradients(), stream(Z, Y), M, 2, EPS)


def test_the_solver_holds_what_it_says():
    n, m = 100, 2000
    rng = np.random.default_rng(0)
    Z, Y = rng.standard_normal((n, m)), rng.standard_normal((n, 1))
    blocks = [(feature_block(Z[i : i + 20]), Y[i : i + 20], np.ones(20)) for i in range(0, n, 20)]
    rows = ValidationFeatures(FeatureRows(feature_block(Z[:20]), Y[:20]))
    solver = ConjugateGradients(rows=lambda: rows, rank=64, most_rank=128)
    peak = traced(lambda: solve(solver, blocks, m, 1, EPS)).peak
    # Beside the solver's arrays, the images of a block of rows.
    assert peak < 1.05 * solver.memory(n, m, 1) + 2**20


def sampled_rows(Z, Y, weights=None):
    """The validation rows, and all other rows as the sample."""

    def rows(index):
        return FeatureRows(feature_block(Z[index]), Y[index], None if weights is None else weights[index])

    return validation(Z, Y, weights)._replace(sample=rows(np.arange(R + K, N)))


@pytest.mark.parametrize("weighted", [False, True])
def test_sampled_rows_represent_all(weighted):
    """Weighted like all rows, with the extreme rows as they are; mutant: a sample without these."""
    Z, Y, weights = problem()
    weights = weights if weighted else None
    counted = np.ones(N) if weights is None else weights
    # The held-out rows equal rows of the sample.
    Z[HELD_OUT], Y[HELD_OUT], counted[HELD_OUT] = Z[R + K : 2 * R + K], Y[R + K : 2 * R + K], counted[R + K : 2 * R + K]
    rows, block = sampled_rows(Z, Y, weights), feature_block(Z)
    system = NormalEquations(NormalSums.of(block, Y, counted, 1), 1)
    estimate = SketchRows(rows.sample, rows.extreme, system, 1)
    V = np.random.default_rng(1).standard_normal((M, 4))
    near, far = np.arange(R + K, N), np.arange(N)[EXTREME]
    factor = (counted.sum() - counted[far].sum()) / counted[near].sum()
    w = np.zeros(N)
    w[near], w[far] = factor * counted[near], counted[far]
    np.testing.assert_allclose(estimate.image(V), (Z * w[:, None]).T @ Z @ V, rtol=1e-10)

    def centred_gram(w):
        D = Z - w @ Z / w.sum()
        return (D * w[:, None]).T @ D

    np.testing.assert_allclose(
        estimate.estimate(system).from_stream(estimate.image(V), V), centred_gram(w) @ V, atol=1e-8
    )
    without = w.copy()
    without[far] = 0
    found = estimate.estimate(rows.systems(system)[1]).from_stream(estimate.image(V), V)
    np.testing.assert_allclose(found, centred_gram(without) @ V, atol=1e-8)
    mutant = SketchRows(rows.sample, None, system, 1)
    assert np.abs(mutant.image(V) - estimate.image(V)).max() > 0.02 * np.abs(estimate.image(V)).max()


@pytest.mark.parametrize("alpha", ["auto", 1e-2])
def test_a_sketch_of_sampled_rows_gives_the_same_solution(alpha):
    """With some more steps; mutant: a preconditioner without the extreme rows takes far more."""
    Z, Y, _ = problem()
    far = np.arange(N)[EXTREME]
    Z[far] *= 30
    every, rows = validation(Z, Y), sampled_rows(Z, Y)
    if alpha != "auto":
        every, rows = every._replace(random=None), rows._replace(random=None)
    whole, sampled, mutant = (
        solve(
            ConjugateGradients(alpha, rows=lambda given=given: given, rank=80, **more),
            stream(Z, Y),
            M,
            2,
            EPS,
        )
        for given, more in (
            (every, {}),
            (rows, {"sampled": True}),
            (rows._replace(extreme=None), {"sampled": True}),
        )
    )
    assert whole.status == sampled.status == "solved"
    assert sampled.alpha == pytest.approx(whole.alpha, rel=0.05)
    expected = Ridge(alpha=sampled.alpha, solver="svd").fit(Z, Y).coef_.T
    np.testing.assert_allclose(sampled.coef, expected, atol=1e-8 * np.abs(expected).max())
    assert sampled.n_passes <= whole.n_passes + 10
    if alpha != "auto":
        assert mutant.n_passes > sampled.n_passes + 3


def test_a_sample_must_be_given():
    Z, Y, _ = problem()
    with pytest.raises(ValueError, match=r"`rows` must give a sample .*got none"):
        solve(ConjugateGradients(1.0, rows=lambda: validation(Z, Y), sampled=True), stream(Z, Y), M, 2, EPS)
