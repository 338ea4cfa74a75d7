"""Pairs of complex Fourier transforms with random phases."""

from __future__ import annotations

from phimap.ops.base import Array, Ops
from phimap.ops.primitive import primitive


@primitive
def fourier_blocks(
    ops: Ops, X: Array, factors: Array, phases: Array, frequencies: Array, n_points: int, scale: Array
) -> Array:
    """Apply blocks of two Fourier transforms to rows: (r, s).

    `X` (r, d) dense times `factors` (d,), padded to 2 h, holds h complex numbers a row, real and imaginary parts in
    turn, and so do `phases` (B, 2, h, 2); `frequencies` intp (B, h) lie below n = `n_points`, `scale` is (s,) with
    s <= 2 B n; h and n are products of 2, 3 and 5. Block b maps z to ``F_n^* P_b diag(phases[b, 0]) F_h diag(phases[b,
    1]) z``, F unnormalised, where P_b adds entry l to zeros at ``frequencies[b, l]``; the first s of the real and
    imaginary parts, in turn, are scaled.
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

    # The compiled loop reads and writes where it is told to.
    n_blocks, half = frequencies.shape
    if not X.shape[1] == factors.shape[0] <= 2 * half or phases.shape != (n_blocks, 2, half, 2):
        raise ValueError("`factors` and `phases` must be those of a padded row. Fit the map again.")
    if frequencies.min() < 0 or frequencies.max() >= n_points or scale.shape[0] > 2 * n_blocks * n_points:
        raise ValueError("`frequencies` must be below `n_points`, of blocks for all of `scale`. Fit the map again.")
    out = ops.empty((X.shape[0], scale.shape[0]))
    fourier_points(ops.contiguous(X), factors, phases, frequencies, n_points, scale, out)
    return out
