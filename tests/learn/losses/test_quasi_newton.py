"""Remembered steps: against the dense update of Broyden, Fletcher, Goldfarb and Shanno."""

from __future__ import annotations

import numpy as np
import pytest

from phimap.learn.losses.quasi_newton import N_STEPS, Steps

M, T = 7, 2


def quadratic(rng, n_steps=5):
    """Points (m + 1, t) and the Hessian of losses of unit weight, without penalty."""
    root = rng.standard_normal(((M + 1) * T, (M + 1) * T))
    return rng.standard_normal((n_steps, M + 1, T)), root @ root.T + np.eye((M + 1) * T)


def change(hessian, moved, alpha, weight):
    """Change of the gradient along a step; the intercept has no penalty."""
    changed = weight * (hessian @ moved.ravel()).reshape(moved.shape)
    changed[:-1] += alpha * moved[:-1]
    return changed


def remembered(hessian, points, alpha, weight):
    steps = Steps()
    steps.move_to(alpha, weight)
    for moved in points:
        steps.add(moved.copy(), change(hessian, moved, alpha, weight))
    return steps


def halved(R):
    return R / np.linspace(1, 3, R.shape[0])[:, None]


def dense_inverse(hessian, points, alpha, weight):
    """The inverse matrix by the textbook's update, begun at the scaled diagonal."""
    pairs = [(moved.ravel(), change(hessian, moved, alpha, weight).ravel()) for moved in points]
    start = np.diag(halved(np.ones((M + 1, T))).ravel())
    s, y = pairs[-1]
    inverse = start * (s @ y) / (y @ start @ y)
    for s, y in pairs:
        left = np.eye(s.size) - np.outer(s, y) / (s @ y)
        inverse = left @ inverse @ left.T + np.outer(s, s) / (s @ y)
    return inverse


def test_two_loops_are_the_dense_update(rng):
    """Mutant: steps in the other order."""
    points, hessian = quadratic(rng)
    gradient = rng.standard_normal((M + 1, T))
    found = remembered(hessian, points, 0.3, 2.0).solve(gradient, halved).ravel()
    expected = dense_inverse(hessian, points, 0.3, 2.0) @ gradient.ravel()
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())
    mutant = remembered(hessian, points[::-1], 0.3, 2.0).solve(gradient, halved).ravel()
    assert np.abs(mutant - expected).max() > 1e-3 * np.abs(expected).max()


def test_without_steps_it_is_the_preconditioner(rng):
    gradient = rng.standard_normal((M + 1, T))
    np.testing.assert_array_equal(Steps().solve(gradient, halved), halved(gradient))


def test_steps_serve_other_alphas_and_rows(rng):
    """Mutants: only the alpha moves, only the weight does."""
    points, hessian = quadratic(rng)
    gradient = rng.standard_normal((M + 1, T))
    steps = remembered(hessian, points, 5.0, 2.0)
    steps.move_to(0.3, 9.0)
    found = steps.solve(gradient, halved)
    expected = remembered(hessian, points, 0.3, 9.0).solve(gradient, halved)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())
    for alpha, weight in [(0.3, 2.0), (5.0, 9.0)]:
        mutant = remembered(hessian, points, alpha, weight).solve(gradient, halved)
        assert np.abs(mutant - expected).max() > 1e-3 * np.abs(expected).max()


def test_only_the_newest_steps_are_kept_and_none_without_curvature(rng):
    points, hessian = quadratic(rng, N_STEPS + 3)
    gradient = rng.standard_normal((M + 1, T))
    found = remembered(hessian, points, 0.3, 2.0).solve(gradient, halved)
    expected = remembered(hessian, points[3:], 0.3, 2.0).solve(gradient, halved)
    np.testing.assert_array_equal(found, expected)
    steps = Steps()
    steps.add(points[0], -points[0])
    np.testing.assert_array_equal(steps.solve(gradient, halved), halved(gradient))
    steps.add(points[0], points[0])
    steps.forget()
    np.testing.assert_array_equal(steps.solve(gradient, halved), halved(gradient))


@pytest.mark.parametrize("weight", [1.0, 1e6])
def test_directions_descend(rng, weight):
    points, hessian = quadratic(rng)
    steps = remembered(hessian, points, 1e-3, weight)
    for gradient in rng.standard_normal((20, M + 1, T)):
        assert (gradient * steps.solve(gradient, halved)).sum() > 0
