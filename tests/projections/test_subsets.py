"""Directions of few entries: how evenly they use the columns, what they err, and how they multiply."""

from __future__ import annotations

from itertools import combinations
from math import comb

import numpy as np
import pytest
from scipy import sparse

import phimap as pm
from phimap.kernels import Additive, Cauchy, Gaussian, Laplacian, Matern
from phimap.ops import host, ops_for
from phimap.ops.primitives.sparse_product import sparse_product
from phimap.projections import REGISTRY, MinimumEnergy, QuasiMonteCarlo
from phimap.projections.dense import DenseRecord
from phimap.projections.subsets import SubsetRecord
from tests.support.statistics import is_at_most, is_mean, is_slope

SPREAD = ["orthogonal", "qmc", "minimum-energy"]
every_spread = pytest.mark.parametrize("name", SPREAD)


#: Where real tables are.
FILES = {"elevators": "uci_regression", "parkinsons": "uci_regression", "cpu_act": "regression_extra"}


def draw(name, kernel, d, s, rng):
    # A few steps of the descent tell what thirty do, in a tenth of the time.
    projection = MinimumEnergy(iterations=3) if name == "minimum-energy" else REGISTRY[name]()
    return projection.sample(kernel.spectral_law(d), s, rng)


def counts(W, order):
    """How many of the directions (s, d) each subset has, and each column."""
    index = {subset: i for i, subset in enumerate(combinations(range(W.shape[1]), order))}
    used = np.zeros(len(index), int)
    for row in W:
        used[index[tuple(np.flatnonzero(row).tolist())]] += 1
    return used, (W != 0).sum(axis=0)


@every_spread
@pytest.mark.parametrize(("d", "order", "s"), [(7, 1, 40), (7, 2, 13), (7, 2, 75), (6, 3, 33), (5, 4, 64)])
def test_subsets_and_columns_are_used_equally_often(name, d, order, s, rng):
    """All directions, and the first of them, to which a map may be cut; mutant: independent subsets."""
    W = draw(name, Additive(Gaussian(), order), d, s, rng).to_dense()
    for rows in (s, s // 2):
        subsets, columns = counts(W[:rows], order)
        assert np.ptp(subsets) <= 1
        assert np.ptp(columns) <= order
    if s > 2 * comb(d, order):
        independent = draw("gaussian", Additive(Gaussian(), order), d, s, rng).to_dense()
        assert np.ptp(counts(independent, order)[0]) > 1


@every_spread
@pytest.mark.parametrize("projection", [0, 5])
def test_each_direction_follows_the_law(name, projection, seed):
    """One direction of many draws, false-alarm rate 1e-6; mutant: a width wrong by a factor of two.

    With 45 directions of ten subsets the blocks of `MinimumEnergy` are designed, and the last ones cut.
    """
    kernel, delta = Additive(Matern(nu=1.5, length_scale=0.8), 2), np.array([0.6, -0.8, 0.3, 1.0, 0.2])
    draws = [draw(name, kernel, 5, 45, rng).to_dense() for rng in np.random.default_rng(seed).spawn(120)]
    kernels = (Additive(Matern(nu=1.5, length_scale=scale), 2) for scale in (0.8, 1.5))
    exact, wrong = (one(delta[None], np.zeros((1, 5))) for one in kernels)
    means = np.array([np.cos(W @ delta).mean() for W in draws])
    assert is_mean(means, exact[0, 0])
    assert not is_mean(means, wrong[0, 0])
    assert is_mean(np.array([np.cos(W[projection] @ delta) for W in draws]), exact[0, 0])


def squared_errors(name, kernel, delta, s, seed, n_draws=600):
    exact = kernel(delta[None], np.zeros((1, delta.size)))[0, 0]
    records = (draw(name, kernel, delta.size, s, rng) for rng in np.random.default_rng(seed).spawn(n_draws))
    return np.array([(np.cos(record.to_dense() @ delta).mean() - exact) ** 2 for record in records])


def independent_variance(kernel, delta, s):
    zero = np.zeros((1, delta.size))
    once, twice = kernel(delta[None], zero)[0, 0], kernel(2 * delta[None], zero)[0, 0]
    return ((1 + twice) / 2 - once**2) / s


@pytest.mark.parametrize(
    ("name", "kernel", "share"),
    [
        ("minimum-energy", Additive(Gaussian(), 1), 0.05),
        ("minimum-energy", Additive(Gaussian(), 2), 0.4),
        ("qmc", Additive(Gaussian(), 2), 0.5),
        ("qmc", Additive(Laplacian(), 1), 0.5),
    ],
)
def test_spread_directions_err_less(name, kernel, share, seed):
    """A share of the variance of independent directions, false-alarm rate 1e-6; mutant: those themselves."""
    delta, s = np.array([0.1, 2.0, -0.6, 1.5, 0.9, -3.0]), 96
    bound = share * independent_variance(kernel, delta, s)
    assert is_at_most(squared_errors(name, kernel, delta, s, seed, 100 if name == "minimum-energy" else 600), bound)
    assert not is_at_most(squared_errors("gaussian", kernel, delta, s, seed), bound)


@every_spread
def test_no_spread_directions_err_more(name, seed):
    """Where most subsets have no direction, false-alarm rate 1e-6; mutant: a quarter as many directions."""
    kernel, delta, s = Additive(Gaussian(), 3), np.linspace(-2.0, 2.5, 9), 48
    bound = independent_variance(kernel, delta, s)
    assert is_at_most(squared_errors(name, kernel, delta, s, seed, 150), bound)
    assert not is_at_most(squared_errors(name, kernel, delta, s // 4, seed, 150), bound)


def test_independent_directions_err_at_the_monte_carlo_rate(seed):
    """Slope and level, false-alarm rate 1e-6 each; mutant: the level of twice as many directions."""
    kernel, delta = Additive(Cauchy(), 3), np.linspace(-1.0, 2.0, 8)
    sizes = np.array([16, 32, 64, 128, 256])
    means = [squared_errors("gaussian", kernel, delta, s, seed + i).mean() for i, s in enumerate(sizes)]
    assert is_slope(np.log(sizes), np.log(means), -1.0)
    squares = squared_errors("gaussian", kernel, delta, 64, seed, 2000)
    assert is_mean(squares, independent_variance(kernel, delta, 64))
    assert not is_mean(squares, independent_variance(kernel, delta, 128))


def test_few_directions_of_many_subsets_are_sobol_points(rng):
    kernel = Additive(Gaussian(), 3)
    few, many = (kernel.spectral_law(d) for d in (20, 6))
    for law, s in ((few, 200), (many, 59)):
        found = (one().sample(law, s, np.random.default_rng(1)) for one in (MinimumEnergy, QuasiMonteCarlo))
        designed, points = (record.to_dense() for record in found)
        np.testing.assert_array_equal(designed, points)


@pytest.mark.parametrize(("d", "order"), [(17, 1), (100, 2), (500, 3), (100, 5)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_record_multiplies_like_its_matrix(d, order, dtype, rng):
    record = draw("qmc", Additive(Gaussian(2.0), order), d, 1500, rng)
    assert isinstance(record, SubsetRecord)
    assert record.n_flops == 2 * 1500 * order
    assert record.n_bytes == 16 * 1500 * order
    W = record.to_dense()
    assert ((W != 0).sum(axis=1) == order).all()
    X = rng.standard_normal((9, d)).astype(dtype)
    X[abs(X) < 0.5] = 0
    for rows in (X, sparse.csr_array(X)):
        found = record.bind(ops_for(rows)).apply(ops_for(rows), rows)
        assert found.dtype == dtype
        np.testing.assert_allclose(found, X @ W.T, atol=8 * order * np.finfo(dtype).eps)


def test_narrow_inputs_store_their_zeros(rng):
    assert isinstance(draw("qmc", Additive(Gaussian(), 2), 32, 9, rng), DenseRecord)


@pytest.mark.parametrize("damage", [-1, 100])
def test_damaged_columns_are_refused(damage):
    ops = host()
    with pytest.raises(ValueError, match="`columns` must hold columns of `X`"):
        sparse_product(ops, np.ones((2, 100)), np.array([[3, damage]]), np.ones((1, 2)))


@pytest.mark.parametrize("d", [6, 200])
@pytest.mark.parametrize("kernel", [Additive(Gaussian(2.0), 2), Additive(Cauchy(2.0), 3)], ids=repr)
def test_threads_change_no_bit(kernel, d, rng):
    X = rng.standard_normal((700, d)).astype(np.float32)
    one, two = (pm.FourierFeatures(kernel, 600, random_state=3, n_jobs=jobs).fit_transform(X) for jobs in (1, 2))
    np.testing.assert_array_equal(one, two)
    assert one.dtype == np.float32
    double = pm.FourierFeatures(kernel, 600, random_state=3).fit_transform(X.astype(np.float64))
    np.testing.assert_allclose(one, double, atol=1e-5)


def test_a_map_cut_to_fewer_features_still_estimates_the_kernel(rng):
    """Learners cut maps; mutant: directions in the order of their subsets, of which the first half misses many."""
    X, kernel, s = rng.standard_normal((40, 8)), Additive(Gaussian(), 2), 224
    K = kernel(X)
    squares = []
    for seed in range(4):
        record = pm.FourierFeatures(kernel, 4 * s, random_state=seed).fit(X).record_
        columns, factor = record.truncated(2 * s)
        whole = np.empty((40, 4 * s))
        record.apply(host(), X, whole)
        W = record.projection.to_dense()
        P = X @ W[np.lexsort((W != 0).T)][:s].T
        ways = factor * whole[:, columns], np.hstack([np.cos(P), np.sin(P)]) / s**0.5
        squares.append([((Z @ Z.T - K) ** 2).mean() for Z in ways])
    independent = ((1 + kernel(2 * X)) / 2 - K**2).mean() / s
    cut, ordered = np.mean(squares, axis=0)
    assert cut < independent < 2 * ordered


@pytest.mark.parametrize("name", ["elevators", "parkinsons", "cpu_act"])
@pytest.mark.parametrize("order", [1, 2])
def test_auto_errs_less_on_real_rows(name, order, data_dir):
    """Mean square of four fixed seeds against the Monte-Carlo error of independent directions, worked out exactly."""
    with np.load(data_dir / f"{FILES[name]}.npz") as file:
        X = file[f"{name}_X"].astype(np.float64)
    X = X[np.random.default_rng(0).permutation(len(X))[:150]]
    X = X[:, X.std(axis=0) > 0]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    kernel = Additive(Gaussian(order**0.5), order)
    K, doubled = kernel(X), kernel(2 * X)
    independent = ((1 + doubled) / 2 - K**2).mean() / 512
    maps = (pm.FourierFeatures(kernel, 1024, random_state=seed).fit_transform(X) for seed in range(4))
    squares = np.mean([((Z @ Z.T - K) ** 2).mean() for Z in maps])
    assert squares < {1: 0.1, 2: 0.6}[order] * independent
