"""Windows of pixels: direct sums of the features in them, the leading ones as they are and the rest folded."""

from __future__ import annotations

from phimap.ops.compiled.jit import compiled


@compiled
def windows(F, height, width, first, filter_size, exact, signs, folded, out):
    """Set row k of `out` to the window around pixel ``first + k`` of images of height x width pixels.

    F (n height width, d) and out (r, q^2 exact + folded) of one floating dtype, signs (q^2, d - exact) of it too. The
    first `exact` features of the q^2 pixels stand side by side, zeros for pixels outside; feature j of the others is
    added to column ``j mod folded`` of the rest with ``signs[s, j]`` for shift s. Overwrites `out`. O(r q^2 d).
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
