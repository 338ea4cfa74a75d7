"""Sampled products of Fourier transforms of two sets of rows: the steps of a sketch of tensor products."""

from __future__ import annotations

from phimap.ops.base import Array, Ops
from phimap.ops.primitive import primitive


@primitive
def product_factor(ops: Ops, X: Array, signs: Array) -> Array:
    """Fourier transforms of the rows of `X` (r, d), dense or CSR, times ``signs[:d]``, padded to the signs' length.

    `signs` is int8 (L,), L a product of 2, 3 and 5. The result is the backend's own, of shape (r, L // 2 + 1): what
    `fourier_product` and `next_product_factor` multiply.
    """
    return ops.rfft(ops.pad_signed(X, signs))


@primitive
def fourier_product(
    ops: Ops,
    A: Array,
    columns_a: Array,
    orientations_a: Array,
    B: Array,
    columns_b: Array,
    orientations_b: Array,
    scale: float,
    out: Array,
    first: int = 0,
) -> None:
    """Write products of entries of Fourier transforms from `product_factor`, as real numbers.

    ``scale * A[:, columns_a] * B[:, columns_b]`` (r, k), where entries of A and B are conjugated first if their
    orientation, int8 (k,), is -1 and not if it is 1; written to 2 k columns of `out` from `first` on: the real and
    imaginary part of the first product, then of the second. Of A and B one may have a single row, which serves all.
    """
    a = ops.oriented(ops.columns(A, columns_a), orientations_a, scale)
    product = a * ops.oriented(ops.columns(B, columns_b), orientations_b)
    rows, k = product.shape
    out[:, first : first + 2 * k] = ops.as_pairs(product).reshape(rows, 2 * k)


@primitive
def next_product_factor(
    ops: Ops,
    A: Array,
    columns_a: Array,
    orientations_a: Array,
    B: Array,
    columns_b: Array,
    orientations_b: Array,
    scale: float,
    signs: Array,
) -> Array:
    """Return the `product_factor` of what `fourier_product` writes, which need not be written."""
    features = ops.empty((max(A.shape[0], B.shape[0]), 2 * columns_a.shape[0]))
    fourier_product.generic(
        ops, A, columns_a, orientations_a, B, columns_b, orientations_b, scale, features
    )  # fmt: skip
    return product_factor.generic(ops, features, signs)


@product_factor.override("numpy")
def _(ops: Ops, X: Array, signs: Array) -> Array:
    from phimap.ops.compiled.transform_products import transforms

    return transforms(X, signs)


@fourier_product.override("numpy")
def _(
    ops: Ops,
    A: Array,
    columns_a: Array,
    orientations_a: Array,
    B: Array,
    columns_b: Array,
    orientations_b: Array,
    scale: float,
    out: Array,
    first: int = 0,
) -> None:
    from phimap.ops.compiled.transform_products import write_product

    write_product(A, columns_a, orientations_a, B, columns_b, orientations_b, scale, out, first)


@next_product_factor.override("numpy")
def _(
    ops: Ops,
    A: Array,
    columns_a: Array,
    orientations_a: Array,
    B: Array,
    columns_b: Array,
    orientations_b: Array,
    scale: float,
    signs: Array,
) -> Array:
    from phimap.ops.compiled.transform_products import product_transforms

    return product_transforms(A, columns_a, orientations_a, B, columns_b, orientations_b, scale, signs)
