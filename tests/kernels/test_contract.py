"""What every exact kernel keeps."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from phimap.config import config
from phimap.kernels import Polynomial, Zonal, base
from tests.support.families import KERNELS, STATIONARY_KERNELS
from tests.support.memory import traced

D = 5
EPS64, EPS32 = np.finfo(np.float64).eps, np.finfo(np.float32).eps
# A sum of D products, a distance in which at most 2^10 of the norms cancel, and some elementary functions.
ROUNDING = 2**10 * (D + 4) * EPS64

every_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=repr)


@pytest.fixture
def rows():
    draws = np.random.default_rng(0).normal(size=(40, D))
    draws[3] = 0.0
    draws[7] = draws[5]
    draws[9] = -2.0 * draws[5]
    draws[np.abs(draws) < 0.2] = 0.0
    return draws


@every_kernel
def test_shape_and_dtype(kernel, rows):
    for dtype in (np.float32, np.float64):
        values = kernel(rows.astype(dtype), rows[:7].astype(dtype))
        assert values.shape == (40, 7)
        assert values.dtype == dtype
        assert kernel.diag(rows.astype(dtype)).dtype == dtype
        assert np.isfinite(values).all()
    assert kernel(rows.astype(np.float32), rows).dtype == np.float64
    assert kernel((10 * rows).astype(int)).dtype == np.float64
    assert kernel(rows.tolist()).dtype == np.float64


@every_kernel
def test_symmetric_to_the_bit_with_the_exact_diagonal(kernel, rows, monkeypatch):
    values = kernel(rows)
    np.testing.assert_array_equal(values, values.T)
    np.testing.assert_array_equal(np.diag(values), kernel.diag(rows))
    np.testing.assert_allclose(values, kernel(rows, rows), rtol=0, atol=ROUNDING * values.max())
    monkeypatch.setattr(base, "_TILE", 16)
    in_tiles = kernel(rows)
    np.testing.assert_array_equal(in_tiles, in_tiles.T)
    np.testing.assert_allclose(values, in_tiles, rtol=0, atol=ROUNDING * values.max())


@every_kernel
def test_threads_change_no_bit(kernel, rows, monkeypatch):
    monkeypatch.setattr(base, "_TILE", 16)
    with config(n_jobs=1):
        alone = kernel(rows, rows)
    with config(n_jobs=3):
        np.testing.assert_array_equal(alone, kernel(rows, rows))


@every_kernel
def test_positive_semidefinite_to_rounding(kernel, rows):
    if isinstance(kernel, Zonal):
        pytest.skip("it need not be")
    values = kernel(rows)
    assert np.linalg.eigvalsh(values)[0] > -len(rows) * ROUNDING * values.max()


@every_kernel
def test_csr_equals_dense(kernel, rows):
    values, csr = kernel(rows), sparse.csr_array(rows)
    wide = sparse.csr_matrix(csr)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    for left, right in ((csr, None), (wide, None), (csr, rows), (rows, csr), (csr, csr[:9])):
        m = 40 if right is None else right.shape[0]
        np.testing.assert_allclose(kernel(left, right), values[:, :m], rtol=0, atol=ROUNDING * values.max())
    np.testing.assert_allclose(kernel.diag(csr), np.diag(values), rtol=ROUNDING)
    repeated = sparse.csr_array(
        (np.repeat(csr.data / 2, 2), np.repeat(csr.indices, 2), 2 * csr.indptr), shape=csr.shape
    )
    np.testing.assert_allclose(kernel(repeated), values, rtol=0, atol=ROUNDING * values.max())
    assert not repeated.has_canonical_format


@every_kernel
def test_float32_is_float64_rounded_once(kernel, rows):
    single = rows.astype(np.float32)
    reference = kernel(single.astype(np.float64))
    np.testing.assert_allclose(kernel(single), reference, rtol=EPS32 / 2 + ROUNDING, atol=ROUNDING)


@every_kernel
def test_parameters_stored_untouched(kernel, rows):
    before = repr(kernel)
    kernel(rows)
    assert repr(kernel) == repr(clone(kernel)) == before
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(kernel))(rows), kernel(rows))
    own = kernel.get_params(deep=False)
    assert all(own[name] is getattr(kernel, name) for name in own)


@every_kernel
def test_input_unchanged(kernel, rows):
    rows.setflags(write=False)
    csr = sparse.csr_matrix(rows)
    for part in (csr.data, csr.indices, csr.indptr):
        part.setflags(write=False)
    kernel(rows)
    kernel(csr)


@every_kernel
def test_bad_data_is_refused(kernel, rows):
    for value, row, column in ((np.nan, 4, 2), (np.inf, 0, 1)):
        broken = rows.copy()
        broken[row, column] = value
        for data in (broken, sparse.csr_array(broken), broken.astype(np.float32)):
            with pytest.raises(ValueError, match=rf"Y contains .* at row {row}, column {column}"):
                kernel(rows, data)
    with pytest.raises(ValueError, match="as many features as `X`, got 4 and 5"):
        kernel(rows, rows[:, :4])
    with pytest.raises(ValueError, match="Complex data"):
        kernel(rows.astype(complex))
    with pytest.raises(ValueError, match="2D array"):
        kernel(rows[0])
    with pytest.raises(ValueError, match="0 sample"):
        kernel(rows[:0])
    with pytest.raises(ValueError, match="could not convert"):
        kernel(np.full((2, D), "a", dtype=object))
    np.testing.assert_array_equal(kernel(rows.astype(object)), kernel(rows))


@every_kernel
def test_byte_budget_is_checked_before_allocation(kernel):
    tall = np.broadcast_to(np.ones(D), (10**6, D))
    with (
        config(memory="1GB"),
        pytest.raises(MemoryError, match=r"\(1000000, 1000000\).*7.45e\+03 GiB.*1 GiB"),
    ):
        kernel(tall)


@every_kernel
def test_memory_is_the_result_and_some_tiles(kernel, monkeypatch):
    monkeypatch.setattr(base, "_TILE", 128)
    # Five tiles a side: a second copy of the result takes more than is allowed, if not by much.
    draws = np.random.default_rng(1).normal(size=(590, D)).astype(np.float32)
    with config(n_jobs=1):
        # What is compiled and loaded at first use takes memory of its own.
        kernel(draws[:140], draws[:140])
        result = 4 * len(draws) ** 2
        # Ten tiles of float64 and the checked inputs. Another thread may disturb one measurement, but hardly three.
        most = result + 10 * 8 * 128**2 + 4 * draws.nbytes
        assert any(traced(lambda: kernel(draws, draws)).peak < most for _ in range(3))


@pytest.mark.parametrize("kernel", STATIONARY_KERNELS, ids=repr)
def test_stationary_kernels_are_one_at_distance_zero(kernel, rows):
    assert (kernel.diag(rows) == 1.0).all()
    assert kernel(rows, rows)[7, 5] == 1.0
    assert kernel(rows).max() == 1.0


def test_value_beyond_the_dtype_is_refused():
    data = np.full((600, 1), 1e15, dtype=np.float32)
    data[:550] = 1.0
    with pytest.raises(ValueError, match=r"index \(0, 550\) exceeds the range of float32"):
        Polynomial(degree=3, gamma=1.0)(data)
    with pytest.raises(ValueError, match=r"index \(550,\) exceeds the range of float32"):
        Polynomial(degree=3, gamma=1.0).diag(data)
    assert np.isfinite(Polynomial(degree=3, gamma=1.0)(data.astype(float))).all()
