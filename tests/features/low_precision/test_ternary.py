"""Ternary features: their three outputs, their limit kernel, and what they stand in for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

import phimap as pm
from phimap.kernels.spectral import GaussianLaw
from phimap.projections import Gaussian as GaussianDirections
from tests.support.statistics import is_mean

TARGETS = {"relu": "relu", "sign": "sign", "gaussian": pm.kernels.Gaussian(length_scale=2.0), "callable": np.tanh}


def rows(n=60, d=20, seed=3):
    return np.random.default_rng(seed).standard_normal((n, d)) / 2 + 0.3


@pytest.mark.parametrize("levels", [2, 3])
@pytest.mark.parametrize("target", TARGETS)
def test_outputs_agree(target, levels):
    X = rows()
    phi = pm.TernaryFeatures(TARGETS[target], 150, sparsity=0.5, levels=levels, random_state=0).fit(X)
    Z = phi.transform(X)
    W = phi.record_.projection.to_dense()
    centred = X - X.mean(axis=0) if target == "gaussian" else X
    expected = phi.ternary_(centred @ W.T) / np.sqrt(150)
    np.testing.assert_allclose(Z, expected, atol=1e-12)
    packed = clone(phi).set_params(packed=True).fit(X).transform(X)
    np.testing.assert_array_equal(packed.to_dense(), Z)
    assert packed.nbytes == 60 * 3 * 8 * (1 if phi.ternary_.is_binary else 2)
    integers = clone(phi).set_params(output="integer").fit(X).transform(X)
    assert integers.dtype == np.int8
    np.testing.assert_allclose(phi.scale_ * integers, Z, rtol=1e-12)
    batches = list(clone(phi).set_params(packed=True).fit(X).transform_batches(X, 25))
    np.testing.assert_array_equal(pm.PackedArray.concatenate(batches).to_dense(), Z)


def test_packed_features_of_sparse_rows_and_of_tensors():
    X = np.where(rows() > 0.5, rows(), 0)
    phi = pm.TernaryFeatures("relu", 100, sparsity=0.5, packed=True, random_state=0).fit(X)
    Z = phi.transform(X).to_dense()
    np.testing.assert_array_equal(phi.transform(sparse.csr_array(X)).to_dense(), Z)
    torch = pytest.importorskip("torch")
    np.testing.assert_array_equal(phi.transform(torch.tensor(X)).to_dense(), Z)


def test_outputs_of_a_mixture_agree():
    X = rows()
    phi = pm.TernaryFeatures(TARGETS["gaussian"], 150, sparsity=0.5, degrees=3, random_state=0).fit(X)
    Z = phi.transform(X)
    projected = (X - X.mean(axis=0)) @ phi.record_.projection.to_dense().T
    functions = phi.mixture_.assign(150)
    assert len(np.unique(functions)) == len(phi.mixture_.functions) == 3
    for j, function in enumerate(phi.mixture_.functions):
        np.testing.assert_allclose(Z[:, functions == j], function(projected[:, functions == j]) / np.sqrt(150))
    packed = clone(phi).set_params(packed=True).fit(X).transform(X)
    np.testing.assert_array_equal(packed.to_dense(), Z)
    np.testing.assert_allclose(packed.gram(), Z @ Z.T, atol=1e-12)


def test_limit_kernel_of_a_mixture_is_the_mean_of_those_of_its_functions():
    X = rows(8)
    phi = pm.TernaryFeatures(TARGETS["gaussian"], 150, degrees=3, random_state=0).fit(X)
    # Of the features that there are, so that the estimate has no bias.
    counts = np.bincount(phi.mixture_.assign(150))
    np.testing.assert_allclose(counts / 150, phi.mixture_.shares, atol=0.03)
    mean = sum(
        count / 150 * pm.kernels.TernaryKernel(*function, center=X.mean(axis=0), length_scale=2.0)(X)
        for function, count in zip(phi.mixture_.functions, counts, strict=True)
    )
    np.testing.assert_allclose(phi.kernel_(X), mean, rtol=1e-12)
    np.testing.assert_allclose(phi.kernel_.diag(X), mean.diagonal(), rtol=1e-9)


@pytest.mark.parametrize("target", ["relu", "sign", "gaussian", "step"])
def test_limit_kernel_is_the_mean_over_gaussian_directions(target, seed):
    """False-alarm rate 1e-6; mutant: the kernel without the height."""
    X = rows(6, 4)
    phi = pm.TernaryFeatures(TARGETS.get(target, target), 20_000, random_state=0).fit(X)
    record = phi.record_
    law = GaussianLaw(4, 0.5 if target == "gaussian" else 1.0)
    drawn = GaussianDirections().sample(law, 20_000, np.random.default_rng(seed))
    shift = drawn.to_dense() @ X.mean(axis=0) if target == "gaussian" else 0.0
    gaussian = replace(
        record,
        projection=drawn,
        lower=phi.ternary_.lower + shift + np.zeros(20_000),
        upper=phi.ternary_.upper + shift + np.zeros(20_000),
    )
    phi.record_ = gaussian
    Z = phi.transform(X)
    samples = 20_000 * Z.T[:, :, None] * Z.T[:, None, :]
    assert is_mean(samples, phi.kernel_(X))
    assert not is_mean(samples, phi.kernel_(X) * 1.1)


def test_tau_is_the_mean_squared_norm():
    X = rows(200)
    assert pm.TernaryFeatures("relu", 8).fit(X).tau_ == pytest.approx(np.square(X).sum(axis=1).mean())
    centred = pm.TernaryFeatures(pm.kernels.Gaussian(length_scale=2.0), 8).fit(X)
    assert centred.tau_ == pytest.approx(np.square(X - X.mean(axis=0)).sum(axis=1).mean() / 4)
    assert pm.TernaryFeatures("relu", 8, tau=3.0).fit(X).tau_ == 3.0


def test_mixture_is_told_apart_as_by_fourier_features():
    """Theorem 1 at work: the centred Gram matrices have the same leading eigenvector."""
    mixture = pm.theory.GaussianMixture(4 * np.eye(2, 400), np.array([1.0, 1.2]))
    X, _ = mixture.sample(300, random_state=0)
    kernel = pm.kernels.Gaussian()
    phi = pm.TernaryFeatures(kernel, 20_000, packed=True, random_state=0)
    leading = []
    for K in (phi.fit_transform(X).gram(), kernel(X)):
        centred = K - K.mean(axis=0) - K.mean(axis=1)[:, None] + K.mean()
        leading.append(np.linalg.eigh(centred)[1][:, -1])
    assert abs(leading[0] @ leading[1]) > 0.95


def test_byte_budget_counts_bits():
    X = rows(2000)
    phi = pm.TernaryFeatures("relu", 256, packed=True, random_state=0).fit(X)
    with pm.config(memory=200_000):
        assert phi.transform(X).nbytes <= 200_000
    with pm.config(memory=100_000), pytest.raises(MemoryError, match=r"transform_batches"):
        phi.transform(X)


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"target": "tanh"}, ValueError, r"`activation` must be one of"),
        ({"target": pm.kernels.Laplacian()}, TypeError, r"`activation` must be a name"),
        ({"sparsity": 1.0}, ValueError, r"`sparsity` must be below 1"),
        ({"levels": 1}, ValueError, r"`levels` must be 2 or 3"),
        ({"output": "int4"}, ValueError, r"`output` must be one of 'float', 'integer'"),
        ({"packed": "yes"}, TypeError, r"`packed` must be True or False"),
        ({"tau": 0.0}, ValueError, r"`tau` must be greater than 0"),
        ({"degrees": 4}, ValueError, r"`degrees` must be 2 or 3, got 4"),
        ({"degrees": 3, "levels": 2}, ValueError, r"`degrees` must be None with levels=2"),
    ],
)
def test_bad_parameters_name_the_remedy(params, error, message):
    with pytest.raises(error, match=message):
        pm.TernaryFeatures(**params).fit(rows())
