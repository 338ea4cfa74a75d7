"""Additive kernels: values against sums over subsets, the law of their directions, distances, errors."""

from __future__ import annotations

import re
from fractions import Fraction
from itertools import combinations
from math import comb

import numpy as np
import pytest
from scipy import sparse, stats

import phimap as pm
from phimap.config import config
from phimap.kernels import Additive, Cauchy, Gaussian, GaussianLaw, Laplacian, Matern, NormalizedInput, SubsetLaw
from phimap.kernels.subsets import random_subsets, spread_subsets
from phimap.learn.search.families import median_length_scale
from tests.support.learners import FIXED
from tests.support.memory import traced

D = 6
SCALES = np.array([0.7, 1.0, 1.5, 2.0, 3.0, 0.9])
#: A base, and its values (n, m) of rows in some columns, written out.
BASES = {
    "gaussian": (Gaussian(1.3), lambda t: np.exp(-(t**2).sum(axis=2) / (2 * 1.3**2))),
    "gaussian-scales": (Gaussian(SCALES), None),
    "laplacian": (Laplacian(2.0), lambda t: np.exp(-abs(t).sum(axis=2) / 2.0)),
    "cauchy": (Cauchy(1.5), lambda t: np.prod(1 / (1 + (t / 1.5) ** 2), axis=2)),
    "matern": (Matern(0.5, 2.0), lambda t: np.exp(-np.sqrt((t**2).sum(axis=2)) / 2.0)),
    "product": (
        Gaussian(2.0) * Laplacian(3.0),
        lambda t: np.exp(-(t**2).sum(axis=2) / 8 - abs(t).sum(axis=2) / 3.0),
    ),
    "product-matern": (
        Gaussian(2.0) * Matern(0.5, 3.0),
        lambda t: np.exp(-(t**2).sum(axis=2) / 8 - np.sqrt((t**2).sum(axis=2)) / 3.0),
    ),
}


@pytest.fixture
def rows():
    draws = np.random.default_rng(0).normal(size=(12, D))
    draws[3], draws[5, :3], draws[7] = 0.0, draws[4, :3], draws[6]
    return draws


def direct(name, X, order):
    """The mean over subsets, one by one."""
    function = BASES[name][1] or (lambda t: np.exp(-(t**2).sum(axis=2) / 2))
    differences = (X[:, None] - X[None]) / (SCALES if name == "gaussian-scales" else 1.0)
    subsets = list(combinations(range(X.shape[1]), order))
    return sum(function(differences[:, :, list(subset)]) for subset in subsets) / len(subsets)


@pytest.mark.parametrize("order", range(1, D + 1))
@pytest.mark.parametrize("name", BASES)
def test_values_are_the_mean_over_subsets(name, order, rows):
    """Mutant: the next order."""
    kernel, expected = Additive(BASES[name][0], order), direct(name, rows, order)
    np.testing.assert_allclose(kernel(rows), expected, rtol=1e-12)
    np.testing.assert_allclose(kernel(rows, rows[:5]), expected[:, :5], rtol=1e-12)
    np.testing.assert_allclose(kernel(sparse.csr_array(rows)), expected, rtol=1e-12)
    assert not np.allclose(kernel(rows), direct(name, rows, order % D + 1), rtol=1e-2)
    np.testing.assert_array_equal(kernel.diag(rows), 1.0)


@pytest.mark.parametrize("name", BASES)
def test_all_columns_are_the_base(name, rows):
    base = BASES[name][0]
    np.testing.assert_array_equal(Additive(base, D)(rows), base(rows))
    assert type(Additive(base, D).spectral_law(D)) is type(base.spectral_law(D))


def newton_girard(factors, order):
    """The recurrence of the source, from sums of powers."""
    powers = [(factors**i).sum() for i in range(order + 1)]
    found = [1.0]
    for n in range(1, order + 1):
        found.append(sum((-1) ** (i - 1) * found[n - i] * powers[i] for i in range(1, n + 1)) / n)
    return found[order] / comb(factors.size, order)


def test_high_orders_keep_their_digits():
    """Mutant: Newton-Girard's formulae, which lose most of them."""
    x = 2 * np.random.default_rng(0).normal(size=20)
    factors = np.exp(-0.5 * x**2)
    polynomial = [Fraction(1)] + [Fraction(0)] * 18
    for factor in factors:
        for r in range(18, 0, -1):
            polynomial[r] += Fraction(float(factor)) * polynomial[r - 1]
    exact = float(polynomial[18] / comb(20, 18))
    found = Additive(Gaussian(), 18)(x[None], np.zeros((1, 20)))[0, 0]
    assert found == pytest.approx(exact, rel=1e-13, abs=0)
    assert newton_girard(factors, 18) != pytest.approx(exact, rel=1e-7, abs=0)


def test_five_hundred_columns(rng):
    X = rng.normal(size=(9, 500))
    factors = np.exp(-0.5 * (X[:, None] - X[None]) ** 2)
    one, two, three = ((factors**i).sum(axis=2) for i in (1, 2, 3))
    expected = (one**3 - 3 * one * two + 2 * three) / 6 / comb(500, 3)
    np.testing.assert_allclose(Additive(Gaussian(), 3)(X), expected, rtol=1e-12)


def test_columns_that_are_zero_in_all_rows_cost_nothing(rng):
    X = sparse.random_array((15, 5000), density=0.002, format="csr", rng=rng)
    for order in (1, 3):
        kernel = Additive(Laplacian(0.1), order)
        np.testing.assert_allclose(kernel(X), kernel(X.toarray()), rtol=1e-12)


def test_scratch_of_high_orders_is_bounded(rng):
    """All orders of a tile at once would be 60 tiles of 2 MiB."""
    X = rng.normal(size=(512, 64))
    with config(n_jobs=1):
        Additive(Gaussian(), 2)(X[:9])
        assert traced(lambda: Additive(Gaussian(8.0), 60)(X[:64], X)).peak < 12 * 2**20


def test_positive_semidefinite(rng):
    X = rng.normal(size=(60, 9))
    for order in (1, 2, 5):
        assert np.linalg.eigvalsh(Additive(Gaussian(0.7), order)(X))[0] > -1e-13


def test_sums_products_and_multiples(rows):
    one, two = Additive(Gaussian(1.3), 1), Additive(Laplacian(2.0), 2)
    values = direct("gaussian", rows, 1), direct("laplacian", rows, 2)
    np.testing.assert_allclose((one + 0.5 * two)(rows), values[0] + 0.5 * values[1], rtol=1e-12)
    np.testing.assert_allclose((one * two)(rows), values[0] * values[1], rtol=1e-12)
    assert (one + 0.5 * two).get_params()["left__base__length_scale"] == 1.3


@pytest.mark.parametrize(
    ("kernel", "error", "message"),
    [
        (Additive(Gaussian(), 7), ValueError, "`order` must be at most the number of columns, 6, got 7. Use order=6 "),
        (Additive(Gaussian(), 0), ValueError, "`order` must be at least 1, got 0"),
        (Additive(Gaussian(), 1.5), TypeError, "`order` must be an integer"),
        (Additive(Gaussian(-1.0), 2), ValueError, "`length_scale` must be greater than 0"),
        (Additive(Gaussian([1.0, 2.0]), 2), ValueError, "`length_scale` must be a number or one number for each"),
        (
            Additive("gaussian", 2),
            TypeError,
            "`base` must be a stationary kernel that is neither additive nor a mixture, got 'gaussian'",
        ),
        (Additive(NormalizedInput(Gaussian()), 2), TypeError, "`base` must be a stationary kernel"),
        (
            Additive(Additive(Gaussian(), 2), 1),
            TypeError,
            "that is neither additive nor a mixture, got Additive(base=Gaussian(), order",
        ),
    ],
)
def test_bad_parameters(kernel, error, message, rows):
    for use in (lambda: kernel(rows), lambda: kernel.spectral_law(D), lambda: kernel.distances(rows)):
        with pytest.raises(error, match=re.escape(message)) as caught:
            use()
        assert "\n" not in str(caught.value)


def test_too_many_subsets_of_a_base_that_is_no_product(rng):
    X = rng.normal(size=(4, 40))
    kernel = Additive(Matern(), 3)
    with pytest.raises(
        ValueError, match=r"`order` must leave at most 2000 subsets .* 3 of 40 columns: 9880 subsets\. Use"
    ):
        kernel(X)
    assert np.isfinite(pm.FourierFeatures(kernel, 64, random_state=0).fit_transform(X)).all()
    assert Additive(Matern(), 1)(X).shape == (4, 4)


@pytest.mark.parametrize("draw", [random_subsets, spread_subsets])
def test_subsets_are_uniform(draw, seed):
    """Chi-squared, false-alarm rate 1e-6; mutant: subsets in their natural order."""
    counts = np.zeros((2, 10))
    index = {subset: i for i, subset in enumerate(combinations(range(5), 3))}
    for rng in np.random.default_rng(seed).spawn(600):
        for row, place in zip(counts, (0, 6), strict=True):
            row[index[tuple(draw(5, 3, 7, rng.spawn(1)[0])[place].tolist())]] += 1
    assert stats.chisquare(counts, axis=1).pvalue.min() > 1e-6 / 2
    assert stats.chisquare(np.eye(10)[0] * 600).pvalue < 1e-6


@pytest.mark.parametrize(("d", "q"), [(5, 1), (7, 3), (8, 4), (12, 2), (6, 5)])
def test_spread_subsets_are_distinct_and_even(d, q, rng):
    whole = spread_subsets(d, q, comb(d, q), rng)
    assert sorted(map(tuple, whole.tolist())) == list(combinations(range(d), q))
    some = spread_subsets(d, q, min(d, comb(d, q)), rng)
    assert (np.diff(some, axis=1) > 0).all()
    # A round of cyclic shifts, unless it began with a subset that is some of its own shifts.
    if np.gcd(d, q) == 1:
        np.testing.assert_array_equal(np.bincount(some.ravel(), minlength=d), q)


def test_subsets_of_very_many_columns(rng):
    subsets = spread_subsets(100_000, 3, 500, rng)
    assert len({tuple(subset) for subset in subsets.tolist()}) == 500


@pytest.mark.parametrize("base", [GaussianLaw(9, 2.0), GaussianLaw(9, np.arange(1.0, 10.0))])
def test_law_has_few_entries_and_nested_draws(base):
    law = Additive(Gaussian(1 / base.scale), 2).spectral_law(9)
    assert isinstance(law, SubsetLaw)
    few, many = (law.sample(np.random.default_rng(3), size) for size in (7, 50))
    np.testing.assert_array_equal(few, many[:7])
    np.testing.assert_array_equal((many != 0).sum(axis=1), 2)
    np.testing.assert_allclose(law.scale, base.scale)
    assert (law.part.n_features, law.part.scale) == (2, 1.0)
    with pytest.raises(ValueError, match="Use its `part`"):
        law.unit(3)


@pytest.mark.parametrize("order", [1, 2, 6])
@pytest.mark.parametrize("base", [Gaussian(5.0), Laplacian(5.0)], ids=repr)
def test_median_width_is_that_of_subsets(base, order, rng):
    """Within 5 % of the median over all pairs and subsets; mutant: the distance in all columns."""
    X = rng.standard_normal((300, D)) * np.array([1.0, 1.0, 2.0, 0.5, 1.0, 1.0])
    power = 1 if isinstance(base, Laplacian) else 2
    differences = abs(X[:, None] - X[None])[np.triu_indices(300, 1)] ** power
    distances = [differences[:, list(subset)].sum(axis=1) for subset in combinations(range(D), order)]
    expected = np.median(np.concatenate(distances)) ** (1 / power)
    assert median_length_scale(X, Additive(base, order)) == pytest.approx(expected, rel=0.05)
    assert (median_length_scale(X, base) == pytest.approx(expected, rel=0.05)) == (order == D)
    found = Additive(base, order).distances(X)
    np.testing.assert_allclose(found, found.T, rtol=1e-12)
    np.testing.assert_allclose(Additive(base, order).distances(sparse.csr_array(X)), found, atol=1e-6)


def test_learner_sees_a_sum_of_single_columns(rng):
    """A target of three of 30 columns each by itself, which an isotropic kernel of the same width does not see."""
    X = rng.standard_normal((700, 30))
    y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + abs(X[:, 2])
    errors = {}
    for name, kernel in {"additive": Additive(Gaussian(), 1), "isotropic": Gaussian(7.0)}.items():
        model = pm.KernelRegressor(kernel, n_components=600, random_state=0, **FIXED).fit(X[:500], y[:500])
        errors[name] = np.mean((model.predict(X[500:]) - y[500:]) ** 2) / y[500:].var()
    assert errors["additive"] < 0.1
    assert errors["isotropic"] > 0.3


def test_model_file_keeps_the_map(tmp_path, rng):
    X = rng.standard_normal((20, 100)).astype(np.float32)
    phi = pm.FourierFeatures(Additive(Gaussian(2.0), 2), 64, random_state=0).fit(X)
    pm.save(phi, tmp_path / "map.phimap")
    loaded = pm.load(tmp_path / "map.phimap")
    np.testing.assert_array_equal(loaded.transform(X), phi.transform(X))
    assert repr(loaded.kernel_) == repr(phi.kernel_)
