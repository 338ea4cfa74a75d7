"""Products of sampled Fourier coefficients of two sets of rows: the steps of a sketch of tensor products."""

from __future__ import annotations

from phimap.ops.base import Array, Ops
from phimap.ops.primitive import primitive
from phimap.ops.primitives.gather_product import check_columns

# In order: A, columns_a, orientations_a, B, columns_b, orientations_b, scale.
Samples = tuple[Array, Array, Array, Array, Array, Array, float]


@primitive
def product_factor(ops: Ops, X: Array, signs: Array) -> Array:
    """Return the Fourier transforms of the rows of `X` (r, d), dense or CSR, times ``signs[:d]``, zero-padded to L.

    `signs` is int8 (L,), with L a product of powers of 2, 3 and 5. The result of shape (r, L // 2 + 1), whose format
    depends on the backend, is a factor for `fourier_product` and `next_product_factor`.
    """
    return ops.rfft(ops.pad_signed(X, signs))


@primitive
def fourier_product(ops: Ops, samples: Samples, out: Array, first: int = 0) -> None:
    """Write the real and imaginary parts of products of Fourier coefficients from `product_factor`.

    The products are ``scale * A[:, columns_a] * B[:, columns_b]`` (r, k). Entries of A and B are conjugated first if
    their orientation, int8 (k,), is -1 and not if it is 1. The 2 k columns of `out` from `first` on hold the real and
    the imaginary part of the first product, then of the second, and so on. A or B may have a single row, which is
    multiplied with every row of the other factor.
    """
    A, columns_a, orientations_a, B, columns_b, orientations_b, scale = samples
    a = ops.oriented(ops.columns(A, columns_a), orientations_a, scale)
    product = a * ops.oriented(ops.columns(B, columns_b), orientations_b)
    rows, k = product.shape
    out[:, first : first + 2 * k] = ops.as_pairs(product).reshape(rows, 2 * k)


@primitive
def next_product_factor(ops: Ops, samples: Samples, signs: Array) -> Array:
    """Return the `product_factor` of the features that `fourier_product` would write, which need not be formed."""
    A, columns, _, B, *_ = samples
    features = ops.empty((max(A.shape[0], B.shape[0]), 2 * columns.shape[0]))
    fourier_product.generic(ops, samples, features)
    return product_factor.generic(ops, features, signs)


@product_factor.override("numpy")
def _(ops: Ops, X: Array, signs: Array) -> Array:
    from phimap.ops.compiled.transform_products import transforms

    if X.shape[1] > signs.shape[0]:
        raise ValueError("`signs` must be one for each column at least. Fit the map again.")
    return transforms(X, signs)


@fourier_product.override("numpy")
def _(ops: Ops, samples: Samples, out: Array, first: int = 0) -> None:
    from phimap.ops.compiled.transform_products import write_product

    _check(samples)
    if first + 2 * samples[1].shape[0] > out.shape[1]:
        raise ValueError("`out` must have two columns for each sample. Fit the map again.")
    write_product(*samples, out, first)


@next_product_factor.override("numpy")
def _(ops: Ops, samples: Samples, signs: Array) -> Array:
    from phimap.ops.compiled.transform_products import product_transforms

    _check(samples)
    if 2 * samples[1].shape[0] > signs.shape[0]:
        raise ValueError("`signs` must be one for each feature of the product at least. Fit the map again.")
    return product_transforms(*samples, signs)


def _check(samples: Samples) -> None:
    """Raise if the compiled loop, which does not check bounds, would read out of bounds."""
    A, columns_a, orientations_a, B, columns_b, orientations_b, _ = samples
    if not columns_a.shape == columns_b.shape == orientations_a.shape == orientations_b.shape:
        raise ValueError("`columns` and `orientations` must be as many for both factors. Fit the map again.")
    check_columns(columns_a, A.shape[1])
    check_columns(columns_b, B.shape[1])
