"""Random features of the remainder beyond exact degrees: exact means, variances, widths."""

from __future__ import annotations

import numpy as np
import pytest

import phimap as pm
from phimap.features.power_series.terms import SeriesRecord
from phimap.features.random_layers.remainder import (
    ActivationPlan,
    activation_values,
    draw_directions,
    fitting_degrees,
    remainder_standard_deviation,
    remove_powers,
)
from phimap.kernels import NTK
from phimap.kernels.zonal import powers_to_zonal, zonal_coefficients, zonal_polynomials, zonal_rule
from phimap.ops.compiled.activation import interpolate
from tests.support.statistics import is_mean, kernel_estimates


def estimates(phi, X, n_seeds):
    """Kernel estimates over seeds, and the same without the linear term."""
    features = [phi.set_params(random_state=seed).fit_transform(X) for seed in range(n_seeds)]
    assert phi.record_.terms[1].n_components == X.shape[1]
    whole = np.stack([Z @ Z.T for Z in features])
    return whole, whole - np.stack([Z[:, 1 : 1 + X.shape[1]] @ Z[:, 1 : 1 + X.shape[1]].T for Z in features])


@pytest.mark.parametrize(
    ("order", "depth"),
    [(0, 1), (1, 1), (2, 1), *(pytest.param(*deep, marks=pytest.mark.slow) for deep in ((0, 2), (1, 3), (2, 2)))],
)
@pytest.mark.parametrize("projection", ["gaussian", "fastfood"])
def test_features_with_exact_degrees_are_unbiased(order, depth, projection, rng):
    """False-alarm rate 1e-6; mutant: the linear term forgotten."""
    X = rng.standard_normal((5, 4))
    phi = pm.ArcCosineFeatures(order, 16, depth=depth, exact_degrees=(0, 1), projection=projection)
    samples, forgotten = estimates(phi, X, 200)
    assert is_mean(samples, phi.kernel_(X))
    assert not is_mean(forgotten, phi.kernel_(X))


@pytest.mark.slow
@pytest.mark.parametrize("depth", [1, 3])
def test_activations_of_the_tangent_kernel_are_unbiased(depth, rng):
    """False-alarm rate 1e-6; mutants: the linear term forgotten, another depth."""
    X = rng.standard_normal((5, 4))
    phi = pm.NTKFeatures(depth, 24, remainder="activation", projection="gaussian")
    samples, forgotten = estimates(phi, X, 200)
    off = ~np.eye(5, dtype=bool)
    # The diagonal lacks the degrees beyond the last, a part that is known.
    share = zonal_coefficients(NTK(depth), 4).sum() / (depth + 1)
    expected = np.where(off, phi.kernel_(X), share * phi.kernel_(X))
    assert 0.97 < share < 1
    assert is_mean(samples, expected)
    assert not is_mean(samples, NTK(depth + 1)(X))
    assert not is_mean(forgotten, expected)


@pytest.mark.parametrize("n_components", [1, 2, 4, 6])
def test_few_components_leave_degrees_to_the_activation(n_components, rng):
    """False-alarm rate 1e-6; mutant: the kernel without its linear part."""
    X = rng.standard_normal((4, 5))
    phi = pm.ArcCosineFeatures(1, n_components, exact_degrees=(0, 1), projection="gaussian")
    assert phi.fit(X).transform(X).shape == (4, n_components)
    assert isinstance(phi.record_, SeriesRecord)
    assert len(phi.record_.terms) == (1 if n_components == 1 else 2)
    samples = kernel_estimates(lambda seed: phi.set_params(random_state=seed).fit_transform(X), 600)
    assert is_mean(samples, phi.kernel_(X))
    assert not is_mean(samples, phi.kernel_(X) - 0.5 * X @ X.T)


@pytest.mark.parametrize(
    "phi",
    [pm.ArcCosineFeatures(order, 8, depth=depth, exact_degrees=(0, 1)) for order in (0, 1, 2) for depth in (1, 2)]
    + [pm.NTKFeatures(3, 8, remainder="activation"), pm.NTKFeatures(3, 8)],
    ids=repr,
)
def test_one_input_is_exact_and_zero_rows_are_zero(phi):
    X = np.array([[2.0], [-1.0], [0.5], [0.0], [-3.0], [1.0], [4.0], [-2.0], [0.3]])
    Z = phi.fit_transform(X)
    assert not Z[3].any()
    rows = X[:, 0] != 0
    np.testing.assert_allclose(Z[rows] @ Z[rows].T, phi.kernel_(X[rows]), rtol=1e-10, atol=1e-10)


def test_the_remainder_is_positive_and_adds_up():
    b = zonal_coefficients(NTK(3), 6)
    powers, remainder = remove_powers(b, 6, (0, 1, 2, 3))
    assert list(powers) == [0, 1, 2, 3]
    assert (remainder >= 0).all()
    exact = powers_to_zonal(np.array(list(powers.values())), 6)
    np.testing.assert_allclose(remainder[:4] + exact, b[:4], atol=1e-10)
    np.testing.assert_allclose(remainder[4:], b[4:])
    assert remainder[3] == 0
    assert remainder[2] == 0
    # Degrees from the lowest on, with a component for the remainder.
    assert fitting_degrees(b, 6, 28, (0, 1, 2)) == (0, 1)
    assert fitting_degrees(b, 6, 29, (0, 1, 2)) == (0, 1, 2)


@pytest.mark.parametrize("n_features", [3, 10])
def test_the_activation_has_the_coefficients(n_features):
    b = np.array([0.1, 0.2, 0.0, 0.4, 0.3])
    g, weights = zonal_rule(n_features)
    f = activation_values(g, n_features, b) * weights
    found = [p @ f for p in zonal_polynomials(g, n_features, 5)]
    np.testing.assert_allclose(found, [0.1**0.5, 0.2**0.5, 0, -(0.4**0.5), 0.3**0.5, 0], atol=1e-5)


def test_the_predicted_variance_is_that_of_independent_directions(rng):
    """Within a tenth, some ten standard errors; mutant: a remainder of four fifths."""
    x, y = np.array([1.0, 0, 0, 0, 0]), np.array([0.6, 0.8, 0, 0, 0])
    _, remainder = remove_powers(zonal_coefficients(NTK(2), 5), 5, (0, 1))
    w = rng.standard_normal((400_000, 5))
    w *= 5**0.5 / np.linalg.norm(w, axis=1, keepdims=True)
    points = np.linspace(-(5**0.5), 5**0.5, 4001)
    values = activation_values(points, 5, remainder)
    product = np.interp(w @ x, points, values) * np.interp(w @ y, points, values)
    predicted = remainder_standard_deviation(remainder, 5, np.array([0.6]))
    assert abs(product.std() / predicted - 1) < 0.1
    assert remainder_standard_deviation(4 * remainder, 5, np.array([0.6])) == pytest.approx(4 * predicted)
    assert abs(product.std() / remainder_standard_deviation(0.8 * remainder, 5, np.array([0.6])) - 1) > 0.1


def test_more_degrees_are_exact_where_they_pay(rng):
    cosines = rng.uniform(-0.9, 0.9, 300)
    plans = [ActivationPlan.of(NTK(1), 4, m, (0, 1), cosines=cosines) for m in (16, 64, 1024)]
    assert [len(plan.powers) for plan in plans] == sorted(len(plan.powers) for plan in plans)
    assert len(plans[-1].powers) > 2
    # The kernel of one layer has no odd degree but the first.
    assert all(degree < 2 or degree % 2 == 0 for degree in plans[-1].powers)


def test_directions_are_of_one_length():
    record, stretch = draw_directions(5, 24, "fastfood", False, np.random.default_rng(0))
    assert stretch is not None
    np.testing.assert_allclose(np.linalg.norm(record.to_dense() * stretch[:, None], axis=1), 5**0.5)
    assert draw_directions(5, 24, "auto", True, np.random.default_rng(0))[1] is None


def test_a_table_is_read_between_its_points(rng):
    table = rng.standard_normal(9)
    g = np.array([[-3.0, -2.0, -1.3, 0.0, 0.1, 1.999, 2.0, 7.0]])
    out = np.full((1, 10), 5.0)
    scale = rng.uniform(0.5, 2, 8)
    interpolate(g, table, 2.0, scale, out, 1)
    np.testing.assert_allclose(out[0, 1:9], scale * np.interp(g[0], np.linspace(-2, 2, 9), table))
    np.testing.assert_array_equal(out[0, [0, 9]], 5.0)


def test_exact_degrees_lower_the_error(rng):
    X = rng.standard_normal((200, 10))
    for order in (0, 1, 2):
        published, exact = (
            pm.metrics.relative_error(pm.ArcCosineFeatures(order, 1024, exact_degrees=e, random_state=0).fit(X), X)
            for e in ((), (0, 1))
        )
        assert exact < 0.5 * published


@pytest.mark.parametrize(
    ("phi", "message"),
    [
        (pm.ArcCosineFeatures(exact_degrees=(-1,)), "`exact_degrees` must be at least 0"),
        (
            pm.ArcCosineFeatures(1, 16, exact_degrees=(0, 1), projection="sparse-sign"),
            "needs a spectral law that is Gaussian",
        ),
    ],
    ids=str,
)
def test_what_cannot_be(phi, message):
    with pytest.raises(ValueError, match=message):
        phi.fit(np.eye(4))
