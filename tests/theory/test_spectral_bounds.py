"""Spectral bounds on data meant to break them: low rank, clustered rows, small alpha; and the lemmas behind them.

A bound that fails with probability at most delta may fail on a few of many draws: failures are counted, with a
false-alarm rate, and a number that is too small by a stated factor is seen to fail on at least one of the sets.
"""

from __future__ import annotations

from math import log, pi, sqrt

import numpy as np
import pytest

import phimap as pm
from phimap.theory import required_features
from tests.support.statistics import fails_at_most

EPSILON, DELTA, DRAWS = 0.5, 0.1, 15
N = 12


def _half_circle(n):
    angle = np.linspace(0, pi, n)
    return np.stack([np.cos(angle), np.sin(angle)], axis=1)


def _clusters(n):
    # Three tight clusters, one of a single row: a feature is all or nothing on the others.
    rng = np.random.default_rng(0)
    centres = np.eye(4)[np.minimum(np.arange(n) // (n // 2), 2)]
    return _unit(centres + 0.01 * rng.standard_normal((n, 4)))


def _unit(X):
    return X / np.linalg.norm(X, axis=1, keepdims=True)


#: Rows of norm 1.
DATA = {
    "sphere": _unit(np.random.default_rng(1).standard_normal((N, 3))),
    "half circle": _half_circle(N),
    "clusters": _clusters(N + 1),
    "equal rows": np.tile([0.6, 0.8], (N, 1)),
}
ALPHAS = (2.0, 0.2)


def steps(X, m, rng):
    return sqrt(2 / m) * (X @ rng.standard_normal((X.shape[1], m)) > 0)


def modified_relu(X, m, rng):
    # The modified law has uniform directions, and the features depend on directions alone.
    W = rng.standard_normal((X.shape[1], m))
    return sqrt(2 * X.shape[1] / m) * np.maximum(X @ (W / np.linalg.norm(W, axis=0)), 0)


def pairs(X, s, rng):
    # Length scale 1/2.
    projected = 2 * X @ rng.standard_normal((X.shape[1], s))
    return np.concatenate([np.cos(projected), np.sin(projected)], axis=1) / sqrt(s)


CASES = {
    "arccosine0-spectral": (steps, pm.kernels.ArcCosine(order=0)),
    "arccosine1-spectral": (modified_relu, pm.kernels.ArcCosine(order=1)),
    "fourier-spectral": (pairs, pm.kernels.Gaussian(length_scale=0.5)),
}


def deviation(A, K, alpha):
    """The least epsilon of the guarantee: largest ``|eigenvalue - 1|`` of A + alpha against K + alpha."""
    values, vectors = np.linalg.eigh(K)
    root = vectors / np.sqrt(np.maximum(values, 0) + alpha)
    return np.abs(np.linalg.eigvalsh(root.T @ (A - K) @ root)).max()


def estimate(features, X, m, seed):
    """``Z Z^T`` in pieces of bounded size."""
    rng = np.random.default_rng(seed)
    total, done = np.zeros((len(X), len(X))), 0
    while done < m:
        piece = min(m - done, 100_000)
        Z = features(X, piece, rng) * sqrt(piece / m)
        total += Z @ Z.T
        done += piece
    return total


def arguments(name, X, alpha):
    _, kernel = CASES[name]
    given = {"epsilon": EPSILON, "delta": DELTA, "alpha": alpha}
    given["statistical_dimension"] = pm.metrics.statistical_dimension(kernel(X), alpha)
    if name == "arccosine1-spectral":
        return given | {"d": X.shape[1], "operator_norm": float(np.linalg.norm(X, 2))}
    return given | {"n": len(X)}


def failures(name, X, alpha, m):
    features, kernel = CASES[name]
    K = kernel(X)
    return [deviation(estimate(features, X, m, seed), K, alpha) > EPSILON for seed in range(DRAWS)]


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("name", CASES)
def test_bound_holds_on_data_meant_to_break_it(name, data):
    X = DATA[data]
    for alpha in ALPHAS:
        m = required_features(name, **arguments(name, X, alpha)).value
        assert fails_at_most(failures(name, X, alpha, m), DELTA)


@pytest.mark.parametrize("name", CASES)
def test_far_fewer_features_fail_on_some_set(name):
    def smaller_holds(X):
        m = required_features(name, **arguments(name, X, ALPHAS[0])).value
        return fails_at_most(failures(name, X, ALPHAS[0], m // 300), DELTA)

    assert not all(smaller_holds(X) for X in DATA.values())


@pytest.mark.parametrize("data", DATA)
def test_leverage_sampling_needs_the_statistical_dimension_alone(data):
    # A kernel of 4,000 directions, whose leverage function is computed exactly. One of them dominates, and uniform
    # draws miss it.
    X, alpha, pool = DATA[data], 0.02, 4000
    Z = steps(X, pool, np.random.default_rng(5))
    Z[:, 0] = sqrt(1e5 / pool)
    K = Z @ Z.T
    leverage = np.einsum("im,im->m", Z, np.linalg.solve(K + alpha * np.eye(len(X)), Z))
    dimension = pm.metrics.statistical_dimension(K, alpha)
    assert leverage.sum() == pytest.approx(dimension)
    given = {"epsilon": EPSILON, "delta": DELTA, "statistical_dimension": dimension}
    m = required_features("leverage-spectral", **given).value

    def misses(law, width):
        found = []
        for seed in range(DRAWS):
            drawn = np.random.default_rng(seed).choice(pool, size=width, p=law)
            F = Z[:, drawn] / np.sqrt(width * law[drawn])
            found.append(deviation(F @ F.T, K, alpha) > EPSILON)
        return found

    assert fails_at_most(misses(leverage / leverage.sum(), m), DELTA)
    assert not fails_at_most(misses(np.full(pool, 1 / pool), m), DELTA)
    # Of equal rows, one draw by leverage gives the whole matrix.
    assert fails_at_most(misses(leverage / leverage.sum(), max(1, m // 100)), DELTA) is (data == "equal rows")


def test_leverage_integrates_to_what_the_proofs_say():
    # The largest 2 |Step(X w)|^2 and 2 |ReLU(X w)|^2 / |w|^2 are 2 n and 2 |X|^2 where the rows are equal: the
    # constant of the proofs, twice the printed one, is the least that their way of bounding gives.
    X = DATA["equal rows"]
    W = np.random.default_rng(0).standard_normal((2, 10_000))
    assert 2 * (X @ W > 0).sum(axis=0).max() == 2 * N
    relu = 2 * np.square(np.maximum(X @ W, 0)).sum(axis=0) / np.square(W).sum(axis=0)
    assert 1.999 < relu.max() / np.linalg.norm(X, 2) ** 2 <= 2


def test_branch_of_the_rank_is_false():
    # Zandieh et al., Theorem 7: m = 8/3 d rank^2 / epsilon^2 log(16 s / delta) on a half circle, where alpha is small.
    X, alpha = _half_circle(300), 2.5e-5
    K = pm.kernels.ArcCosine(order=1)(X)
    dimension = pm.metrics.statistical_dimension(K, alpha)
    m = int(8 / 3 * 2 * 2**2 / EPSILON**2 * log(16 * dimension / DELTA))
    failed = [deviation(estimate(modified_relu, X, m, seed), K, alpha) > EPSILON for seed in range(DRAWS)]
    assert not fails_at_most(failed, DELTA)


def sketched_products(X, Y, m, rng):
    """CountSketches of the products x (x) y, in ``m`` components: the published map, by circular convolution."""

    def transform(A):
        sketch = np.zeros((len(A), m))
        np.add.at(sketch.T, rng.integers(m, size=A.shape[1]), (A * rng.choice([-1.0, 1.0], size=A.shape[1])).T)
        return np.fft.rfft(sketch)

    return np.fft.irfft(transform(X) * transform(Y), n=m)


@pytest.mark.parametrize("data", ["basis", "flat", "aligned"])
def test_sketch_of_products_errs_within_lemma_3(data):
    d = 8
    x = {"basis": np.eye(d)[0], "flat": np.full(d, d**-0.5), "aligned": np.eye(d)[:2].sum(axis=0) / sqrt(2)}[data]
    m = required_features("tensor-countsketch", epsilon=EPSILON, delta=DELTA).value

    def misses(width, draws=200):
        found = []
        for seed in range(draws):
            (z,) = sketched_products(x[None], x[None], width, np.random.default_rng(seed))
            found.append(abs(z @ z - 1) > EPSILON)
        return found

    assert fails_at_most(misses(m), DELTA)
    # One product of basis vectors is sketched without error; others need more than a hundredth.
    assert fails_at_most(misses(m // 100), DELTA) is (data == "basis")


@pytest.mark.parametrize("data", DATA)
def test_sketch_of_products_is_spectral_within_lemma_4(data):
    # In general position of 64 columns: of few columns no two products collide, and no draw could miss.
    rotation = np.linalg.qr(np.random.default_rng(0).standard_normal((64, 64)))[0]
    X = DATA[data][::2] @ rotation[: DATA[data].shape[1]]
    K, alpha = np.square(X @ X.T), 0.5
    given = {"epsilon": EPSILON, "delta": DELTA}
    dimension = pm.metrics.statistical_dimension(K, alpha)
    limit = required_features("dimension-by-trace", n=len(X), alpha=alpha, trace=float(np.trace(K))).value
    by_proof = required_features("tensor-countsketch-spectral", **given, statistical_dimension=dimension).value
    by_trace = required_features("tensor-countsketch-trace", **given, n=len(X), alpha=alpha, trace=np.trace(K)).value
    assert dimension <= limit
    assert by_proof <= by_trace

    def misses(width):
        sketches = (sketched_products(X, X, width, np.random.default_rng(seed)) for seed in range(DRAWS))
        return [deviation(Z @ Z.T, K, alpha) > EPSILON for Z in sketches]

    assert fails_at_most(misses(by_proof), DELTA)
    assert not fails_at_most(misses(max(1, by_proof // 500)), DELTA)


@pytest.mark.parametrize("data", ["half circle", "clusters"])
def test_neural_tangent_bound_holds(data):
    X, alpha = DATA[data][::3], 2.5
    K0, K1 = pm.kernels.ArcCosine(order=0)(X), pm.kernels.ArcCosine(order=1)(X)
    K = K1 + K0 * (X @ X.T)
    given = {"n": len(X), "d": X.shape[1], "operator_norm": float(np.linalg.norm(X, 2))}
    given["statistical_dimension"] = max(pm.metrics.statistical_dimension(A, alpha) for A in (K0, K1))
    assert alpha <= 2 * min(np.linalg.norm(K0, 2), np.linalg.norm(K1, 2))
    widths = required_features("ntk-countsketch-spectral", epsilon=EPSILON, delta=DELTA, alpha=alpha, **given).widths

    def misses(share, draws):
        step, relu, sketch = (max(1, int(share * widths[part])) for part in ("step", "relu", "sketch"))
        found = []
        for seed in range(draws):
            rng = np.random.default_rng(seed)
            Z1 = modified_relu(X, relu, rng)
            Z0 = sketched_products(steps(X, step, rng), X, sketch, rng)
            found.append(deviation(Z1 @ Z1.T + Z0 @ Z0.T, K, alpha) > EPSILON)
        return found

    assert fails_at_most(misses(1.0, DRAWS), DELTA)
    assert not fails_at_most(misses(0.0001, DRAWS), DELTA)


@pytest.mark.parametrize("order", [0, 1])
def test_taylor_polynomials_err_within_lemma_3(order):
    # The terms of kappa0 are c_i / (2 i + 1), those of its integral kappa1 c_i / ((2 i + 1)(2 i + 2)); both
    # remainders are largest at 1.
    i = np.arange(100_000)
    c = np.cumprod(np.concatenate([[1.0], (2 * i[1:] - 1) / (2 * i[1:])])) / pi
    terms = c / (2 * i + 1) if order == 0 else c / ((2 * i + 1) * (2 * i + 2))
    rest = 1 / 2 if order == 0 else 1 / 2 - 1 / pi
    for epsilon in (0.1, 0.03, 0.01, 0.003, 1e-3):
        p = required_features(f"taylor-arccosine{order}", epsilon=epsilon).value
        if p < len(i):
            assert rest - terms[: p + 1].sum() <= epsilon
    # Close to the truth for small epsilon: with two thirds of the terms the error is larger.
    epsilon = 0.003 if order == 0 else 1e-5
    p = required_features(f"taylor-arccosine{order}", epsilon=epsilon).value
    assert rest - terms[: 2 * p // 3 + 1].sum() > epsilon
