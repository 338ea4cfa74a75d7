"""TensorSketch: the count sketch of a tensor power, by explicit sums over hashes."""

from __future__ import annotations

from functools import reduce
from itertools import product

import numpy as np
import pytest

from phimap.ops import host
from phimap.sketches import TensorSketch
from phimap.sketches.tensorsketch import convolve
from tests.support.statistics import is_at_most, is_mean

OPS = host()
EPS = np.finfo(np.float64).eps


def explicit(record, *vectors):
    """Sum over all index tuples: hash the sum of hashes modulo m, sign the product of signs."""
    out = np.zeros(record.n_components)
    for indices in product(*(range(len(vector)) for vector in vectors)):
        bucket, value = 0, 1.0
        for index, factor, vector in zip(indices, record.factors, vectors, strict=True):
            bucket += factor.buckets[index, 0]
            value *= factor.signs[index, 0] * vector[index]
        out[bucket % record.n_components] += value
    return out


def rounding(m, *vectors):
    """Transforms of length m keep 1-norms, and each rounds a few times log2(m) times."""
    return 8 * (1 + np.log2(m)) * EPS * np.prod([np.abs(vector).sum() for vector in vectors])


@pytest.mark.parametrize("degree", [1, 2, 3, 4])
@pytest.mark.parametrize("m", [1, 2, 7, 16, 33])
def test_sketch_of_a_power_is_the_sum_over_hashes(degree, m, rng):
    X = rng.standard_normal((3, 5))
    sketch = TensorSketch(m, degree=degree, random_state=2).fit(X)
    expected = [explicit(sketch.record_, *[x] * degree) for x in X]
    np.testing.assert_allclose(sketch.transform(X), expected, atol=max(rounding(m, *[x] * degree) for x in X))


@pytest.mark.parametrize("m", [1, 8, 21])
def test_products_of_different_vectors(m, rng):
    vectors = [rng.standard_normal(d) for d in (3, 6, 2)]
    record = TensorSketch(m, degree=3).sample_product([3, 6, 2], np.random.default_rng(0))
    sketched = record.sketch_product(OPS, *(vector[None] for vector in vectors))[0]
    np.testing.assert_allclose(sketched, explicit(record, *vectors), atol=rounding(m, *vectors))


@pytest.mark.parametrize("m", [1, 8, 21])
def test_sketch_is_the_circular_convolution_of_count_sketches(m, rng):
    vectors = [rng.standard_normal(d) for d in (3, 6, 2)]
    record = TensorSketch(m, degree=3).sample_product([3, 6, 2], np.random.default_rng(0))
    counts = [factor.sketch(OPS, vector[None])[0] for factor, vector in zip(record.factors, vectors, strict=True)]
    linear = reduce(np.convolve, counts)
    circular = np.bincount(np.arange(linear.size) % m, linear, minlength=m)
    convolved = convolve(OPS, record.factors, [vector[None] for vector in vectors])[0]
    np.testing.assert_allclose(convolved, circular, atol=rounding(m, *vectors))


@pytest.mark.parametrize("degree", [2, 3])
def test_variance_is_within_its_bound(degree, rng, seed):
    """False-alarm rate 1e-6 for the mean and for the bound; mutants: a missing factor, a far smaller width."""
    x, y = rng.standard_normal((2, 6))
    y = x + 0.3 * y
    exact, m = (x @ y) ** degree, 32
    streams = np.random.default_rng(seed)
    single = TensorSketch(m, degree=degree)
    pairs = (single.sample(6, streams).sketch_product(OPS, *[np.stack([x, y])] * degree) for _ in range(3000))
    products = np.array([a @ b for a, b in pairs])
    assert is_mean(products, exact)
    assert not is_mean(1.2 * products, exact)
    squares = (products - exact) ** 2
    bound = (2 + 3**degree) * ((x @ x) * (y @ y)) ** degree / m
    assert is_at_most(squares, bound)
    assert not is_at_most(32 * squares, bound)


def test_zero_stays_zero():
    assert not TensorSketch(8, degree=3, random_state=0).fit_transform(np.zeros((3, 5))).any()
