"""Features of dot-product kernels: unbiased at every width, exact where they say so, and small errors."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.kernel_approximation import PolynomialCountSketch

import phimap as pm
from phimap.features.power_series.series import SeriesPlan
from phimap.kernels import NNGP, NTK, Exponential, Gaussian, Kernel, Laplacian, Polynomial, Taylor
from phimap.kernels.expansion import fitted_coefficients
from phimap.metrics import relative_error
from tests.support.statistics import is_mean, kernel_estimates

EPS = np.finfo(np.float64).eps


@pytest.fixture(scope="module")
def digits() -> np.ndarray:
    X = load_digits().data
    return X / np.linalg.norm(X, axis=1, keepdims=True)


@pytest.mark.parametrize("n_components", [1, 2, 9, 40])
@pytest.mark.parametrize("adaptive", [True, False])
def test_unbiased_at_rows_that_fit_never_saw(n_components, adaptive, rng):
    """False-alarm rate 1e-6; the mutant is the kernel without its last degree."""
    seen, X = rng.standard_normal((30, 4)) + 1, rng.standard_normal((4, 4)) / 2
    coefficients = [0.5, 1.0, 0.4, 0.0, 0.3]
    phi = pm.DotProductFeatures(Taylor(coefficients), n_components, adaptive=adaptive)
    estimates = kernel_estimates(lambda seed: phi.set_params(random_state=seed).fit(seen).transform(X), 200)
    assert is_mean(estimates, Taylor(coefficients)(X))
    if n_components > 9:
        assert not is_mean(estimates, Taylor(coefficients[:4])(X))


@pytest.mark.parametrize("kernel", [Polynomial(1, gamma=1.0, coef0=0.5), Taylor([0.0, 2.0]), Taylor([0.7])])
@pytest.mark.parametrize("adaptive", [True, False])
def test_constant_and_linear_kernels_are_exact(kernel, adaptive, rng):
    X = rng.standard_normal((20, 6))
    Z = pm.DotProductFeatures(kernel, 24, adaptive=adaptive, random_state=0).fit(X[:10]).transform(X)
    np.testing.assert_allclose(Z @ Z.T, kernel(X), atol=100 * EPS * 24 * np.abs(kernel(X)).max())


def test_exact_degrees_of_a_narrow_input(rng):
    X, kernel = rng.standard_normal((20, 3)), Polynomial(4, gamma=0.5)
    phi = pm.DotProductFeatures(kernel, 40, exact_degrees=(0, 1, 2, 3, 4), adaptive=False, random_state=0)
    assert relative_error(phi.fit(X), X) < 1e-14


def test_linear_term_is_x_itself(rng):
    X = rng.standard_normal((5, 6))
    phi = pm.DotProductFeatures(Taylor([0.0, 4.0, 1.0]), 64, adaptive=False, random_state=0).fit(X)
    np.testing.assert_allclose(phi.transform(X)[:, :6], 2 * X, rtol=4 * EPS)


@pytest.mark.parametrize("degree", [2, 3])
def test_error_is_at_most_half_of_the_peer(degree, digits):
    kernel = Polynomial(degree, gamma=1.0)
    phi = pm.DotProductFeatures(kernel, 1024, random_state=0).fit(digits)
    peer = PolynomialCountSketch(degree=degree, gamma=1.0, coef0=1, n_components=1024, random_state=0)
    Z, K = peer.fit_transform(digits), kernel(digits)
    assert relative_error(phi, digits) < 0.5 * np.linalg.norm(Z @ Z.T - K) / np.linalg.norm(K)


@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("kernel", [NTK, NNGP])
def test_adaptive_maps_err_less(kernel, depth, digits):
    seen, rows = digits[::2], digits[1::2]
    errors = [
        np.mean(
            [
                relative_error(
                    pm.DotProductFeatures(
                        kernel(depth), 512, exact_degrees=exact, adaptive=adaptive, random_state=seed
                    ).fit(seen),
                    rows,
                )
                for seed in range(3)
            ]
        )
        for exact, adaptive in (((0, 1), True), ((0, 1), False), ((), False))
    ]
    assert errors[0] < 0.6 * min(errors[1:])


def test_plan_predicts_the_error(digits, monkeypatch):
    plans = []
    draw = SeriesPlan.draw

    def keep(plan, streams):
        plans.append(plan)
        return draw(plan, streams)

    monkeypatch.setattr(SeriesPlan, "draw", keep)
    kernel, off = Polynomial(3, gamma=1.0), ~np.eye(len(digits), dtype=bool)
    squares = []
    for seed in range(5):
        Z = pm.DotProductFeatures(kernel, 1024, random_state=seed).fit(digits).transform(digits)
        squares.append(np.square(Z @ Z.T - kernel(digits))[off].mean())
    # The prediction leaves out the spread of the parts and the finite number of frequencies: a third either way.
    assert 0.67 < np.sqrt(np.mean(squares)) / plans[0].predicted_error() < 1.5


def test_gaussian_is_shifted_and_scaled(rng):
    X = 100 + rng.standard_normal((50, 6)) * np.array([1, 1, 1, 2, 2, 2])
    phi = pm.DotProductFeatures(Gaussian(length_scale=np.array([4.0, 4, 4, 8, 8, 8])), 512, random_state=0).fit(X)
    assert relative_error(phi, X) < 0.01


@pytest.mark.parametrize("kernel", [Exponential(0.1), Gaussian(0.1)])
def test_series_that_does_not_suffice_is_named(kernel, rng):
    X = rng.standard_normal((30, 4))
    with pytest.warns(UserWarning, match="beyond degree 32. Raise its length scale, or use FourierFeatures"):
        pm.DotProductFeatures(kernel, 64, random_state=0).fit(X)


def test_sparse_rows_and_single_precision(rng):
    X = sparse.random_array((40, 300), density=0.05, rng=rng, format="csr", dtype=np.float32)
    phi = pm.DotProductFeatures(Polynomial(3), 128, random_state=0).fit(X)
    Z = phi.transform(X)
    assert Z.dtype == np.float32
    np.testing.assert_allclose(Z, phi.transform(X.toarray()), atol=1e-5)


@pytest.mark.parametrize("kernel", [Polynomial(3), Gaussian(2.0)])
def test_wide_sparse_rows_are_hashed(kernel, rng):
    """The same map of the same rows, whose error is that of hashing: the norms of all rows are near 1."""
    X = sparse.random_array((60, 5000), density=0.01, rng=rng, format="csr")
    X = sparse.csr_array(X / 4.1)
    phi = pm.DotProductFeatures(kernel, 512, random_state=0).fit(X)
    Z, K = phi.transform(X), phi.kernel_(X)
    np.testing.assert_allclose(
        pm.DotProductFeatures(kernel, 512, random_state=0).fit(X.toarray()).transform(X.toarray()), Z, atol=1e-10
    )
    assert phi.record_.shift is None
    assert phi.record_.direction is None
    assert np.linalg.norm(Z @ Z.T - K) < 0.15 * np.linalg.norm(K)


class _Alternating(Taylor):
    def taylor_coefficients(self, max_degree: int, n_features: int) -> np.ndarray:
        return (-1.0) ** np.arange(max_degree + 1)


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        (
            {"kernel": _Alternating([1.0, 1.0])},
            ValueError,
            "must have finite Taylor coefficients .* got -1.0 for degree 1",
        ),
        ({"kernel": Laplacian()}, TypeError, "`kernel` must be a dot-product kernel, Gaussian"),
        ({"kernel": "polynomial"}, TypeError, "`kernel` must be a dot-product kernel, Gaussian"),
        ({"method": "hash"}, ValueError, "`method` must be one of 'polysketch'"),
        ({"degree": 0}, ValueError, "`degree` must be at least 1, got 0"),
        ({"exact_degrees": (-1,)}, ValueError, "`exact_degrees` must be at least 0, got -1"),
    ],
)
def test_bad_parameters(parameters, error, message):
    with pytest.raises(error, match=message):
        pm.DotProductFeatures(**parameters).fit(np.eye(3))


@pytest.mark.parametrize("depth", [1, 3, 10, 20])
def test_fitted_coefficients_are_near_the_kernel(depth):
    kappa = NTK(depth).kappa
    nodes = np.linspace(-1, 1, 201)
    coefficients = fitted_coefficients(kappa, 16)
    assert (coefficients >= 0).all()
    error = np.polynomial.polynomial.polyval(nodes, coefficients) - kappa(nodes)
    assert np.sqrt(np.mean(error**2)) < 0.02 * (depth + 1)


@pytest.mark.parametrize("kernel", [Polynomial(3), NTK(2), Gaussian(3.0)])
@pytest.mark.parametrize("d", [1, 3])
def test_degenerate_rows(kernel: Kernel, d):
    for X in (np.zeros((4, d)), np.ones((1, d)), np.ones((6, d))):
        for width in (1, 2, 5, 40):
            Z = pm.DotProductFeatures(kernel, width, random_state=0).fit(X).transform(X)
            assert Z.shape == (len(X), width)
            assert np.isfinite(Z).all()
