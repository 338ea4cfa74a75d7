"""Blocks drawn alone, the preconditioner and one step against dense formulas, and the hinge."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from phimap.kernels import Gaussian, Laplacian, Matern
from phimap.learn.doubly_stochastic import model as model_module
from phimap.learn.doubly_stochastic.model import (
    LOSSES,
    BlockedMap,
    BlockProblem,
    SamplePreconditioner,
    in_order_of_stream,
    in_random_order,
)
from phimap.ops import host

SEED = np.random.SeedSequence(5, spawn_key=(1,))


@pytest.fixture(autouse=True)
def narrow(monkeypatch):
    """Blocks of 32 features, so that there are several."""
    monkeypatch.setattr(model_module, "WIDTH", 32)


def dense(blocks: BlockedMap, X: np.ndarray) -> np.ndarray:
    """All features side by side."""
    return np.hstack([Z for _, (Z,) in blocks.features(host(X.dtype), (X,), 1)])


@pytest.mark.parametrize("kernel", [Gaussian(2.0), Matern(1.5, 3.0), Laplacian(6.0)])
def test_blocks_together_estimate_the_kernel(kernel):
    """Independent directions of 8,000: five standard errors of an entry, a false-alarm rate below 1e-4 over 190.

    Mutant: blocks that are all the same one.
    """
    X = np.random.default_rng(0).standard_normal((20, 3))
    blocks = BlockedMap.of(kernel, 3, 16000, "gaussian", SEED)
    exact = kernel(X)
    assert np.abs(dense(blocks, X) @ dense(blocks, X).T - exact).max() < 5 / np.sqrt(8000)
    first = next(iter(blocks.features(host(), (X,), 1)))[1][0] * np.sqrt(16000 / 32)
    assert np.abs(first @ first.T - exact).max() > 5 / np.sqrt(8000)


def test_a_block_is_drawn_alone_and_the_widths_add_up():
    blocks = BlockedMap.of(Gaussian(), 4, 75, "auto", SEED)
    assert blocks.projection == "orthogonal"
    assert BlockedMap.of(Laplacian(), 4, 75, "auto", SEED).projection == "gaussian"
    assert [part.stop - part.start for part in blocks.columns] == [32, 32, 11]
    wider = replace(blocks, n_components=200)
    directions = [one.record(1).projection.matrix for one in (blocks, wider)]
    assert_array_equal(*directions)
    assert (blocks.record(0).projection.matrix != directions[0]).any()
    X = np.random.default_rng(0).standard_normal((5, 4))
    assert_allclose(np.square(dense(blocks, X)[:, :64]).sum(axis=1), 64 / 75, rtol=1e-12)


def test_preconditioner_is_the_inverse_of_the_sample(monkeypatch):
    """Against the dense inverse in feature space, intercept included; mutant: without the intercept's column."""
    X = np.random.default_rng(0).standard_normal((60, 4))
    blocks = BlockedMap.of(Gaussian(2.0), 4, 100, "auto", SEED)
    found = SamplePreconditioner.of_sample(blocks, X, 1e-3, np.random.default_rng(1), 1)
    assert found.rows.shape == (40, 4)
    assert found.level >= 1e-3
    Z = np.hstack([dense(blocks, found.rows), np.ones((40, 1))])
    vector = np.random.default_rng(2).standard_normal((101, 2))
    applied = vector - Z.T @ found.solve(Z @ vector)
    oracle = found.level * np.linalg.solve(Z.T @ Z / 40 + found.level * np.eye(101), vector)
    assert_allclose(applied, oracle, atol=1e-9)
    without = Z[:, :-1]
    mutant = vector[:-1] - without.T @ found.solve(without @ vector[:-1])
    assert np.abs(mutant - oracle[:-1]).max() > 1e-3


def test_the_level_is_the_least_that_other_rows_allow():
    X = np.random.default_rng(0).standard_normal((300, 3))
    blocks = BlockedMap.of(Gaussian(0.5), 3, 128, "auto", SEED)
    found = SamplePreconditioner.of_sample(blocks, X, 1e-9, np.random.default_rng(1), 1)

    def norm(level: float) -> float:
        Z, validation = (np.hstack([dense(blocks, part), np.ones((len(part), 1))]) for part in (X[:200], X[200:]))
        inverse = np.linalg.inv(Z.T @ Z / 200 + level * np.eye(129))
        return float(np.linalg.eigvals(inverse @ (validation.T @ validation / 100)).real.max())

    assert norm(found.level) < 1.05 * 30
    assert found.level <= 2e-9 or norm(found.level / 10**0.5) > 0.8 * 30


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("n_targets", [1, 3])
def test_a_step_is_that_of_the_dense_formula(loss, n_targets):
    """The gradient by finite differences, the preconditioned direction and the least of the parabola."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 4))
    blocks = BlockedMap.of(Gaussian(2.0), 4, 75, "auto", SEED)
    targets = np.where(rng.random((40, n_targets)) < 0.4, 1.0, -1.0)
    if n_targets > 1:
        targets = np.where(np.arange(3) == rng.integers(3, size=40)[:, None], 1.0, -1.0)
    weights = rng.random(40) + 0.5
    coef, intercept = 0.3 * rng.standard_normal((75, n_targets)), 0.1 * rng.standard_normal(n_targets)
    preconditioner = SamplePreconditioner.of_sample(blocks, X[:30], 0.01, rng, 1)
    penalty, damping = 0.02, 0.7
    Z = np.hstack([dense(blocks, X), np.ones((40, 1))])
    whole = np.vstack([coef, intercept])
    function, bound = LOSSES[loss]

    def objective(flat: np.ndarray) -> float:
        parameters = flat.reshape(whole.shape)
        values = function.values(Z @ parameters, targets)
        return float((weights * values).mean() + penalty / 2 * np.square(parameters[:-1]).sum())

    unit = np.eye(whole.size)
    slopes = [(objective(whole.ravel() + 1e-6 * e) - objective(whole.ravel() - 1e-6 * e)) / 2e-6 for e in unit]
    gradient = np.array(slopes).reshape(whole.shape)
    S = np.hstack([dense(blocks, preconditioner.rows), np.ones((20, 1))])
    level = preconditioner.level
    direction = level * np.linalg.solve(S.T @ S / 20 + level * np.eye(76), gradient)
    curvature = bound * (weights[:, None] * np.square(Z @ direction)).mean(axis=0)
    curvature += penalty * np.square(direction[:-1]).sum(axis=0)
    expected = whole - damping * (gradient * direction).sum(axis=0) / curvature * direction
    before = objective(whole.ravel())
    problem = BlockProblem(blocks, loss, 1, penalty, preconditioner)
    found = problem.step(X, targets, weights, coef, intercept, damping)
    assert found == pytest.approx(before - penalty / 2 * np.square(whole[:-1]).sum(), rel=1e-12)
    assert_allclose(np.vstack([coef, intercept]), expected, atol=1e-6)
    assert objective(np.vstack([coef, intercept]).ravel()) < before


@pytest.mark.parametrize("loss", LOSSES)
def test_curvatures_stay_below_their_bounds(loss):
    """Hessians of the loss by finite differences of its slopes; a bound that is a fifth lower is rejected."""
    rng = np.random.default_rng(0)
    function, bound = LOSSES[loss]
    targets = np.where(np.arange(3) == rng.integers(3, size=2000)[:, None], 1.0, -1.0)
    scores = rng.standard_normal((2000, 3))
    hessians = np.stack(
        [
            (function.slopes(scores + 1e-6 * e, targets) - function.slopes(scores - 1e-6 * e, targets)) / 2e-6
            for e in np.eye(3)
        ],
        axis=1,
    )
    largest = np.linalg.eigvalsh((hessians + hessians.transpose(0, 2, 1)) / 2).max()
    assert largest <= bound * (1 + 1e-6)
    assert largest > 0.8 * bound


def test_every_row_comes_once_in_an_order_of_chance():
    X = np.arange(101.0)[:, None]
    epochs = []
    for seed in (0, 1):
        parts = list(in_random_order(X, X[:, 0], None, 20, np.random.default_rng(seed)))
        assert [len(part) for part, _, _ in parts] == [16, 17, 17, 17, 17, 17]
        epochs.append(np.concatenate([y for _, y, _ in parts]))
        assert_array_equal(np.sort(epochs[-1]), X[:, 0])
    assert (epochs[0] != epochs[1]).any()
    (single,) = in_random_order(X[:1], X[:1, 0], np.ones(1), 20, np.random.default_rng(0))
    assert single[0].shape == (1, 1)


@pytest.mark.parametrize("sizes", [[100], [7] * 15, [50, 3, 1, 40]])
def test_a_stream_is_cut_into_batches_of_about_one_size(sizes):
    starts = np.cumsum([0, *sizes])
    stream = [(np.arange(a, b)[:, None], np.arange(a, b), None) for a, b in pairwise(starts)]
    parts = list(in_order_of_stream(stream, 20))
    assert_array_equal(np.concatenate([y for _, y, _ in parts]), np.arange(starts[-1]))
    assert max(len(y) for _, y, _ in parts) <= 20
