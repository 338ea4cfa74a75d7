"""Packed arrays: the dense matrix, in bits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import phimap as pm
from phimap._files import DataError
from phimap.ops.compiled.packed import pack_codes, pack_ternary
from phimap.packed import SIGNS, PackedArray

# Weights and offset of each kind, and the values of its codes.
KINDS = {
    "bits": ((1.0,), 0.0, [0, 1]),
    "signs": ((2.0,), -1.0, [-1, 1]),
    "ternary": (SIGNS, 0.0, [0, 1, np.nan, -1]),
    "two bits": ((2.0, 4.0), -3.0, [-3, -1, 1, 3]),
    "eight bits": (tuple(2.0 ** (k + 1) for k in range(8)), -255.0, 2 * np.arange(256) - 255),
}
EVERY_KIND = pytest.mark.parametrize("kind", KINDS)


def draw(kind, n, m, seed=0, dtype=np.float64):
    """A packed array and its dense counterpart."""
    weights, offset, values = KINDS[kind]
    rng = np.random.default_rng(seed)
    allowed = np.flatnonzero(~np.isnan(values))
    codes = rng.choice(allowed, size=(n, m)).astype(np.uint8)
    packed = PackedArray.zeros(n, m, weights, offset, 0.25, dtype)
    pack_codes(codes, packed.planes)
    return packed, (0.25 * np.asarray(values)[codes]).astype(dtype)


@EVERY_KIND
@pytest.mark.parametrize(("n", "m"), [(1, 1), (7, 63), (70, 64), (300, 65), (130, 2100), (2100, 70)])
def test_dense_products_and_gram(kind, n, m, rng):
    packed, dense = draw(kind, n, m)
    assert packed.shape == (n, m)
    np.testing.assert_array_equal(packed.to_dense(), dense)
    other, other_dense = draw(kind, 50, m, seed=1)
    np.testing.assert_allclose(packed.gram(), dense @ dense.T, rtol=1e-13, atol=1e-9)
    np.testing.assert_allclose(packed.gram(other, n_jobs=2), dense @ other_dense.T, rtol=1e-13, atol=1e-9)
    W = rng.standard_normal((m, 3))
    np.testing.assert_allclose(packed @ W, dense @ W, atol=1e-9)
    np.testing.assert_allclose(packed @ W[:, 0], dense @ W[:, 0], atol=1e-9)
    np.testing.assert_array_equal(packed.transposed(2).to_dense(), dense.T)


@EVERY_KIND
def test_gram_of_every_other_row(kind):
    packed, dense = draw(kind, 41, 100)
    np.testing.assert_array_equal(packed[::2].gram(), dense[::2] @ dense[::2].T)


@EVERY_KIND
def test_rows_and_files(kind, tmp_path):
    packed, dense = draw(kind, 40, 100, dtype=np.float32)
    np.testing.assert_array_equal(packed[5:17].to_dense(), dense[5:17])
    np.testing.assert_array_equal(packed[[3, 1, 3]].to_dense(), dense[[3, 1, 3]])
    np.testing.assert_array_equal(packed[dense[:, 0] > 0].to_dense(), dense[dense[:, 0] > 0])
    np.testing.assert_array_equal(packed[-1].to_dense(), dense[-1:])
    np.testing.assert_array_equal(PackedArray.concatenate([packed[:9], packed[9:]]).to_dense(), dense)
    packed.save(tmp_path / "features")
    loaded = PackedArray.load(tmp_path / "features")
    np.testing.assert_array_equal(loaded.to_dense(), dense)
    assert loaded.to_dense().dtype == loaded.gram().dtype == np.float32
    assert (tmp_path / "features").stat().st_size < packed.nbytes + 1000


def test_storage_is_one_sixteenth_of_float32():
    packed, _ = draw("ternary", 100, 8192)
    assert packed.nbytes * 16 == 100 * 8192 * 4


@EVERY_KIND
def test_integers(kind):
    packed, dense = draw(kind, 10, 70)
    assert packed.to_integers().dtype == (np.int16 if kind == "eight bits" else np.int8)
    np.testing.assert_array_equal(0.25 * packed.to_integers(), dense)


def test_number_of_threads_changes_no_bit(rng):
    packed, _ = draw("two bits", 600, 300)
    W = rng.standard_normal((300, 2))
    np.testing.assert_array_equal(packed.dot(W, n_jobs=1), packed.dot(W, n_jobs=2))
    np.testing.assert_array_equal(packed.gram(n_jobs=1), packed.gram(n_jobs=2))


def test_bad_input_names_the_remedy(tmp_path):
    packed, _ = draw("ternary", 4, 70)
    with pytest.raises(ValueError, match=r"`W` must have 70 rows"):
        packed @ np.ones(71)
    with pytest.raises(ValueError, match=r"`other` must be packed like this array"):
        packed.gram(draw("bits", 4, 70)[0])
    with pytest.raises(IndexError, match=r"indexed by rows alone"):
        packed[:, 0]
    (tmp_path / "text").write_text("hello")
    replace(packed, n_columns=700).save(tmp_path / "wrong")
    for name in ("text", "wrong"):
        with pytest.raises(DataError, match=r"is no packed array"):
            PackedArray.load(tmp_path / name)


def test_is_public():
    assert pm.PackedArray is PackedArray


@pytest.mark.parametrize("closed", [False, True])
@pytest.mark.parametrize(("first", "width"), [(0, 64), (0, 200), (5, 59), (37, 150), (64, 130)])
def test_thresholds_set_the_bits_of_any_columns(first, width, closed, rng):
    """Values on the thresholds among them; whole words and parts of words."""
    projected = rng.integers(-2, 3, (3, width)).astype(np.float32)
    lower, upper = np.full(width, -1, np.float32), np.full(width, 1, np.float32)
    is_below = projected <= lower if closed else projected < lower
    for n_planes, expected in ((1, projected > upper), (2, (projected > upper) - 1.0 * is_below)):
        weights = SIGNS[:n_planes]
        packed = PackedArray.zeros(3, first + width, weights, 0.0, 1.0, np.float64)
        pack_ternary(projected, lower, upper, closed, packed.planes, first)
        dense = packed.to_dense()
        np.testing.assert_array_equal(dense[:, first:], expected)
        assert not dense[:, :first].any()
