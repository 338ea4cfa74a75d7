"""CountSketch: its matrix, and its variance."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from phimap.ops import host
from phimap.sketches import OSNAP, CountSketch
from tests.support.statistics import is_at_most, is_mean

OPS = host()


def dense_matrix(record):
    """The sketch as a matrix (m, d), written entry by entry."""
    S = np.zeros((record.n_components, record.n_features))
    for j in range(record.n_features):
        S[record.buckets[j], j] = record.signs[j]
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


@pytest.mark.parametrize(("m", "nonzeros", "copies"), [(12, 1, 1), (12, 4, 4), (13, 4, 4), (3, 4, 3), (1, 4, 1)])
@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_matrix])
def test_columns_of_osnap_have_one_entry_in_each_block(m, nonzeros, copies, layout, rng):
    X = rng.standard_normal((6, 30)) * (rng.random((6, 30)) < 0.5)
    sketch = OSNAP(m, nonzeros=nonzeros, random_state=1).fit(X)
    S = dense_matrix(sketch.record_)
    entries = S[S != 0].reshape(-1)
    np.testing.assert_array_max_ulp(np.abs(entries), np.full(entries.size, copies**-0.5))
    assert len(np.unique(entries)) == 2
    for block in np.split(S, m * np.arange(1, copies) // copies):
        assert ((block != 0).sum(axis=0) == 1).all()
        # Thirty columns leave most of at most 12 rows not empty.
        assert (block != 0).any(axis=1).sum() > len(block) / 2
    np.testing.assert_allclose(sketch.transform(layout(X)), X @ S.T, atol=1e-13)


def test_osnap_rejects_columns_without_entries():
    with pytest.raises(ValueError, match=r"`nonzeros` must be at least 1, got 0"):
        OSNAP(4, nonzeros=0).fit(np.ones((2, 3)))


def inner_products(x, y, single, seed, n_draws=6000):
    rng = np.random.default_rng(seed)
    records = (single.sample(x.size, rng) for _ in range(n_draws))
    return np.array([a @ b for a, b in (record.sketch(OPS, np.stack([x, y])) for record in records)])


@pytest.mark.parametrize("single", [CountSketch(8), OSNAP(8, nonzeros=4)])
def test_variance_is_that_of_the_theory_and_attains_its_bound(single, rng, seed):
    """False-alarm rate 1e-6; mutants: a missing factor, and half the width."""
    d, m = 60, 8
    x, y = rng.standard_normal((2, d))
    y = x + 0.5 * y
    products = inner_products(x, y, single, seed)
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
    for sketch in (CountSketch(4, random_state=0), OSNAP(4, random_state=0)):
        assert not sketch.fit_transform(X).any()
        assert not sketch.fit_transform(sparse.csr_matrix(X)).any()
