"""Weights of frequencies: each method against another way to its solution."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import lsq_linear, minimize

import phimap as pm
from phimap.features.data_dependent.alignment import aligned_weights
from phimap.features.data_dependent.kernel_weights import least_squares_weights, shrunk_weights
from phimap.features.data_dependent.targets import target_columns

KERNEL = pm.kernels.Gaussian(length_scale=1.5)
WITH_TARGETS = ("polarization", "alignment", "kitchen-sinks")


def problem(n: int = 300, d: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Rows, and targets that are a wave along the first column."""
    X = np.random.default_rng(3).standard_normal((n, d))
    return X, np.cos(2 * X[:, 0] + 1)


def convex_solution(energies: np.ndarray, radius: float) -> np.ndarray:
    """The aligned weights by a general solver."""
    order, size = energies.size, energies.max()
    ball = {"type": "ineq", "fun": lambda q: 1 + radius - order * q @ q}
    simplex = {"type": "eq", "fun": lambda q: q.sum() - 1}
    found = minimize(
        lambda q: -q @ energies / size,
        np.full(order, 1 / order),
        jac=lambda q: -energies / size,
        bounds=[(0, 1)] * order,
        constraints=[ball, simplex],
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    return found.x


@pytest.mark.parametrize("radius", [0.0, 0.1, 0.7, 2.0, 5.0, 8.9, 9.0, 30.0])
@pytest.mark.parametrize("scale", [1.0, 1e-7])
def test_alignment_is_the_solution_of_a_general_convex_solver(radius, scale):
    """Mutants: equal weights, and those of a ball of half the size."""
    energies = scale * np.random.default_rng(2).exponential(size=10)
    q = aligned_weights(energies, radius)
    assert (q >= 0).all()
    assert np.isclose(q.sum(), 1)
    assert 10 * q @ q - 1 <= radius + 1e-6
    best = energies @ convex_solution(energies, radius)
    assert np.isclose(q @ energies, best, rtol=1e-6, atol=0)
    if 0 < radius < 9:
        assert energies.mean() < best * (1 - 1e-3)
        assert aligned_weights(energies, radius / 2) @ energies < best * (1 - 1e-3)


def test_alignment_shares_the_weight_among_equal_energies():
    np.testing.assert_array_equal(aligned_weights(np.zeros(4), 1.0), np.full(4, 0.25))
    np.testing.assert_array_equal(aligned_weights(np.array([1.0, 1.0, 2.0, 2.0]), 5.0), [0, 0, 0.5, 0.5])
    np.testing.assert_array_equal(aligned_weights(np.array([3.0]), 0.0), [1.0])


def test_least_squares_are_those_over_all_pairs():
    """Against another solver that sees every pair; mutant: equal weights."""
    X, _ = problem(25)
    W = np.random.default_rng(0).standard_normal((12, 4)) / 1.5
    pairs = (X[:, None] - X[None]).reshape(-1, 4)
    design, target = np.cos(pairs @ W.T), KERNEL(X).ravel()
    found = least_squares_weights(KERNEL, X, W)
    best = lsq_linear(design, target, bounds=(0, np.inf), tol=1e-12)
    np.testing.assert_allclose(found, best.x, atol=1e-6)

    def loss(weights: np.ndarray) -> float:
        return float(np.square(design @ weights - target).sum())

    assert loss(found) <= 2 * best.cost * (1 + 1e-9)
    assert loss(np.full(12, 1 / 12)) > 1.2 * loss(found)


def test_shrinkage_helps_on_rows_that_were_left_out():
    """With as few rows as frequencies least squares fits chance; the mean of ten draws, mutant: no penalty."""
    rng = np.random.default_rng(0)
    new = rng.standard_normal((300, 4))
    plain, shrunk = [], []
    for _ in range(10):
        X, W = rng.standard_normal((12, 4)), rng.standard_normal((60, 4)) / 1.5
        projected = new @ W.T
        Z = np.hstack([np.cos(projected), np.sin(projected)])
        for weights, errors in (
            (least_squares_weights(KERNEL, X, W), plain),
            (shrunk_weights(KERNEL, X, W, np.random.default_rng(1)), shrunk),
        ):
            errors.append(np.linalg.norm(KERNEL(new) - (Z * np.tile(weights, 2)) @ Z.T))
    assert np.mean(shrunk) < 0.95 * np.mean(plain)


@pytest.mark.parametrize("method", ["least-squares", "stein"])
def test_weights_lower_the_error_on_new_rows(method):
    """Half the error of equal weights on the same frequencies."""
    X, _ = problem(600)
    fixed = {"n_components": 200, "projection": "gaussian", "random_state": 0}
    weighted = pm.ReweightedFeatures(KERNEL, method=method, **fixed).fit(X[:300])
    plain = pm.FourierFeatures(KERNEL, **fixed).fit(X)
    # One draw is theirs and the plain map's: the weights alone differ.
    np.testing.assert_allclose(
        np.sort(weighted.record_.projection.matrix), np.sort(plain.record_.projection.matrix), atol=1e-12
    )
    assert weighted.kernel_ is KERNEL
    assert pm.metrics.relative_error(weighted, X[300:]) < 0.5 * pm.metrics.relative_error(plain, X[300:])


@pytest.mark.parametrize("method", WITH_TARGETS)
def test_frequencies_of_the_targets_are_preferred(method):
    """Those that are kept lie along the column that counts; mutant: targets in another order."""
    X, y = problem(500)
    phi = pm.ReweightedFeatures(KERNEL, 40, method=method, pool=20, projection="gaussian", random_state=0)

    def share_along_the_first(targets: np.ndarray) -> float:
        kernel = phi.fit(X, targets).kernel_
        squares = np.square(kernel.frequencies)
        return float(kernel.weights @ (squares[:, 0] / squares.sum(axis=1)))

    assert share_along_the_first(y) > 0.5
    assert share_along_the_first(np.random.default_rng(0).permutation(y)) < 0.4


@pytest.mark.parametrize("method", WITH_TARGETS)
def test_the_kernel_is_that_of_frequencies_and_weights(method):
    X, y = problem(100)
    phi = pm.ReweightedFeatures(KERNEL, 64, method=method, random_state=0).fit(X, y)
    assert isinstance(phi.kernel_, pm.kernels.FiniteSpectrum)
    assert np.isclose(np.sum(phi.kernel_.weights), 1.0)
    Z = phi.transform(X)
    np.testing.assert_allclose(Z @ Z.T, phi.kernel_(X), atol=1e-12)
    odd = pm.ReweightedFeatures(KERNEL, 63, method=method, random_state=0).fit(X, y)
    assert odd.transform(X).shape == (100, 63)


@pytest.mark.parametrize("method", WITH_TARGETS)
def test_targets_that_tell_nothing_leave_equal_weights(method):
    X, _ = problem(50)
    phi = pm.ReweightedFeatures(KERNEL, 16, method=method, random_state=0).fit(X, np.ones(50))
    np.testing.assert_allclose(phi.kernel_.weights, np.full(8, 1 / 8))


def test_labels_are_columns_and_floats_are_numbers():
    labels = target_columns("map", np.array(["b", "a", "b", "c"]), 4)
    numbers = target_columns("map", np.array([1, 0, 1, 2]), 4)
    np.testing.assert_array_equal(labels, numbers)
    assert labels.shape == (4, 3)
    np.testing.assert_allclose(labels.mean(axis=0), 0, atol=1e-15)
    assert np.isclose(np.square(labels).sum(axis=1).mean(), 1)
    floats = target_columns("map", np.array([1.0, 0.0, 1.0, 2.0]), 4)
    np.testing.assert_allclose(floats[:, 0], np.array([0, -1, 0, 1]) * np.sqrt(2))
    assert not target_columns("map", np.zeros(4), 4).any()


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (None, r"ReweightedFeatures requires y to be passed, but the target y is None. Give the targets"),
        (np.zeros(9), r"`y` must have a target for each of the 10 rows, got shape \(9,\)"),
        (np.full(10, np.nan), r"Input y contains NaN at row 0"),
    ],
)
def test_bad_targets_are_named(y, message):
    with pytest.raises(ValueError, match=message):
        pm.ReweightedFeatures(n_components=4).fit(np.ones((10, 2)), y)


@pytest.mark.parametrize(
    ("phi", "message"),
    [
        (pm.ReweightedFeatures(method="best"), r"`method` must be one of 'kitchen-sinks'"),
        (pm.ReweightedFeatures(method="stein", pool=0), r"`pool` must be at least 1"),
        (pm.ReweightedFeatures(method="stein", radius=-1.0), r"`radius` must be at least 0.0"),
    ],
)
def test_bad_parameters_name_the_remedy(phi, message):
    with pytest.raises(ValueError, match=message):
        phi.fit(*problem(10))
