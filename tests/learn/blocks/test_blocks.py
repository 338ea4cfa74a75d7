"""Blocks of features of every kind: the products of the same numbers in a dense array."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import phimap as pm
from phimap.learn.blocks.blocks import (
    CountedBlock,
    DenseBlock,
    FeatureBlock,
    LazyFeatureBlock,
    PackedBlock,
    SparseBlock,
    TensorBlock,
    feature_block,
)
from phimap.learn.blocks.triangle import BlockTriangle

# More than one block of columns and of the triangle, the last one short.
ROWS, WIDTH = 70, 530
KINDS = {
    "dense": DenseBlock,
    "tensor": TensorBlock,
    "signs": CountedBlock,
    "bits": CountedBlock,
    "four bits": PackedBlock,
    "sparse": SparseBlock,
}


def block_of(kind: str) -> FeatureBlock:
    rng = np.random.default_rng(2)
    if kind == "dense":
        return feature_block(rng.standard_normal((ROWS, WIDTH)) + 0.3)
    if kind == "tensor":
        torch = pytest.importorskip("torch")
        return feature_block(torch.tensor(rng.standard_normal((ROWS, WIDTH)) + 0.3))
    X = rng.standard_normal((ROWS, 6))
    maps = {
        "signs": pm.TernaryFeatures("relu", WIDTH, sparsity=0.2, packed=True, random_state=0),
        "bits": pm.TernaryFeatures("step", WIDTH, sparsity=0.2, packed=True, random_state=0),
        "four bits": pm.QuantizedFeatures(pm.FourierFeatures(n_components=WIDTH), bits=4, packed=True, random_state=0),
        "sparse": pm.BinningFeatures(n_components=WIDTH, columns_per_partition=8, sparse_output=True, random_state=0),
    }
    return feature_block(maps[kind].fit_transform(X))


@pytest.fixture(scope="module", params=KINDS)
def block(request) -> FeatureBlock:
    found = block_of(request.param)
    assert type(found) is KINDS[request.param]
    return found


def close(found, expected) -> None:
    """Equal to the rounding of sums of a few hundred float64 products."""
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * max(1, np.abs(expected).max()) * WIDTH)


def test_a_block_is_its_own(block):
    assert feature_block(block) is block
    assert block.shape == (ROWS, WIDTH)
    assert block.dtype == np.float64
    assert block.eps == np.finfo(np.float64).eps


@pytest.mark.parametrize("sign", [1, -1])
def test_gram_matrix(block, sign):
    Z, gram = block.to_host(), BlockTriangle.zeros(WIDTH)
    block.add_gram(gram, sign, 2)
    close(gram.to_dense(), sign * Z.T @ Z)


def test_products_with_targets_and_weights(block, rng):
    Z, Y, W = block.to_host(), rng.standard_normal((ROWS, 2)) + 5, rng.standard_normal((WIDTH, 3))
    cross, sums = block.cross_products(Y, 2)
    close(cross, Z.T @ Y)
    close(sums, Z.sum(axis=0))
    close(block.times(W, 2), Z @ W)


def test_columns_copies_and_stacks(block):
    Z, index = block.to_host(), np.array([5, 3, 528])
    np.testing.assert_array_equal(block.columns(index).to_host(), Z[:, index])
    copy = block.host_copy()
    np.testing.assert_array_equal(copy.to_host(), Z)
    np.testing.assert_array_equal(type(copy).stacked([copy, copy]).to_host(), np.concatenate([Z, Z]))
    np.testing.assert_array_equal(block.to_dense().to_host(), Z)


def test_host_copies_have_memory_of_their_own():
    Z = np.ones((3, 2))
    copy = feature_block(Z).host_copy()
    Z[...] = 7
    np.testing.assert_array_equal(copy.to_host(), np.ones((3, 2)))


def test_centred_rows(block, rng):
    centred, Z = block.host_copy().centred(2), block.to_host()
    C = Z - Z.mean(axis=0)
    A = rng.standard_normal((ROWS, 2))
    close(centred.mean, Z.mean(axis=0))
    close(centred.gram().to_dense(), C @ C.T)
    close(centred.combine(A), C.T @ A)
    validation, training = np.arange(7), np.arange(7, ROWS)
    gram, between = centred.split(training, validation)
    mean = Z[training].mean(axis=0)
    close(gram.to_dense(), (Z[training] - mean) @ (Z[training] - mean).T)
    close(between, (Z[validation] - mean) @ (Z[training] - mean).T)


def test_single_precision_comes_back_as_it_was():
    X = np.random.default_rng(0).standard_normal((40, 5)).astype(np.float32)
    packed = pm.TernaryFeatures("relu", 64, sparsity=0.2, packed=True, random_state=0).fit_transform(X)
    binned = pm.BinningFeatures(n_components=64, sparse_output=True, random_state=0).fit_transform(X)
    for features in (X, packed, binned):
        block = feature_block(features)
        assert block.dtype == block.times(np.ones((block.shape[1], 1)), 1).dtype == np.float32
        cross, sums = block.cross_products(np.ones((40, 1)), 1)
        assert cross.dtype == sums.dtype == np.float64
    assert feature_block(replace(packed, dtype=np.dtype(np.float64))).dtype == np.float64


def test_products_of_rows_with_weights(block, rng):
    Z, Y, weights = block.to_host(), rng.standard_normal((ROWS, 2)) + 5, rng.exponential(size=ROWS)
    weighted = Z * weights[:, None]
    close(block.scaled(weights).to_host(), weighted)
    cross, sums = block.cross_products(Y, 2, weights)
    close(cross, weighted.T @ Y)
    close(sums, weighted.sum(axis=0))


def test_centred_rows_with_weights(block, rng):
    weights = rng.exponential(size=ROWS)
    centred, Z, root = block.host_copy().centred(2, weights), block.to_host(), np.sqrt(weights)[:, None]
    mean = np.average(Z, axis=0, weights=weights)
    C, A = root * (Z - mean), rng.standard_normal((ROWS, 2))
    close(centred.mean, mean)
    close(centred.gram().to_dense(), C @ C.T)
    close(centred.combine(A), C.T @ A)
    validation, training = np.arange(7), np.arange(7, ROWS)
    gram, between = centred.split(training, validation)
    mean = np.average(Z[training], axis=0, weights=weights[training])
    rows = root[training] * (Z[training] - mean)
    close(gram.to_dense(), rows @ rows.T)
    close(between, (Z[validation] - mean) @ rows.T)


def test_sums_of_columns_use_the_weights_of_the_call(block):
    """Repeated products with changing weights. Mutant: sums that were cached for other weights."""
    Z, rng = block.to_host(), np.random.default_rng(4)
    Y, weights = rng.standard_normal((ROWS, 2)), rng.uniform(0.5, 2, ROWS)
    for counted in (None, weights, None, None, weights):
        cross, sums = block.cross_products(Y, 1, counted)
        shares = np.ones(ROWS) if counted is None else counted
        close(sums, shares @ Z)
        close(cross, Z.T @ (shares[:, None] * Y))
        # Changing the result must not change the block.
        sums += 1
    assert np.abs(weights @ Z - Z.sum(axis=0)).max() > 0.1


@pytest.mark.parametrize("kind", ["dense", "tensor", "four bits"])
@pytest.mark.parametrize("rows", [1, 33, ROWS])
def test_a_lazy_block_is_the_block_of_its_rows(kind, rows, rng):
    """Products, at once or in parts that share one buffer; mutant: parts that are not copied."""
    X, weights = rng.standard_normal((ROWS, 6)), rng.uniform(1, 3, ROWS)
    W, buffer, mutant = rng.standard_normal((6, WIDTH)), np.empty((ROWS, WIDTH)), []
    quantized = pm.QuantizedFeatures(pm.FourierFeatures(n_components=WIDTH), bits=4, packed=True, random_state=0).fit(X)

    def form(X):
        if kind == "four bits":
            return feature_block(quantized.transform(X))
        Z = np.matmul(X, W, out=buffer[: len(X)])
        mutant.append(feature_block(Z))
        return mutant[-1] if kind == "dense" else feature_block(pytest.importorskip("torch").from_numpy(Z))

    block = LazyFeatureBlock(X, form, WIDTH, rows)
    Z = quantized.transform(X).to_dense() if kind == "four bits" else X @ W
    assert (block.shape, block.dtype) == ((ROWS, WIDTH), np.float64)
    Y, V, index = rng.standard_normal((ROWS, 2)) + 5, rng.standard_normal((WIDTH, 3)), np.array([5, 3, 29])
    for counted in (None, weights):
        w = np.ones(ROWS) if counted is None else counted
        cross, sums = block.cross_products(Y, 1, counted)
        close(cross, (Z * w[:, None]).T @ Y)
        close(sums, w @ Z)
    close(block.times(V, 1), Z @ V)
    close(block.gram_times(V, weights, 1), Z.T @ (weights[:, None] * (Z @ V)))
    gram = BlockTriangle.zeros(WIDTH)
    block.add_gram(gram, -1, 1)
    close(gram.to_dense(), -Z.T @ Z)
    close(block.to_host(), Z)
    close(block.rows(index).to_host(), Z[index])
    close(block.columns(index).to_host(), Z[:, index])
    close(block.scaled(weights).to_host(), Z * weights[:, None])
    close(block.centred(1).gram().to_dense(), (Z - Z.mean(axis=0)) @ (Z - Z.mean(axis=0)).T)
    close(LazyFeatureBlock.stacked([block.host_copy(), block.host_copy()]).to_host(), np.vstack([Z, Z]))
    if kind == "dense" and rows < ROWS:
        mutant.clear()
        block.times(V, 1)
        assert np.abs(np.vstack([part.to_host() for part in mutant]) - Z).max() > 0.1
