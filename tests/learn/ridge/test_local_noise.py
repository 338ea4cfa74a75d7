"""The local size of squared errors against loops, and the noise that is made of it."""

from __future__ import annotations

import numpy as np
import pytest

from phimap.learn.ridge.predictive import LEAST_ROWS, LocalNoise, Noise


def by_loops(rows, squares, weights, new):
    """The formula of `LocalNoise`, row by row, from all distances."""
    found = []
    for x in new:
        distances = np.sqrt(np.square(rows - x).sum(axis=1))
        nearest = np.argsort(distances, kind="stable")[:100]
        shares = weights[nearest] * (1 - (distances[nearest] / distances[nearest[-1]]) ** 2)
        found.append(shares @ squares[nearest] / shares.sum())
    return np.array(found)


@pytest.mark.parametrize("weighted", [False, True])
def test_local_noise_is_its_formula(weighted, rng):
    rows, new = rng.standard_normal((400, 3)), rng.standard_normal((9, 3))
    squares = rng.chisquare(1, (400, 2))
    weights = rng.uniform(0.5, 2, 400) if weighted else None
    local = LocalNoise(rows, squares, weights)
    counted = np.ones(400) if weights is None else weights
    np.testing.assert_allclose(local.at(new), by_loops(rows, squares, counted, new), rtol=1e-10)
    left_out = local.leave_one_out()
    for i in (0, 17):
        others = np.delete(np.arange(400), i)
        expected = by_loops(rows[others], squares[others], counted[others], rows[i : i + 1])
        np.testing.assert_allclose(left_out[i : i + 1], expected, rtol=1e-10)
        # Mutant: ratios that include the own error of a row.
        assert not np.allclose(local.at(rows[i : i + 1]), expected, rtol=1e-4)


def test_rows_that_are_all_the_same_have_a_local_noise():
    ratios = LocalNoise(np.zeros((300, 2)), np.ones((300, 1)), None).at(np.array([[0.0, 0.0], [1.0, 0.0]]))
    np.testing.assert_allclose(ratios, 1.0)


def test_noise_varies_only_where_errors_say_so_clearly():
    """Three standard errors, one-sided, in eight tries: false alarms below 1 %, and the seeds are fixed.

    Mutants: local noise whatever the errors say, and none.
    """
    for seed in range(8):
        rng = np.random.default_rng(seed)
        rows = rng.uniform(-1, 1, (LEAST_ROWS, 2))
        size = np.stack([np.ones(LEAST_ROWS), np.exp(rows[:, 0])], axis=1)
        noise = Noise.of_errors(size * rng.standard_normal(size.shape), np.full(LEAST_ROWS, 0.2), rows, None)
        assert noise.varies.tolist() == [False, True]
        assert noise.variance[0] == pytest.approx(1 / 1.2, rel=5 * np.sqrt(2 / LEAST_ROWS))
        found = noise.total(np.zeros(3), np.array([[-0.8, 0.0], [0.0, 0.0], [0.8, 0.0]]))
        np.testing.assert_allclose(found[:, 0], noise.variance[0])
        # The variance of the function is not scaled, so the noise is what is left of the errors.
        np.testing.assert_allclose(found[:, 1], np.exp([-1.6, 0.0, 1.6]), rtol=0.6)
        assert found[2, 1] > 6 * found[0, 1]


def test_few_rows_have_one_noise(rng):
    errors = rng.standard_normal((LEAST_ROWS, 1)) * np.linspace(0.1, 2, LEAST_ROWS)[:, None]
    rows, ratios = np.linspace(0, 1, LEAST_ROWS)[:, None], np.zeros(LEAST_ROWS)
    assert Noise.of_errors(errors, ratios, rows, None).local is not None
    assert Noise.of_errors(errors[1:], ratios[1:], rows[1:], None).local is None
    assert Noise.of_errors(errors, ratios, None, None).local is None


def test_weights_are_repeated_rows_in_the_variance_of_errors(rng):
    errors, ratios, times = rng.standard_normal((40, 2)), rng.uniform(0, 1, 40), rng.integers(1, 4, 40)
    weighted = Noise.of_errors(errors, ratios, None, times.astype(float)).variance
    repeated = Noise.of_errors(np.repeat(errors, times, axis=0), np.repeat(ratios, times), None, None).variance
    np.testing.assert_allclose(weighted, repeated, rtol=1e-12)
    assert not np.allclose(weighted, Noise.of_errors(errors, ratios, None, None).variance, rtol=1e-3)
