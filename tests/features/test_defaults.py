"""The registry from kernels to maps: what serves which, that it estimates what was asked for, and sums of kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

import phimap as pm
from phimap.features.defaults import MAPS, map_of_kernel
from phimap.kernels import (
    CNTK,
    NNGP,
    NTK,
    ActivationKernel,
    ArcCosine,
    Exponential,
    Gaussian,
    Kernel,
    Laplacian,
    NormalizedInput,
    Polynomial,
    Taylor,
    TernaryKernel,
)
from tests.support.families import KERNELS
from tests.support.learners import FIXED
from tests.support.statistics import is_mean, kernel_estimates

SERVED_BY_NYSTROEM = {
    "TernaryKernel": "TernaryFeatures starts from another kernel, and chooses the thresholds by the data",
    "FiniteSpectrum": "its frequencies are the features themselves: the map that has them is there already",
    "Product": "no law and no series is known of a product of different families",
}
"""Kernels without an entry of their own, and why."""


def served(kernel: Kernel, n_components: int = 64, random_state: Any = 3) -> Any:
    return map_of_kernel(kernel, n_components, random_state=random_state, n_jobs=1)


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (Gaussian(), "FourierFeatures"),
        (Laplacian(), "FourierFeatures"),
        (Gaussian() * Laplacian(), "FourierFeatures"),
        (NormalizedInput(Gaussian()), "FourierFeatures"),
        (ArcCosine(2), "ArcCosineFeatures"),
        (ArcCosine(1, depth=3), "ArcCosineFeatures"),
        (ActivationKernel("gelu"), "ActivationFeatures"),
        (ActivationKernel(np.tanh), "ActivationFeatures"),
        (NTK(2), "NTKFeatures"),
        (NTK(2, activation="abs"), "NTKFeatures"),
        (NTK(2, activation="erf"), "NystroemFeatures"),
        (NNGP(2), "DotProductFeatures"),
        (CNTK(2), "CNTKSketch"),
        (Polynomial(2), "DotProductFeatures"),
        (Exponential(), "DotProductFeatures"),
        (Taylor([0.0, 1.0], homogeneous=True), "DotProductFeatures"),
        (Gaussian() + Polynomial(2), "SumFeatures"),
        (2.0 * Gaussian(), "SumFeatures"),
        ((Gaussian() + 2.0 * Laplacian()) * Gaussian(), "SumFeatures"),
        (Gaussian() * Polynomial(2), "NystroemFeatures"),
        (NormalizedInput(Polynomial(2)), "NystroemFeatures"),
        (TernaryKernel(-0.5, 0.5), "NystroemFeatures"),
    ],
    ids=repr,
)
def test_map_of_a_kernel(kernel, expected):
    found = served(kernel)
    assert (type(found).__name__, found.n_components, found.random_state, found.n_jobs) == (expected, 64, 3, 1)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_every_kernel_has_a_map_of_its_own(kernel):
    is_nystroem = isinstance(served(kernel), pm.NystroemFeatures)
    # Series in the norms err at long rows where units saturate, wave or jump.
    of_long_rows = isinstance(kernel, NTK | NNGP) and not kernel.is_homogeneous
    assert is_nystroem == (of_long_rows or type(kernel).__name__ in SERVED_BY_NYSTROEM)


@pytest.mark.parametrize("kernel", [kernel for kernel in KERNELS if not isinstance(kernel, CNTK)], ids=repr)
def test_the_map_is_of_the_kernel_and_its_error_falls(kernel, rng):
    """Root mean squares over four draws at 8 times the width: a third or less, where 1/sqrt(m) gives 0.35."""
    X = rng.standard_normal((150, 5))
    K, errors = kernel(X), []
    for width in (16, 128):
        features = []
        for seed in range(4):
            phi = served(kernel, width, seed).fit(X)
            features.append(phi.transform(X))
            np.testing.assert_allclose(phi.kernel_(X[:20]), kernel(X[:20]), rtol=1e-12)
        squares = [np.linalg.norm(K - Z @ Z.T) ** 2 / np.linalg.norm(K) ** 2 for Z in features]
        errors.append(np.sqrt(np.mean(squares)))
    # Between draws these errors scatter by a quarter; those of squares, and of series with few features, by more.
    assert errors[1] < 0.7 * errors[0] or errors[0] < 1e-8


@pytest.mark.parametrize("pooling", ["gap", "flatten"])
def test_the_map_of_images_is_of_the_kernel(pooling, rng):
    X = rng.standard_normal((20, 4, 4, 2))
    kernel = CNTK(2, pooling=pooling)
    phi = served(kernel, 256).fit(X)
    np.testing.assert_allclose(phi.kernel_(X), kernel(X), rtol=1e-10)


def test_the_nearest_class_counts(monkeypatch):
    class Own(Gaussian):
        pass

    monkeypatch.setitem(MAPS, Own, lambda kernel, **common: (kernel, common))
    kernel = Own()
    common = {"n_components": 8, "random_state": None, "n_jobs": None}
    found: Any = map_of_kernel(kernel, 8, random_state=None, n_jobs=None)
    assert found == (kernel, common)
    assert type(map_of_kernel(Gaussian(), 8, random_state=None, n_jobs=None)).__name__ == "FourierFeatures"


SUM = Gaussian(2.0) + 0.5 * Laplacian(5.0)


def test_sum_is_unbiased(rng):
    """False-alarm rate 1e-6; mutants: a part without the root of its weight, and one left out."""
    X = rng.standard_normal((8, 4))
    samples = kernel_estimates(lambda seed: pm.SumFeatures(SUM, 64, random_state=seed).fit_transform(X), 100)
    assert is_mean(samples, SUM(X))
    assert not is_mean(samples, (Gaussian(2.0) + Laplacian(5.0))(X))
    assert not is_mean(samples, (Gaussian(2.0) + 0.25 * Laplacian(5.0))(X))
    assert not is_mean(samples, Gaussian(2.0)(X))


def test_product_is_unbiased(rng):
    """False-alarm rate 1e-6; mutants: one of the factors, and their mean."""
    X = rng.standard_normal((8, 4))
    left, right = Gaussian(2.0), Laplacian(5.0)
    samples = kernel_estimates(
        lambda seed: pm.FourierFeatures(left * right, 64, random_state=seed).fit_transform(X), 400
    )
    assert is_mean(samples, left(X) * right(X))
    assert not is_mean(samples, left(X))
    assert not is_mean(samples, 0.5 * (left(X) + right(X)))


@pytest.mark.parametrize("n_components", [2, 3, 10, 65])
def test_width_is_exact_and_split_by_size(n_components, rng):
    X = rng.standard_normal((30, 4))
    phi = pm.SumFeatures(SUM, n_components, random_state=0).fit(X)
    assert phi.transform(X).shape == (30, n_components)
    assert sum(phi.widths_) == n_components
    assert min(phi.widths_) >= 1
    if n_components > 2:
        assert abs((phi.widths_[0] - 1) - (n_components - 2) * 2 / 3) < 1
    alone = pm.SumFeatures(SUM, 1, random_state=0).fit(X)
    assert alone.widths_ == (1,)
    landmark = alone.record_.landmarks
    np.testing.assert_allclose(alone.transform(landmark) ** 2, SUM(landmark), rtol=1e-12)
    assert phi.widths_ == pm.SumFeatures(SUM, n_components).fit(np.zeros((3, 4))).widths_
    linear = pm.SumFeatures(NTK(1) + ArcCosine(1), 64, random_state=0).fit(np.zeros((3, 40)))
    assert linear.widths_ == (32, 32)


def test_sum_errs_least_at_its_split(rng):
    """The error at the split, against those of splits that are off by a factor of four, each over 40 draws."""
    X = rng.standard_normal((40, 4))
    left, right = Gaussian(2.0), Laplacian(4.0)
    kernel = 4.0 * left + right

    def error(width):
        both = [
            np.hstack(
                [
                    2 * pm.FourierFeatures(left, width, projection="gaussian", random_state=seed).fit_transform(X),
                    pm.FourierFeatures(right, 100 - width, projection="gaussian", random_state=99 + seed).fit_transform(
                        X
                    ),
                ]
            )
            for seed in range(40)
        ]
        return np.mean([np.square(Z @ Z.T - kernel(X)).mean() for Z in both])

    best = pm.SumFeatures(kernel, 100).fit(X).widths_[0]
    assert best == 79
    assert error(80) < min(error(20), error(96))


def test_sums_on_other_layouts_and_in_files(tmp_path, rng):
    X = rng.standard_normal((30, 4)) * (rng.random((30, 4)) < 0.6)
    kernel = Gaussian(2.0) + 0.5 * (Polynomial(2) + Gaussian(3.0) * Laplacian(4.0))
    phi = pm.SumFeatures(kernel, 90, random_state=0).fit(X)
    Z = phi.transform(X)
    np.testing.assert_allclose(phi.transform(sparse.csr_matrix(X)), Z, atol=1e-12)
    pm.save(phi, tmp_path / "sum.phimap")
    again = pm.load(tmp_path / "sum.phimap")
    np.testing.assert_array_equal(again.transform(X), Z)
    np.testing.assert_array_equal(again.kernel_(X), kernel(X))
    np.testing.assert_array_equal(clone(phi).fit(X).transform(X), Z)
    assert phi.fit_rows() == 1000
    assert pm.SumFeatures(kernel * NTK(1) + Gaussian(), 5000).fit_rows() == 5000


def test_a_sum_of_images_and_of_flat_rows(rng):
    X = rng.random((12, 4, 4, 1))
    kernel = CNTK(2) + Gaussian(2.0)
    phi = pm.SumFeatures(kernel, 300, random_state=0).fit(X)
    assert phi.transform(X).shape == (12, 300)
    flat = CNTK(2)(X) + Gaussian(2.0)(X.reshape(12, -1))
    np.testing.assert_allclose(phi.kernel_(X.reshape(12, -1)), flat, rtol=1e-10)


def test_learners_take_sums(rng):
    X = rng.standard_normal((1200, 2))
    y = np.sin(2 * X[:, 0]) + 2 * X[:, 1]

    def score(kernel):
        model = pm.KernelRegressor(kernel, 256, random_state=0, **FIXED).fit(X[:1000], y[:1000])
        return model, model.score(X[1000:], y[1000:])

    model, both = score(0.2 * Gaussian() + Polynomial(1))
    assert isinstance(model.feature_map_, pm.SumFeatures)
    assert both > 0.99 > score(Polynomial(1))[1]
