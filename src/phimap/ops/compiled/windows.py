"""Features of the pixels in windows of images: the leading features are concatenated, the rest are folded."""

from __future__ import annotations

from phimap.ops.compiled.jit import compiled


@compiled
def windows(F, height, width, first, filter_size, exact, signs, folded, out):
    """Set row k of `out` to the window around pixel ``first + k`` of images of height x width pixels.

    F (n height width, d), out (r, q^2 exact + folded) and signs (q^2, d - exact) have one floating dtype, with q =
    `filter_size`. Pixels outside the image have zero features. The first q^2 exact columns hold the first `exact`
    features of every pixel of the window, concatenated. Of the remaining features, feature j of the s-th pixel, times
    ``signs[s, j]``, is added to column ``j mod folded`` of the last `folded` columns. Time O(r q^2 d).
    """
    radius = filter_size // 2
    start = filter_size * filter_size * exact
    n_rest = signs.shape[1]
    for k in range(out.shape[0]):
        pixel = first + k
        j = pixel % width
        i = (pixel // width) % height
        row = out[k]
        row[:] = 0
        rest = row[start:]
        for a in range(filter_size):
            down = a - radius
            if i + down < 0 or i + down >= height:
                continue
            for b in range(filter_size):
                right = b - radius
                if j + right < 0 or j + right >= width:
                    continue
                shift = a * filter_size + b
                source = F[pixel + down * width + right]
                place, turn = row[shift * exact :], signs[shift]
                for n in range(exact):
                    place[n] = source[n]
                others = source[exact:]
                for block in range(0, n_rest, max(folded, 1)):
                    part, turns = others[block:], turn[block:]
                    for n in range(min(folded, n_rest - block)):
                        rest[n] += turns[n] * part[n]
