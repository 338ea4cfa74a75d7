"""Numbers of a few bits in bit planes: packing comparisons, unpacking, transposition, hashing and rounding."""

from __future__ import annotations

import numpy as np
from numba.extending import intrinsic

from phimap.ops.compiled.integer_vectors import above, at_most, below
from phimap.ops.compiled.jit import compiled, inlined


@intrinsic
def _count(typing_context, word):
    """Return the number of ones among the bits of a uint64."""

    def generate(context, builder, signature, arguments):
        return builder.ctpop(arguments[0])

    return word(word), generate


@compiled
def pack_ternary(projected, lower, upper, closed, planes, first):
    """Set the bits of the k columns from `first` on by comparing values with thresholds.

    With one plane, bits mark values above `upper`, and `lower` is ignored. With two planes, the bits of the first mark
    values above `upper` or below `lower`, and the bits of the second mark values below `lower`. If `closed`, a value
    equal to `lower` counts as below.

    projected (r, k), lower and upper (k,) have one floating dtype and are C-contiguous. planes uint64 (q, r, w) must be
    zero in these columns.
    """
    n, width = projected.shape
    flat = projected.reshape(-1)
    for i in range(n):
        done = 0
        while done < width:
            word, shift = (first + done) // 64, (first + done) % 64
            size = min(64 - shift, width - done)
            if size == 64:
                at = i * width + done
                is_above, is_below = above(flat, at, upper, done), np.uint64(0)
                if planes.shape[0] == 2:
                    is_below = at_most(flat, at, lower, done) if closed else below(flat, at, lower, done)
            else:
                is_above, is_below = _compared(
                    projected[i, done : done + size], lower[done:], upper[done:], closed, shift
                )
            planes[0, i, word] |= is_above
            if planes.shape[0] == 2:
                planes[0, i, word] |= is_below
                planes[1, i, word] |= is_below
            done += size


@inlined
def _compared(values, lower, upper, closed, shift):
    """Return two words whose bits from `shift` on mark the values above `upper` and the values below `lower`."""
    is_above, is_below = np.uint64(0), np.uint64(0)
    for b in range(values.shape[0]):
        place = np.uint64(shift + b)
        is_above |= np.uint64(values[b] > upper[b]) << place
        is_below |= np.uint64(values[b] < lower[b] or (closed and values[b] == lower[b])) << place
    return is_above, is_below


@compiled
def pack_codes(codes, planes):
    """Write bit k of codes uint8 (r, m) to plane k of planes uint64 (q, r, w), for all k."""
    for k in range(planes.shape[0]):
        for i in range(codes.shape[0]):
            for word in range(planes.shape[2]):
                bits = np.uint64(0)
                for b in range(min(64, codes.shape[1] - 64 * word)):
                    bits |= ((np.uint64(codes[i, 64 * word + b]) >> np.uint64(k)) & np.uint64(1)) << np.uint64(b)
                planes[k, i, word] = bits


@compiled
def unpack(planes, weights, offset, first, out):
    """Set out (r, k) to ``offset + sum_q weights[q] * bit_q`` for the k columns from `first`, a multiple of 64."""
    one = np.uint64(1)
    for i in range(out.shape[0]):
        for left in range(0, out.shape[1], 64):
            size = min(64, out.shape[1] - left)
            target = out[i, left : left + size]
            word = planes[0, i, (first + left) // 64]
            for b in range(size):
                target[b] = offset + weights[0] * ((word >> np.uint64(b)) & one)
            for k in range(1, planes.shape[0]):
                word = planes[k, i, (first + left) // 64]
                for b in range(size):
                    target[b] += weights[k] * ((word >> np.uint64(b)) & one)


@compiled
def ones(planes, out):
    """Set out float64 (r,) to the number of ones in each row of planes uint64 (r, w), a single plane."""
    for i in range(planes.shape[0]):
        total = np.uint64(0)
        for k in range(planes.shape[1]):
            total += _count(planes[i, k])  # pyright: ignore
        out[i] = np.int64(total)


@compiled
def transpose(plane, out):
    """Transpose the bits of plane uint64 (n, w) to out (64 w or fewer, ceil(n / 64)), in blocks of 64 x 64 bits.

    A block is transposed by exchanging its off-diagonal quarters, then the off-diagonal quarters of each quarter, and
    so on (Warren, Hacker's Delight, Section 7-3).
    """
    block = np.empty(64, np.uint64)
    for group in range(out.shape[1]):
        rows = min(64, plane.shape[0] - 64 * group)
        for word in range(plane.shape[1]):
            block[:] = 0
            for r in range(rows):
                block[r] = plane[64 * group + r, word]
            size, mask = 32, np.uint64(0x00000000FFFFFFFF)
            while size:
                k = 0
                while k < 64:
                    moved = ((block[k] >> np.uint64(size)) ^ block[k + size]) & mask
                    block[k] ^= moved << np.uint64(size)
                    block[k + size] ^= moved
                    k = (k + size + 1) & ~size
                size >>= 1
                mask ^= mask << np.uint64(size)
            for r in range(min(64, out.shape[0] - 64 * word)):
                out[64 * word + r, group] = block[r]


@compiled
def mixed(state):
    """Return a hash of uint64 `state`: the output function of SplitMix64 (Steele, Lea and Flood 2014, Figure 13)."""
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))


@compiled
def hash_dense(X, out):
    """Set out uint64 (n,) to a hash of each row of X float64 (n, d), C-contiguous.

    Hashes of value and column are summed over the row's entries. Zeros add nothing, so that a sparse row has the same
    hash.
    """
    bits = X.view(np.uint64)
    for i in range(X.shape[0]):
        total = np.uint64(0)
        for j in range(X.shape[1]):
            if X[i, j] != 0:
                total += mixed(mixed(bits[i, j]) + np.uint64(j))
        out[i] = mixed(total)


@compiled
def hash_csr(data, indices, indptr, out):
    """Set out to the hashes of `hash_dense` for the rows of a CSR matrix with float64 data."""
    bits = data.view(np.uint64)
    for i in range(out.shape[0]):
        total = np.uint64(0)
        for e in range(indptr[i], indptr[i + 1]):
            if data[e] != 0:
                total += mixed(mixed(bits[e]) + np.uint64(indices[e]))
        out[i] = mixed(total)


@compiled
def nearest_codes(Z, peak, last, codes):
    """Round Z (r, m) to the nearest codes uint8 (r, m); code 0 represents -peak and code `last` represents peak."""
    factor = 0.5 * last / peak
    for i in range(Z.shape[0]):
        for j in range(Z.shape[1]):
            code = np.int64(np.floor((Z[i, j] + peak) * factor + 0.5))
            codes[i, j] = min(max(code, 0), last)


@compiled
def round_codes(Z, keys, dither, peak, last, codes):
    """Round Z (r, m) stochastically to codes uint8 (r, m); code 0 represents -peak and code `last` represents peak.

    The random number of an entry is a hash of ``keys[i]`` and ``dither[j]``; keys is uint64 (r,), dither uint64 (m,).
    """
    factor = 0.5 * last / peak
    for i in range(Z.shape[0]):
        for j in range(Z.shape[1]):
            chance = np.int64(mixed(keys[i] ^ dither[j]) >> np.uint64(11)) * 2.0**-53
            code = np.int64(np.floor((Z[i, j] + peak) * factor + chance))
            codes[i, j] = min(max(code, 0), last)
