"""Inner products of rows of bits, or of signs and zeros, on the host."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from phimap.ops.base import Ops
from phimap.ops.primitive import host_primitive
from phimap.ops.primitives.bit_planes import unpack

#: Maximum number of rows of the first factor in one call.
PRODUCT_ROWS = 96


@host_primitive
def coded(ops: Ops, planes: Sequence[np.ndarray]) -> np.ndarray:
    """Encode rows as the second factor of `write_products`; apart from padding this takes as much memory as the planes.

    `planes` holds uint64 arrays (n, w): one for bits, or two for signs and zeros, of which the first marks entries that
    are not zero and the second marks negative entries. The format of the result depends on the backend.
    """
    return np.stack(planes)


@host_primitive
def write_products(
    ops: Ops,
    planes: Sequence[np.ndarray],
    codes: np.ndarray,
    first: int,
    affine: tuple[float, np.ndarray, np.ndarray, float],
    out: np.ndarray,
    image: np.ndarray | None = None,
) -> None:
    """Write an affine function of inner products of rows to `out` (r, n).

    `planes` holds at most `PRODUCT_ROWS` rows, the first factor. `codes`, a result of `coded`, is the second factor,
    of which the n rows from `first` on are used. The inner product c is exact. With `affine` = (w, left, right, s),
    left (r,) and right (n,), c is written as ``(w c + left + right) s``. If `image` (n, r) is given, it is set to the
    transpose of `out`.
    """
    weight, left, right, scale = affine
    products = _numbers(ops, planes) @ _numbers(ops, codes[:, first : first + out.shape[1]]).T
    out[...] = (weight * products + left[:, None] + right) * scale
    if image is not None:
        image[...] = out.T


@coded.override("numpy")
def _(ops: Ops, planes: Sequence[np.ndarray]) -> np.ndarray:
    from phimap.ops.compiled.lookup_products import n_groups, words_of_codes, write_codes

    are_signs = len(planes) == 2
    codes = np.empty((n_groups(planes[0].shape[1]), len(planes[0]), words_of_codes(are_signs)), np.uint64)
    write_codes(planes[0], planes[-1], are_signs, codes)
    return codes


@write_products.override("numpy")
def _(
    ops: Ops,
    planes: Sequence[np.ndarray],
    codes: np.ndarray,
    first: int,
    affine: tuple[float, np.ndarray, np.ndarray, float],
    out: np.ndarray,
    image: np.ndarray | None = None,
) -> None:
    from phimap.ops.compiled.lookup_products import lookup_products, write_affine, write_both

    counts = np.empty((out.shape[1], PRODUCT_ROWS), np.int32)
    lookup_products(planes[0], planes[-1], codes, first, len(planes) == 2, counts)
    if image is None:
        write_affine(counts, *affine, out)
    else:
        write_both(counts, *affine, out, image)


def _numbers(ops: Ops, planes: Sequence[np.ndarray] | np.ndarray) -> np.ndarray:
    """Return the bits, or the signs and zeros, that planes (q, n, w) represent, as float64 (n, 64 w)."""
    planes = np.asarray(planes)
    out = np.empty((planes.shape[1], 64 * planes.shape[2]))
    unpack.generic(ops, planes, np.array([1.0, -2.0])[: len(planes)], 0.0, 0, out)
    return out
