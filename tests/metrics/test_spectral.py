"""Spectral approximation, statistical dimension and leverage scores, on matrices with known answers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scipy.linalg import sqrtm
from sklearn.base import BaseEstimator

import phimap as pm
from phimap.metrics import (
    condition_number,
    leverage_scores,
    max_error,
    mean_squared_error,
    relative_error,
    spectral_approximation,
    statistical_dimension,
)

EPS = np.finfo(np.float64).eps


class Table(BaseEstimator):
    """A fitted map by its features: row i of X names row i of a table by its first column."""

    def __init__(self, Z, signature=None):
        self.Z = Z
        self.signature = signature
        self.fitted_ = True
        if signature is not None:
            self.signature_ = np.asarray(signature)

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return np.asarray(self.Z, dtype=np.float64)[np.asarray(X)[:, 0].astype(int)]


class TableKernel(pm.kernels.Kernel):
    """The kernel of which K is a table, by row numbers."""

    def __init__(self, K=None):
        self.K = K

    def _check_parameters(self, n_features):
        pass

    def _evaluate(self, X, Y):
        return np.asarray(self.K, dtype=np.float64)[np.ix_(X[:, 0].astype(int), Y[:, 0].astype(int))]

    def _diagonal(self, X):
        return np.diag(self._evaluate(X, X))


def rows(n):
    return np.arange(n, dtype=np.float64)[:, None]


@pytest.fixture
def fitted(rng):
    X = rng.standard_normal((40, 3))
    return pm.FourierFeatures(n_components=64, random_state=0).fit(X), X


def test_known_spectrum():
    # (ZZ^T + 1) / (K + 1) is diag(6, 1, 2) / diag(4, 2, 2) = 1.5, 0.5, 1.
    found = spectral_approximation(
        Table(np.diag(np.sqrt([5.0, 0.0, 1.0]))), rows(3), 1.0, TableKernel(np.diag([3.0, 1, 1]))
    )
    assert found.lower == pytest.approx(0.5)
    assert found.upper == pytest.approx(0.5)
    assert found.delta == pytest.approx(0.5)
    assert found.condition_number == pytest.approx(3.0)
    assert (found.alpha, found.n_rows) == (1.0, 3)


@pytest.mark.parametrize(("scale", "lower", "upper"), [(2.0, 0.0, 0.5), (0.0, 0.5, 0.0)])
def test_one_sided_error_has_one_side(scale, lower, upper):
    K = np.eye(2)
    found = spectral_approximation(Table(np.sqrt(scale) * np.eye(2)), rows(2), 1.0, TableKernel(K))
    assert (found.lower, found.upper) == pytest.approx((lower, upper))
    assert found.delta == pytest.approx(max(lower, upper))
    assert found.condition_number == pytest.approx(1.0)


def test_definition_by_square_roots(fitted):
    phi, X = fitted
    Z, K, identity = phi.transform(X), phi.kernel_(X), np.eye(len(X))
    root = np.linalg.inv(sqrtm(K + 0.1 * identity))
    eigenvalues = np.linalg.eigvalsh(root @ (Z @ Z.T + 0.1 * identity) @ root)
    found = spectral_approximation(phi, X, 0.1)
    # Rounding: eps times the order times the condition of K + alpha I.
    tolerance = 16 * EPS * len(X) * (len(X) / 0.1)
    assert found.lower == pytest.approx(1 - eigenvalues[0], abs=tolerance)
    assert found.upper == pytest.approx(eigenvalues[-1] - 1, abs=tolerance)
    assert condition_number(phi, X, 0.1) == pytest.approx(eigenvalues[-1] / eigenvalues[0], rel=tolerance)


def test_delta_is_the_least(fitted):
    phi, X = fitted
    Z, K = phi.transform(X), phi.kernel_(X)
    B, A = K + 0.5 * np.eye(40), Z @ Z.T + 0.5 * np.eye(40)
    delta = spectral_approximation(phi, X, 0.5).delta

    def sandwiched(eps):
        return np.linalg.eigvalsh((1 + eps) * B - A)[0] > 0 and np.linalg.eigvalsh(A - (1 - eps) * B)[0] > 0

    assert sandwiched(delta * (1 + 1e-6))
    assert not sandwiched(delta * (1 - 1e-6))


def test_exact_map_is_perfect(rng):
    X = rng.standard_normal((20, 3))
    phi = pm.NystroemFeatures(n_components=20, random_state=0).fit(X)
    found = spectral_approximation(phi, X, 0.1)
    assert found.delta < 64 * EPS * 20 * (20 / 0.1)
    assert found.condition_number == pytest.approx(1, abs=128 * EPS * 20 * (20 / 0.1))


def test_error_falls_as_alpha_grows(fitted):
    phi, X = fitted
    deltas = [spectral_approximation(phi, X, alpha).delta for alpha in (0.01, 0.1, 1.0, 10.0)]
    assert deltas == sorted(deltas, reverse=True)


def test_signs_of_negative_weights_are_honoured_by_every_measure():
    Z = np.array([[1.0, 1.0], [0.0, 1.0]])
    K = Z @ np.diag([1.0, -1.0]) @ Z.T
    signed, plain = Table(Z, [1, -1]), Table(Z)
    assert max_error(signed, rows(2), TableKernel(K)) == 0
    assert max_error(plain, rows(2), TableKernel(K)) == 2
    assert mean_squared_error(signed, rows(2), TableKernel(K)) == 0
    assert relative_error(signed, rows(2), TableKernel(K)) == 0
    # An estimate below -alpha I is no preconditioner.
    falling = Table(2 * np.eye(2), [1, -1])
    assert condition_number(falling, rows(2), 1.0, TableKernel(np.eye(2))) == np.inf


def test_entrywise_errors_are_their_definitions(fitted):
    phi, X = fitted
    Z = phi.transform(X)
    difference = phi.kernel_(X) - Z @ Z.T
    # Both are differences of numbers of size 1.
    assert max_error(phi, X) == pytest.approx(np.abs(difference).max(), abs=64 * EPS)
    assert mean_squared_error(phi, X) == pytest.approx((difference**2).mean(), rel=1e-11)
    P = np.eye(40) - 1 / 40
    assert max_error(phi, X, center=True) == pytest.approx(np.abs(P @ difference @ P).max(), abs=256 * EPS)


def test_measures_of_known_matrices():
    table, K = Table(np.diag([1.0, 2.0])), TableKernel([[1.0, 0.5], [0.5, 1.0]])
    assert max_error(table, rows(2), K) == 3
    assert mean_squared_error(table, rows(2), K) == (2 * 0.25 + 9) / 4


def test_statistical_dimension_of_known_matrices():
    assert statistical_dimension(np.diag([3.0, 1.0, 0.0]), 1.0) == pytest.approx(1.25)
    # All rows equal: one eigenvalue n.
    assert statistical_dimension(pm.kernels.Gaussian(), 1.0, np.ones((9, 2))) == pytest.approx(0.9)


def test_statistical_dimension_is_the_trace(rng):
    X = rng.standard_normal((50, 3))
    K = pm.kernels.Gaussian()(X)
    expected = np.trace(np.linalg.solve(K + 0.3 * np.eye(50), K))
    tolerance = 16 * EPS * 50 * (50 / 0.3)
    assert statistical_dimension(pm.kernels.Gaussian(), 0.3, X) == pytest.approx(expected, rel=tolerance)
    assert statistical_dimension(pm.kernels.Gaussian(), 0.3, sparse.csr_matrix(X)) == pytest.approx(expected)
    assert statistical_dimension(pm.kernels.Gaussian(), 0.3, X, n_subset=20) < 20


def test_leverage_scores_are_the_diagonal_and_sum_to_the_dimension(rng):
    X = rng.standard_normal((50, 3))
    K = pm.kernels.Gaussian()(X)
    scores = leverage_scores(pm.kernels.Gaussian(), 0.3, X)
    tolerance = 16 * EPS * 50 * (50 / 0.3)
    np.testing.assert_allclose(scores, np.diag(np.linalg.solve(K + 0.3 * np.eye(50), K)), rtol=tolerance)
    np.testing.assert_allclose(scores, leverage_scores(K, 0.3), rtol=tolerance)
    assert scores.sum() == pytest.approx(statistical_dimension(K, 0.3), rel=tolerance)
    assert scores.dtype == np.float64


def test_leverage_scores_follow_their_rows_and_find_the_outlier(rng):
    X = np.vstack([0.1 * rng.standard_normal((20, 2)), [[9.0, 9.0]]])
    scores = leverage_scores(pm.kernels.Gaussian(), 0.1, X)
    assert scores.argmax() == 20
    assert scores[20] == pytest.approx(1 / 1.1)
    order = rng.permutation(21)
    np.testing.assert_allclose(leverage_scores(pm.kernels.Gaussian(), 0.1, X[order]), scores[order], rtol=1e-10)


def test_rank_deficient_matrices_have_scores_in_range():
    scores = leverage_scores(np.ones((7, 7)), 1e-12)
    assert scores.min() >= 0
    assert scores.max() <= 1
    assert scores.sum() == pytest.approx(1)


@pytest.mark.parametrize("alpha", [0, -1.0])
def test_alpha_must_be_positive(fitted, alpha):
    for call in (
        lambda: spectral_approximation(*fitted, alpha),
        lambda: statistical_dimension(np.eye(2), alpha),
        lambda: leverage_scores(np.eye(2), alpha),
    ):
        with pytest.raises(ValueError, match=r"`alpha` must be greater than 0.0, got"):
            call()


def test_alpha_below_rounding_names_the_remedy():
    with pytest.raises(ValueError, match=r"positive definite in float64, got 1e-30. Use a larger alpha"):
        spectral_approximation(Table(np.ones((3, 1))), rows(3), 1e-30, TableKernel(np.ones((3, 3))))


@pytest.mark.parametrize("measure", [statistical_dimension, leverage_scores])
def test_matrices_that_are_none_are_refused(measure, rng):
    with pytest.raises(ValueError, match=r"must be a Kernel or a square matrix, got shape \(2, 3\)"):
        measure(np.ones((2, 3)), 1.0)
    with pytest.raises(ValueError, match="must be symmetric"):
        measure(np.array([[1.0, 0.5], [0.4, 1.0]]), 1.0)
    with pytest.raises(ValueError, match="must be finite"):
        measure(np.array([[np.nan]]), 1.0)
    with pytest.raises(TypeError, match="`X` must be given with a kernel, got None"):
        measure(pm.kernels.Gaussian(), 1.0)
    with pytest.raises(TypeError, match="`X` goes with a Kernel, got it with kernel=ndarray"):
        measure(np.eye(3), 1.0, np.ones((3, 1)))
    with pm.config(memory=1000), pytest.raises(MemoryError, match="a kernel matrix of order 10"):
        measure(pm.kernels.Gaussian(), 1.0, rng.standard_normal((10, 2)))
