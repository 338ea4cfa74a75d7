"""Pairs of complex Fourier transforms with random phases."""

from __future__ import annotations

from phimap.ops.base import Array, Ops
from phimap.ops.primitive import primitive


@primitive
def fourier_blocks(
    ops: Ops, X: Array, factors: Array, phases: Array, frequencies: Array, n_points: int, scale: Array
) -> Array:
    """Return the results (r, s) of blocks of two Fourier transforms for the rows of dense `X` (r, d).

    Each row times `factors` (d,), padded with zeros to 2 h, is read as a vector z of h complex numbers, whose real and
    imaginary parts alternate. Block b maps z to ``F_n^* P_b diag(phases[b, 0]) F_h diag(phases[b, 1]) z``, F
    unnormalised, where P_b adds entry l to position ``frequencies[b, l]`` of a zero vector of length n = `n_points`.
    The first s of the results' alternating real and imaginary parts, times `scale`, are returned.

    `phases` (B, 2, h, 2) holds real and imaginary parts, `frequencies` is intp (B, h) with entries below n, `scale` is
    (s,) with s <= 2 B n; h and n are products of powers of 2, 3 and 5.
    """
    (rows, d), (n_blocks, half) = X.shape, frequencies.shape
    padded = ops.empty((rows, 2 * half))
    ops.multiply(X, factors, padded[:, :d])
    padded[:, d:] = 0
    turns = ops.as_complex(phases)
    Z = ops.fft(ops.as_complex(padded.reshape(rows, 1, half, 2)) * turns[:, 1]) * turns[:, 0]
    spread = ops.as_complex(ops.zeros((rows, n_blocks * n_points, 2)))
    places = frequencies + n_points * ops.arange(n_blocks)[:, None]
    ops.add_columns(spread, places.reshape(-1), Z.reshape(rows, n_blocks * half))
    points = ops.fft(spread.reshape(rows, n_blocks, n_points), conjugate=True)
    return ops.as_pairs(points).reshape(rows, 2 * n_blocks * n_points)[:, : scale.shape[0]] * scale


@fourier_blocks.override("numpy")
def _(ops: Ops, X: Array, factors: Array, phases: Array, frequencies: Array, n_points: int, scale: Array) -> Array:
    from phimap.ops.compiled.fourier_points import fourier_points

    # The compiled loop does not check bounds.
    n_blocks, half = frequencies.shape
    if not X.shape[1] == factors.shape[0] <= 2 * half or phases.shape != (n_blocks, 2, half, 2):
        raise ValueError("`factors` and `phases` must be those of a padded row. Fit the map again.")
    if frequencies.min() < 0 or frequencies.max() >= n_points or scale.shape[0] > 2 * n_blocks * n_points:
        raise ValueError("`frequencies` must be below `n_points`, of blocks for all of `scale`. Fit the map again.")
    out = ops.empty((X.shape[0], scale.shape[0]))
    fourier_points(ops.contiguous(X), factors, phases, frequencies, n_points, scale, out)
    return out
