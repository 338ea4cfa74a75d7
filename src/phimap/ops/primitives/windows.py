"""Concatenated features of the pixels in windows of images."""

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
    """Return the features of the pixels in q x q windows, q = `filter_size`, partly concatenated and partly folded.

    `F` (n h w, d) holds the features of the pixels of n images of `shape` (h, w); `part` selects r pixels, the centres
    of the windows. Pixels outside the image have zero features. Of the result (r, q^2 exact + folded), the first
    q^2 exact columns are the first `exact` features of every pixel of the window, concatenated. The remaining features
    are folded: feature j of the s-th pixel, times ``signs[s, j]``, is added to column ``j mod folded`` of the last
    `folded` columns. `signs` is (q^2, d - exact).
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
            # `rest[...] += piece` would write the slice twice: by += and by item assignment. A view is written once.
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

    # The compiled loop does not check bounds; a damaged model file may contain any index.
    n_rest = F.shape[1] - exact
    if exact < 0 or signs.shape != (filter_size**2, n_rest) or (n_rest and folded < 1):
        raise ValueError("`signs` must have one entry for each folded feature and pixel of a window. Fit again.")
    first, last, _ = part.indices(F.shape[0])
    out = ops.empty((last - first, filter_size**2 * exact + folded))
    windows.windows(F, *shape, first, filter_size, exact, signs, folded, out)
    return out
