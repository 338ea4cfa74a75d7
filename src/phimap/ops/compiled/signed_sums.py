"""Products with matrices of few entries, all 1 or -1, by additions."""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

# Rows transposed together, so that an addition is one of whole vectors: with two registers of eight floats the columns
# of some hundred inputs stay in the nearest caches, and two chains of additions run side by side.
_GROUP = 16
# Results put aside before they are written to their rows, whole cache lines at a time.
_RESULTS = 32


@njit(nogil=True, cache=True, error_model="numpy")
def signed_sums(X, indices, bounds, out):
    """Set ``out[:, c]`` to a sum of columns of `X` less a sum of others.

    X (n, d) and out (n, s) of one floating dtype; indices int32 (nnz,) from 0 to d - 1; bounds intp (2 s + 1,), from
    0 to nnz, not decreasing. Added for c are the columns ``indices[bounds[2 c]:bounds[2 c + 1]]``, subtracted those
    from there to ``bounds[2 c + 2]``. Overwrites `out`. O(n nnz) additions; scratch of `_GROUP` rows.
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


@intrinsic
def _add_rows(typing_context, group, indices, start, middle, stop, total):
    """Set total (`_GROUP`,) to the rows of group that indices name from start, less those from middle to stop.

    Written in LLVM's vectors because compiled loops keep the total in memory: here it stays in registers.
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
                # NumPy aligns to the item, not to the vector.
                values = builder.load(place, align=4)
                builder.store(operation(builder.load(accumulator), values), accumulator)

        accumulate(arguments[2], arguments[3], builder.fadd)
        accumulate(arguments[3], arguments[4], builder.fsub)
        builder.store(builder.load(accumulator), builder.bitcast(result, vector.as_pointer()), align=4)
        return context.get_dummy_value()

    return types.void(group, indices, start, middle, stop, total), generate
