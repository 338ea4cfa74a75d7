"""Nystroem features: exact on their landmarks, never above the kernel, safe where landmarks repeat."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import phimap as pm
from phimap.features.nystroem.nystroem import FewLandmarksWarning
from phimap.kernels import NTK, Gaussian, Matern
from phimap.ops import ops_for
from phimap.ops.primitives.kernel_matrix import kernel_matrix

EPS = np.finfo(np.float64).eps
EPS32 = np.finfo(np.float32).eps


@pytest.mark.parametrize("kernel", [Matern(nu=0.5, length_scale=0.3), NTK(depth=2)], ids=repr)
def test_all_rows_as_landmarks_give_the_kernel(kernel, rng):
    X = rng.standard_normal((60, 5))
    K = kernel(X)
    Z = pm.NystroemFeatures(kernel, 60, random_state=0).fit_transform(X)
    # Two products with the whitening, whose norm squared is that of the inverse of K.
    atol = 60 * EPS * np.linalg.cond(K) * K.max()
    assert atol < 1e-8
    np.testing.assert_allclose(Z @ Z.T, K, rtol=0, atol=atol)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_smooth_kernels_are_exact_to_the_rank_that_rounding_leaves(dtype, rng):
    X = rng.standard_normal((200, 2)).astype(dtype)
    kernel = Gaussian(length_scale=2.0)
    phi = pm.NystroemFeatures(kernel, 200, random_state=0).fit(X)
    Z, eps = phi.transform(X), np.finfo(dtype).eps
    assert Z.dtype == dtype
    rank = phi.record_.landmarks.shape[0]
    assert rank < 200
    # Pivots are kept down to n eps. An error eps in a kernel value, divided by the root of such a pivot, is one of
    # sqrt(eps / n) in a feature; the features of a row add up at most `rank` of them.
    atol = 200 * eps + 4 * rank * np.sqrt(eps / 200)
    exact = kernel(X.astype(np.float64))
    np.testing.assert_allclose(Z.astype(np.float64) @ Z.T.astype(np.float64), exact, rtol=0, atol=atol)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kernel", [Gaussian(), NTK(depth=1)], ids=repr)
def test_repeated_landmarks_count_once(dtype, kernel, rng):
    X = rng.standard_normal((40, 3)).astype(dtype)
    repeated = np.concatenate([X[:10], X[:10], X[:5]])
    phi = pm.NystroemFeatures(kernel, 30, landmarks=repeated).fit(X)
    once = pm.NystroemFeatures(kernel, 10, landmarks=X[:10]).fit(X)
    assert phi.record_.landmarks.shape[0] <= 10
    Z, Z_once = (m.transform(X).astype(np.float64) for m in (phi, once))
    assert Z.shape == (40, 30)
    assert np.isfinite(Z).all()
    assert not Z[:, phi.record_.landmarks.shape[0] :].any()
    largest = kernel.diag(X.astype(float)).max()
    atol = 30 * np.sqrt(np.finfo(dtype).eps) * largest
    np.testing.assert_allclose(Z @ Z.T, Z_once @ Z_once.T, rtol=0, atol=atol)


@pytest.mark.parametrize("kernel", [Gaussian(), Matern(nu=1.5), NTK(depth=2)], ids=repr)
@pytest.mark.parametrize("m", [1, 10, 40])
def test_what_is_left_of_the_kernel_is_positive_semidefinite(kernel, m, rng):
    X = rng.standard_normal((60, 3))
    K = kernel(X)
    phi = pm.NystroemFeatures(kernel, m, random_state=0).fit(X)
    Z = phi.transform(X)
    rest = K - Z @ Z.T
    condition = np.linalg.cond(kernel(phi.record_.landmarks))
    assert np.linalg.eigvalsh(rest)[0] > -60 * EPS * condition * np.linalg.norm(K, 2)
    assert np.trace(rest) > 0
    landmarks = phi.record_.landmarks
    Z_landmarks = phi.transform(landmarks)
    atol = 60 * EPS * condition * K.max()
    np.testing.assert_allclose(Z_landmarks @ Z.T, kernel(landmarks, X), rtol=0, atol=atol)
    # Mutant: features a hundredth too long rise above the kernel.
    assert np.linalg.eigvalsh(K - 1.01**2 * Z @ Z.T)[0] < -1e-4 * np.linalg.norm(K, 2)


def test_columns_beyond_the_rows_are_zero(rng):
    X = rng.standard_normal((12, 3))
    with pytest.warns(FewLandmarksWarning, match=r"`n_components`=20 .* fit got 12 rows: 8 features are zero. Fit on"):
        Z = pm.NystroemFeatures(n_components=20, random_state=0).fit_transform(X)
    # All rows are meant here, and nothing is to be warned of.
    every = pm.NystroemFeatures(n_components=20, landmarks="all", random_state=0).fit_transform(X)
    np.testing.assert_array_equal(every, Z)
    assert Z.shape == (12, 20)
    assert not Z[:, 12:].any()
    assert Z[:, :12].any(axis=0).all()
    atol = 12 * EPS * np.linalg.cond(Gaussian()(X))
    np.testing.assert_allclose(Z @ Z.T, Gaussian()(X), rtol=0, atol=atol)


def test_landmarks_are_rows_of_the_data_and_each_at_most_once(rng):
    X = rng.standard_normal((30, 3))
    landmarks = pm.NystroemFeatures(n_components=10, random_state=0).fit(X).record_.landmarks
    indices = [int(np.flatnonzero((row == X).all(axis=1))[0]) for row in landmarks]
    assert len(set(indices)) == 10
    others = pm.NystroemFeatures(n_components=10, random_state=1).fit(X).record_.landmarks
    assert not np.array_equal(landmarks, others)


def test_given_landmarks_are_used_and_kept(rng):
    X, given = rng.standard_normal((30, 3)), rng.standard_normal((5, 3))
    before = given.copy()
    phi = pm.NystroemFeatures(Gaussian(), 8, landmarks=given).fit(X)
    assert {tuple(row) for row in phi.record_.landmarks} == {tuple(row) for row in given}
    C, W = Gaussian()(X, given), Gaussian()(given)
    Z = phi.transform(X)
    atol = 30 * EPS * np.linalg.cond(W)
    np.testing.assert_allclose(Z @ Z.T, C @ np.linalg.solve(W, C.T), rtol=0, atol=atol)
    given[...] = 0
    np.testing.assert_array_equal(phi.transform(X), Z)
    assert phi.landmarks is given
    assert before.any()


def test_sparse_landmarks_are_taken_from_sparse_rows(rng):
    X = rng.standard_normal((30, 6)) * (rng.random((30, 6)) < 0.4)
    dense, compressed = (
        pm.NystroemFeatures(n_components=10, random_state=0).fit(layout(X)).record_.landmarks
        for layout in (np.asarray, sparse.csr_matrix)
    )
    np.testing.assert_array_equal(dense, compressed)


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"landmarks": np.full((2, 3), np.nan)}, ValueError, r"landmarks contains NaN at row 0, column 0"),
        ({"landmarks": np.ones((9, 3))}, ValueError, r"`landmarks` must be of shape \(at most n_components=8"),
        (
            {"landmarks": "k-means"},
            ValueError,
            r"`landmarks` must be one of 'uniform', 'all', 'leverage', 'rpcholesky', got 'k-means'",
        ),
        ({"landmarks": "all", "n_components": 3}, ValueError, r"'all' takes at most n_components=3 rows, got 4"),
        ({"kernel": "gaussian"}, TypeError, r"`kernel` must be a Kernel, got str"),
    ],
)
def test_bad_parameters_name_the_rule(params, error, message):
    with pytest.raises(error, match=message):
        pm.NystroemFeatures(**({"n_components": 8} | params)).fit(np.ones((4, 3)))


@pytest.fixture(scope="module")
def clustered():
    """Many rows in one place and few in others, where uniform landmarks are a waste."""
    rng = np.random.default_rng(5)
    centres = 4 * rng.standard_normal((60, 4))
    return np.concatenate([0.05 * rng.standard_normal((1200, 4)), centres + 0.3 * rng.standard_normal((60, 4))])


@pytest.mark.parametrize("kernel", [Gaussian(), Matern(nu=1.5)], ids=repr)
@pytest.mark.parametrize("landmarks", ["leverage", "rpcholesky"])
def test_chosen_landmarks_err_no_more_than_uniform_ones(landmarks, kernel, clustered):
    K = kernel(clustered)

    def error(how):
        draws = [
            pm.NystroemFeatures(kernel, 40, landmarks=how, random_state=s).fit_transform(clustered) for s in range(5)
        ]
        return np.mean([np.trace(K - Z @ Z.T) / np.trace(K) for Z in draws])

    assert error(landmarks) < 0.7 * error("uniform")


@pytest.mark.parametrize("landmarks", ["leverage", "rpcholesky"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_chosen_landmarks_of_low_rank_data(landmarks, dtype, rng):
    """Thirty distinct rows among 300 and a request for 200 landmarks: rank-safe, and exact."""
    X = np.repeat(rng.standard_normal((30, 3)), 10, axis=0).astype(dtype)
    Z = pm.NystroemFeatures(Gaussian(), 200, landmarks=landmarks, random_state=0).fit_transform(X)
    assert Z.shape == (300, 200)
    assert Z.dtype == dtype
    np.testing.assert_allclose(Z @ Z.T, Gaussian()(X), atol=2e3 * np.finfo(dtype).eps ** 0.5)


def test_pivots_follow_the_law_of_sequential_draws():
    """Pairs of pivots of a 4 x 4 kernel matrix; chi-squared with a false-alarm rate of 1e-6.

    Mutant: the second pivot is drawn by the diagonal of the kernel, and not by what the first one leaves of it.
    """
    from scipy import stats

    from phimap.features.nystroem.landmarks import rpcholesky

    rows = np.array([[0.0], [0.3], [1.0], [3.0]])
    K = Gaussian()(rows)
    expected = np.zeros((4, 4))
    for i in range(4):
        left = np.maximum(np.diag(K) - K[:, i] ** 2 / K[i, i], 0)
        left[i] = 0
        expected[i] = K[i, i] / np.trace(K) * left / left.sum()
    kept = expected > 0
    most = stats.chi2(kept.sum() - 1).isf(1e-6)
    rng = np.random.default_rng(0)

    def statistic(draw):
        counts = np.zeros((4, 4))
        for _ in range(1000):
            i, j = draw()
            counts[i, j] += 1
        assert counts[~kept].sum() == 0
        return (np.square(counts - 1000 * expected)[kept] / (1000 * expected[kept])).sum()

    assert statistic(lambda: rpcholesky(Gaussian(), rows, 2, rng)) < most
    weights = np.diag(K) / np.trace(K)
    assert statistic(lambda: rng.choice(4, 2, replace=False, p=weights)) > most


@pytest.mark.parametrize(
    ("landmarks", "n_components", "expected"),
    [("uniform", 64, 1000), ("uniform", 4096, 4096), ("leverage", 64, 20_000), ("rpcholesky", 300, 20_000)],
)
def test_learners_are_told_how_many_rows_landmarks_need(landmarks, n_components, expected):
    phi = pm.NystroemFeatures(n_components=n_components, landmarks=landmarks)
    with pm.config(memory="8GB"):
        assert phi.fit_rows() == expected
        assert pm.QuantizedFeatures(phi).fit_rows() == expected
    assert pm.FourierFeatures(n_components=n_components).fit_rows() == 1000
    assert pm.NystroemFeatures(landmarks=np.ones((3, 2))).fit_rows() == 1000


def test_a_wide_kernel_keeps_its_features(rng):
    """In float32, on rows whose kernel values are all near 1; mutant: the least pivot grows with the landmarks."""
    X = rng.standard_normal((600, 5))
    phi = pm.NystroemFeatures(pm.kernels.Matern(1.5, 30.0), 500, random_state=0).fit(X.astype(np.float32))
    rank = len(phi.record_.landmarks)
    assert rank > 250
    kernel = phi.kernel_(phi.record_.landmarks)
    pivots = 1 / np.square(np.diag(phi.record_.whitening))
    assert (pivots > 500 * np.finfo(np.float32).eps * kernel.max()).sum() < 0.6 * rank


def test_no_number_is_subnormal_in_products_of_float32(rng):
    # Squared distances are up to some 200, and exp(-100) is subnormal in float32.
    X = (5 * rng.standard_normal((300, 4))).astype(np.float32)
    kernel, least = Gaussian(), np.finfo(np.float32).tiny ** 0.5
    phi = pm.NystroemFeatures(kernel, 60, random_state=0).fit(X)
    for single in (True, False):
        rows = X if single else X.astype(np.float64)
        values = kernel_matrix(ops_for(rows), kernel, rows, phi.record_.landmarks)
        tiny = (values != 0) & (values < least)
        assert tiny.any() != single
        np.testing.assert_allclose(values, kernel(X.astype(np.float64), phi.record_.landmarks), rtol=1e-3, atol=least)
    sizes = np.abs(phi.record_.whitening)
    assert sizes[sizes > 0].min() >= least
