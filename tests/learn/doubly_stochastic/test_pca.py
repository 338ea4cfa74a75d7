"""Principal components by doubly stochastic gradients: against the algorithm written out, and exact components."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import phimap as pm
from phimap._random import named_streams

KERNEL = pm.kernels.Gaussian(length_scale=2.0)


@pytest.fixture(scope="module")
def rows():
    return np.random.default_rng(0).standard_normal((400, 2)) * [1.5, 0.7]


def simulated(pca, X, X_new, *, shrinks=True, shortens=True):
    """Scores of new rows by the published steps: each evaluation draws all former blocks again, no scores are kept."""
    streams = named_streams(pca.random_state, "blocks", "order")
    seed, rng = streams["blocks"].bit_generator.seed_seq, streams["order"]
    width, m, k, theta = pca.block_components, pca.n_random_features, pca.n_components, pca.step_size
    alphas: list[np.ndarray] = []

    def block(number, rows):
        child = np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, number))
        size = min(width, m - number * width)
        return pm.FourierFeatures(KERNEL, size, projection="gaussian", random_state=child).fit(X).transform(rows)

    def evaluate(rows):
        return sum((block(number, rows) @ alpha for number, alpha in enumerate(alphas)), np.zeros((len(rows), k)))

    n_steps = -(-m // width)
    height = max(k, round(pca.n_epochs * len(X) / n_steps))
    for t in range(n_steps):
        batch = X[rng.integers(len(X), size=height)]
        Z = block(t, batch)
        if t == 0:
            alphas = [np.linalg.svd(Z, full_matrices=False)[2][:k].T]
            continue
        eta, h = theta / ((theta + t) if shortens else theta), evaluate(batch)
        new = eta * sum(np.outer(z, one) for z, one in zip(Z, h, strict=True)) / height
        if shrinks:
            alphas = [alpha - eta * alpha @ sum(np.outer(one, one) for one in h) / height for alpha in alphas]
        alphas.append(new)
    return evaluate(X_new)


def test_steps_are_the_published_ones(rows):
    """Equal kernel estimates to 1e-10; mutants: coefficients that do not shrink, steps of one length."""
    pca = pm.DoublyStochasticPCA(
        KERNEL, 3, n_random_features=170, block_components=16, n_epochs=2, step_size=7.0, random_state=3
    )
    Z = pca.fit(rows).transform(rows[:50])
    products = Z @ Z.T
    # The final rotation leaves the products unchanged.
    expected = simulated(pca, rows, rows[:50])
    np.testing.assert_allclose(products, expected @ expected.T, atol=1e-10)
    for mutant in ({"shrinks": False}, {"shortens": False}):
        wrong = simulated(pca, rows, rows[:50], **mutant)
        assert np.abs(wrong @ wrong.T - products).max() > 1e-3


def missed(rows, k, m, theta, seed):
    """The squared sine between the span of the found components and that of the exact ones."""
    exact = np.linalg.eigh(KERNEL(rows))[1][:, -k:]
    options = {"n_random_features": m, "block_components": 16, "n_epochs": max(1, m // 100)}
    pca = pm.DoublyStochasticPCA(KERNEL, k, **options, step_size=theta, random_state=seed)
    found = np.linalg.qr(pca.fit_transform(rows))[0]
    return k - np.linalg.norm(exact.T @ found) ** 2


def test_the_span_converges_like_one_over_t(rows):
    """The slope is -1 where theta times the gap is 2, and near -1/3 where it is 0.2 (20 draws: -1.03 and -0.36)."""
    values = np.linalg.eigvalsh(KERNEL(rows) / len(rows))
    gap, widths = values[-2] - values[-3], (512, 2048)

    def slope(factor):
        few, many = (np.mean([missed(rows, 2, m, factor / gap, seed) for seed in range(8)]) for m in widths)
        return np.log(many / few) / np.log(widths[1] / widths[0])

    assert slope(2.0) < -0.7
    assert slope(0.2) > -0.55


def test_components_are_those_of_the_kernel_matrix(rows):
    pca = pm.DoublyStochasticPCA(KERNEL, 2, n_random_features=8192, step_size=20.0, random_state=0).fit(rows)
    values, vectors = np.linalg.eigh(KERNEL(rows) / len(rows))
    np.testing.assert_allclose(pca.explained_variance_, values[:-3:-1], rtol=0.1)
    Z = pca.transform(rows)
    np.testing.assert_allclose(Z.T @ Z / len(rows), np.diag(pca.explained_variance_), atol=1e-10)
    cosines = np.abs(np.sum(vectors[:, :-3:-1] * Z / np.linalg.norm(Z, axis=0), axis=0))
    assert cosines.min() > 0.98


def test_it_is_a_map_of_the_package(rows, tmp_path):
    pca = pm.DoublyStochasticPCA(KERNEL, 3, n_random_features=200, block_components=32, random_state=0)
    Z = pca.fit(rows).transform(rows)
    np.testing.assert_allclose(pca.fit(sparse.csr_matrix(rows)).transform(rows), Z, atol=1e-10)
    single = pca.fit(rows.astype(np.float32)).transform(rows.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single @ single.T, Z @ Z.T, atol=1e-3)
    pm.save(pca.fit(rows), tmp_path / "pca.phimap")
    assert np.array_equal(pm.load(tmp_path / "pca.phimap").transform(rows), Z)
    assert list(pca.get_feature_names_out()) == [f"doublystochasticpca{i}" for i in range(3)]


def test_what_does_not_fit_names_the_rule(rows):
    with pytest.raises(ValueError, match="`n_components` must be at most `block_components` and the number of rows, 4"):
        pm.DoublyStochasticPCA(KERNEL, 5, block_components=4).fit(rows)
    with pytest.raises(ValueError, match="`step_size` must be greater than 0"):
        pm.DoublyStochasticPCA(KERNEL, 2, step_size=0.0).fit(rows)
    with pytest.raises(TypeError, match="`kernel` must be a stationary kernel"):
        pm.DoublyStochasticPCA(pm.kernels.NTK()).fit(rows)
    with pm.config(memory="1MB"), pytest.raises(MemoryError, match="`n_components`=8 components of 400 rows"):
        pm.DoublyStochasticPCA(KERNEL, 8).fit(rows)
