"""Rank-1 lattices, constructed and by a slow search, their criterion and its definition; leaped Halton points."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from phimap.kernels import GaussianLaw
from phimap.projections import QuasiMonteCarlo
from phimap.projections.lattice import generating_vector, is_prime, shifted_lattice
from phimap.projections.quasi_monte_carlo import _leaped_halton
from tests.support.statistics import follows, is_at_most

EPS = np.finfo(np.float64).eps
TOTAL_WEIGHT = 2.0


def squared_worst_case(vector, n_points, n_coordinates=None):
    """The mean over shifts of the squared worst-case error, as the module's documentation has it."""
    t = np.arange(n_points)[:, None] * np.asarray(vector) % n_points / n_points
    weight = TOTAL_WEIGHT / (len(vector) if n_coordinates is None else n_coordinates)
    return np.prod(1 + weight * (t * t - t + 1 / 6), axis=1).mean() - 1


def test_the_criterion_is_the_mean_of_the_kernel_over_pairs_and_shifts():
    """Mutant: the half of the kernel that does not depend on the shift."""
    vector, n_points = np.array([1, 5, 3]), 13
    points = np.arange(n_points)[:, None] * vector / n_points
    # Coordinates have shifts of their own: the mean of the product is the product of the means, by 2,000 midpoints.
    x = (points[:, :, None] + (np.arange(2000) + 0.5) / 2000) % 1.0
    difference = (points[:, None] - points) % 1.0
    half = 0.5 * (difference**2 - difference + 1 / 6)
    product = np.mean((x[:, None] - 0.5) * (x - 0.5), axis=-1)
    found = np.prod(1 + TOTAL_WEIGHT / 3 * (half + product), axis=-1).mean() - 1
    np.testing.assert_allclose(squared_worst_case(vector, n_points), found, rtol=1e-4)
    assert np.prod(1 + TOTAL_WEIGHT / 3 * half, axis=-1).mean() - 1 < 0.9 * found


@pytest.mark.parametrize("n_points", [3, 5, 31, 101])
@pytest.mark.parametrize("d", [1, 2, 5])
def test_each_coordinate_is_the_best_with_those_before_it(n_points, d):
    vector = generating_vector(n_points, d)
    assert vector.shape == (d,)
    for j in range(d):
        candidates = [squared_worst_case([*vector[:j], z], n_points, d) for z in range(1, n_points)]
        chosen = candidates[vector[j] - 1]
        assert chosen <= min(candidates) + 64 * EPS


def test_a_constructed_vector_beats_others(rng):
    """Mutants: vectors at random, and all ones."""
    chosen = squared_worst_case(generating_vector(251, 6), 251)
    others = [squared_worst_case(rng.integers(1, 251, 6), 251) for _ in range(200)]
    assert chosen < np.quantile(others, 0.05)
    assert chosen < 0.1 * squared_worst_case(np.ones(6, int), 251)


def test_a_shifted_lattice_has_a_point_in_each_stratum(rng):
    points = shifted_lattice(7, 127, rng)
    places = points * 127
    assert (np.sort(np.floor(places), axis=0) == np.arange(127)[:, None]).all()
    np.testing.assert_allclose((places - places[0] + 0.5) % 1.0, 0.5, atol=256 * EPS * 127)
    assert not (np.diff(places[:, 0]) % 127 == np.diff(places[:, 0])[0] % 127).all(), "in order, a part is no sample"


@pytest.mark.parametrize(("size", "n_points"), [(1, 3), (2, 3), (4, 5), (120, 127), (128, 131)])
def test_other_sizes_leave_points_of_the_next_prime_out(size, n_points, rng):
    places = shifted_lattice(3, size, rng) * n_points
    assert places.shape == (size, 3)
    assert len(set(np.floor(places[:, 0]).astype(int))) == size
    np.testing.assert_allclose((places - places[0] + 0.5) % 1.0, 0.5, atol=256 * EPS * n_points)


def test_points_of_a_lattice_are_uniform(seed):
    """False-alarm rate 1e-6: one point in each of 3,000 draws; mutant: points that are not shifted far enough."""
    found = np.array([shifted_lattice(2, 4, child)[1] for child in np.random.default_rng(seed).spawn(3000)])
    for j in range(2):
        assert follows(found[:, j], stats.uniform.cdf)
        assert not follows(0.9 * found[:, j], stats.uniform.cdf)


def test_leaped_points_are_every_so_many_th_of_the_sequence():
    for d, leap in ((3, 409), (80, 419)):
        # 409 is the 80th prime: among 80 bases, and so the next one.
        whole = stats.qmc.Halton(d, scramble=False).random(leap * 20)[::leap]
        np.testing.assert_allclose(_leaped_halton(d, 20), whole, atol=64 * EPS)


@pytest.mark.parametrize("sequence", ["lattice", "leaped-halton"])
def test_spread_points_err_less_than_independent_ones(sequence, seed):
    """False-alarm rate 1e-6: the mean square of errors is at most half of that of independent directions.

    Mutant: a fifth of the directions, of the same draws.
    """
    d, s = 4, 127
    delta = np.full(d, 0.5)
    exact, variance = np.exp(-0.5), (1 - np.exp(-1.0)) ** 2 / (2 * s)
    squares = {1: [], 5: []}
    for child in np.random.default_rng(seed).spawn(300):
        W = QuasiMonteCarlo(sequence).sample(GaussianLaw(d), s, child).to_dense()
        for part, found in squares.items():
            found.append((np.cos(W[: s // part] @ delta).mean() - exact) ** 2)
    assert is_at_most(np.array(squares[1]), variance / 2)
    assert not is_at_most(np.array(squares[5]), variance / 2)


def test_primes():
    assert [n for n in range(30) if is_prime(n)] == [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]
