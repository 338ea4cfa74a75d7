"""Inner products of rows of bits, or of signs and zeros, by table lookup.

A one-byte code holds eight bits of a row, or four signs or zeros. For 96 rows of the first factor and each position of
a code, a table holds the inner products of these rows with every possible code of the second factor. Three loads and
five other operations on vectors of 64 bytes then give 2,304 products of bits, or 1,152 of signs and zeros.

Inner products with one code lie between 0 and 8. For four signs and zeros they lie between -4 and 4, and are raised by
4. They are stored in fields of 5 bits, 12 to a lane of 64 bits, and three of them add up without a carry. Longer sums
are kept in fields of 10 bits: fields of even number are masked and summed separately, and the odd fields are the total
minus the even fields. After every `_WORDS` words of a plane the sums are spread to fields of 20 bits. All operations
are exact.

References
----------
Arlazarov, Dinic, Kronrod, Faradzev (1970), *On economical construction of the transitive closure of a directed graph*:
products by tables of all combinations of a few rows.
"""

from __future__ import annotations

import numpy as np

from phimap.ops.compiled.integer_vectors import accumulate, masked, rotated, shifted, zero_like
from phimap.ops.compiled.jit import compiled, inlined
from phimap.ops.compiled.vectors import add, load_long, store, subtract

# Number of fields in a lane, and number of lanes of a vector. A vector has 96 fields, one for each of 96 rows of the
# first factor.
_FIELDS, _LANES = 12, 8
# Number of words of a plane in a group. Their products are summed in fields of 10 bits. The sum is at most
# 3 words * 16 codes * 8 = 384. This fits the uppermost field, which has only 9 bits and holds up to 511.
_WORDS = 3
# Maximum number of groups of words whose sums, each at most 384, add up in a field of 20 bits.
_GROUPS = (2**20 - 1) // 384
# Number of rows of the second factor whose products are written at a time. Their sums stay in the L1 cache.
_TILE = 32
# For bits, and for signs and zeros: the number of entries of a table, and the number of codes in a group of words.
_BITS, _SIGNS = (256, 8 * _WORDS), (81, 16 * _WORDS)
# Masks of a lane: its even fields of 5 bits, and the lower halves of its fields of 20 bits. Then a lane with a 4 in
# every field of 5 bits.
_EVEN = np.uint64(sum(31 << 5 * field for field in range(0, _FIELDS, 2)))
_SPREAD = np.uint64(sum(1023 << 20 * field for field in range(_FIELDS // 4)))
_FOURS = np.uint64(sum(4 << 5 * field for field in range(_FIELDS)))
# Masks of a word: the lower four bits of every byte, and the lowest bit of every byte.
_LOWER_HALVES = np.uint64(0x0F0F0F0F0F0F0F0F)
_ONES = np.uint64(0x0101010101010101)
# `_PLACES[k, f]` masks bit f of a word that was rotated to the left by 5 k.
_PLACES = np.array([[1 << (5 * field + f) % 64 for f in range(64)] for field in range(_FIELDS)], dtype=np.uint64)


def n_groups(n_words: int) -> int:
    """Return how many groups of `_WORDS` words hold a row of `n_words` words."""
    return -(-n_words // _WORDS)


def words_of_codes(are_signs: bool) -> int:
    """Return how many words hold the codes of one row and one group of words."""
    return (_SIGNS if are_signs else _BITS)[1] // 8


@inlined
def _ternary_codes(bits):
    """Replace each of eight bytes, whose lower four bits are b, by ``b_0 + 3 b_1 + 9 b_2 + 27 b_3``."""
    second, third, fourth = (
        (bits >> np.uint64(1)) & _ONES,
        (bits >> np.uint64(2)) & _ONES,
        (bits >> np.uint64(3)) & _ONES,
    )
    return bits + second + np.uint64(5) * third + np.uint64(19) * fourth


@compiled
def write_codes(plane, negative, are_signs, out):
    """Set out uint64 (n_groups, n, words_of_codes) to the codes of rows of bits, or of signs and zeros.

    plane uint64 (n, w) holds the bits. For signs and zeros, `plane` marks the entries that are not zero and negative
    (n, w) marks the negative entries; 1 is then the base-3 digit 1, and -1 the digit 2. A word then has two codes for
    each of its bytes: first the entries of all lower halves, then the entries of all upper halves.
    """
    lower, upper = _LOWER_HALVES, np.uint64(4)
    for group in range(out.shape[0]):
        for i in range(plane.shape[0]):
            for k in range(_WORDS):
                at = _WORDS * group + k
                word = plane[i, at] if at < plane.shape[1] else np.uint64(0)
                if not are_signs:
                    out[group, i, k] = word
                    continue
                signs = negative[i, at] if at < plane.shape[1] else np.uint64(0)
                out[group, i, 2 * k] = _ternary_codes(word & lower) + _ternary_codes(signs & lower)
                word, signs = (word >> upper) & lower, (signs >> upper) & lower
                out[group, i, 2 * k + 1] = _ternary_codes(word) + _ternary_codes(signs)


@inlined
def _turn(plane, k, turned):
    """Write word k of up to 96 rows to `turned`, rotated to the left by 5 times the row's field; missing rows are 0."""
    turned[:] = 0
    if k < plane.shape[1]:
        for i in range(plane.shape[0]):
            left = np.uint64(5 * (i // _LANES))
            turned[i] = (plane[i, k] << left) | ((plane[i, k] >> np.uint64(1)) >> (np.uint64(63) - left))


@inlined
def _gathered(turned, f):
    """Return bit f of all 96 rows in one vector; in each lane the bits of the fields are 5 bits apart."""
    bits = masked(load_long(turned, 0), _PLACES[0, f])
    for field in range(1, _FIELDS):
        bits = add(bits, masked(load_long(turned, _LANES * field), _PLACES[field, f]))
    return rotated(bits, np.uint64(f))


@inlined
def _write_tables(rows, tables, first, n_bits, are_signs):
    """Write the table of one code position from entry `first` on; `rows` holds the 96 rows' values, bit by bit."""
    start = _LANES * first
    for lane in range(_LANES):
        tables[start + lane] = _FOURS if are_signs else np.uint64(0)
    size = 1
    for bit in range(n_bits):
        row = load_long(rows, _LANES * bit)
        for entry in range(size):
            at = start + _LANES * entry
            store(tables, at + _LANES * size, add(load_long(tables, at), row))
            if are_signs:
                store(tables, at + 2 * _LANES * size, subtract(load_long(tables, at), row))
        size *= 3 if are_signs else 2


@inlined
def _write_group(plane, negative, group, are_signs, n_entries, turned, turned_negative, rows, tables):
    """Write the tables of all code positions of a group of words, in the order of the codes."""
    table = 0
    n_bits = 4 if are_signs else 8
    for k in range(_WORDS * group, _WORDS * group + _WORDS):
        _turn(plane, k, turned)
        if are_signs:
            _turn(negative, k, turned_negative)
        for half in range(2 if are_signs else 1):
            for byte in range(8):
                for bit in range(n_bits):
                    place = 8 * byte + 4 * half + bit
                    row = _gathered(turned, place)
                    if are_signs:
                        minus = _gathered(turned_negative, place)
                        row = subtract(subtract(row, minus), minus)
                    store(rows, _LANES * bit, row)
                _write_tables(rows, tables, table * n_entries, n_bits, are_signs)
                table += 1


@inlined
def _place_of(codes, at, first):
    """Return the position of the entry for code ``codes[at]`` in `tables`; its table begins with entry `first`."""
    # The index is unsigned, because numba tests signed indices for negative values.
    return _LANES * (first + np.intp(codes[np.uint64(at)]))


@inlined
def _add_group(tables, codes, at, n_entries, n_codes, sums, target):
    """Add the inner products of all 96 rows with one row of the second factor to `sums` from `target` on.

    The codes of that row begin at ``codes[at]``.
    """
    even = zero_like(load_long(tables, 0))
    total = even
    for place in range(0, n_codes, 3):
        a = _place_of(codes, at + place, place * n_entries)
        b = _place_of(codes, at + place + 1, (place + 1) * n_entries)
        c = _place_of(codes, at + place + 2, (place + 2) * n_entries)
        three = add(add(load_long(tables, a), load_long(tables, b)), load_long(tables, c))
        total, even = add(total, three), add(even, masked(three, _EVEN))
    odd = subtract(total, even)
    _add_spread(even, sums, target)
    _add_spread(shifted(odd, 5), sums, target + _LANES)
    _add_spread(shifted(even, 10), sums, target + 2 * _LANES)
    _add_spread(shifted(odd, 15), sums, target + 3 * _LANES)


@inlined
def _add_spread(fields, sums, target):
    """Add every second field of 10 bits to the fields of 20 bits in `sums` from `target` on."""
    store(sums, target, add(load_long(sums, target), masked(fields, _SPREAD)))


@inlined
def _add_counts(sums, raised, counts):
    """Add the sums in the fields, each less `raised`, to the flat array `counts` (n, 96)."""
    for j in range(counts.size // (_FIELDS * _LANES)):
        for field in range(_FIELDS):
            sums_of_four = load_long(sums, 4 * _LANES * j + _LANES * (field % 4))
            value = masked(shifted(sums_of_four, np.uint64(20 * (field // 4))), np.uint64(2**20 - 1))
            accumulate(counts, _LANES * (_FIELDS * j + field), value)
    for k in range(counts.size if raised else 0):
        counts[k] -= raised


@compiled
def lookup_products(plane, negative, codes, first, are_signs, counts):
    """Set counts int32 (n, 96) to the inner products of n rows of the second factor with the r rows of the first.

    plane and negative, uint64 (r, w) with r at most 96, are the planes of the first factor as in `write_codes`. `codes`
    (C-contiguous) are the codes of the second factor, of which the rows from `first` on are used. Columns of counts
    from r on are 0.
    """
    n_groups, n, n_words = codes.shape[0], counts.shape[0], codes.shape[2]
    n_entries, n_codes = _SIGNS if are_signs else _BITS
    flat = codes.reshape(-1).view(np.uint8)
    turned, turned_negative = np.empty(_FIELDS * _LANES, np.uint64), np.empty(_FIELDS * _LANES, np.uint64)
    rows = np.empty(8 * _LANES, np.uint64)
    tables, sums = np.empty(n_codes * n_entries * _LANES, np.uint64), np.empty(4 * _LANES * n, np.uint64)
    counts[...] = 0
    for done in range(0, n_groups, _GROUPS):
        stop = min(n_groups, done + _GROUPS)
        sums[:] = 0
        for group in range(done, stop):
            _write_group(plane, negative, group, are_signs, n_entries, turned, turned_negative, rows, tables)
            at = 8 * n_words * (codes.shape[1] * group + first)
            if are_signs:
                for j in range(n):
                    _add_group(tables, flat, at + j * _SIGNS[1], _SIGNS[0], _SIGNS[1], sums, 4 * _LANES * j)
            else:
                for j in range(n):
                    _add_group(tables, flat, at + j * _BITS[1], _BITS[0], _BITS[1], sums, 4 * _LANES * j)
        _add_counts(sums, 4 * n_codes * (stop - done) if are_signs else 0, counts.reshape(-1))


@compiled
def write_affine(counts, weight, left, right, scale, out):
    """Set out (r, n) to ``(weight * counts[:, :r].T + left[:, None] + right) * scale``, for left (r,), right (n,)."""
    for top in range(0, out.shape[1], _TILE):
        for i in range(out.shape[0]):
            for j in range(top, min(top + _TILE, out.shape[1])):
                out[i, j] = (weight * counts[j, i] + left[i] + right[j]) * scale


@compiled
def write_both(counts, weight, left, right, scale, out, image):
    """Apply `write_affine`, and set image (n, r) to the transpose of out.

    If both share memory, as on the diagonal of a Gram matrix, every shared entry is written twice with one value.
    """
    block = np.empty((_TILE, _FIELDS * _LANES), out.dtype)
    for top in range(0, out.shape[1], _TILE):
        n = min(_TILE, out.shape[1] - top)
        for j in range(n):
            for i in range(out.shape[0]):
                block[j, i] = (weight * counts[top + j, i] + left[i] + right[top + j]) * scale
            for i in range(out.shape[0]):
                image[top + j, i] = block[j, i]
        for i in range(out.shape[0]):
            for j in range(n):
                out[i, top + j] = block[j, i]
