"""Frequencies drawn by leverage: scores, draws, and what the weights make up for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import phimap as pm
from phimap.features.data_dependent.dictionaries import METHODS, STOPPING_METHODS
from phimap.features.data_dependent.pool import chosen_rows, draw_pool
from phimap.features.data_dependent.scores import (
    dimension_alpha,
    inclusion_probabilities,
    leverage_scores,
    nystroem_leverage_scores,
    pool_matrix,
    surrogate_scores,
    systematic_sample,
    target_energies,
)
from tests.support.statistics import is_mean, kernel_estimates

KERNEL = pm.kernels.Gaussian(length_scale=1.5)


def rows(n: int, d: int = 3) -> np.ndarray:
    return np.random.default_rng(5).standard_normal((n, d))


def spread_scores(n: int) -> np.ndarray:
    return np.random.default_rng(1).exponential(size=n) ** 3


def scores_of_the_inverse(X: np.ndarray, W: np.ndarray, alpha: float) -> np.ndarray:
    """Exact scores of the frequencies W on the rows X, by the inverse of the kernel matrix."""
    Z = np.exp(1j * X @ W.T)
    inverse = np.linalg.inv(KERNEL(X) + len(X) * alpha * np.eye(len(X)))
    return np.einsum("ij,ij->j", Z.conj(), inverse @ Z).real


def test_scores_are_those_of_the_inverse():
    X, W = rows(40), np.random.default_rng(0).standard_normal((6, 3))
    expected = scores_of_the_inverse(X, W, 0.01)
    scores, alpha = leverage_scores(KERNEL(X), X, W, 0.01, 64)
    np.testing.assert_allclose(scores, expected, rtol=1e-9)
    assert alpha == 0.01
    other, _ = leverage_scores(KERNEL(X), X, W, 0.02, 64)
    assert not np.allclose(other, expected, rtol=0.05)


def test_scores_of_the_pool_are_those_of_algorithm_1_of_li():
    X, W, n, ridge = rows(30), np.random.default_rng(0).standard_normal((9, 3)), 30, 0.02
    Z = np.hstack([np.cos(X @ W.T), np.sin(X @ W.T)])
    gram = Z.T @ Z
    diagonal = np.diagonal(gram @ np.linalg.inv(gram / 9 + n * ridge * np.eye(18)))
    found, _ = leverage_scores(pool_matrix(X, W), X, W, ridge, 64)
    np.testing.assert_allclose(found, diagonal[:9] + diagonal[9:], rtol=1e-9)
    exact, _ = leverage_scores(KERNEL(X), X, W, ridge, 64)
    assert not np.allclose(found, exact, rtol=0.1)


@pytest.mark.parametrize("name", METHODS)
def test_scores_with_landmarks_are_not_below_the_exact_ones(name, monkeypatch):
    """Nor a fifth above; mutants: scores at a ridge a hundred times larger, and landmarks drawn for that ridge."""
    X, W = rows(600), np.random.default_rng(0).standard_normal((200, 3)) * 1.5
    exact, draw = scores_of_the_inverse(X, W, 1e-4), METHODS[name]

    def ratio(alpha: float) -> np.ndarray:
        found, used = nystroem_leverage_scores(name, KERNEL, X, W, alpha, 64, np.random.default_rng(0))
        assert used == alpha
        return found / exact

    assert ratio(1e-4).min() > 1 - 1e-8
    assert ratio(1e-4).max() < 1.2
    assert ratio(1e-2).min() < 0.9
    monkeypatch.setitem(METHODS, name, lambda items, ridge, *others: draw(items, 100 * ridge, *others))
    assert ratio(1e-4).max() > 1.2


@pytest.mark.parametrize("name", METHODS)
def test_scores_at_a_large_ridge_need_no_landmarks(name):
    X, W = rows(30), np.random.default_rng(0).standard_normal((4, 3))
    found, _ = nystroem_leverage_scores(name, KERNEL, X, W, 1e6, 64, np.random.default_rng(0))
    np.testing.assert_allclose(found, scores_of_the_inverse(X, W, 1e6), rtol=1e-5)


@pytest.mark.parametrize("name", STOPPING_METHODS)
def test_landmarks_without_alpha_give_an_eighth_of_the_width_as_dimension(name):
    X, W = rows(600), np.random.default_rng(0).standard_normal((4, 3))
    _, alpha = nystroem_leverage_scores(name, KERNEL, X, W, None, 160, np.random.default_rng(0))
    assert pm.metrics.statistical_dimension(KERNEL, 600 * alpha, X) == pytest.approx(20, rel=0.1)


@pytest.mark.parametrize("name", ["exact", *METHODS])
def test_weights_are_inverse_to_the_exact_scores(name):
    """Within a fifth; mutant: scores at a ridge a hundred times larger."""
    X = rows(300)
    phi = pm.LeverageFeatures(KERNEL, 128, alpha=1e-4, scores=name, replace=True, random_state=0).fit(X)
    assert phi.alpha_ == 1e-4
    products = [
        np.square(phi.record_.scale) * scores_of_the_inverse(X, phi.record_.projection.matrix.T, alpha)
        for alpha in (1e-4, 1e-2)
    ]
    assert products[0].max() < 1.2 * products[0].min()
    assert products[1].max() > 2 * products[1].min()


def test_each_method_draws_landmarks_of_its_own():
    maps = [
        pm.LeverageFeatures(KERNEL, 32, alpha=1e-3, scores=name, random_state=0).fit(rows(200))
        for name in ("exact", *METHODS, *METHODS)
    ]
    assert len({phi.record_.scale.tobytes() for phi in maps}) == 1 + len(METHODS)


def test_surrogate_scores_are_those_of_the_source_but_for_a_factor():
    X, W = rows(30), np.random.default_rng(0).standard_normal((5, 3))
    Y = np.random.default_rng(1).standard_normal((30, 2))
    Y /= np.sqrt(np.square(Y).sum(axis=1).mean())
    Z = np.exp(1j * X @ W.T)
    expected = np.einsum("ij,ik,kj->j", Z.conj(), Y @ Y.T / 30 + np.eye(30), Z).real
    found = surrogate_scores(X, Y, W)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    # What the guide says of them: they hardly differ.
    assert ((found >= 30) & (found <= 60)).all()


def test_automatic_alpha_gives_an_eighth_of_the_width_as_dimension():
    X = rows(200)
    values = np.linalg.eigvalsh(KERNEL(X))
    alpha = dimension_alpha(np.maximum(values, 0), 200, 160)
    assert np.isclose(pm.metrics.statistical_dimension(KERNEL, 200 * alpha, X), 20, rtol=1e-6)
    # Two distinct rows have no dimension of eight, and the least alpha above rounding is taken.
    assert 0 < dimension_alpha(np.r_[100.0, 100.0, np.zeros(198)], 200, 160) < 1e-12


def test_inclusion_probabilities_add_up_and_follow_the_scores():
    scores = spread_scores(50)
    found = inclusion_probabilities(scores, 20)
    assert np.isclose(found.sum(), 20)
    assert found.max() == 1.0
    below = found < 1
    np.testing.assert_allclose(found[below] / scores[below], (found[below] / scores[below])[0])
    assert not below.all()
    assert scores[~below].min() >= scores[below].max()
    np.testing.assert_array_equal(inclusion_probabilities(np.zeros(8), 4), np.full(8, 0.5))
    np.testing.assert_array_equal(inclusion_probabilities(scores[:5], 5), np.ones(5))


def test_systematic_samples_are_distinct_and_as_likely_as_said():
    """False-alarm rate 1e-6; mutant: probabilities of another size."""
    # Some come always, and none is so rare that its frequency is not near to a Gaussian one.
    probabilities = inclusion_probabilities(np.linspace(0.5, 3.0, 30) ** 2, 15)
    assert probabilities.min() > 0.02
    assert probabilities.max() == 1.0
    samples = np.zeros((4000, 30))
    for seed in range(4000):
        chosen = systematic_sample(probabilities, 15, np.random.default_rng(seed))
        assert len(set(chosen.tolist())) == 15
        samples[seed, chosen] = 1
    free = probabilities < 1
    assert is_mean(samples[:, free], probabilities[free])
    assert not is_mean(samples[:, free], inclusion_probabilities(np.ones(30), 15)[free])


@pytest.mark.parametrize(
    ("width", "options"), [(16, {}), (17, {}), (16, {"scores": "pool", "replace": True}), (17, {"replace": True})]
)
def test_reweighted_draws_are_unbiased(width, options):
    """Over seeds, false-alarm rate 1e-6; mutant: features without the weights that make up for the draws."""
    X = rows(6)
    phi = pm.LeverageFeatures(KERNEL, width, pool=6, alpha=1e-4, **options)
    n_kept, lone = (width + 1) // 2, width % 2
    equal = np.repeat([1.0, 2.0], [n_kept - lone, lone]) ** 0.5 / n_kept**0.5
    estimates, without_weights = [], []
    for seed in range(200):
        Z = phi.set_params(random_state=seed).fit_transform(X)
        ratios = equal / phi.record_.scale
        mutant = Z * np.concatenate([ratios[: n_kept - lone], ratios])
        estimates.append(Z @ Z.T)
        without_weights.append(mutant @ mutant.T)
    assert is_mean(np.stack(estimates), KERNEL(X))
    assert not is_mean(np.stack(without_weights), KERNEL(X))


def test_surrogate_draws_are_unbiased():
    """Over seeds, false-alarm rate 1e-6; mutant: a missing factor."""
    X = rows(12)
    y = np.sin(3 * X[:, 0])
    phi = pm.LeverageFeatures(KERNEL, 16, scores="surrogate")
    samples = kernel_estimates(lambda seed: phi.set_params(random_state=seed).fit(X, y).transform(X), 200)
    assert is_mean(samples, KERNEL(X))
    assert not is_mean(0.95 * samples, KERNEL(X))


def test_energies_are_largest_at_the_frequency_of_the_targets():
    X = np.random.default_rng(0).uniform(-np.pi, np.pi, (500, 1))
    y = np.cos(3 * X) * np.sqrt(2)
    energies = target_energies(X, y, np.array([[0.0], [1.0], [3.0], [-3.0], [6.0]]))
    assert energies.argmax() in (2, 3)
    assert np.isclose(energies[2], energies[3])
    assert np.isclose(energies[2], 0.5, atol=0.1)
    assert energies[[0, 1, 4]].max() < 0.05


def test_a_pool_of_one_is_the_plain_map_in_another_order():
    X = rows(50)
    phi = pm.LeverageFeatures(KERNEL, 64, pool=1, random_state=3).fit(X)
    plain = pm.FourierFeatures(KERNEL, 64, projection="gaussian", random_state=3).fit(X)
    np.testing.assert_allclose(np.sort(phi.record_.projection.matrix), np.sort(plain.record_.projection.matrix))
    np.testing.assert_allclose(phi.transform(X) @ phi.transform(X).T, plain.transform(X) @ plain.transform(X).T)


def test_rows_are_fewer_in_a_small_byte_budget():
    X = rows(500)
    rng = np.random.default_rng(0)
    assert len(chosen_rows(X, 300, rng)[0]) == 300
    assert len(chosen_rows(X, 1000, rng)[0]) == 500
    with pm.config(memory=64 * 100**2):
        assert len(chosen_rows(X, 300, rng)[0]) == 100


@pytest.mark.parametrize(
    ("phi", "message"),
    [
        (pm.LeverageFeatures(alpha=0.0), r"`alpha` must be greater than 0.0"),
        (
            pm.LeverageFeatures(scores="some"),
            r"`scores` must be one of 'exact', .*, 'online', 'pool', 'surrogate'",
        ),
        *(
            (pm.LeverageFeatures(scores=name), rf"`alpha` must be a number for scores='{name}', got 'auto'\. Give a")
            for name in METHODS
            if name not in STOPPING_METHODS
        ),
        (pm.LeverageFeatures(pool=0), r"`pool` must be at least 1"),
        (pm.LeverageFeatures(n_subset=1), r"`n_subset` must be at least 2"),
        (pm.LeverageFeatures(n_components=10, pool=1, projection="spherical-radial"), r"frequencies of one weight"),
        (pm.LeverageFeatures(scores="surrogate"), r"LeverageFeatures requires y to be passed"),
    ],
)
def test_bad_parameters_name_the_remedy(phi, message):
    with pytest.raises(ValueError, match=message):
        phi.fit(rows(10))


def test_kernels_without_a_law_are_refused():
    with pytest.raises(TypeError, match=r"stationary kernel.*NystroemFeatures"):
        pm.LeverageFeatures(pm.kernels.NTK()).fit(rows(10))


def real_rows(name: str, folder: Path, n_rows: int) -> np.ndarray:
    """Standardised random rows of letter or protein."""
    from phimap.bench.datasets import load
    from phimap.bench.uci import load_regression

    X = load_regression(name, folder)[0] if name == "protein" else load(name, folder).X
    X = np.asarray(X, dtype=np.float64)[np.random.default_rng(0).permutation(len(X))[:n_rows]]
    return (X - X.mean(axis=0)) / X.std(axis=0)


@pytest.mark.parametrize("name", ["letter", "protein"])
def test_scores_of_a_subset_are_within_a_fifth_of_those_of_all_rows(name, data_dir):
    """Half of 2,000 rows: nine of ten scores, and all in the mean; mutant: the alpha of twice as many rows."""
    X = real_rows(name, data_dir, 2000)
    kernel = pm.kernels.Gaussian(length_scale=float(np.median(KERNEL.distances(X[:500]))))
    frequencies, _ = draw_pool(kernel, X.shape[1], 500, "gaussian", np.random.default_rng(0))
    exact, alpha = leverage_scores(kernel, X, frequencies, None, 512)
    subset, _ = chosen_rows(X, 1000, np.random.default_rng(1))
    part, _ = leverage_scores(kernel, subset, frequencies, alpha, 512)
    error = np.abs(part / part.mean() * exact.mean() / exact - 1)
    assert np.quantile(error, 0.9) < 0.2
    wrong, _ = leverage_scores(kernel, subset, frequencies, 30 * alpha, 512)
    assert np.quantile(np.abs(wrong / wrong.mean() * exact.mean() / exact - 1), 0.9) > 0.2
