"""Quadrature rules in place of Shapley's weights."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest

from phimap.explain.forms.base import coalition_error, coalition_rule, half_rule
from phimap.ops import host
from phimap.ops.primitives.shapley_sums import phase_shapley, product_shapley


def whole(rule):
    """Both halves of a symmetric rule."""
    nodes, weights = rule
    return np.concatenate([-nodes, nodes]), np.concatenate([weights, weights])


@pytest.mark.parametrize("with_ends", [False, True])
@pytest.mark.parametrize("n", [0, 1, 2, 3, 9, 19, 39, 79, 160])
def test_coalitions_of_every_size_have_the_weight_of_shapley(n, with_ends):
    nodes, weights = whole(coalition_rule(n, with_ends=with_ends))
    for k in range(n + 1):
        # Exact integers, so that only powers are rounded.
        value = comb(n, k) * ((1 + nodes) / 2) ** k * ((1 - nodes) / 2) ** (n - k) @ weights / 2
        assert abs((n + 1) * value - 1) < 3e-12


def test_large_numbers_of_columns_take_fewer_nodes():
    sizes = [coalition_rule(n)[0].size for n in (19, 79, 319)]
    assert sizes == [5, 16, 34]
    assert half_rule(79)[0].size == 20
    assert coalition_error(79, *whole(half_rule(79))) < 1e-12
    # One node less has a larger error: 1e-12 is what decides.
    assert coalition_error(79, *np.polynomial.legendre.leggauss(31)) > 1e-12


@pytest.mark.parametrize("p", [3, 10, 20, 80])
def test_values_of_terms_equal_those_of_the_exact_rule(p):
    rng = np.random.default_rng(p)
    factors = [rng.uniform(0.2, 1.0, (1, n, p, 8)) for n in (2, 5)]
    exact = product_shapley(host(), *factors, half_rule(p - 1))
    found = product_shapley(host(), *factors, coalition_rule(p - 1))
    np.testing.assert_allclose(found, exact, rtol=0, atol=1e-12)
    angles = [rng.uniform(-1.0, 1.0, (1, n, p, 8)) for n in (2, 5)]
    halves = [(np.cos(one), np.sin(one), np.cos(one.sum(axis=2)), np.sin(one.sum(axis=2))) for one in angles]
    exact = phase_shapley(host(), *halves, half_rule(p - 1))
    found = phase_shapley(host(), *halves, coalition_rule(p - 1, with_ends=True))
    for one, other in zip(found, exact, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-12)
