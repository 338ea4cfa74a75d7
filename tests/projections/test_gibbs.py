"""Leverage-score sampling: the published chains tend to the exact law, and the exact law errs less."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special, stats

import phimap as pm
from phimap.kernels.spectral import SphereLaw
from phimap.projections import REGISTRY
from phimap.projections.gibbs import GibbsDirections, conditional_quantile, gibbs_chains
from tests.support.statistics import follows, is_mean


@pytest.mark.parametrize("z", [0.0, 1e-8, 0.5, 3.0, 800.0])
def test_conditional_law_is_inverted(z, rng):
    u = np.concatenate([rng.random(500), [0.5, 0.5 + 1e-9, 1e-15, 1 - 1e-15, 0.0]])
    x = conditional_quantile(u, np.full(u.shape, z))
    found = special.ndtr(x) - x * np.exp(-0.5 * x * x) / (np.sqrt(2 * np.pi) * (z + 1))
    np.testing.assert_allclose(found, u, rtol=0, atol=4 * np.finfo(float).eps)
    # The mirror image has the other tail.
    np.testing.assert_allclose(conditional_quantile(1 - u[:500], np.full(500, z)), -x[:500], rtol=1e-6, atol=1e-7)


def test_one_coordinate_needs_one_draw(rng):
    """False-alarm rate 1e-6; mutant: no sweep."""
    law = stats.chi2(3).cdf
    assert follows(gibbs_chains(4000, 1, 1, rng)[:, 0] ** 2, law)
    assert not follows(gibbs_chains(4000, 1, 0, rng)[:, 0] ** 2, law)


@pytest.mark.parametrize("d", [2, 5])
def test_chains_tend_to_the_exact_law(d, rng):
    """False-alarm rate 1e-6 a check; mutants: one sweep, which is not enough, and the Gaussian start."""
    exact = stats.chi2(d + 2).cdf
    chains = gibbs_chains(20_000, d, 12, rng)
    assert follows((chains**2).sum(axis=1), exact)
    assert not follows((gibbs_chains(20_000, d, 1, rng) ** 2).sum(axis=1), exact)
    assert not follows((gibbs_chains(20_000, d, 0, rng) ** 2).sum(axis=1), exact)
    # Directions are uniform: a squared coordinate of a unit vector is beta-distributed, whichever it is.
    directions = chains / np.linalg.norm(chains, axis=1, keepdims=True)
    for coordinate in directions.T:
        assert follows(coordinate**2, stats.beta(0.5, 0.5 * (d - 1)).cdf)
        assert is_mean(coordinate, 0.0)


# With padding Fastfood keeps lengths on average only, and directions of two Hadamard factors may lie in the padding.
PADDED = [("fastfood", 5), ("rom", 5)]
INVARIANT = ["gaussian", "orthogonal", "sorf", "rom", "fastfood", "circulant", "p-model", "ssf", "simplex", "qmc"]


# Fastfood keeps one length of the padded direction; here nothing is padded.
@pytest.mark.parametrize(("name", "d"), [(name, d) for name in INVARIANT for d in (5, 8) if (name, d) not in PADDED])
def test_every_projection_gives_directions_of_one_length(name, d):
    record = REGISTRY[name]().sample(SphereLaw(d), 12, np.random.default_rng(0))
    np.testing.assert_allclose(np.linalg.norm(record.to_dense(), axis=1), np.sqrt(d), rtol=1e-12)


@pytest.mark.parametrize("name", ["gauss-quadrature", "sparse-sign"])
def test_rules_for_gaussian_laws_refuse(name):
    with pytest.raises(ValueError, match="leverage-score sampling"):
        pm.NTKFeatures(1, 64, sampling="leverage", projection=name).fit(np.eye(8))


def test_gibbs_directions_have_one_length():
    record = GibbsDirections(2).sample(SphereLaw(7), 5, np.random.default_rng(0))
    np.testing.assert_allclose(np.linalg.norm(record.to_dense(), axis=1), np.sqrt(7), rtol=1e-12)


@pytest.mark.parametrize(("sampling", "second_moment"), [("gaussian", 6.0), ("leverage", 6.0 * 3 / 5)])
def test_variance_is_the_predicted_one(sampling, second_moment):
    """``m z^2`` of a unit row has mean 1 and second moment 6, or 6 d / (d + 2) at d = 3; false-alarm rate 1e-6."""
    x = np.array([[0.6, 0.0, 0.8]])
    phi = pm.NTKFeatures(1, 40_000, relu_components=40_000, sampling=sampling, projection="gaussian", random_state=0)
    squares = 40_000 * phi.fit_transform(x)[0] ** 2
    assert is_mean(squares, 1.0)
    assert is_mean(squares**2, second_moment)
    assert not is_mean(squares**2, 9.6 - second_moment)


def test_sampling_leaves_the_steps_as_they_were():
    X = np.random.default_rng(0).standard_normal((4, 6))
    options = {"exact_degrees": (), "random_state": 0}
    maps = [pm.NTKFeatures(2, 32, sampling=s, **options).fit(X) for s in ("gaussian", "leverage", "gibbs")]
    steps = [phi.record_.layers[0].step.projection.to_dense() for phi in maps]
    np.testing.assert_array_equal(steps[0], steps[1])
    np.testing.assert_array_equal(steps[0], steps[2])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sampling": "exact"}, r"`sampling` must be one of 'gaussian', 'leverage', 'gibbs', got 'exact'"),
        ({"sampling": "gibbs", "projection": "sorf"}, r"`projection` must be 'auto' or 'gaussian'.*'leverage'"),
        ({"sampling": "gibbs", "gibbs_sweeps": -1}, r"`gibbs_sweeps` must be at least 0, got -1"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        pm.NTKFeatures(1, 16, **options).fit(np.eye(3))
