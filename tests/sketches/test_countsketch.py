"""CountSketch: its matrix, and its variance."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from phimap.ops.numpy_ops import NumpyOps
from phimap.sketches import CountSketch
from tests.support.statistics import is_at_most, is_mean

OPS = NumpyOps(np.dtype(np.float64))


def dense_matrix(record):
    """The sketch as a matrix (m, d), written entry by entry."""
    S = np.zeros((record.n_components, record.n_features))
    for j, (bucket, sign) in enumerate(zip(record.buckets[:, 0], record.signs[:, 0], strict=True)):
        S[bucket, j] = sign
    return S


@pytest.mark.parametrize(("d", "m"), [(1, 1), (1, 5), (7, 1), (40, 9), (9, 40)])
@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_matrix])
def test_sketch_is_its_matrix(d, m, layout, rng):
    X = rng.standard_normal((6, d)) * (rng.random((6, d)) < 0.7)
    sketch = CountSketch(m, random_state=1).fit(X)
    S = dense_matrix(sketch.record_)
    assert (np.abs(S).sum(axis=0) == 1).all()
    atol = d * np.finfo(float).eps * np.abs(X).sum(axis=1).max()
    np.testing.assert_allclose(sketch.transform(layout(X)), X @ S.T, atol=atol)


def inner_products(x, y, m, seed, n_draws=6000):
    rng = np.random.default_rng(seed)
    single = CountSketch(m)
    records = (single.sample(x.size, rng) for _ in range(n_draws))
    return np.array([a @ b for a, b in (record.sketch(OPS, np.stack([x, y])) for record in records)])


def test_variance_is_that_of_the_theory_and_attains_its_bound(rng, seed):
    """False-alarm rate 1e-6; mutants: a missing factor, and half the width."""
    d, m = 60, 8
    x, y = rng.standard_normal((2, d))
    y = x + 0.5 * y
    products = inner_products(x, y, m, seed)
    assert is_mean(products, x @ y)
    squares = (products - x @ y) ** 2
    variance = ((x @ x) * (y @ y) + (x @ y) ** 2 - 2 * (x**2 @ y**2)) / m
    # Squares are skewed: asking for 1e-7 leaves the rate below 1e-6.
    assert is_mean(squares, variance, 1e-7)
    assert not is_mean(squares, 2 * variance, 1e-7)
    bound = ((x @ x) * (y @ y) + (x @ y) ** 2) / m
    assert is_at_most(squares, bound)
    assert not is_at_most(2 * squares, bound)
    # Spread-out vectors come within 2 / d times a kurtosis of the bound: its order is the true one.
    assert variance > 0.8 * bound


def test_signs_are_needed(rng, seed):
    """False-alarm rate 1e-6: without signs the estimate is biased, and the test of the mean sees it."""
    x, y = 1 + rng.standard_normal((2, 30))
    records = [CountSketch(8).sample(30, np.random.default_rng([seed, i])) for i in range(400)]
    signed = [np.prod(r.sketch(OPS, np.stack([x, y])), axis=0).sum() for r in records]
    unsigned = [np.prod(np.abs(dense_matrix(r)) @ np.stack([x, y]).T, axis=1).sum() for r in records]
    assert is_mean(np.array(signed), x @ y)
    assert not is_mean(np.array(unsigned), x @ y)


def test_zero_stays_zero():
    X = np.zeros((3, 5))
    assert not CountSketch(4, random_state=0).fit_transform(X).any()
    assert not CountSketch(4, random_state=0).fit_transform(sparse.csr_matrix(X)).any()
