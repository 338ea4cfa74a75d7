"""Products with matrices of entries 1, -1 and 0, by additions if sparse, and by tables of signed sums if dense."""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from phimap.ops.base import TERNARY_PLACES
from phimap.ops.compiled.jit import compiled, inlined
from phimap.ops.compiled.vectors import add, broadcast, lanes_of, lanes_of_long, load_long, store, subtract, transpose

# Number of inputs whose signed sums are in one table, and number of these sums.
CODED = len(TERNARY_PLACES)
N_CODES = 3**CODED
# Number of tables in use at a time. With vectors of 64 bytes they take 83 KB, so they fit the L2 cache.
_TABLES = 16
# Number of rows that are transposed at a time, so that an addition acts on whole vectors. Sixteen floats fill two
# registers of 32 bytes, so two independent additions overlap. The columns of some hundred inputs stay in the L1 and L2
# caches.
_GROUP = 16
# Number of results that are collected before they are written to their rows, so that whole cache lines are written.
_RESULTS = 32


@compiled
def signed_sums(X, indices, bounds, out):
    """Set ``out[:, c]`` to a sum of columns of `X` minus a sum of other columns.

    X (n, d) and out (n, s) have one floating dtype; indices is int32 (nnz,) with entries from 0 to d - 1; bounds is
    intp (2 s + 1,), non-decreasing from 0 to nnz. For result c the columns ``indices[bounds[2 c]:bounds[2 c + 1]]`` are
    added and ``indices[bounds[2 c + 1]:bounds[2 c + 2]]`` subtracted. O(n nnz) additions; scratch for `_GROUP` rows.
    """
    n, d = X.shape
    group, totals = np.zeros((d, _GROUP), X.dtype), np.empty((_RESULTS, _GROUP), X.dtype)
    for first in range(0, n, _GROUP):
        rows, results = X[first : first + _GROUP], out[first : first + _GROUP]
        for r in range(rows.shape[0]):
            for j in range(d):
                group[j, r] = rows[r, j]
        for left in range(0, out.shape[1], _RESULTS):
            width = min(_RESULTS, out.shape[1] - left)
            for q in range(width):
                c = 2 * (left + q)
                _add_rows(group, indices, bounds[c], bounds[c + 1], bounds[c + 2], totals[q])  # pyright: ignore
            for r in range(rows.shape[0]):
                for q in range(width):
                    results[r, left + q] = totals[q, r]


@compiled
def ternary_products(X, codes, out):
    """Set out (n, s) to the product of X (n, d) and the transpose of a matrix (s, d) with entries 1, -1 and 0.

    X and out have one floating dtype; out is C-contiguous. Entry ``[c, p]`` of codes, uint8 (s, 2 k) with values below
    `N_CODES` and ``d <= 8 k``, encodes columns 4 p to 4 p + 3 of row c of the matrix as base-3 digits, the lowest digit
    first: digit 1 means 1, digit 2 means -1. Columns from d on are 0. A table holds all signed sums of 4 inputs, for
    one row of X in each lane of a vector: O(n s d / 4) additions.
    """
    n, d = X.shape
    s, n_places = codes.shape
    lanes, flat = lanes_of_long(X), codes.reshape(-1)
    group, totals = np.zeros(CODED * n_places * lanes, X.dtype), np.empty(s * lanes, X.dtype)
    tables = np.zeros(_TABLES * N_CODES * lanes, X.dtype)
    for first in range(0, n, lanes):
        rows, results = X[first : first + lanes], out[first : first + lanes]
        for r in range(rows.shape[0]):
            for j in range(d):
                group[j * lanes + r] = rows[r, j]
        totals[:] = 0
        for left in range(0, n_places, _TABLES):
            width = min(_TABLES, n_places - left)
            for place in range(width):
                _write_signed_sums(group, CODED * (left + place), tables, place * N_CODES, lanes)
            for c in range(s):
                total, at = load_long(totals, c * lanes), c * n_places + left
                for place in range(0, width, 2):
                    one = load_long(tables, lanes * (place * N_CODES + np.intp(flat[np.uint64(at + place)])))
                    other = load_long(
                        tables, lanes * ((place + 1) * N_CODES + np.intp(flat[np.uint64(at + place + 1)]))
                    )
                    total = add(total, add(one, other))
                store(totals, c * lanes, total)
        _write_rows(totals, lanes, results)


@inlined
def _write_rows(totals, lanes, out):
    """Set out (n, s) to the transpose of totals, flat (s, lanes), in square blocks of vectors as far as possible."""
    n, s = out.shape
    size = lanes_of(out)
    whole = s // size * size if n == lanes else 0
    flat, one = out.reshape(-1), broadcast(out.dtype.type(1))
    for c in range(0, whole, size):
        for r in range(0, lanes, size):
            transpose(totals, c * lanes + r, lanes, one, flat, r * s + c, s, one)
    for c in range(whole, s):
        for r in range(n):
            out[r, c] = totals[c * lanes + r]


@inlined
def _write_signed_sums(group, j, tables, first, lanes):
    """Write all sums of the inputs j to j + 3, each times 0, 1 or -1, to `tables` from entry `first` on.

    Entry `first` must be 0.
    """
    size = 1
    for bit in range(CODED):
        row = load_long(group, lanes * (j + bit))
        for entry in range(first, first + size):
            total = load_long(tables, lanes * entry)
            store(tables, lanes * (entry + size), add(total, row))
            store(tables, lanes * (entry + 2 * size), subtract(total, row))
        size *= 3


@intrinsic
def _add_rows(typing_context, group, indices, start, middle, stop, total):
    """Set total (`_GROUP`,) to the sum of rows ``indices[start:middle]`` of group minus rows ``indices[middle:stop]``.

    Written with LLVM vectors to keep the total in registers; an ordinary compiled loop keeps the total in memory.
    """

    def generate(context, builder, signature, arguments):
        data = [context.make_array(signature.args[k])(context, builder, arguments[k]).data for k in (0, 1, 5)]
        rows, names, result = data
        vector = ir.VectorType(context.get_data_type(signature.args[0].dtype), _GROUP)
        position = arguments[2].type
        accumulator = cgutils.alloca_once_value(builder, ir.Constant(vector, None))

        def accumulate(first, last, operation):
            one = ir.Constant(position, 1)
            with cgutils.for_range_slice(builder, first, last, one, position) as (entry, _):
                row = builder.zext(builder.load(builder.gep(names, [entry])), position)
                offset = builder.mul(row, ir.Constant(position, _GROUP))
                place = builder.bitcast(builder.gep(rows, [offset]), vector.as_pointer())
                # NumPy aligns arrays to the item size, not to the vector size.
                values = builder.load(place, align=4)
                builder.store(operation(builder.load(accumulator), values), accumulator)

        accumulate(arguments[2], arguments[3], builder.fadd)
        accumulate(arguments[3], arguments[4], builder.fsub)
        builder.store(builder.load(accumulator), builder.bitcast(result, vector.as_pointer()), align=4)
        return context.get_dummy_value()

    return types.void(group, indices, start, middle, stop, total), generate
