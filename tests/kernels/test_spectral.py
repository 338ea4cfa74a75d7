"""Spectral laws: their mean cosine is the kernel, and their quantiles are their draws."""

import math

import numpy as np
import pytest
from scipy import special, stats

from phimap.kernels import (
    Cauchy,
    CauchyLaw,
    ExponentialPower,
    Gaussian,
    GaussianLaw,
    LaplaceLaw,
    Laplacian,
    Matern,
    SpectralLaw,
    StableLaw,
    StandardGaussianLaw,
    StudentLaw,
)
from tests.support.families import STATIONARY_KERNELS
from tests.support.statistics import is_mean

FALSE_ALARM = 1e-6
DRAWS = 100_000
D = 5
LAWS = [
    GaussianLaw(D),
    StandardGaussianLaw(D),
    CauchyLaw(D),
    LaplaceLaw(D),
    StableLaw(D, exponent=0.7),
    StableLaw(D, 2.0, 1.4),
    StudentLaw(D, nu=0.4),
    StudentLaw(D, 2.0, 2.5),
]
INVARIANT = [law for law in LAWS if law.is_rotation_invariant]


def largest_score(frequencies, kernel, differences):
    """Largest |z| of the mean cosine over frequencies (s, d) at differences (k, d), against the kernel."""
    exact = kernel(differences, np.zeros((1, D)))[:, 0]
    doubled = kernel(2 * differences, np.zeros((1, D)))[:, 0]
    # Var cos(w.x) = (1 + k(2x)) / 2 - k(x)^2.
    standard_deviation = np.sqrt(((1 + doubled) / 2 - exact**2) / len(frequencies))
    return (np.abs(np.cos(frequencies @ differences.T).mean(axis=0) - exact) / standard_deviation).max()


@pytest.mark.parametrize("kernel", STATIONARY_KERNELS, ids=repr)
def test_mean_cosine_is_the_kernel(kernel):
    rng = np.random.default_rng(0)
    differences = rng.normal(size=(12, D)) * np.geomspace(0.1, 1.5, 12)[:, None]
    frequencies = kernel.spectral_law(D).sample(rng, DRAWS)
    # 12 differences, Bonferroni, normal quantiles: false alarm below 1e-6.
    bound = special.ndtri(1 - FALSE_ALARM / (2 * 12))
    assert largest_score(frequencies, kernel, differences) < bound
    # Mutants: a width wrong by 5 %, and one that is the square of it.
    assert largest_score(1.05 * frequencies, kernel, differences) > bound
    assert largest_score(frequencies**2, kernel, differences) > bound


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_draws_are_nested(law):
    few, many = (law.sample(np.random.default_rng(3), size) for size in (7, 50))
    assert few.shape == (7, D)
    assert few.dtype == np.float64
    np.testing.assert_array_equal(few, many[:7])
    if law.is_rotation_invariant:
        few, many = (law.sample_radii(np.random.default_rng(3), size) for size in (7, 50))
        np.testing.assert_array_equal(few, many[:7])


def passes(values, cdf):
    """Kolmogorov-Smirnov test at the false-alarm rate."""
    return stats.kstest(values, cdf).pvalue > FALSE_ALARM


@pytest.mark.parametrize("law", INVARIANT, ids=repr)
def test_radii(law):
    rng = np.random.default_rng(0)
    degrees = 2 * getattr(law, "nu", np.inf)

    def cdf(r):
        return stats.chi2(D).cdf(r**2) if law.is_gaussian else stats.f(D, degrees).cdf(r**2 / D)

    norms = np.linalg.norm(law.sample(rng, 20_000) / law.scale, axis=1)
    assert passes(norms, cdf)
    assert passes(law.sample_radii(rng, 20_000), cdf)
    assert not passes(1.05 * law.sample_radii(rng, 20_000), cdf)
    u = np.array([0.0, 1e-9, 0.1, 0.5, 0.9, 1 - 1e-9])
    np.testing.assert_allclose(cdf(law.radial_quantile(u)), u, rtol=1e-6)


@pytest.mark.parametrize("law", INVARIANT, ids=repr)
def test_directions_are_uniform(law):
    draws = law.sample(np.random.default_rng(0), 20_000)
    first = (draws[:, 0] / np.linalg.norm(draws, axis=1)) ** 2
    assert passes(first, stats.beta(0.5, (D - 1) / 2).cdf)


@pytest.mark.parametrize(
    ("law", "cdf"),
    [
        (GaussianLaw(D, 2.0), stats.norm.cdf),
        (CauchyLaw(D, 2.0), stats.cauchy.cdf),
        (LaplaceLaw(D, 2.0), stats.laplace.cdf),
    ],
    # Functions show where they lie in memory, which differs between the processes that share the tests.
    ids=["gaussian", "cauchy", "laplace"],
)
def test_coordinates(law, cdf):
    u = np.array([1e-12, 1e-3, 0.3, 0.5, 0.7, 1 - 1e-3])[:, None] + np.zeros(D)
    np.testing.assert_allclose(cdf(law.coordinate_quantile(u) / 2.0), u, rtol=1e-9)
    assert passes(law.sample(np.random.default_rng(0), 20_000)[:, 1] / 2.0, cdf)


def test_one_scale_for_each_feature():
    scales = np.array([0.5, 1.0, 2.0, 4.0, 8.0])
    for kernel in (Gaussian, Laplacian, Cauchy, Matern, ExponentialPower):
        wide, unit = (kernel(length_scale=s).spectral_law(D) for s in (scales, 1.0))
        draws = [law.sample(np.random.default_rng(0), 6) for law in (wide, unit)]
        np.testing.assert_array_equal(draws[0] * scales, draws[1])
        if unit.has_independent_coordinates:
            u = np.full((2, D), 0.3)
            np.testing.assert_array_equal(wide.coordinate_quantile(u) * scales, unit.coordinate_quantile(u))


@pytest.mark.parametrize("law", [*LAWS, StudentLaw(D, np.arange(1.0, 6.0), 0.7)], ids=repr)
def test_unit_law_in_another_dimension_is_that_of_the_same_kernel(law):
    wider = law.unit(9)
    assert (type(wider), wider.n_features, wider.scale) == (type(law), 9, 1.0)
    for name in ("nu", "exponent"):
        assert getattr(wider, name, None) == getattr(law, name, None)


@pytest.mark.parametrize("law", [GaussianLaw(D), StudentLaw(D, nu=0.4), StudentLaw(D, nu=2.5), StableLaw(D)], ids=repr)
def test_mixing_factors_turn_gaussian_vectors_into_draws(law):
    rng = np.random.default_rng(0)
    draws = rng.standard_normal((20_000, D)) * law.sample_mixing(rng, 20_000)[:, None]
    # The stable law of exponent 1 is the t distribution of one degree of freedom.
    degrees = 1 if isinstance(law, StableLaw) else 2 * getattr(law, "nu", np.inf)
    marginal = stats.norm if law.is_gaussian else stats.t(degrees)
    assert passes(draws[:, 1], marginal.cdf)
    assert not passes(1.1 * draws[:, 1], marginal.cdf)
    radii = np.linalg.norm(draws, axis=1)
    squares = stats.chi2(D, scale=1 / D) if law.is_gaussian else stats.f(D, degrees)
    assert passes(radii**2 / D, squares.cdf)


@pytest.mark.parametrize("exponent", [0.5, 1.4, 1.9])
def test_mixing_factors_of_stable_laws(exponent):
    """Their Laplace transform; false-alarm rate 1e-6, mutant: another exponent."""
    factors, s = StableLaw(D, exponent=exponent).sample_mixing(np.random.default_rng(0), DRAWS), np.geomspace(0.1, 5, 7)
    samples = np.exp(-0.5 * np.square(factors)[:, None] * s)
    assert np.isfinite(factors).all()
    assert is_mean(samples, np.exp(-(s ** (exponent / 2))))
    assert not is_mean(samples, np.exp(-(s ** (exponent / 2 + 0.03))))


def test_laws_that_are_no_mixture_say_so():
    for law in (CauchyLaw(D), LaplaceLaw(D)):
        with pytest.raises(ValueError, match=rf"of {law.kernel_name} is no mixture of Gaussian ones.*independent"):
            law.sample_mixing(np.random.default_rng(0), 3)
    assert LaplaceLaw(D).coordinate_kurtosis == stats.laplace.stats(moments="k") + 3
    assert GaussianLaw(D).coordinate_kurtosis == 3
    assert CauchyLaw(D).coordinate_kurtosis == np.inf


def test_facts():
    flags = {
        GaussianLaw: (True, True, True),
        StandardGaussianLaw: (True, True, True),
        CauchyLaw: (True, False, False),
        LaplaceLaw: (True, False, False),
        StudentLaw: (False, True, False),
    }
    for law, expected in flags.items():
        assert (law.has_independent_coordinates, law.is_rotation_invariant, law.is_gaussian) == expected
    assert GaussianLaw(D).coordinate_variance == 1.0
    assert LaplaceLaw(D).coordinate_variance == stats.laplace.var() == 2.0
    assert StudentLaw(D, nu=3.0).coordinate_variance == pytest.approx(1.5)
    assert StudentLaw(D, nu=1.0).coordinate_variance == CauchyLaw(D).coordinate_variance == math.inf
    draws = StudentLaw(D, nu=3.0).sample(np.random.default_rng(0), DRAWS)
    # The fourth moment of t with 6 degrees is 13.5: the mean square has the variance (13.5 - 1.5^2) / s.
    error = np.abs((draws**2).mean(axis=0) - 1.5)
    assert (error < special.ndtri(1 - FALSE_ALARM / (2 * D)) * math.sqrt((13.5 - 1.5**2) / DRAWS)).all()


def test_what_a_law_lacks_is_refused():
    with pytest.raises(ValueError, match="Laplacian is not rotation-invariant"):
        CauchyLaw(D).radial_quantile(np.array([0.5]))
    with pytest.raises(ValueError, match="Laplacian is not rotation-invariant"):
        CauchyLaw(D).sample_radii(np.random.default_rng(0), 3)
    with pytest.raises(ValueError, match="Matern has dependent coordinates"):
        StudentLaw(D).coordinate_quantile(np.full((1, D), 0.5))
    for u in (0.0, 1.0):
        with pytest.raises(ValueError, match="both excluded"):
            GaussianLaw(D).coordinate_quantile(np.full((1, D), u))
    with pytest.raises(ValueError, match="below 1"):
        GaussianLaw(D).radial_quantile(np.array([1.0]))
    with pytest.raises(TypeError, match="abstract"):
        SpectralLaw(D)
    with pytest.raises(ValueError, match="`n_features` must be at least 1"):
        Gaussian().spectral_law(0)
