"""Every map on Dask collections: block by block, lazily, with known shape and dtype."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone

import phimap as pm
from phimap._dask import sampled_rows, sampled_targets
from phimap.packed import PackedArray
from tests.support.families import MAPS

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")

EVERY_MAP = pytest.mark.parametrize("name", MAPS)


@pytest.fixture(autouse=True)
def _synchronous():
    with dask.config.set(scheduler="synchronous"):
        yield


def rows(dtype=np.float64) -> np.ndarray:
    return np.random.default_rng(7).standard_normal((100, 5)).astype(dtype)


@EVERY_MAP
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_maps_work_block_by_block(name, dtype):
    X = rows(dtype)
    y = np.sin(X[:, 0])
    phi = clone(MAPS[name]).fit(da.from_array(X, chunks=(40, 5)), da.from_array(y, chunks=40))
    memory = clone(MAPS[name]).fit(X, y)
    if isinstance(memory.transform(X), PackedArray):
        with pytest.raises(ValueError, match=r"PackedArray.*packed=False"):
            phi.transform(da.from_array(X, chunks=(40, 5)))
        return
    Z = phi.transform(da.from_array(X, chunks=(40, 5)))
    assert isinstance(Z, da.Array)
    assert (Z.shape, Z.dtype) == ((100, memory.record_.n_components), dtype)
    assert Z.chunks[0] == (40, 40, 20)
    for block, first in zip(Z.to_delayed().ravel(), (0, 40, 80), strict=True):
        np.testing.assert_array_equal(block.compute(), memory.transform(X[first : first + 40]))


def failing(block):
    raise AssertionError("a block was computed")


def test_nothing_is_computed_before_it_is_asked_for():
    lazy = da.from_array(rows(), chunks=(40, 5)).map_blocks(failing, dtype=float, meta=np.empty((0, 0)))
    Z = pm.FourierFeatures(n_components=8, random_state=0).fit(rows()).transform(lazy)
    with pytest.raises(AssertionError, match="was computed"):
        Z.compute()


def test_fit_computes_a_bounded_sample_that_is_spread_over_the_blocks():
    seen = []

    def told(block, block_info=None):
        seen.append(block_info[0]["chunk-location"][0])
        return block

    X = np.repeat(np.arange(100.0), 100)[:, None] * [1, 1]
    lazy = da.from_array(X, chunks=(100, 2)).map_blocks(told, dtype=float, meta=np.empty((0, 0)))
    phi = pm.NystroemFeatures(n_components=20, random_state=0).fit(lazy)
    assert len(seen) == 32
    landmarks = phi.record_.landmarks[:, 0]
    # Mutant: the first rows alone, which are all of the first blocks.
    assert landmarks.min() < 30
    assert landmarks.max() > 70


def test_targets_are_those_of_the_rows_that_are_taken():
    X = rows()
    lazy = da.from_array(X, chunks=(40, 5))
    phi = pm.ReweightedFeatures(n_components=8, n_subset=50, random_state=0)
    # 50 rows of 100, as many of every block, each target the first column of its row.
    assert sampled_targets(lazy, lazy[:, 0], 50).tolist() == sampled_rows(lazy, 50)[:, 0].tolist()
    frame = dd.from_pandas(pd.DataFrame(X, columns=list("abcde")), npartitions=3)
    assert sampled_targets(frame, frame["a"], 50).tolist() == sampled_rows(frame, 50)["a"].tolist()
    with pytest.raises(ValueError, match="`y` must be a Dask collection in the blocks of `X`"):
        phi.fit(lazy, lazy[:, 0].rechunk(50))
    with pytest.raises(ValueError, match="`y` must be a Dask collection in the blocks of `X`"):
        phi.fit(lazy, X[:, 0])
    with pytest.raises(ValueError, match="requires y to be passed"):
        phi.fit(lazy)


def test_frames_and_unknown_lengths():
    frame = pd.DataFrame(rows(), columns=list("abcde"))
    phi = pm.FourierFeatures(n_components=8, random_state=0).fit(dd.from_pandas(frame, npartitions=3))
    np.testing.assert_array_equal(phi.feature_names_in_, list("abcde"))
    Z = phi.transform(dd.from_pandas(frame, npartitions=3))
    assert np.isnan(Z.shape[0])
    assert (Z.shape[1], Z.dtype) == (8, np.float64)
    np.testing.assert_allclose(Z.compute(), phi.transform(frame), rtol=1e-12, atol=1e-12)
    # Partitions without rows.
    few = dd.from_pandas(frame, npartitions=3)
    assert phi.transform(few[few["a"] > few["a"].max()]).compute().shape == (0, 8)


def test_sparse_blocks():
    X = rows() * (rows() > 0)
    lazy = da.from_array(X, chunks=(40, 5)).map_blocks(sparse.csr_matrix)
    phi = pm.FourierFeatures(n_components=8, random_state=0).fit(lazy)
    np.testing.assert_allclose(phi.transform(lazy).compute(), phi.transform(sparse.csr_matrix(X)), rtol=1e-12)


def test_wrong_collections_are_told_in_one_line():
    X = da.from_array(rows(), chunks=(40, 5))
    phi = pm.FourierFeatures(n_components=8, random_state=0).fit(rows())
    with pytest.raises(ValueError, match=r"all columns in one chunk, got 3 .*rechunk"):
        phi.transform(da.from_array(rows(), chunks=(40, 2)))
    with pytest.raises(ValueError, match=r"X has 4 features.*expecting 5"):
        phi.transform(X[:, :4])
    with pytest.raises(ValueError, match="0 sample"):
        clone(phi).fit(X[:0])
    with pytest.raises(ValueError, match="set_output"):
        clone(phi).set_output(transform="pandas").fit(X).transform(X)
