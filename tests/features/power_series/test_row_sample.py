"""The sample of rows that `fit` makes once."""

import numpy as np
import pytest
from scipy import sparse

from phimap.features.power_series.row_sample import RowSample, spaced_rows


def test_spaced_rows():
    np.testing.assert_array_equal(spaced_rows(3, 1024), [0, 1, 2])
    np.testing.assert_array_equal(spaced_rows(9, 3), [0, 4, 8])


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_wide_rows_are_compressed_where_few_entries_are_not_zero(form, rng):
    few = rng.standard_normal((20, 400)) * (rng.random((20, 400)) < 0.03)
    many = few + (rng.random((20, 400)) < 0.1)
    sample = RowSample.of(form(few), 49)
    assert sample.is_sparse
    np.testing.assert_array_equal(sample.dense().rows, few)
    # Eight times as wide as the map is not wide, and one entry in ten is not few.
    for rows, n_components in ((few, 50), (many, 49)):
        sample = RowSample.of(form(rows), n_components)
        assert not sample.is_sparse
        np.testing.assert_array_equal(sample.rows, rows)


@pytest.mark.parametrize("n_components", [1, 1000])
def test_cosines_are_those_of_pairs_of_rows(n_components, rng):
    X = (rng.standard_normal((300, 30)) * (rng.random((300, 30)) < 0.05)).astype(np.float32)
    sample = RowSample.of(X, n_components)
    assert sample.is_sparse == (n_components == 1)
    assert sample.rows.dtype == np.float64
    chosen = X[spaced_rows(300, 256)].astype(np.float64)
    norms = np.linalg.norm(chosen, axis=1, keepdims=True)
    units = np.divide(chosen, norms, out=np.zeros_like(chosen), where=norms > 0)
    assert not norms.all()
    np.testing.assert_allclose(sample.cosines, (units @ units.T)[np.triu_indices(256, 1)], atol=1e-12)


@pytest.mark.parametrize(("n_rows", "suffices"), [(7, False), (8, True)])
def test_few_rows_do_not_suffice(n_rows, suffices):
    assert RowSample.of(np.ones((n_rows, 2)), 4).suffices == suffices
