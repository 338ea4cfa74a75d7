"""Projections with designed points: low discrepancy, matched moments, structured spheres, quadrature, simplices."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import stats

import phimap as pm
from phimap.kernels import Gaussian, GaussianLaw, Laplacian, Matern, StandardGaussianLaw, StudentLaw
from phimap.ops import host
from phimap.projections import Gaussian as Independent
from phimap.projections import (
    GaussQuadrature,
    MinimumEnergy,
    MomentMatching,
    QuasiMonteCarlo,
    Simplex,
    SparseGrid,
    SphericalRadial,
    SphericalStructured,
    minimum_energy,
)
from phimap.projections.minimum_energy import energy as pair_energy
from phimap.projections.quasi_monte_carlo import SEQUENCES
from phimap.projections.simplex import rotated_simplex
from phimap.projections.spherical_structured import spread_frequencies, structured_points
from tests.support.statistics import follows, is_at_most, is_mean, kernel_estimates

EPS = np.finfo(np.float64).eps
ANY_SIZE = [
    QuasiMonteCarlo(),
    QuasiMonteCarlo("halton"),
    QuasiMonteCarlo("leaped-halton"),
    QuasiMonteCarlo("lattice"),
    SphericalStructured(),
    MinimumEnergy(),
    GaussQuadrature(),
    SphericalRadial(),
    SphericalRadial(antipodes=True),
    Simplex(),
]


def draw(projection, law, n_directions, seed=0):
    return projection.sample(law, n_directions, np.random.default_rng(seed))


def integral(record, f):
    """The rule's value for the integrand `f` of directions (s, d)."""
    weights = np.full(record.n_directions, 1 / record.n_directions) if record.weights is None else record.weights
    return weights @ f(record.to_dense())


def monomials(d, degrees):
    """Exponents (d,) of all monomials in d variables of the given degrees."""
    return [np.array(e) for e in product(range(max(degrees) + 1), repeat=d) if sum(e) in degrees]


@pytest.mark.parametrize("law", [GaussianLaw(3, 2.0), StudentLaw(3, 5)], ids=["another scale", "other radii"])
def test_kept_designs_change_no_bit(law):
    """Mutant: designs that are kept without regard to the lengths of their points."""
    minimum_energy._spread.cache_clear()
    expected = draw(MinimumEnergy(), law, 20).to_dense()
    minimum_energy._spread.cache_clear()
    draw(MinimumEnergy(), GaussianLaw(3), 20)
    np.testing.assert_array_equal(draw(MinimumEnergy(), law, 20).to_dense(), expected)
    # Only another length scale finds the design.
    assert minimum_energy._spread.cache_info().hits == isinstance(law, GaussianLaw)


def gaussian_moment(exponents):
    """Mean of ``prod_j w_j^e_j`` for standard Gaussian w."""
    return np.prod([0 if e % 2 else np.prod(np.arange(1, e, 2)) for e in exponents])


@pytest.mark.parametrize("projection", ANY_SIZE, ids=repr)
@pytest.mark.parametrize(
    ("d", "s"), [(1, 1), (1, 7), (2, 3), (5, 4), (5, 23), (5, 130), (1000, 30), (61, 700), (140, 300)]
)
def test_any_size_gives_its_matrix_and_repeats_itself(projection, d, s, rng):
    record = draw(projection, GaussianLaw(d, 0.7), s)
    W = record.to_dense()
    assert W.shape == (s, d)
    assert np.isfinite(W).all()
    np.testing.assert_array_equal(W, draw(projection, GaussianLaw(d, 0.7), s).to_dense())
    assert s < 20 or not np.array_equal(W, draw(projection, GaussianLaw(d, 0.7), s, seed=1).to_dense())
    X = rng.standard_normal((6, d)).astype(np.float32)
    ops = host(X.dtype)
    slack = 4 * d * np.finfo(np.float32).eps * np.linalg.norm(W, axis=1).max() * np.linalg.norm(X, axis=1).max()
    np.testing.assert_allclose(record.bind(ops).apply(ops, X), X @ W.T, atol=slack)


@pytest.mark.parametrize("projection", ANY_SIZE, ids=repr)
def test_length_scales_come_last(projection):
    scale = np.array([0.5, 1.0, 3.0])
    W, unit = (draw(projection, law, 20).to_dense() for law in (GaussianLaw(3, scale), GaussianLaw(3)))
    np.testing.assert_allclose(W, unit * scale, rtol=16 * EPS, atol=16 * EPS)


@pytest.mark.parametrize("sequence", SEQUENCES)
@pytest.mark.parametrize(
    ("law", "coordinate", "n_draws"),
    [
        (GaussianLaw(3), stats.norm.cdf, 1100),
        (Laplacian().spectral_law(3), stats.cauchy.cdf, 2000),
        (StudentLaw(3, nu=1.5), stats.t(3).cdf, 1500),
    ],
    ids=["gaussian", "cauchy", "student"],
)
def test_low_discrepancy_points_follow_the_law(law, coordinate, n_draws, sequence, seed):
    """False-alarm rate 1e-6; mutant: coordinates twice too wide. One direction of five from each draw.

    The distribution functions of the mutant are off by 0.16, 0.11 and 0.14: the heavier the tails, the more draws.
    """
    rngs = np.random.default_rng(seed).spawn(n_draws)
    found = np.array([QuasiMonteCarlo(sequence).sample(law, 5, rng).to_dense()[3] for rng in rngs])
    for j in range(3):
        assert follows(found[:, j], coordinate)
        assert not follows(2 * found[:, j], coordinate)


def test_low_discrepancy_points_are_stratified():
    W = draw(QuasiMonteCarlo(), GaussianLaw(7), 64).to_dense()
    strata = np.floor(64 * stats.norm.cdf(W)).astype(int)
    assert (np.sort(strata, axis=0) == np.arange(64)[:, None]).all()
    ternary = np.floor(81 * stats.norm.cdf(draw(QuasiMonteCarlo("halton"), GaussianLaw(2), 81).to_dense()[:, 1]))
    assert sorted(ternary.astype(int)) == list(range(81))


@pytest.mark.parametrize("base", ["qmc", "gaussian"])
@pytest.mark.parametrize(
    "law", [GaussianLaw(5, np.array([0.5, 1, 2, 3, 4.0])), StandardGaussianLaw(1), StudentLaw(5, 2.0, nu=2.5)], ids=repr
)
@pytest.mark.parametrize("s", [6, 40])
def test_moments_are_matched_exactly(base, law, s):
    W = draw(MomentMatching(base), law, s).to_dense() / law.scale
    # Products of matrices of s rows with entries of the size of a standard deviation, after a factorisation.
    slack = 64 * s * EPS * law.coordinate_variance
    np.testing.assert_allclose(W.mean(axis=0), 0, atol=slack)
    np.testing.assert_allclose(W.T @ W / s, law.coordinate_variance * np.eye(law.n_features), atol=slack)


def test_radii_and_directions_of_the_structured_sphere():
    law = StudentLaw(6, 0.5, nu=1.5)
    W = draw(SphericalStructured(), law, 100).to_dense() / law.scale
    radii = np.linalg.norm(W, axis=1)
    strata = np.floor(100 * stats.f(6, 3).cdf(radii**2 / 6)).astype(int)
    assert sorted(strata) == list(range(100))
    for d in (6, 300):
        few = draw(SphericalStructured(), StudentLaw(d, 0.5, nu=1.5), d).to_dense()
        few /= np.linalg.norm(few, axis=1, keepdims=True)
        np.testing.assert_allclose(few @ few.T, np.eye(d), atol=64 * EPS)


@pytest.mark.parametrize("d", [49, 64, 123, 200, 1000])
def test_structured_points_for_activations_add_up_to_zero(d):
    """Blocks of full length, without their radii: an odd function of degree one is exact."""
    record = draw(SphericalStructured(), StandardGaussianLaw(d), 4096)
    n_whole = 4096 // (2 * record.n_points) * 2 * record.n_points
    half = record.frequencies.shape[1]
    W = record.to_dense()[:n_whole] / (record.scale[:n_whole, None] * half)
    np.testing.assert_allclose(W.sum(axis=0), 0, atol=64 * EPS * n_whole)
    assert n_whole >= 2048
    cosines = draw(SphericalStructured(), GaussianLaw(d), 2 * half)
    sums = (cosines.to_dense() / (cosines.scale[:, None] * half)).sum(axis=0)
    assert np.abs(sums).max() > 0.01, "a basis holds the frequency zero"


@pytest.mark.parametrize("d", [129, 130, 1000, 4095])
def test_wide_structured_directions_store_no_matrix(d):
    s = 4096
    record = draw(SphericalStructured(), GaussianLaw(d), s)
    numbers = sum(value.size for value in vars(record).values() if isinstance(value, np.ndarray))
    # Scale, and for each of at most half as many points two complex phases and a frequency; input scales.
    assert numbers <= s + 5 * 1.1 * max(s / 2, d / 2) + d


def test_wide_structured_directions_are_uniform(seed):
    """False-alarm rate 1e-6: coordinates of one direction in each of 3,000 draws, rotated without a Haar matrix."""
    law = GaussianLaw(130)
    rngs = np.random.default_rng(seed).spawn(3000)
    found = np.array([SphericalStructured().sample(law, 3, rng).to_dense()[1, [0, 77]] for rng in rngs])
    for j in range(2):
        assert follows(found[:, j], stats.norm.cdf)
        assert not follows(1.5 * found[:, j], stats.norm.cdf)
    assert is_mean(found[:, 0] * found[:, 1], 0.0)


def energy(points):
    """Riesz 0-energy of the pairs of `points` (k, d) with each other and with their opposites."""
    inner = (points @ points.T)[np.triu_indices(len(points), 1)]
    return -np.log(np.maximum(1 - inner**2, 4 * EPS)).sum()


@pytest.mark.parametrize(("half", "n_points"), [(2, 7), (4, 16), (8, 40)])
def test_chosen_frequencies_have_less_energy(half, n_points, seed):
    """False-alarm rate 1e-6 against the energy of random frequencies and of independent uniform points."""
    rng = np.random.default_rng(seed)

    def uniform():
        points = rng.standard_normal((2 * n_points, 2 * half))
        return energy(points / np.linalg.norm(points, axis=1, keepdims=True))

    chosen = [energy(structured_points(spread_frequencies(half, n_points, True, rng), n_points)) for _ in range(30)]
    random = [energy(structured_points(rng.permutation(n_points)[:half], n_points)) for _ in range(30)]
    independent = [uniform() for _ in range(30)]
    assert is_at_most(np.subtract(chosen, random), 0)
    assert is_at_most(np.subtract(chosen, independent), 0)
    assert not is_at_most(np.subtract(independent, chosen), 0)


@pytest.mark.parametrize(("half", "n_points"), [(3, 4), (3, 3), (7, 3), (5, 12)])
def test_frequencies_for_activations_leave_out_zero_and_repeat_evenly(half, n_points, rng):
    found = np.bincount(spread_frequencies(half, n_points, False, rng), minlength=n_points)
    assert found[0] == 0
    assert found[1:].max() - found[1:].min() <= 1
    assert found.sum() == half


def test_minimum_energy_points_keep_the_strata_of_the_law():
    law = StudentLaw(6, 0.5, nu=1.5)
    for s in (100, 1030):
        radii = np.linalg.norm(draw(MinimumEnergy(2), law, s).to_dense() / law.scale, axis=1)
        strata = np.floor(s * stats.f(6, 3).cdf(radii**2 / 6)).astype(int)
        # Blocks of equal size: of the last, fewer directions are cut off than there are blocks.
        assert (s == 1030) or sorted(strata) == list(range(100))
        counts = np.bincount(np.minimum(strata, s - 1), minlength=s)
        assert np.abs(np.cumsum(counts) - np.arange(1, s + 1)).max() <= 3


@pytest.mark.parametrize("even", [True, False])
def test_energy_of_pairs_and_its_slope(even, rng):
    """Against the plain double sum, and central differences along a turn of one point."""
    points = rng.standard_normal((150, 3))

    def plain(points):
        total = np.exp(-0.5 * ((points[:, None] - points) ** 2).sum(axis=2)).sum()
        return total + even * np.exp(-0.5 * ((points[:, None] + points) ** 2).sum(axis=2)).sum()

    value, slope = pair_energy(points, even)
    np.testing.assert_allclose(value, plain(points), rtol=1e-5)
    for i in (0, 149):
        tangent = np.cross(points[i], rng.standard_normal(3))
        step = np.zeros_like(points)
        step[i] = 1e-5 * tangent
        expected = (plain(points + step) - plain(points - step)) / 2e-5
        np.testing.assert_allclose(slope[i] @ tangent, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("law", [GaussianLaw(4), StandardGaussianLaw(4)], ids=["even", "activation"])
def test_descent_lowers_the_energy_of_one_block(law):
    even = law.is_for_even_functions
    energies = [pair_energy(draw(MinimumEnergy(k), law, 60).to_dense() * 0.5**0.5, even)[0] for k in (0, 3, 30)]
    assert energies[0] > energies[1] > energies[2]


@pytest.mark.parametrize(("vertices", "d"), [(1, 1), (2, 1), (2, 2), (3, 2), (5, 5), (6, 5), (50, 50)])
def test_simplices_are_regular(vertices, d, rng):
    points = rotated_simplex(vertices, d, rng)
    expected = np.full((vertices, vertices), -1 / max(vertices - 1, 1))
    np.fill_diagonal(expected, 1)
    np.testing.assert_allclose(points @ points.T, expected, atol=16 * d * EPS)


def test_simplex_blocks_have_the_radii_of_the_law(seed):
    """False-alarm rate 1e-6; mutant: radii a tenth too long."""
    W = draw(Simplex(), GaussianLaw(4), 8000, seed).to_dense()
    norms = np.linalg.norm(W, axis=1)
    assert follows(norms, stats.chi(4).cdf)
    assert not follows(1.1 * norms, stats.chi(4).cdf)
    unit = (W / norms[:, None]).reshape(-1, 4, 4)
    np.testing.assert_allclose(unit.sum(axis=1), 0, atol=64 * EPS)
    assert is_mean(unit[:, 0], 0.0)


@pytest.mark.parametrize("d", [1, 2, 4])
@pytest.mark.parametrize("blocks", [1, 3])
@pytest.mark.parametrize("antipodes", [False, True])
def test_spherical_radial_rules_integrate_their_degree(d, blocks, antipodes):
    s = 1 + blocks * (d + 1) * (1 + antipodes)
    record = draw(SphericalRadial(antipodes=antipodes), GaussianLaw(d), s)
    size = np.abs(record.weights) @ np.linalg.norm(record.to_dense(), axis=1) ** 4 + np.abs(record.weights).sum()
    for exponents in monomials(d, range(4 if antipodes else 3)):
        value = integral(record, lambda W, e=exponents: np.prod(W**e, axis=1))
        np.testing.assert_allclose(value, gaussian_moment(exponents), atol=32 * s * EPS * size)
    fourth = integral(record, lambda W: W[:, 0] ** 4)
    assert abs(fourth - 3) > 1e-6, "no rule of this size is exact to degree 4"


def test_spherical_radial_estimates_are_unbiased_with_their_signature():
    """False-alarm rate 1e-6; mutants: the signature forgotten, and the kernel of another width. Blocks are cut."""
    X = np.random.default_rng(5).standard_normal((4, 5))
    phi = pm.FourierFeatures(projection="spherical-radial", n_components=20)

    def features(seed, signed=True):
        Z = phi.set_params(random_state=seed).fit_transform(X)
        signs = phi.signature_ if signed and phi.signature_ is not None else np.ones(20)
        return Z, signs

    samples = np.stack([(Z * signs) @ Z.T for Z, signs in map(features, range(400))])
    assert is_mean(samples, Gaussian()(X))
    assert not is_mean(samples, Gaussian(length_scale=1.2)(X))
    assert not is_mean(kernel_estimates(lambda seed: features(seed)[0], 400), Gaussian()(X))


def test_spherical_radial_estimates_of_activations_are_unbiased():
    """False-alarm rate 1e-6; the point at zero has no rectified feature. Mutant: a missing factor."""
    X = np.random.default_rng(5).standard_normal((4, 5))
    for antipodes in (False, True):
        phi = pm.ArcCosineFeatures(1, 30, projection=SphericalRadial(antipodes=antipodes))
        samples = kernel_estimates(lambda seed, phi=phi: phi.set_params(random_state=seed).fit_transform(X), 400)
        assert is_mean(samples, phi.kernel_(X))
        assert not is_mean(0.9 * samples, phi.kernel_(X))


@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize("p", [None, 3**0.5, 0.8])
@pytest.mark.parametrize("full", [True, False])
def test_sparse_grids_have_their_weights_and_degree(d, p, full):
    record = draw(SparseGrid(p), GaussianLaw(d), 2 * d + 1 if full else d + 1)
    p_squared = d if p is None else p**2
    n_others = 2 * d if full else d
    expected = np.concatenate([[1 - d / p_squared], np.full(n_others, d / n_others / p_squared)])
    np.testing.assert_allclose(record.weights, expected, atol=4 * EPS * d / p_squared)
    assert p is not None or record.weights[0] == 0
    for exponents in monomials(d, range(4)):
        # The merged points integrate even functions only.
        if full or not (exponents % 2).any():
            value = integral(record, lambda W, e=exponents: np.prod(W**e, axis=1))
            np.testing.assert_allclose(value, gaussian_moment(exponents), atol=32 * d * EPS * (1 + d / p_squared))
    assert np.isclose(integral(record, lambda W: W[:, 0] ** 4), 3) == np.isclose(p_squared, 3)


@pytest.mark.parametrize(("p", "negative"), [(None, False), (1.5, True)])
@pytest.mark.parametrize("pairing", ["pairs", "offset"])
def test_sparse_grid_features_carry_a_signature(p, negative, pairing, rng):
    X = rng.standard_normal((7, 4))
    width = 10 if pairing == "pairs" else 5
    phi = pm.FourierFeatures(n_components=width, projection=SparseGrid(p), pairing=pairing, random_state=0)
    Z = phi.fit_transform(X)
    if not negative:
        assert phi.signature_ is None
    else:
        assert phi.signature_.dtype == np.int8
        assert np.flatnonzero(phi.signature_ < 0).tolist() == ([0, 5] if pairing == "pairs" else [0])
    assert phi.record_.truncated(4) is None
    if pairing == "pairs":
        p_squared = 4 if p is None else p**2
        differences = X[:, None] - X
        expected = 1 - (4 - np.cos(np.sqrt(p_squared) * differences).sum(axis=2)) / p_squared
        signs = phi.signature_ if negative else 1
        np.testing.assert_allclose((Z * signs) @ Z.T, expected, atol=128 * EPS)


def test_gauss_quadrature_has_the_expectation_of_its_rule(seed):
    """False-alarm rate 1e-6; mutant: the Gaussian kernel itself, far from the rule at these distances."""
    W = draw(GaussQuadrature(), GaussianLaw(3), 40_000, seed).to_dense()
    delta = np.array([0.5, -1.5, 2.0])
    values = np.cos(W @ delta)
    assert is_mean(values, np.prod((2 + np.cos(np.sqrt(3) * delta)) / 3))
    assert not is_mean(values, np.exp(-delta @ delta / 2))
    for degree, moment in enumerate([0, 1, 0, 3, 0], start=1):
        assert is_mean(W**degree, moment)
    assert not is_mean(W**6, 15)


@pytest.mark.parametrize(
    ("projection", "d", "s"),
    [
        (QuasiMonteCarlo(), 3, 64),
        (QuasiMonteCarlo("halton"), 3, 64),
        (MomentMatching(), 8, 32),
        (MomentMatching("gaussian"), 8, 32),
        (SphericalStructured(), 8, 32),
        (SphericalStructured(), 5, 5),
        (MinimumEnergy(), 8, 32),
        (SphericalRadial(), 8, 1 + 3 * 9),
        (Simplex(), 8, 32),
    ],
    ids=repr,
)
def test_designed_points_have_less_variance(projection, d, s, seed):
    """False-alarm rate 1e-6; mutant: the two exchanged. At 1.2 length scales, in 600 draws."""
    delta = np.zeros(d)
    delta[:2] = 0.8, -0.9
    exact = np.exp(-delta @ delta / 2)
    rngs = np.random.default_rng(seed).spawn(600)
    excess = []
    for rng in rngs:
        squares = [
            (integral(rule.sample(GaussianLaw(d), s, rng), lambda W: np.cos(W @ delta)) - exact) ** 2
            for rule in (projection, Independent())
        ]
        excess.append(squares[0] - squares[1])
    assert is_at_most(np.array(excess), 0)
    assert not is_at_most(-np.array(excess), 0)


@pytest.mark.parametrize(
    ("projection", "kernel", "width", "message"),
    [
        (MomentMatching(), Gaussian(), 8, r"more directions than features, 4, got 4. Use n_components=10 or more"),
        (MomentMatching(), Laplacian(), 64, r"finite variance, which Laplacian lacks.*'qmc'"),
        (MomentMatching(), Matern(nu=1.0), 64, r"finite variance, which Matern lacks"),
        (MomentMatching("sobol"), Gaussian(), 64, r"`base` must be one of 'qmc', 'gaussian', got 'sobol'"),
        (QuasiMonteCarlo("prime"), Gaussian(), 64, r"`sequence` must be one of 'sobol', 'halton', .*, got 'prime'"),
        (SphericalStructured(), Laplacian(), 64, r"'ssf' needs a rotation-invariant spectral law"),
        (MinimumEnergy(), Laplacian(), 64, r"'minimum-energy' needs a rotation-invariant spectral law"),
        (MinimumEnergy(-1), Gaussian(), 64, r"`iterations` must be at least 0"),
        (Simplex(), Laplacian(), 64, r"'simplex' needs a rotation-invariant spectral law"),
        (GaussQuadrature(), Laplacian(), 64, r"'gauss-quadrature' needs.*four moments.*Laplacian lacks.*'qmc'"),
        (SphericalRadial(), Laplacian(), 64, r"'spherical-radial' needs.*mixture of Gaussian ones, which Laplacian"),
        (SparseGrid(), Matern(nu=0.5), 18, r"'sparse-grid' needs.*finite variance, which Matern"),
        (SparseGrid(), Gaussian(), 64, r"has 5 or 9 directions for 4 features, got 32. Use n_components=10 or 18 for"),
        (SparseGrid(0.0), Gaussian(), 18, r"`p` must be greater than 0"),
    ],
    ids=repr,
)
def test_impossible_pairs_name_the_remedy(projection, kernel, width, message):
    with pytest.raises(ValueError, match=message):
        pm.FourierFeatures(kernel, width, projection=projection).fit(np.eye(4))


def test_negative_weights_are_refused_where_no_signature_can_follow():
    X = np.eye(4)
    with pytest.raises(ValueError, match=r"`normalize_output` needs positive quadrature weights.*'orthogonal'"):
        pm.FourierFeatures(n_components=18, projection=SparseGrid(1.0), normalize_output=True).fit(X)
    with pytest.raises(
        ValueError, match=r"`projection` must give positive.*inside neural tangent features.*'orthogonal'"
    ):
        pm.NTKFeatures(n_components=18, projection=SparseGrid(1.0), random_state=0).fit(X)
    assert pm.ArcCosineFeatures(1, 9, projection=SparseGrid(1.0)).fit(X).signature_.tolist() == [-1] + 8 * [1]


def test_sobol_points_have_an_end():
    with pytest.raises(ValueError, match=r"'sobol' has at most 21201 coordinates, got 21202. Use sequence='halton'"):
        draw(QuasiMonteCarlo(), GaussianLaw(21202), 2)
