"""Windows of pixels of images."""

from __future__ import annotations

from phimap.ops.base import Array, Ops
from phimap.ops.primitive import primitive


@primitive
def windows(
    ops: Ops,
    F: Array,
    shape: tuple[int, int],
    part: slice,
    filter_size: int,
    exact: int,
    signs: Array,
    folded: int,
) -> Array:
    """Direct sums of features over q x q windows, with zeros outside: (r, q^2 exact + folded).

    `F` (n h w, d) holds the features of the pixels of n images of `shape` (h, w), `part` names r pixels. The first
    `exact` features of a window's pixels stand side by side; feature j of the rest of the s-th pixel is added to
    column ``j mod folded`` behind them, times ``signs[s, j]``, (q^2, d - exact).
    """
    height, width = shape
    pixels = ops.arange(F.shape[0])[part]
    i, j = pixels // width % height, pixels % width
    radius, n_rest = filter_size // 2, F.shape[1] - exact
    out = ops.zeros((pixels.shape[0], filter_size**2 * exact + folded))
    rest = out[:, filter_size**2 * exact :]
    for shift in range(filter_size**2):
        down, right = shift // filter_size - radius, shift % filter_size - radius
        inside = (i + down >= 0) & (i + down < height) & (j + right >= 0) & (j + right < width)
        source = F[(pixels + down * width + right).clip(0, F.shape[0] - 1)] * inside[:, None]
        out[:, shift * exact : (shift + 1) * exact] = source[:, :exact]
        turned = source[:, exact:] * signs[shift]
        for block in range(0, n_rest, max(folded, 1)):
            piece = turned[:, block : block + folded]
            # A view is changed in place, since an item of an array that is added to would be written twice.
            target = rest[:, : piece.shape[1]]
            target += piece
    return out


@windows.override("numpy")
def _(
    ops: Ops,
    F: Array,
    shape: tuple[int, int],
    part: slice,
    filter_size: int,
    exact: int,
    signs: Array,
    folded: int,
) -> Array:
    from phimap.ops.compiled import windows

    # The compiled loop reads where it is told to; a damaged model file may name any place.
    n_rest = F.shape[1] - exact
    if exact < 0 or signs.shape != (filter_size**2, n_rest) or (n_rest and folded < 1):
        raise ValueError("`signs` must have one entry for each folded feature and pixel of a window. Fit again.")
    first, last, _ = part.indices(F.shape[0])
    out = ops.empty((last - first, filter_size**2 * exact + folded))
    windows.windows(F, *shape, first, filter_size, exact, signs, folded, out)
    return out
