"""Sketches by sampled transforms: equal to their dense matrices, for every width."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import linalg

import phimap as pm
from phimap.ops import ops_for
from phimap.sketches.product_samples import FourierSamples, HadamardSamples
from tests.support.statistics import is_at_most, is_mean

DTYPES = [np.float32, np.float64]


def pairs(rng, widths, dtype):
    return tuple(rng.standard_normal((9, width)).astype(dtype) for width in widths)


def assert_close(product, expected, X, Y, lengths, scale):
    """Rounding of two transforms: eps for each of their log2 stages, relative to the norms they keep."""
    stages = sum(np.log2(2 * length) for length in lengths) + 4
    norms = np.sqrt(np.prod(lengths)) * np.linalg.norm(X, axis=1) * np.linalg.norm(Y, axis=1)
    assert np.all(np.abs(product - expected) <= np.finfo(X.dtype).eps * stages * scale * norms[:, None])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_features", [1, 8, 13])
def test_srht_with_all_rows_is_an_isometry(n_features, dtype, rng):
    X = rng.standard_normal((9, n_features)).astype(dtype)
    width = 1 << (n_features - 1).bit_length()
    Z = pm.sketches.SRHT(width, random_state=0).fit_transform(X)
    norms = np.linalg.norm(X, axis=1)
    # Rounding of the transform in both factors and of the sum over the width.
    slack = np.finfo(dtype).eps * (2 * np.log2(2 * width) + width) * np.outer(norms, norms)
    assert np.all(np.abs(Z @ Z.T - X @ X.T) <= slack)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("widths", [(1, 1), (8, 8), (13, 6)])
@pytest.mark.parametrize("n_components", [1, 7, 40])
def test_hadamard_form_is_the_dense_matrices(n_components, widths, dtype, rng):
    X, Y = pairs(rng, widths, dtype)
    record = pm.sketches.TensorSRHT(n_components, form="hadamard").sample_product(widths, rng)
    assert isinstance(record.samples, HadamardSamples)
    ops = ops_for(X)
    product = record.bind(ops).sketch_product(ops, X, Y)
    lengths = [signs.shape[0] for signs in record.signs]
    first, second = (
        (factor * signs[: factor.shape[1]]) @ linalg.hadamard(length)[rows, : factor.shape[1]].T
        for factor, signs, length, rows in zip((X, Y), record.signs, lengths, record.samples.rows, strict=True)
    )
    assert product.shape == (9, n_components)
    assert product.dtype == dtype
    assert_close(product, first * second / np.sqrt(n_components), X, Y, lengths, n_components**-0.5)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("widths", [(1, 1), (8, 8), (13, 6), (7, 17)])
@pytest.mark.parametrize("n_components", [1, 2, 7, 40])
def test_fourier_form_is_the_dense_matrices(n_components, widths, dtype, rng):
    X, Y = pairs(rng, widths, dtype)
    record = pm.sketches.TensorSRHT(n_components, form="fourier").sample_product(widths, rng)
    assert isinstance(record.samples, FourierSamples)
    ops = ops_for(X)
    product = record.bind(ops).sketch_product(ops, X, Y)
    lengths = [signs.shape[0] for signs in record.signs]
    samples = 1
    for factor, signs, length, rows, orientations in zip(
        (X, Y), record.signs, lengths, record.samples.rows, record.samples.orientations, strict=True
    ):
        # Back to the frequency that was drawn: the mirror image, where the entry is to be conjugated.
        frequencies = np.where(orientations < 0, length - rows, rows)
        assert np.all((frequencies >= 0) & (frequencies < length))
        samples = samples * ((factor * signs[: factor.shape[1]]) @ linalg.dft(length)[frequencies, : factor.shape[1]].T)
    scale = np.sqrt(2 / n_components)
    expected = scale * np.stack([samples.real, samples.imag], axis=2).reshape(9, -1)
    if n_components % 2:
        last = (expected[:, -2] + record.samples.last_sign * expected[:, -1]) / np.sqrt(2)
        expected = np.column_stack([expected[:, :-2], last])
    assert product.shape == (9, n_components)
    assert product.dtype == dtype
    assert_close(product, expected, X, Y, lengths, scale)


@pytest.mark.parametrize("length", [1, 2, 5, 6])
def test_frequencies_are_uniform(length):
    """Chi-squared with false-alarm rate 1e-6; mutant: frequencies of the upper half are never drawn."""
    from scipy import stats

    record = pm.sketches.TensorSRHT(20_000).sample_product((length, length), np.random.default_rng(0))
    assert isinstance(record.samples, FourierSamples)
    for signs, rows, orientations in zip(record.signs, record.samples.rows, record.samples.orientations, strict=True):
        assert signs.shape == (length,)
        counts = np.bincount(np.where(orientations < 0, length - rows, rows), minlength=length)
        threshold = stats.chi2.isf(1e-6, max(length - 1, 1))

        def statistic(counts, expected=rows.size / length):
            return ((counts - expected) ** 2 / expected).sum()

        assert statistic(counts) < threshold
        if length > 2:
            assert statistic(np.bincount(rows, minlength=length)) > threshold


@pytest.mark.parametrize("form", ["fourier", "hadamard"])
@pytest.mark.parametrize("n_components", [1, 3])
def test_products_of_two_vectors_are_unbiased(n_components, form):
    """False-alarm rate 1e-6; mutant: a width that is off by one in the scaling."""
    X, Y = pairs(np.random.default_rng(3), (6, 5), np.float64)
    X, Y = X[:3], Y[:3]
    ops = ops_for(X)
    sketch = pm.sketches.TensorSRHT(n_components, form=form)
    samples = []
    for seed in range(2000):
        Z = sketch.sample_product((6, 5), np.random.default_rng(seed)).bind(ops).sketch_product(ops, X, Y)
        samples.append(Z @ Z.T)
    samples, exact = np.array(samples), (X @ X.T) * (Y @ Y.T)
    assert is_mean(samples, exact)
    assert not is_mean(samples * n_components / (n_components + 1), exact)


@pytest.mark.parametrize("form", ["fourier", "hadamard"])
def test_rows_without_replacement_come_equally_often(form, rng):
    record = pm.sketches.TensorSRHT(80, form=form).sample_product((8, 8), rng)
    samples = record.samples
    assert isinstance(samples, FourierSamples | HadamardSamples)
    for number, rows in enumerate(samples.rows):
        if isinstance(samples, FourierSamples):
            rows = np.where(samples.orientations[number] < 0, 8 - rows, rows)
        np.testing.assert_array_equal(np.bincount(rows, minlength=8), rows.size // 8)
        assert (np.diff(rows[:8]) != 1).any()


def test_variance_without_replacement_is_that_of_the_theory(rng, seed):
    """False-alarm rate 1e-6; the formula leaves out terms of order 1 / d, mutant: rows with replacement."""
    d, m = 120, 240
    x = 1 + rng.standard_normal(d)
    y = x + 0.3 * rng.standard_normal(d)
    x, y = x / np.linalg.norm(x), y / np.linalg.norm(y)
    s = x @ y
    squares = {}
    for replace in (False, True):
        sketch, streams = pm.sketches.TensorSRHT(m, replace=replace), np.random.default_rng(seed)
        ops = ops_for(x)
        pairs = (sketch.sample(d, streams).sketch_product(ops, *[np.stack([x, y])] * 2) for _ in range(1500))
        squares[replace] = np.array([(a @ b - s * s) ** 2 for a, b in pairs])
    # All rows are drawn once: f = 1.
    theory = (1 + s**4) / m
    assert is_at_most(squares[False], 1.25 * theory)
    assert not is_at_most(squares[True], 1.25 * theory)
    assert is_at_most(squares[True], (1 + 2 * s * s + 3 * s**4) / m)


def test_unknown_form_is_an_error():
    with pytest.raises(ValueError, match=r"`form` must be one of 'fourier', 'hadamard', got 'dct'"):
        pm.sketches.TensorSRHT(4, form="dct").fit(np.ones((2, 3)))
