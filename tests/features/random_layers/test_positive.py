"""Positive features: the formula, the derived variances, the trigonometric form beside them, large norms."""

from __future__ import annotations

import numpy as np
import pytest

import phimap as pm
from phimap.projections import SparseGrid
from tests.support.statistics import is_at_most, is_mean, kernel_estimates


def unit_rows(n, d, seed=3):
    X = np.random.default_rng(seed).standard_normal((n, d))
    return X / np.linalg.norm(X, axis=1, keepdims=True)


@pytest.mark.parametrize("pairing", ["pairs", "single"])
@pytest.mark.parametrize("width", [1, 7, 64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_features_are_the_formula(pairing, width, dtype, rng):
    X = rng.standard_normal((30, 5)).astype(dtype)
    phi = pm.PositiveFeatures(pm.kernels.Exponential(2.0), width, pairing=pairing, random_state=0).fit(X)
    U = X.astype(np.float64) / 2
    W = phi.record_.projection.to_dense()
    n_pairs = width // 2 if pairing == "pairs" else 0
    half = np.square(U).sum(axis=1, keepdims=True) / 2
    exponents = np.concatenate([U @ W.T, -U @ W[:n_pairs].T], axis=1) - half
    shares = np.where(np.arange(len(W)) < n_pairs, 0.5, 1.0) / len(W)
    expected = np.exp(exponents) * np.sqrt(np.concatenate([shares, shares[:n_pairs]]))
    Z = phi.transform(X)
    assert Z.dtype == dtype
    assert (Z > 0).all()
    # An exponent errs by some eps of its largest part.
    slack = 32 * np.finfo(dtype).eps * np.abs(U @ W.T).max()
    np.testing.assert_allclose(Z, expected, rtol=slack)


@pytest.mark.parametrize("projection", ["orthogonal", "simplex", "minimum-energy", "fastfood", "qmc", "ssf"])
@pytest.mark.parametrize("pairing", ["pairs", "single"])
def test_unbiased_with_every_way_to_draw(projection, pairing):
    """False-alarm rate 1e-6; mutants: a missing factor, a square of the norm that is forgotten. The width is odd."""
    X = 0.4 * np.random.default_rng(5).standard_normal((4, 5))
    phi = pm.PositiveFeatures(n_components=21, projection=projection, pairing=pairing)
    samples = kernel_estimates(lambda seed: phi.set_params(random_state=seed).fit_transform(X), 300)
    assert is_mean(samples, phi.kernel_(X))
    assert not is_mean(1.3 * samples, phi.kernel_(X))
    growth = np.exp(0.5 * np.square(X).sum(axis=1))
    assert not is_mean(samples * growth[:, None] * growth, phi.kernel_(X))


def derived_variance(pairing, x, y, width):
    """What the documentation says of independent directions."""
    square = np.square(x + y).sum(axis=-1)
    k = np.exp((x * y).sum(axis=-1))
    return k**2 * np.expm1(square) * (-np.expm1(-square) if pairing == "pairs" else 1.0) / width


def squared_errors(phi, X, n_maps, group):
    """Squared errors (n_maps, n - 1) of the kernel of the first row with the others, with `group` directions each."""
    Z = phi.fit_transform(X)
    sides = 2 if phi.n_components > n_maps * group else 1
    Z = Z.reshape(len(X), sides, n_maps, group)
    return (n_maps * np.einsum("skg,iskg->ki", Z[0], Z[1:]) - phi.kernel_(X)[0, 1:]) ** 2


@pytest.mark.parametrize("pairing", ["pairs", "single"])
def test_variance_is_the_derived_one(pairing, seed):
    """False-alarm rate 1e-6; mutant: the variance of the other form."""
    angles = np.array([0.9, 1.6, 2.4])
    X = 0.7 * np.vstack([[1.0, 0.0], np.column_stack([np.cos(angles), np.sin(angles)])])
    group, n_maps = 4, 50_000
    width = (2 if pairing == "pairs" else 1) * group
    phi = pm.PositiveFeatures(n_components=n_maps * width, projection="gaussian", pairing=pairing, random_state=seed)
    squares = squared_errors(phi, X, n_maps, group)
    # Squares of exponentials are skewed: asking for 1e-8 leaves the rate below 1e-6.
    assert is_mean(squares, derived_variance(pairing, X[0], X[1:], width), 1e-8)
    other = "single" if pairing == "pairs" else "pairs"
    assert not is_mean(squares, derived_variance(other, X[0], X[1:], width), 1e-8)


def test_small_kernels_err_less_than_by_the_trigonometric_form(seed):
    """False-alarm rate 1e-6: mean squares of errors of 400 draws, in pairs of rows whose kernel is below e^-0.3.

    Mutant: the pairs whose kernel is from e^0.1 to e^0.5, where the trigonometric form errs less.
    """
    X, m = unit_rows(24, 4), 64
    kernel = pm.kernels.Exponential()
    K = kernel(X)
    maps = {
        "positive": pm.PositiveFeatures(kernel, m, projection="gaussian"),
        "cosines": pm.FourierFeatures(pm.kernels.Gaussian(), m, projection="gaussian"),
    }
    # exp(<x, y>) of unit rows is e times the Gaussian kernel.
    factor = {"positive": 1.0, "cosines": np.e}
    errors = {}
    for name, phi in maps.items():
        draws = (phi.set_params(random_state=1000 * seed + i).fit_transform(X) for i in range(400))
        errors[name] = np.array([np.square(factor[name] * Z @ Z.T / K - 1) for Z in draws])
    excess = errors["positive"] - errors["cosines"]
    assert is_at_most(excess[:, np.exp(-0.3) > K].mean(axis=1), 0.0)
    assert not is_at_most(excess[:, (np.exp(0.1) < K) & (np.exp(0.5) > K)].mean(axis=1), 0.0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_wide_rows_and_large_norms_do_not_overflow(dtype):
    X = unit_rows(8, 784).astype(dtype) * np.array([0, 1, 5, 30, 1e3, 1e8, 1e15, 1e18], dtype=dtype)[:, None]
    Z = pm.PositiveFeatures(n_components=64, projection="gaussian", random_state=0).fit(X).transform(X)
    assert np.isfinite(Z).all()
    assert (Z >= 0).all()
    assert not Z[5:].any()
    np.testing.assert_allclose((Z[0] ** 2).sum(), 1.0, rtol=64 * np.finfo(dtype).eps)


def test_a_row_at_a_long_direction_overflows_with_a_remedy():
    X = np.zeros((1, 400), dtype=np.float32)
    phi = pm.PositiveFeatures(n_components=8, random_state=0).fit(X)
    near = phi.record_.projection.to_dense()[:1].astype(np.float32)
    with pytest.raises(ValueError, match=r"features overflow float32. Scale X down, or pass float64"):
        phi.transform(near)
    assert np.isfinite(phi.transform(near.astype(np.float64))).all()


def test_what_gives_no_positive_estimate_is_refused(rng):
    X = rng.standard_normal((5, 4))
    with pytest.raises(ValueError, match=r"`projection` must give positive weights.*Use projection='orthogonal'"):
        pm.PositiveFeatures(n_components=10, projection=SparseGrid(1.0)).fit(X)
    with pytest.raises(TypeError, match=r"`kernel` must be an Exponential kernel, got Gaussian.*DotProductFeatures"):
        pm.PositiveFeatures(pm.kernels.Gaussian()).fit(X)
    with pytest.raises(ValueError, match=r"`pairing` must be one of 'pairs', 'single'"):
        pm.PositiveFeatures(pairing="offset").fit(X)


@pytest.mark.parametrize("pairing", ["pairs", "single"])
@pytest.mark.parametrize("damping", [0.1, "auto", "directions"])
def test_damped_features_are_unbiased(damping, pairing):
    """False-alarm rate 1e-6; mutant: another length scale."""
    X = np.random.default_rng(0).standard_normal((5, 4)) / 2
    phi = pm.PositiveFeatures(n_components=32, damping=damping, pairing=pairing, projection="gaussian")
    samples = kernel_estimates(lambda seed: phi.set_params(random_state=seed).fit_transform(X), 600)
    assert is_mean(samples, phi.kernel_(X))
    assert not is_mean(samples, pm.kernels.Exponential(1.1)(X))


def test_damped_variance_is_the_derived_one_and_least():
    # Two equal rows: z = 2 u for both entries of the kernel matrix.
    X, d, m = np.full((2, 4), 0.5), 4, 64
    square, k = 4.0, np.exp(1.0)

    def variance(a):
        log = d * np.log1p(4 * a) - d / 2 * np.log1p(8 * a) + 2 * square * (1 + 4 * a) / (1 + 8 * a) - square
        return k**2 * np.expm1(log) / m

    def samples(damping):
        """Two thousand estimates: of each map, of 50 groups of m independent features."""
        phi = pm.PositiveFeatures(n_components=50 * m, damping=damping, pairing="single", projection="gaussian")
        features = np.array([phi.set_params(random_state=seed).fit_transform(X)[0] for seed in range(40)])
        return 50 * np.square(features).reshape(2000, m).sum(axis=1)

    automatic = pm.PositiveFeatures(n_components=m, damping="auto").fit(X).record_.slope ** 2 / 4 - 0.25
    for a in (0.1, automatic):
        # Fourth moments are moderate at this damping: the variance of 2,000 draws is known to a few percent.
        assert samples(a).var() == pytest.approx(variance(a), rel=0.25)
    assert variance(automatic) < 0.6 * variance(0.0)
    assert variance(automatic) <= min(variance(a) for a in np.linspace(0, 1, 1001)) * (1 + 1e-6)
    with pytest.raises(ValueError, match="`damping` must be at least 0"):
        pm.PositiveFeatures(damping=-0.1).fit(X)


def oblique_rows(n):
    """Rows whose mean and principal axes, of unequal variances, are not along the columns."""
    rng = np.random.default_rng(1)
    axes = np.linalg.qr(rng.standard_normal((4, 4)))[0]
    return (rng.standard_normal((n, 4)) * [0.9, 0.5, 0.2, 0.05] + [0.3, 0.0, 0.0, 0.0]) @ axes.T


def test_damping_of_directions_is_the_formula_and_least(seed):
    """The log variance, averaged over all pairs of rows, is least among dampings of all symmetric matrices nearby.

    For a symmetric matrix A the mean of ``e^(-2 w.A w + w.B z)`` is ``|z|^2 / 2`` in the exponent for ``B B^T = I +
    4 A`` and the second moment that of ``z.(I + 4 A) (I + 8 A)^(-1) z``.
    """
    X = oblique_rows(40)
    phi = pm.PositiveFeatures(n_components=32, damping="directions", projection="gaussian", random_state=seed).fit(X)
    plain = pm.PositiveFeatures(n_components=32, projection="gaussian", random_state=seed).fit(X)
    W, B = plain.record_.projection.to_dense(), phi.record_.projection.to_dense()
    # B = W C: C is found by least squares, and I + 4 A = C^T C.
    C = np.linalg.lstsq(W, B, rcond=None)[0]
    np.testing.assert_allclose(W @ C, B, atol=1e-10)
    Z = (X[:, None] + X[None]).reshape(-1, 4)

    def log_second_moment(four_a):
        eye = np.eye(4)
        ratio = np.linalg.solve(eye + 2 * four_a, eye + four_a)
        logs = np.linalg.slogdet(eye + four_a)[1] - np.linalg.slogdet(eye + 2 * four_a)[1] / 2
        return logs + 2 * np.einsum("ni,ij,nj->n", Z, ratio, Z).mean()

    found = C.T @ C - np.eye(4)
    least = log_second_moment(found)
    rng = np.random.default_rng(seed)
    for _ in range(200):
        change = rng.standard_normal((4, 4))
        assert log_second_moment(found + 1e-3 * (change + change.T)) >= least - 1e-12
    scalar = pm.PositiveFeatures(n_components=32, damping="auto").fit(X).record_.slope ** 2 - 1
    assert log_second_moment(scalar * np.eye(4)) > least + 0.1
    # The factors of the features, from the same directions.
    a = np.linalg.eigvalsh(found) / 4
    squares = np.einsum("sd,de,se->s", W, C @ C.T - np.eye(4), W) / 4
    expected = plain.record_.scale * np.exp(np.log1p(4 * a).sum() / 4 - squares)
    np.testing.assert_allclose(phi.record_.scale, expected, rtol=1e-9)


def test_damped_directions_err_less_than_damped_lengths():
    """False-alarm rate 1e-6; mutant: rows of equal moments along all axes, where both are the same map."""
    X = oblique_rows(30)
    kernel = pm.kernels.Exponential()
    K = kernel(X)

    def errors(damping):
        phi = pm.PositiveFeatures(kernel, 64, damping=damping, projection="gaussian")
        draws = (phi.set_params(random_state=seed).fit_transform(X) for seed in range(400))
        return np.array([np.square(Z @ Z.T / K - 1).mean() for Z in draws])

    assert is_at_most(errors("directions") - 0.8 * errors("auto"), 0.0)
    X = np.concatenate([np.eye(4), -np.eye(4)])
    estimates = [
        pm.PositiveFeatures(kernel, 64, damping=damping, random_state=0).fit(X).record_
        for damping in ("auto", "directions")
    ]
    lengths = [np.linalg.norm(one.slope * one.projection.to_dense(), axis=1) for one in estimates]
    np.testing.assert_allclose(*lengths, rtol=1e-12)
    np.testing.assert_allclose(estimates[0].scale, estimates[1].scale, rtol=1e-12)


def test_a_learner_takes_positive_features(rng):
    X = rng.standard_normal((300, 4))
    y = np.sin(X[:, 0]) + X[:, 1]
    model = pm.KernelRegressor(pm.PositiveFeatures(pm.kernels.Exponential(2.0), 256, random_state=0), random_state=0)
    assert model.fit(X, y).score(X, y) > 0.95
