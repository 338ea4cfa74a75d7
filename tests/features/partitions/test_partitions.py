"""Features of random partitions: how often rows share cells, the cells themselves, sparse output, learners."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse, stats

import phimap as pm
from phimap.features.partitions.partition import PartitionFeatures, PartitionRecord
from phimap.ops import host
from tests.support.learners import FIXED
from tests.support.statistics import FALSE_ALARM, is_mean, kernel_estimates

SCALE = np.array([0.7, 1.0, 2.0])
MAKERS = {
    "mondrian": lambda scale, m, **more: pm.MondrianFeatures(scale, m, **more),
    "binning": lambda scale, m, **more: pm.BinningFeatures(pm.kernels.Laplacian(scale), m, **more),
}
EVERY_MAP = pytest.mark.parametrize("kind", MAKERS)


def rows(n: int = 8, d: int = 3) -> np.ndarray:
    return np.random.default_rng(5).standard_normal((n, d))


def make(kind: str, m: int = 96, scale: float | np.ndarray = SCALE, **more) -> PartitionFeatures:
    return MAKERS[kind](scale, m, **{"random_state": 0, **more})


def cells(record: PartitionRecord, X: np.ndarray) -> np.ndarray:
    return record.cells(host(), X)


def shared(phi: PartitionFeatures, X: np.ndarray) -> np.ndarray:
    """How many partitions each pair of rows shares a cell of."""
    found = cells(phi.fit(X).record_, X)
    return (found[:, None] == found).sum(axis=2)


@EVERY_MAP
def test_rows_share_cells_as_often_as_the_kernel_says(kind, seed):
    """Binomial counts; false-alarm rate 1e-6, mutant: length scales 5 % longer."""
    X, n = rows(), 20_000
    pairs = np.triu_indices(len(X), 1)
    counts = shared(make(kind, n, columns_per_partition=1, random_state=seed), X)[pairs]

    def can_be(kernel: pm.kernels.Laplacian) -> bool:
        tails = [stats.binom(n, kernel(X)[pairs])]
        least = np.minimum(tails[0].cdf(counts), tails[0].sf(counts - 1))
        return bool(least.min() > FALSE_ALARM / (2 * counts.size))

    exact = pm.kernels.Laplacian(SCALE)(X)[pairs]
    assert exact.min() < 0.05
    assert exact.max() > 0.3
    assert can_be(pm.kernels.Laplacian(SCALE))
    assert not can_be(pm.kernels.Laplacian(1.05 * SCALE))


@EVERY_MAP
@pytest.mark.parametrize("each", [1, 4])
def test_mean_and_variance_of_the_estimate_of_a_partition(kind, each, seed):
    """False-alarm rate 1e-6 each; mutants: another kernel, and the variance without collisions of columns."""
    X, n = rows(6), 20_000
    phi = make(kind, n * each, columns_per_partition=each, sparse_output=True, random_state=seed)
    Z = phi.fit_transform(X)
    columns, values = Z.indices.reshape(6, n), Z.data.reshape(6, n)
    i, j = np.triu_indices(6, 1)
    products = (n * (values[i] * values[j]) * (columns[i] == columns[j])).T
    k = phi.kernel_(X)[i, j]
    assert is_mean(products, k)
    assert not is_mean(products, 1.2 * k)
    squares = np.square(products - k)
    assert is_mean(squares, (1 - k) * (k + 1 / each))
    assert not is_mean(squares, (1 - k) * k)


@EVERY_MAP
def test_the_last_partition_may_have_fewer_columns(kind):
    """A partition of 8 columns and one of 2; false-alarm rate 1e-6, mutant: columns of the first alone."""
    X = rows(4)
    phi = make(kind, 10, columns_per_partition=8)
    samples = kernel_estimates(lambda seed: phi.set_params(random_state=seed).fit_transform(X), 300)
    assert is_mean(samples, phi.kernel_(X))
    first = kernel_estimates(lambda seed: phi.set_params(random_state=seed).fit_transform(X)[:, :8], 300)
    assert not is_mean(first, phi.kernel_(X))


@EVERY_MAP
def test_features_are_one_sign_in_each_partition(kind):
    X = rows(50)
    Z = make(kind, 35, columns_per_partition=8).fit_transform(X)
    parts = np.split(Z, [8, 16, 24, 32], axis=1)
    for part in parts:
        np.testing.assert_array_equal(np.count_nonzero(part, axis=1), 1)
        np.testing.assert_allclose(np.abs(part).sum(axis=1), 5**-0.5)
    assert set(np.sign(Z).ravel()) == {-1.0, 0.0, 1.0}


@EVERY_MAP
def test_wider_maps_begin_with_narrower_ones(kind):
    X = rows(30)
    narrow, wide = (make(kind, m, columns_per_partition=4).fit(X) for m in (24, 64))
    Z = wide.transform(X)
    columns, factor = wide.record_.truncated(24)
    np.testing.assert_allclose(Z[:, columns] * factor, narrow.transform(X), rtol=1e-12)
    assert wide.record_.truncated(25) is None


def test_leaves_of_shorter_length_scales_divide_those_of_longer_ones():
    X = rows(400)
    long, short = (cells(make("mondrian", 20, scale).fit(X).record_, X) for scale in (1.0, 0.4))
    for one, other in zip(long.T, short.T, strict=True):
        wholes = np.unique(np.column_stack([one, other]), axis=0)
        assert len(wholes) == len(np.unique(other)) > len(np.unique(one))


def test_cuts_along_a_line_are_a_poisson_process(seed):
    """Numbers of leaves on a line in a box of three columns; false-alarm rate 1e-6, mutant: a longer box."""
    n_trees, length, points = 1500, 2.5, 2001
    line = np.tile([0.2, 0.0, -0.4], (points, 1))
    line[:, 1] = np.linspace(-length / 2, length / 2, points)
    box = np.array([[-1.0, -2.0, -3.0], [1.0, 2.0, 3.0]])
    record = make("mondrian", n_trees, 1.0, columns_per_partition=1, random_state=seed).fit(box).record_
    cuts = np.concatenate(
        [
            np.count_nonzero(np.diff(cells(replace(record, keys=keys), line).astype(np.int64), axis=0), axis=0)
            for keys in np.split(record.keys, 10)
        ]
    )
    counts = np.bincount(np.minimum(cuts, 8), minlength=9)

    def follows_poisson(mean: float) -> bool:
        shares = stats.poisson.pmf(np.arange(9), mean)
        shares[8] = stats.poisson.sf(7, mean)
        return stats.chisquare(counts, n_trees * shares).pvalue > FALSE_ALARM

    assert follows_poisson(length)
    assert not follows_poisson(1.15 * length)


@EVERY_MAP
def test_cells_are_boxes(kind):
    """Every row between the least and the greatest corner of a cell's rows is in the cell."""
    X = np.random.default_rng(1).uniform(-1, 1, (4000, 2))
    record = make(kind, 3, 0.5, columns_per_partition=1).fit(X).record_
    for found in cells(record, X).T:
        for cell in np.unique(found):
            own = X[found == cell]
            inside = ((own.min(axis=0) <= X) & (own.max(axis=0) >= X)).all(axis=1)
            assert (found[inside] == cell).all()


def test_rows_outside_of_the_box_are_its_nearest_points():
    X = rows(50)
    phi = make("mondrian", 256, 1.0).fit(X)
    low, high = X.min(axis=0), X.max(axis=0)
    lower, upper = low - (high - low) / 2, high + (high - low) / 2
    far = 10 * rows(20)
    assert ((far < lower) | (far > upper)).any(axis=1).sum() > 10
    np.testing.assert_array_equal(phi.transform(far), phi.transform(far.clip(lower, upper)))
    assert (phi.transform(1e300 * far) != 0).any()


def test_constant_columns_are_not_cut():
    X = rows(50)
    X[:, 1] = 4.0
    phi = make("mondrian", 256, 1.0).fit(X)
    moved = X.copy()
    moved[:, 1] = 100.0
    np.testing.assert_array_equal(phi.transform(moved), phi.transform(X))
    same = make("mondrian", 16, 1.0).fit(X[:1]).transform(X)
    assert (same == same[0]).all()


@EVERY_MAP
def test_rows_far_from_zero_and_from_each_other(kind):
    """Where neighbouring numbers are many length scales apart, paths end, and only equal rows share a cell."""
    X = np.array([[0.0, 0.0, 0.0], [1e-9, 0.0, 0.0], [1e150, -1e150, 1.0], [1e15, 0.0, 0.0], [1.001e15, 0.0, 0.0]])
    found = shared(make(kind, 64, 1.0, columns_per_partition=1), X)
    assert found[0, 1] == 64
    np.testing.assert_array_equal(found[2:], 64 * np.eye(5)[2:])


def test_an_infinite_box_is_refused():
    with pytest.raises(ValueError, match=r"`X` is too large for this length scale"):
        pm.MondrianFeatures(1.0, 8).fit(np.array([[1e308], [-1e308]]))


@EVERY_MAP
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_output_is_the_dense_one(kind, dtype, tmp_path):
    X = rows(700).astype(dtype)
    dense = make(kind, 50, columns_per_partition=7).fit_transform(X)
    phi = make(kind, 50, columns_per_partition=7, sparse_output=True, n_jobs=2)
    Z = phi.fit_transform(X)
    assert sparse.issparse(Z)
    assert Z.format == "csr"
    assert Z.dtype == dtype
    assert Z.nnz == 8 * 700
    assert Z.has_sorted_indices
    np.testing.assert_array_equal(Z.toarray(), dense)
    np.testing.assert_array_equal(sparse.vstack(list(phi.transform_batches(X, 300))).toarray(), dense)
    pm.save(phi, tmp_path / "map.phimap")
    np.testing.assert_array_equal(pm.load(tmp_path / "map.phimap").transform(X).toarray(), dense)
    torch = pytest.importorskip("torch")
    np.testing.assert_array_equal(phi.transform(torch.tensor(X)).toarray(), dense)


def test_sparse_output_takes_the_bytes_that_are_told():
    X = rows(2000)
    phi = make("binning", 4096, columns_per_partition=64, sparse_output=True).fit(X)
    Z = phi.transform(X[:10])
    assert phi._row_bits(host()) == 8 * (Z.data.nbytes + Z.indices.nbytes) // 10
    with pm.config(memory=1_000_000), pytest.raises(MemoryError, match="transform_batches"):
        phi.transform(X)


@EVERY_MAP
@pytest.mark.parametrize("solver", ["cholesky", "cg"])
@pytest.mark.parametrize("n", [150, 2400], ids=["dual", "primal"])
def test_learners_on_sparse_features_are_those_on_dense_ones(kind, solver, n, tmp_path):
    X = np.random.default_rng(2).uniform(-2, 2, (n, 3))
    y = np.sign(X[:, 0]) + np.floor(X[:, 1]) + 0.1 * np.random.default_rng(3).standard_normal(n)
    models = [
        pm.KernelRegressor(
            make(kind, 256, 4.0, columns_per_partition=8, sparse_output=is_sparse),
            alpha=0.1,
            solver=solver,
            random_state=0,
            **FIXED,
        ).fit(X, y)
        for is_sparse in (False, True)
    ]
    dense, compact = (model.predict(X) for model in models)
    np.testing.assert_allclose(compact, dense, atol=1e-3 if solver == "cg" else 1e-8)
    pm.save(models[1], tmp_path / "model.phimap")
    np.testing.assert_array_equal(pm.load(tmp_path / "model.phimap").predict(X), compact)
    assert np.mean((dense - y) ** 2) < 0.3 * y.var()


@pytest.mark.parametrize("loss", ["squared", "logistic", "squared_hinge"])
def test_classifiers_on_sparse_features(loss):
    X = np.random.default_rng(2).uniform(-2, 2, (900, 3))
    y = (X[:, 0] > 0.5) ^ (X[:, 1] > 0)
    scores = [
        pm.KernelClassifier(
            make("binning", 256, 4.0, columns_per_partition=8, sparse_output=is_sparse),
            loss=loss,
            alpha=1.0,
            random_state=0,
            **FIXED,
        )
        .fit(X[:600], y[:600])
        .decision_function(X)
        for is_sparse in (False, True)
    ]
    np.testing.assert_allclose(scores[1], scores[0], atol=1e-3)
    assert np.mean((scores[1][600:] > 0) == y[600:]) > 0.8


def test_standard_deviations_on_sparse_features():
    X = np.random.default_rng(2).uniform(-2, 2, (900, 3))
    y = np.sign(X[:, 0]) + 0.1 * np.random.default_rng(3).standard_normal(900)
    phi = make("binning", 128, 4.0, columns_per_partition=8)
    found = [
        pm.KernelRegressor(phi.set_params(sparse_output=is_sparse), alpha=1.0, random_state=0, **FIXED)
        .fit(X, y)
        .predict(X[:50], return_std=True)[1]
        for is_sparse in (False, True)
    ]
    np.testing.assert_allclose(found[1], found[0], rtol=1e-6)


@pytest.mark.parametrize(
    ("phi", "error", "message"),
    [
        (pm.MondrianFeatures(0.0), ValueError, r"`length_scale` must be"),
        (
            pm.MondrianFeatures(columns_per_partition=0),
            ValueError,
            r"`columns_per_partition` must be at least 1, got 0",
        ),
        (pm.MondrianFeatures(sparse_output="yes"), TypeError, r"`sparse_output` must be True or False, got 'yes'"),
        (pm.BinningFeatures(pm.kernels.Gaussian()), TypeError, r"`kernel` must be a Laplacian kernel.*FourierFeatures"),
        (pm.BinningFeatures(n_components=0), ValueError, r"`n_components` must be at least 1, got 0"),
    ],
)
def test_bad_parameters(phi, error, message):
    with pytest.raises(error, match=message):
        phi.fit(rows())
