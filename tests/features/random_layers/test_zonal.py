"""What exact degrees leave, and its random features: exact means, variances, widths."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import phimap as pm
from phimap.features.power_series.terms import SeriesRecord
from phimap.features.random_layers.rectified import ResidualRecord, rectified_rest
from phimap.features.random_layers.zonal import (
    TabulatedRecord,
    activation_values,
    draw_directions,
    fitting_degrees,
    plan_zonal,
    remove_powers,
    rest_deviation,
)
from phimap.kernels import NTK, ArcCosine
from phimap.kernels.zonal import powers_to_zonal, zonal_coefficients, zonal_polynomials, zonal_rule
from phimap.ops import host
from phimap.ops.compiled.activation import interpolate
from phimap.projections.dense import DenseRecord
from tests.support.statistics import is_mean, kernel_estimates

OPS = host()


def apply(record, X):
    out = np.empty((len(X), record.n_components))
    record.bind(OPS).apply(OPS, X, out)
    return out


def estimates(phi, X, n_seeds):
    """Kernel estimates over seeds, and the same without the linear term."""
    features = [phi.set_params(random_state=seed).fit_transform(X) for seed in range(n_seeds)]
    assert phi.record_.terms[1].n_components == X.shape[1]
    whole = np.stack([Z @ Z.T for Z in features])
    return whole, whole - np.stack([Z[:, 1 : 1 + X.shape[1]] @ Z[:, 1 : 1 + X.shape[1]].T for Z in features])


@pytest.mark.parametrize("degrees", [(0,), (1,), (0, 1), (0, 1, 2), (2,), (0, 3)])
@pytest.mark.parametrize("order", [0, 1, 2])
def test_exact_powers_and_directions_around_a_circle_give_the_kernel(order, degrees):
    """The mean over all directions of the plane, where sums over equally spaced ones are integrals."""
    angles = (np.arange(2000) + 0.5) * np.pi / 1000
    directions = DenseRecord(2**0.5 * np.stack([np.cos(angles), np.sin(angles)]))
    powers, polynomial, scale = rectified_rest(order, 2, degrees)
    turns = np.linspace(0, np.pi, 7)
    X = np.stack([np.cos(turns), np.sin(turns)], axis=1)
    Z = apply(ResidualRecord(directions, order, polynomial, scale * 2000**-0.5), X)
    exact = sum(c * (X @ X.T) ** j for j, c in powers.items())
    np.testing.assert_allclose(exact + Z @ Z.T, ArcCosine(order)(X), atol=3e-3)
    if 1 in powers:
        assert np.abs(exact - powers[1] * X @ X.T + Z @ Z.T - ArcCosine(order)(X)).max() > 0.1


@pytest.mark.parametrize("n_features", [2, 5, 30])
@pytest.mark.parametrize("order", [0, 1, 2])
def test_what_is_left_of_a_unit_has_no_degree_0_or_1(order, n_features):
    g, weights = zonal_rule(n_features)
    powers, polynomial, scale = rectified_rest(order, n_features, (0, 1))
    unit = scale * (np.sign(g) * g**order + g**order)
    f = scale * (np.sign(g) * g**order + np.polyval(polynomial[::-1], g))
    for power in (0, 1):
        assert abs((weights * f * g**power).sum()) < 1e-5
        # The coefficient of the unit, squared, is what is carried exactly.
        np.testing.assert_allclose((weights * unit * g**power).sum() ** 2, powers[power], atol=1e-4)


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


def test_the_rest_is_positive_and_adds_up():
    b = zonal_coefficients(NTK(3), 6)
    powers, rest = remove_powers(b, 6, (0, 1, 2, 3))
    assert list(powers) == [0, 1, 2, 3]
    assert (rest >= 0).all()
    exact = powers_to_zonal(np.array(list(powers.values())), 6)
    np.testing.assert_allclose(rest[:4] + exact, b[:4], atol=1e-10)
    np.testing.assert_allclose(rest[4:], b[4:])
    assert rest[3] == 0
    assert rest[2] == 0
    # Degrees from the lowest on, with a component for the rest.
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
    """Within a tenth, some ten standard errors; mutant: a rest of four fifths."""
    x, y = np.array([1.0, 0, 0, 0, 0]), np.array([0.6, 0.8, 0, 0, 0])
    _, rest = remove_powers(zonal_coefficients(NTK(2), 5), 5, (0, 1))
    w = rng.standard_normal((400_000, 5))
    w *= 5**0.5 / np.linalg.norm(w, axis=1, keepdims=True)
    points = np.linspace(-(5**0.5), 5**0.5, 4001)
    values = activation_values(points, 5, rest)
    product = np.interp(w @ x, points, values) * np.interp(w @ y, points, values)
    predicted = rest_deviation(rest, 5, np.array([0.6]))
    assert abs(product.std() / predicted - 1) < 0.1
    assert abs(product.std() / rest_deviation(0.8 * rest, 5, np.array([0.6])) - 1) > 0.1


def test_more_degrees_are_exact_where_they_pay(rng):
    cosines = rng.uniform(-0.9, 0.9, 300)
    plans = [plan_zonal(NTK(1), 4, m, (0, 1), cosines) for m in (16, 64, 1024)]
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


@pytest.mark.parametrize("depth", [1, 3])
def test_the_remainder_is_sampled_by_what_errs_less(depth, rng):
    X = rng.standard_normal((400, 6))

    def map_of(remainder, rows) -> tuple[float, Any]:
        phi = pm.NTKFeatures(depth, 512, remainder=remainder, random_state=0).fit(rows)
        return pm.metrics.relative_error(phi, rows[:200]), phi.record_

    errors = {remainder: map_of(remainder, X)[0] for remainder in ("sketch", "activation", "auto")}
    assert errors["auto"] == min(errors.values())
    assert isinstance(map_of("auto", X)[1].terms[-1].deviation, TabulatedRecord)
    # Many inputs with a mean: sketches split it off.
    X = rng.standard_normal((400, 100)) + 1
    assert not isinstance(map_of("auto", X)[1].terms[-1].deviation, TabulatedRecord)
    assert map_of("auto", X)[0] < map_of("activation", X)[0]


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
        (pm.NTKFeatures(remainder="both"), "`remainder` must be"),
        (pm.NTKFeatures(remainder="activation", sampling="leverage"), "`remainder` must be 'auto' where `sampling`"),
        (pm.NTKFeatures(remainder="sketch", projection="sorf"), "`remainder` must be 'auto' where `projection`"),
        (pm.NTKFeatures(remainder="activation", exact_degrees=(-1,)), "`exact_degrees` must be at least 0"),
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
