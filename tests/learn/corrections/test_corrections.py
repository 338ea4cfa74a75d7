"""Corrections in regions: against the dense formula, and whether they are learned where they should be."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from phimap.kernels import Matern
from phimap.learn.corrections import choice, fit, region_fit
from phimap.learn.corrections.corrections import moved_rows
from phimap.learn.corrections.residuals import Residuals
from phimap.records import equal_records

KERNEL = Matern(nu=1.5, length_scale=0.3)


def residuals(rng, signal, n=900, t=1):
    """Errors of a model that predicts zero, with `signal` of the first column in them."""
    X = rng.uniform(-1, 1, (n, 2))
    errors = signal * np.sin(9 * X[:, :1] + np.arange(t)) + 0.1 * rng.standard_normal((n, t))
    return Residuals(X, None, rng.random(n), errors, rng.random(n) < 0.2, errors)


def learned(*given, **options):
    """The corrections that are learned, or None."""
    found = fit.learn_corrections(*given, **options)
    return None if found is None else found.corrections


def test_corrections_are_means_of_exact_ridge_regression_in_each_region(rng, monkeypatch):
    monkeypatch.setattr("phimap.learn.corrections.regions.MOST_ROWS", 300)
    monkeypatch.setattr(fit, "_GAIN", -np.inf)
    left = residuals(rng, 1.0, t=2)
    found = learned(KERNEL, left)
    assert (found.n_regions, len(found.models)) == (4, fit.MOST_PARTITIONS)
    X = rng.uniform(-1, 1, (50, 2))
    expected = np.zeros((50, 2))
    for model in found.models:
        regions, new = model.partition.assign(left.X), model.partition.assign(X)
        for region in range(4):
            rows, E = left.X[regions == region] * found.scale, left.errors[regions == region]
            A = np.linalg.solve(KERNEL(rows) + found.alpha * np.eye(len(rows)), E)
            expected[new == region] += KERNEL(X[new == region] * found.scale, rows) @ A / len(found.models)
    np.testing.assert_allclose(found.outputs(X, 1), found.shrinkage * expected, atol=1e-8)
    # The alpha is one of the grid.
    assert found.alpha in choice._ALPHAS


def test_partitions_are_added_where_edges_of_regions_err(rng, monkeypatch):
    """In small regions most rows are near an edge. Mutant: the first partition alone."""
    monkeypatch.setattr("phimap.learn.corrections.regions.MOST_ROWS", 60)
    left = residuals(rng, 1.0, n=2000)
    found = learned(KERNEL, left)
    X = rng.uniform(-1, 1, (500, 2))
    wanted = np.sin(9 * X[:, :1])
    first, (model, *others) = found.outputs_of(found.models[0], X, 1) * len(found.models), found.models
    assert len(others) > 0
    assert all(len(np.intersect1d(model.order[:30], other.order[:30])) < 30 for other in others)
    of_mean, of_first = (np.square(wanted - outputs).mean() for outputs in (found.outputs(X, 1), first))
    assert of_mean < 0.9 * of_first
    # Where corrections explain little, no further partition is tried.
    monkeypatch.setattr(fit, "_MOST_SHARE", 0.0)
    assert len(learned(KERNEL, left).models) == 1


def test_a_partition_that_gains_too_little_is_not_added(rng, monkeypatch):
    monkeypatch.setattr("phimap.learn.corrections.regions.MOST_ROWS", 60)
    left = residuals(rng, 1.0, n=2000)
    shares = []
    for gain in (-np.inf, fit._GAIN):
        with monkeypatch.context() as patch:
            patch.setattr(fit, "_GAIN", gain)
            of = fit._Mean.of.__func__
            patch.setattr(fit._Mean, "of", classmethod(lambda *given, of=of: shares.append(of(*given)) or shares[-1]))
            found = learned(KERNEL, left)
        if gain == -np.inf:
            assert len(found.models) == fit.MOST_PARTITIONS
            errors = [one.share for one in shares]
    n_added = next((k for k in range(1, len(errors)) if errors[k] > (1 - gain) * errors[k - 1]), len(errors))
    assert len(found.models) == n_added


def test_a_single_region_has_a_single_partition(rng):
    found = learned(KERNEL, residuals(rng, 1.0))
    assert (found.n_regions, len(found.models)) == (1, 1)


def test_out_of_range_is_twice_the_largest_step(rng, monkeypatch):
    monkeypatch.setattr("phimap.learn.corrections.regions.MOST_ROWS", 300)
    left = residuals(rng, 1.0)
    found = learned(KERNEL, left)
    regions, rows = found.models[0].partition.assign(left.X), left.X * found.scale
    steps = [
        np.linalg.norm(rows[(regions == regions[i]) & ~left.held_out] - rows[i], axis=1).min()
        for i in np.flatnonzero(left.held_out)
    ]
    assert found.reach == pytest.approx(max(steps))
    np.testing.assert_array_equal(found.out_of_range(left.X), 0)
    away = left.X[:1] + np.array([[1e3, 0.0]])
    np.testing.assert_array_equal(found.out_of_range(away), 1)


def test_rows_of_weight_w_count_like_w_rows(rng):
    weights = rng.integers(1, 4, 300).astype(float)
    left = replace(residuals(rng, 1.0, n=300), weights=weights)
    repeat = np.repeat(np.arange(300), weights.astype(int))
    often = Residuals(
        left.X[repeat], None, *(part[repeat] for part in (left.keys, left.errors, left.held_out)), left.errors[repeat]
    )
    one, other = (
        region_fit.fit_region(KERNEL, 2.0, 0.3, rows, np.arange(len(rows.X)), rows.held_out) for rows in (left, often)
    )
    new = rng.uniform(-1, 1, (20, 2))
    values = KERNEL(2 * new, 2 * left.X)
    np.testing.assert_allclose(values @ one.coefs, values[:, repeat] @ other.coefs, rtol=1e-8)
    twice = np.repeat(one.validation_errors, weights[left.held_out].astype(int), axis=0)
    np.testing.assert_allclose(other.validation_errors, twice, rtol=1e-8)
    probes = [choice._Probe(KERNEL, 2.0, rows, np.arange(len(rows.X))).loss_and_slope(0.3) for rows in (left, often)]
    np.testing.assert_allclose(probes[0], probes[1], rtol=1e-8)


@pytest.mark.parametrize("weighted", [False, True])
def test_errors_of_a_region_are_those_of_its_probe(weighted, rng):
    left = residuals(rng, 1.0, n=300, t=2)
    left = replace(left, weights=rng.uniform(0.5, 2, 300) if weighted else None)
    part = np.flatnonzero(left.X[:, 0] > 0)
    validation, training = (np.flatnonzero(left.held_out[part] == held_out) for held_out in (True, False))
    columns = np.sort([validation[1], training[7], training[2]])
    found = region_fit.fit_region(KERNEL, 4.0, 0.1, left, part, np.isin(np.arange(part.size), columns))
    loss, slope = choice._Probe(KERNEL, 4.0, left, part).loss_and_slope(0.1)
    assert left.loss(part[left.held_out[part]], found.validation_errors) == pytest.approx(loss, rel=1e-10)
    roots = np.sqrt(left.count(part))
    matrix = KERNEL(4.0 * left.X[part]) * np.outer(roots, roots) + 0.1 * np.eye(part.size)
    np.testing.assert_allclose(found.inverse, np.linalg.inv(matrix)[:, columns], atol=1e-10)
    step = 1e-4
    above, below = (
        choice._Probe(KERNEL, 4.0, left, part).loss_and_slope(0.1 * np.exp(way * step))[0] for way in (1, -1)
    )
    assert slope == pytest.approx((above - below) / (2 * step), rel=1e-5)


def test_float32_rows_choose_as_float64_rows(rng):
    left = residuals(rng, 1.0)
    single = replace(left, X=left.X.astype(np.float32))
    found, chosen = learned(KERNEL, left), learned(KERNEL, single)
    assert (chosen.scale, chosen.alpha) == (found.scale, found.alpha)
    np.testing.assert_allclose(chosen.errors, found.errors, atol=1e-4)
    X = rng.uniform(-1, 1, (50, 2))
    np.testing.assert_allclose(chosen.outputs(X.astype(np.float32), 1), found.outputs(X, 1), atol=1e-4)


def test_tiny_kernel_values_are_in_float64(rng):
    # Products of values below 1e-19 are subnormal in float32.
    X = rng.uniform(-1, 1, (50, 2)).astype(np.float32)
    assert region_fit.kernel_values(KERNEL, X, X).dtype == np.float32
    values = region_fit.kernel_values(KERNEL, 20 * X, 20 * X)
    assert values.dtype == np.float64
    np.testing.assert_allclose(values, KERNEL((20 * X).astype(np.float64)), rtol=1e-4, atol=1e-18)


@pytest.mark.parametrize("n_rows", [1, 16, 50])
def test_kernel_matrices_have_the_pairs_from_the_diagonal_on(n_rows, rng, monkeypatch):
    monkeypatch.setattr(region_fit, "_BLOCK_ROWS", 16)
    X = rng.uniform(-1, 1, (n_rows, 2)).astype(np.float32)
    # Tiny values occur in the last blocks only. They make the whole matrix float64.
    for far in (0, 20):
        X[32:] += np.float32(far)
        matrix = region_fit.kernel_matrix(KERNEL, X)
        assert matrix.dtype == (np.float64 if far and n_rows > 32 else np.float32)
        np.testing.assert_allclose(np.triu(matrix), np.triu(KERNEL(X.astype(np.float64))), rtol=1e-5, atol=1e-6)


def test_alphas_below_the_rounding_errors_are_not_chosen(rng):
    # Ten equal rows of weight 1e6 beside rows of weight 1: alpha is lost in their kernel values in float32.
    X = rng.uniform(-1, 1, (900, 2)).astype(np.float32)
    X[:10] = X[0]
    left = replace(residuals(rng, 1.0), X=X, weights=np.where(np.arange(900) < 10, 1e6, 1.0))
    left = replace(left, held_out=left.held_out & (np.arange(900) >= 10))
    assert choice._Probe(KERNEL, 1.0, left, np.arange(900)).loss_and_slope(1e-3) == (np.inf, 0.0)
    # The factor of a region, and its coefficients, are then those of float64.
    roots = np.sqrt(left.weights)[:, None]
    assert region_fit._region_factor(KERNEL, X, 1e-3, roots).dtype == np.float64
    double = replace(left, X=X.astype(np.float64))
    single, exact = (
        region_fit.fit_region(KERNEL, 1.0, 1e-3, rows, np.arange(900), np.arange(900) == 0) for rows in (left, double)
    )
    values = KERNEL(X.astype(np.float64))
    np.testing.assert_allclose(values @ single.coefs, values @ exact.coefs, atol=1e-6)
    found = learned(KERNEL, left)
    assert found is None or all(np.isfinite(model.coefs).all() for model in found.models)


def test_errors_of_validation_rows_are_of_models_without_them(rng):
    left = residuals(rng, 1.0)
    found = learned(KERNEL, left)
    # Other targets of the validation rows change their own errors and the shrinkage alone.
    moved = np.where(left.held_out[:, None], left.training_fit_errors + 1e-3, left.training_fit_errors)
    other = learned(KERNEL, replace(left, training_fit_errors=moved))
    assert found.scale == other.scale
    by_key = np.argsort(left.keys[left.held_out])
    before, after = (part[left.held_out][by_key] for part in (left.training_fit_errors, moved))
    of_regions = (before - found.errors) / found.shrinkage, (after - other.errors) / other.shrinkage
    np.testing.assert_allclose(*of_regions, atol=1e-12)
    np.testing.assert_array_equal(found.keys, np.sort(left.keys[left.held_out]))
    validates, errors = found.validation_errors(left.keys)
    np.testing.assert_array_equal(validates, left.held_out)
    np.testing.assert_array_equal(errors[np.argsort(left.keys[validates])], found.errors)


def test_the_shrinkage_makes_the_validation_error_least(monkeypatch):
    # With the smallest alpha, which few validation rows may choose, the corrections follow noise.
    monkeypatch.setattr(fit, "choose", lambda *_: choice.Choice(2.0, 1e-3, 0.9))
    left = residuals(np.random.default_rng(0), 0.3)
    found = learned(KERNEL, left)
    before = left.training_fit_errors[left.held_out][np.argsort(left.keys[left.held_out])]
    corrected = (before - found.errors) / found.shrinkage
    losses = [np.square(before - factor * found.shrinkage * corrected).sum() for factor in (0.95, 1, 1.05)]
    assert min(losses) == losses[1]
    assert found.shrinkage < 0.95
    # Where all of the correction is too little, no more than all of it is added.
    monkeypatch.setattr(fit, "choose", lambda *_: choice.Choice(2.0, 10.0, 0.9))
    assert learned(KERNEL, left).shrinkage == 1


def test_roots_of_similar_shares_are_compared_at_all_validation_rows(rng, monkeypatch):
    left, poor = residuals(rng, 1.0), np.array([1e-3, 1.0])

    def learned_with(share_of_poor):
        shares = {True: 0.5, False: share_of_poor}
        monkeypatch.setattr(
            fit, "choose", lambda kernel, regions, _: choice.Choice(1.0, 0.1, shares[regions.root is None])
        )
        return learned(KERNEL, left, (None, poor))

    assert learned_with(0.45).root is None
    # Far better by the few rows of the choice, but worse by all rows.
    found = learned_with(0.35)
    assert found is None or found.root is poor


@pytest.mark.parametrize("seed", range(5))
def test_nothing_is_learned_from_noise(seed):
    # With 180 validation rows 7 of 100 other draws gained 2 % by chance; learners have 800 or more.
    assert learned(KERNEL, residuals(np.random.default_rng(seed), 0.0)) is None


def test_equal_rows_make_no_region_that_is_too_large(rng, monkeypatch):
    monkeypatch.setattr("phimap.learn.corrections.regions.MOST_ROWS", 100)
    left = residuals(rng, 1.0)
    assert learned(KERNEL, left) is not None
    assert learned(KERNEL, replace(left, X=np.where(left.X[:, :1] > 0, 0.5, left.X))) is None


def test_same_for_any_number_of_threads(rng, monkeypatch):
    monkeypatch.setattr("phimap.learn.corrections.regions.MOST_ROWS", 200)
    left = residuals(rng, 1.0)
    one, four = (learned(KERNEL, left, n_jobs=n_jobs) for n_jobs in (1, 4))
    assert equal_records(one, four)
    np.testing.assert_array_equal(one.outputs(left.X, 1), four.outputs(left.X, 4))


@pytest.mark.parametrize("root", [np.array([1e-3, 1.0]), np.array([[0.5, 0.5], [0.5, 0.5005]])])
def test_a_root_undoes_a_metric_that_hides_a_column(root, rng):
    left = residuals(rng, 1.0)
    hidden = replace(left, X=moved_rows(left.X, root))
    back = np.linalg.inv(root) if root.ndim == 2 else 1 / root
    found = learned(KERNEL, hidden, (None, back))
    assert found.root is back
    direct = learned(KERNEL, left)
    np.testing.assert_allclose(found.outputs(hidden.X, 1), direct.outputs(left.X, 1), atol=1e-6)
    # Where nothing is hidden the rows are left as they are.
    assert learned(KERNEL, left, (None, np.array([1e-3, 1.0]))).root is None
