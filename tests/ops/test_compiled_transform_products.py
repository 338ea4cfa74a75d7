"""Compiled transforms of real rows, and products of them, against Fourier transforms in float64."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from phimap.ops.compiled.transform_products import product_transforms, transforms, write_product
from phimap.ops.compiled.vectors import BYTES

DTYPES = [np.float32, np.float64]
# Even and odd, every radix, alone and together, and more features than are written at a time.
LENGTHS = [1, 2, 3, 4, 5, 6, 8, 10, 15, 27, 64, 90, 600]


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def draw_signs(rng, length):
    return 2 * rng.integers(2, size=length, dtype=np.int8) - 1


def numbers(made):
    """Complex rows of transforms, all that their groups hold."""
    lanes = BYTES // made.values.itemsize
    values = made.values.reshape(-1, made.shape[1], 2, lanes)
    return (values[:, :, 0] + 1j * values[:, :, 1]).transpose(0, 2, 1).reshape(-1, made.shape[1])


def by_definition(X, signs):
    return np.fft.rfft(X.astype(float) * signs[: X.shape[1]], n=len(signs))


def draw_samples(rng, one, other, k):
    """Arguments of a product of transforms: columns and orientations of both, and a scale."""
    columns = [rng.integers(made.shape[1], size=k, dtype=np.intp) for made in (one, other)]
    return one, columns[0], draw_signs(rng, k), other, columns[1], draw_signs(rng, k), 0.3


def expected_product(A, columns_a, orientations_a, B, columns_b, orientations_b, scale):
    one, other = A[:, columns_a], B[:, columns_b]
    product = scale * (one.real + 1j * orientations_a * one.imag) * (other.real + 1j * orientations_b * other.imag)
    return np.stack([product.real, product.imag], axis=-1).reshape(len(product), -1)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("n", [1, 3, 8, 21])
def test_transforms_of_dense_and_sparse_rows(n, length, dtype, rng):
    X = (rng.standard_normal((n, max(1, length - 2))) * (rng.random((n, max(1, length - 2))) < 0.7)).astype(dtype)
    signs = draw_signs(rng, length)
    dense, compressed = transforms(X, signs), transforms(sparse.csr_array(X), signs)
    assert dense.shape == (n, length // 2 + 1)
    np.testing.assert_array_equal(dense.values, compressed.values)
    bound = 8 * np.finfo(dtype).eps * np.log2(2 * length) * np.linalg.norm(X, axis=1).max() * length**0.5
    assert np.all(np.abs(numbers(dense)[:n] - by_definition(X, signs)) <= bound)
    if n == 1:
        assert np.all(numbers(dense) == numbers(dense)[0])


def test_duplicates_of_sparse_rows_add_up():
    X = sparse.csr_array((np.array([1.0, 2.0, 4.0]), np.array([1, 0, 1]), np.array([0, 0, 3])), shape=(2, 2))
    np.testing.assert_array_equal(numbers(transforms(X, np.array([1, -1], np.int8)))[:2], [[0, 0], [-3, 7]])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("length", "k", "next_length"), [(2, 1, 4), (30, 11, 25), (45, 22, 45), (600, 300, 625)])
@pytest.mark.parametrize(("n", "n_other"), [(21, 21), (21, 1), (1, 9)])
def test_products_are_those_of_the_entries(n, n_other, length, k, next_length, dtype, rng):
    A, B = rng.standard_normal((n, length)).astype(dtype), rng.standard_normal((n_other, 90)).astype(dtype)
    signs = draw_signs(rng, length), draw_signs(rng, 90)
    samples = draw_samples(rng, transforms(A, signs[0]), transforms(B, signs[1]), k)
    out = np.full((max(n, n_other), 2 * k + 5), 7, dtype)
    write_product(*samples, out, 3)
    wanted = expected_product(by_definition(A, signs[0]), *samples[1:3], by_definition(B, signs[1]), *samples[4:])
    norms = np.linalg.norm(A, axis=1)[:, None] * np.linalg.norm(B, axis=1)[:, None] * (90 * length) ** 0.5
    assert np.all(np.abs(out[:, 3:-2] - wanted) <= 30 * np.finfo(dtype).eps * norms)
    assert np.all(out[:, :3] == 7)
    assert np.all(out[:, -2:] == 7)
    # What is not written is the same to the last bit.
    following = draw_signs(rng, next_length)
    made, again = product_transforms(*samples, following), transforms(np.ascontiguousarray(out[:, 3:-2]), following)
    np.testing.assert_array_equal(numbers(made)[: len(out)], numbers(again)[: len(out)])


@pytest.mark.parametrize("rows", [slice(0, 1), slice(3, 19), slice(5, 21)])
def test_rows_give_the_same_bits_in_any_slice(rows, rng):
    X, signs, following = rng.standard_normal((21, 50)).astype(np.float32), draw_signs(rng, 60), draw_signs(rng, 64)
    samples = draw_samples(rng, transforms(X, signs), transforms(X, signs), 30)

    def products(values):
        made = transforms(values, signs)
        made = product_transforms(made, *samples[1:3], made, *samples[4:], following)
        out = np.empty((len(values), 60), np.float32)
        write_product(made, *samples[1:3], made, *samples[4:], out, 0)
        return out

    # A row is not disturbed by the others, however large they are.
    large = X * np.where(np.arange(21) % 2, 1e8, 1).astype(np.float32)[:, None]
    for values in (X, large):
        np.testing.assert_array_equal(products(values[rows]), products(values)[rows])
    np.testing.assert_array_equal(products(large)[::2], products(X)[::2])


def test_places_outside_are_refused(rng):
    made, signs = transforms(rng.standard_normal((2, 8)), draw_signs(rng, 8)), draw_signs(rng, 10)
    samples = list(draw_samples(rng, made, made, 4))
    for place in (-1, 5):
        columns = np.array([0, 1, place, 2])
        for which in (1, 4):
            damaged = [*samples[:which], columns, *samples[which + 1 :]]
            with pytest.raises(ValueError, match="`rows` must hold frequencies"):
                write_product(*damaged, np.empty((2, 8)), 0)
            with pytest.raises(ValueError, match="`rows` must hold frequencies"):
                product_transforms(*damaged, signs)
    with pytest.raises(ValueError, match="belong together"):
        write_product(*samples[:2], samples[2][:3], *samples[3:], np.empty((2, 8)), 0)
    with pytest.raises(ValueError, match="`out` must have a column"):
        write_product(*samples, np.empty((2, 8)), 1)
    with pytest.raises(ValueError, match="entry for each part"):
        product_transforms(*samples, signs[:6])
    with pytest.raises(ValueError, match="must have 8 entries or more, got 6"):
        transforms(np.ones((2, 8)), signs[:6])
    with pytest.raises(ValueError, match="product of 2, 3 and 5"):
        transforms(np.ones((2, 8)), draw_signs(rng, 14))
