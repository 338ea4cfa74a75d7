"""Bounds on numbers of features: their formulas, and that they are upper bounds where that can be measured.

A bound that fails with probability at most delta may fail on a few of many draws: the tests count failures, and show
that they would see a bound that is too small by a stated factor. The factors are large because the bounds are loose.
"""

from __future__ import annotations

from math import log, sqrt

import numpy as np
import pytest

import phimap as pm
from phimap.theory import bounds, required_features
from tests.support.statistics import fails_at_most

DELTA = 0.1
DRAWS = 30

#: Arguments that suit every bound; each takes those it accepts.
TYPICAL = {
    "epsilon": 0.25,
    "delta": 0.1,
    "n": 1000,
    "d": 4,
    "length_scale": 1.0,
    "diameter": 5.0,
    "alpha": 2.0,
    "statistical_dimension": 20.0,
    "largest_leverage": 100.0,
    "operator_norm": 15.0,
    "trace": 1000.0,
    "depth": 2,
    "degree": 4,
    "r": 3.0,
    "feature_bound": 1.0,
    "source": 0.75,
    "capacity": 0.5,
    "compatibility": 0.8,
    "decay": "polynomial",
    "decay_rate": 2.0,
}
NAMES = [bound.name for bound in bounds()]


def evaluate(name, **changed):
    chosen = next(bound for bound in bounds() if bound.name == name)
    arguments = {key: value for key, value in (TYPICAL | changed).items() if key in chosen.accepts}
    return required_features(name, **arguments)


def is_upper_bound(holds, n_directions):
    """Whether failures can be no more frequent than DELTA."""
    return fails_at_most([not holds(n_directions, seed) for seed in range(DRAWS)], DELTA)


def uniform_error(kernel, points, n_directions, seed):
    """Largest error of paired features over all pairs of points, by the differences alone."""
    phi = pm.FourierFeatures(kernel, 2 * n_directions, projection="gaussian", random_state=seed)
    return pm.metrics.max_error(phi, points, n_subset=len(points))


@pytest.mark.parametrize("name", NAMES)
def test_every_bound_gives_a_record_with_its_source(name):
    found = evaluate(name)
    assert isinstance(found.value, int)
    assert found.value >= 1
    assert found.source
    assert found.formula
    assert name in str(found)
    assert ("constant 1" in str(found)) is not found.exact_constants
    assert str(found.bound).startswith(name)
    assert (found.bound.printed is None) is ("The source prints" not in str(found))
    assert set(found.bound.needs) <= set(found.bound.accepts)


@pytest.mark.parametrize("name", NAMES)
def test_needs_are_needed_and_others_refused(name):
    chosen = next(bound for bound in bounds() if bound.name == name)
    full = {key: value for key, value in TYPICAL.items() if key in chosen.accepts}
    for missing in chosen.needs:
        with pytest.raises(TypeError, match=f"`{missing}` must be given for '{name}'"):
            required_features(name, **{key: value for key, value in full.items() if key != missing})
    foreign = next(key for key in TYPICAL if key not in chosen.accepts)
    with pytest.raises(TypeError, match=f"`{foreign}` is not taken by '{name}'"):
        required_features(name, **full, **{foreign: TYPICAL[foreign]})


@pytest.mark.parametrize("name", [name for name in NAMES if "epsilon" in evaluate(name).bound.accepts])
def test_smaller_errors_need_more_features(name):
    assert evaluate(name, epsilon=0.01).value > evaluate(name, epsilon=0.2).value


@pytest.mark.parametrize("name", [name for name in NAMES if "delta" in evaluate(name).bound.accepts])
def test_smaller_risks_need_more_features(name):
    assert evaluate(name, delta=1e-6).value > evaluate(name, delta=0.1).value


def test_names_are_unique():
    assert len(set(NAMES)) == len(NAMES)


def test_uniform_bound_solves_the_published_probability():
    d, diameter, length_scale, epsilon = 5, 7.0, 2.0, 0.2
    s = required_features(
        "fourier-uniform", epsilon=epsilon, delta=0.05, d=d, diameter=diameter, length_scale=length_scale
    ).value
    spread = sqrt(d) / length_scale * diameter / epsilon

    def probability(s):
        constant = 2 ** ((6 * d + 2) / (d + 2)) * ((2 / d) ** (d / (d + 2)) + (d / 2) ** (2 / (d + 2)))
        assert constant < 66
        return constant * spread ** (2 * d / (d + 2)) * np.exp(-s * epsilon**2 / (4 * (d + 2)))

    assert probability(s) <= 0.05 < probability(s - 1)


def test_known_values():
    given = {"epsilon": 0.5, "delta": 0.1, "n": 100, "alpha": 5.0, "statistical_dimension": 10.0}
    expected = int(np.ceil(8 / 3 * 4 * 20 * log(1600)))
    assert required_features("fourier-spectral", **given).value == expected
    steps = required_features("arccosine0-spectral", **given)
    assert steps.value == int(np.ceil(16 / 3 * 4 * 20 * log(1600)))
    assert steps.printed == expected
    assert required_features("ridge-leverage", delta=0.1, statistical_dimension=10.0).value == int(
        np.ceil(50 * log(1600))
    )
    parts = required_features("ntk-countsketch-spectral", **given, d=3, operator_norm=4.0)
    assert parts.widths["sketch"] == int(np.ceil(297 / 0.025 * (100 / 2.25) ** 2))
    assert parts.value == parts.widths["relu"] + parts.widths["sketch"]
    assert parts.widths["step"] == int(np.ceil(96 * 100 / 1.25 * log(9600)))
    assert parts.widths["relu"] == int(np.ceil(32 / 3 * 3 * 16 / 1.25 * log(9600)))
    relu, sketch = 16 / 3 * 3 * 16 / 1.25 * log(4800), 297 / 0.025 * (100 / 6) ** 2
    assert parts.printed == int(np.ceil(relu)) + int(np.ceil(sketch))


def test_orders_of_the_text_of_the_survey():
    """Mutant: the logarithms of Fastfood and of Maclaurin exchanged."""
    root = 10**-2  # n^(-1/2) for n = 10^4 rows, whose alpha is n lambda
    assert required_features("ridge-out-of-sample", epsilon=root, n=10**4, alpha=10**4 * root).value == 10**4
    assert required_features("ridge-sgd", n=10**4).value == 100
    given = {"epsilon": 0.05, "delta": 0.1, "d": 6}
    logarithms = {"fastfood-uniform": log(6 / 0.1), "maclaurin-uniform": log(1 / (0.05 * 0.1))}
    factors = {"fastfood-uniform": evaluate("fourier-uniform", **given).value, "maclaurin-uniform": 6 / 0.05**2}
    swapped = dict(zip(logarithms, reversed(logarithms.values()), strict=True))
    for name, factor in factors.items():
        value = evaluate(name, **given).value
        assert value / factor == pytest.approx(logarithms[name], rel=1e-3)
        assert value / factor != pytest.approx(swapped[name], rel=0.05)
    for d in (1, 3, 6):
        s = required_features("qmc-entrywise", epsilon=0.01, d=d).value
        assert s > np.exp(d)
        assert log(s) ** d / s <= 0.01 < log(s - 1) ** d / (s - 1) * (1 + 1e-9)
    # An error above the largest value of the rate asks for the number of directions from which the rate holds.
    assert required_features("qmc-entrywise", epsilon=1.5, d=1).value == 3


def test_largest_leverage_joins_plain_and_optimised_draws():
    shared = {"epsilon": 0.3, "delta": 0.1, "statistical_dimension": 12.0}
    plain = required_features("fourier-spectral", **shared, n=500, alpha=5.0)
    assert required_features("largest-leverage-spectral", **shared, largest_leverage=100.0).value == plain.value
    best = required_features("leverage-spectral", **shared)
    assert required_features("largest-leverage-spectral", **shared, largest_leverage=12.0).value == best.value
    with pytest.raises(ValueError, match="`largest_leverage` must be at least statistical_dimension=12"):
        required_features("largest-leverage-spectral", **shared, largest_leverage=11.0)


def test_largest_leverage_bounds_draws_of_a_finite_law():
    """Draws from thirty frequencies, whose leverages are known; a hundredth of the number is not enough."""
    rng, alpha, epsilon = np.random.default_rng(0), 3.0, 0.5
    X, W = rng.standard_normal((60, 2)), 2 * rng.standard_normal((30, 2))
    Z = np.exp(1j * X @ W.T)
    K = (Z @ Z.conj().T).real / 30
    values, vectors = np.linalg.eigh(K)
    whitened = (vectors / np.sqrt(np.maximum(values, 0) + alpha)).T @ Z
    leverages = np.square(np.abs(whitened)).sum(axis=0)
    dimension = pm.metrics.statistical_dimension(K, alpha)
    assert leverages.mean() == pytest.approx(dimension)
    bound = required_features(
        "largest-leverage-spectral",
        epsilon=epsilon,
        delta=DELTA,
        statistical_dimension=dimension,
        largest_leverage=leverages.max(),
    ).value

    def holds(s, seed):
        drawn = whitened[:, np.random.default_rng(seed).integers(30, size=s)]
        difference = (drawn @ drawn.conj().T).real / s - np.diag(values / (values + alpha))
        return bool(np.abs(np.linalg.eigvalsh(difference)).max() <= epsilon)

    assert is_upper_bound(holds, bound)
    assert not is_upper_bound(holds, bound // 100)


@pytest.mark.parametrize(("t", "r"), [(1.0, 0.5), (2.0, 0.75), (3.0, 1.0)])
def test_source_bound_has_the_rows_of_table_4_as_cases(t, r):
    # Polynomial decay i^(-2t) is capacity 1/(2t); the row's exponent of n is (2t + 2r - 1) / (1 + 4rt).
    few, many = 10**4, 10**8
    capacity = 1 / (2 * t)
    counts = [evaluate("ridge-source", n=n, source=r, capacity=capacity, compatibility=1.0) for n in (few, many)]
    scale = 2 * r + capacity
    logarithms = [log(108 / (n ** (-1 / scale) * TYPICAL["delta"])) for n in (few, many)]
    slope = log(counts[1].value / counts[0].value * logarithms[0] / logarithms[1]) / log(many / few)
    # Rounding up moves a count of at least 100 by a hundredth.
    assert slope == pytest.approx((2 * t + 2 * r - 1) / (1 + 4 * r * t), abs=0.01 / log(many / few))


def test_source_bound_without_regularity_is_linear_in_n():
    counts = [evaluate("ridge-source", n=n, source=0.5, capacity=0.0, compatibility=1.0).value for n in (100, 10000)]
    assert counts[1] / counts[0] == pytest.approx(100 * log(1080 * 10000) / log(1080 * 100), rel=0.01)


@pytest.mark.parametrize(
    ("name", "arguments", "exponent"),
    [
        # The columns "lambda" of the survey's Tables 4 and 5, as powers of n.
        ("ridge-basic", {}, -1 / 2),
        ("ridge-source", {"source": 0.75, "capacity": 0.5, "delta": 0.1}, -1 / 2),
        ("ridge-source", {"source": 1.0, "capacity": 0.5, "delta": 0.1}, -2 / 5),
        ("ridge-plain-decay", {"decay": "harmonic"}, -1 / 2),
        ("ridge-leverage-decay", {"decay": "polynomial", "decay_rate": 2.0}, -1 / 2),
        ("lipschitz-plain-decay", {"decay": "exponential"}, -1),
        ("lipschitz-leverage-decay", {"decay": "harmonic"}, -1),
        ("svm-low-noise", {"decay": "exponential", "decay_rate": 3.0}, -1),
        ("svm-low-noise", {"decay": "polynomial", "decay_rate": 3.0}, -3 / 4),
        ("svm-low-noise", {"decay": "polynomial"}, -1 / 2),
        ("svm-low-noise", {"decay": "harmonic"}, -1),
        ("svm-separation", {"decay_rate": 1.0}, -2),
        ("svm-separation", {"decay_rate": 0.5}, -1 / 2),
    ],
)
def test_learning_bounds_say_their_regularization(name, arguments, exponent):
    found = [required_features(name, n=n, **arguments) for n in (100, 10000)]
    assert [one.regularization for one in found] == pytest.approx([100**exponent, 10000**exponent])
    assert f"at lambda = {10000**exponent:.3g}" in str(found[1])


def test_other_bounds_set_no_regularization():
    found = required_features("fourier-entrywise", epsilon=0.3, delta=0.1, n=40)
    assert found.regularization is None
    assert "lambda" not in str(found)


def test_decays_order_the_need():
    for name in ("ridge-leverage-decay", "lipschitz-leverage-decay", "svm-low-noise"):
        counts = [evaluate(name, n=10**6, decay=decay).value for decay in ("exponential", "polynomial", "harmonic")]
        assert counts == sorted(counts)


def test_leverage_needs_fewer_than_plain():
    assert evaluate("leverage-spectral").value < evaluate("fourier-spectral").value
    assert evaluate("ridge-leverage").value < evaluate("ridge-plain").value


@pytest.mark.parametrize("d", [1, 2])
def test_uniform_bound_is_an_upper_bound(d):
    # A grid so fine that the error moves by less than a tenth of epsilon between its points.
    epsilon, side = 0.3, 3.0
    ticks = np.linspace(0, side, 120 if d == 1 else 14)
    points = np.stack(np.meshgrid(*[ticks] * d), axis=-1).reshape(-1, d)
    s = required_features(
        "fourier-uniform", epsilon=epsilon, delta=DELTA, d=d, diameter=side * sqrt(d), length_scale=1.0
    ).value

    def holds(n_directions, seed):
        return uniform_error(pm.kernels.Gaussian(), points, n_directions, seed) <= epsilon

    assert is_upper_bound(holds, s)
    assert not is_upper_bound(holds, s // 400)


@pytest.mark.parametrize("spread", [1.0, 100.0])
def test_entrywise_bound_is_an_upper_bound(spread, rng):
    # Far from each other, every entry has the largest variance.
    X = spread * rng.standard_normal((40, 3))
    s = required_features("fourier-entrywise", epsilon=0.3, delta=DELTA, n=40).value

    def holds(n_directions, seed):
        return uniform_error(pm.kernels.Laplacian(length_scale=2.0), X, n_directions, seed) <= 0.3

    assert is_upper_bound(holds, s)
    assert not is_upper_bound(holds, s // 8)


def test_l2_bound_is_an_upper_bound():
    # The interval [0, 4]: differences u have density 2 (4 - |u|), integrated by the midpoint rule.
    epsilon, diameter = 0.5, 4.0
    u = (np.arange(2000) + 0.5) / 2000 * diameter
    weight = 2 * (diameter - u) * diameter / 2000
    s = required_features("fourier-l2", epsilon=epsilon, delta=DELTA, d=1, diameter=diameter).value

    def holds(n_directions, seed):
        w = np.random.default_rng(seed).standard_normal(n_directions)
        error = np.cos(np.outer(u, w)).mean(axis=1) - np.exp(-(u**2) / 2)
        return sqrt(weight @ error**2) <= epsilon

    assert is_upper_bound(holds, s)
    assert not is_upper_bound(holds, s // 100)


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("fourier", {}, "`bound` must be one of 'fourier-entrywise'"),
        ("fourier-entrywise", {"epsilon": 0.1, "delta": 1.0, "n": 9}, "`delta` must be below 1, got 1.0"),
        ("fourier-entrywise", {"epsilon": 0, "delta": 0.1, "n": 9}, "`epsilon` must be greater than 0.0, got 0.0"),
        ("fourier-entrywise", {"epsilon": 0.1, "delta": 0.1, "n": 1}, "`n` must be at least 2 for this bound"),
        ("leverage-spectral", {"epsilon": 0.6, "delta": 0.1, "statistical_dimension": 3.0}, "must be at most 0.5"),
        ("ntk-countsketch-entrywise", {"epsilon": 0.5, "delta": 0.1, "depth": 2}, "`epsilon` must be below 1 / depth"),
        ("ntk-tensorsrht-entrywise", {"epsilon": 0.5, "delta": 0.1, "depth": 1}, "`depth` must be at least 2"),
        ("ridge-plain-decay", {"n": 100, "decay": "fast"}, "`decay` must be one of 'exponential'"),
        ("ridge-source", {"delta": 0.1, "n": 100, "source": 0.2, "capacity": 0.5}, "`source` must lie in"),
        (
            "ridge-source",
            {"delta": 0.1, "n": 100, "source": 0.5, "capacity": 0.5, "compatibility": 0.4},
            "`compatibility` must lie in",
        ),
        ("fourier-l2", {"epsilon": 1e-9, "delta": 0.1, "d": 900, "diameter": 1e9}, "got an overflow"),
        (
            "fourier-uniform",
            {"epsilon": 1.5, "delta": 0.1, "d": 1, "diameter": 1.0, "length_scale": 1.0},
            "`epsilon` must be at most sqrt",
        ),
        ("fourier-uniform-gaussian", {"epsilon": 0.1, "diameter": 1, "length_scale": 2}, "greater than length_scale"),
    ],
)
def test_values_out_of_range_name_the_rule(name, arguments, message):
    with pytest.raises(ValueError, match=message):
        required_features(name, **arguments)
