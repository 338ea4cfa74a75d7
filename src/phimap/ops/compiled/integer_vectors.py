"""Operations on vectors for compiled loops.

Vectors of integers are masked, shifted, rotated, and added to arrays. Comparisons of 64 pairs of floats give an integer
of 64 bits, one bit for each pair.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from phimap.ops.compiled.vectors import fill, place_of


def _masked(_, vector, mask):
    def generate(context, builder, signature, arguments):
        return builder.and_(arguments[0], fill(builder, context.get_value_type(vector), arguments[1]))

    return vector(vector, vector.dtype), generate


def _shifted(_, vector, bits):
    def generate(context, builder, signature, arguments):
        return builder.lshr(arguments[0], fill(builder, context.get_value_type(vector), arguments[1]))

    return vector(vector, vector.dtype), generate


def _rotated(_, vector, bits):
    def generate(context, builder, signature, arguments):
        entries = context.get_value_type(vector)
        kind = ir.FunctionType(entries, [entries, entries, entries])
        name = f"llvm.fshr.v{entries.count}i{vector.dtype.bitwidth}"
        function = builder.module.declare_intrinsic(name, fnty=kind)
        return builder.call(function, [arguments[0], arguments[0], fill(builder, entries, arguments[1])])

    return vector(vector, vector.dtype), generate


def _accumulate(_, array, index, vector):
    def generate(context, builder, signature, arguments):
        place = place_of(context, builder, signature.args[0], arguments[0], arguments[1], vector.lanes)
        entries = place.type.pointee
        narrow = builder.trunc(arguments[2], entries) if entries != arguments[2].type else arguments[2]
        align = array.dtype.bitwidth // 8
        builder.store(builder.add(builder.load(place, align=align), narrow), place, align=align)
        return context.get_dummy_value()

    return types.void(array, types.intp, vector), generate


def _zero_like(_, vector):
    return vector(vector), lambda context, *_: ir.Constant(context.get_value_type(vector), None)


def _compared(operation: str) -> Any:
    """Return the operation that compares 64 entries of two contiguous arrays of floats and gives a word of 64 bits."""

    def compared(_, values, i, limits, j):
        def generate(context, builder, signature, arguments):
            entries = [
                builder.load(
                    place_of(context, builder, signature.args[k], arguments[k], arguments[k + 1], 64),
                    align=values.dtype.bitwidth // 8,
                )
                for k in (0, 2)
            ]
            return builder.bitcast(builder.fcmp_ordered(operation, *entries), ir.IntType(64))

        return types.uint64(values, types.intp, limits, types.intp), generate

    return intrinsic(compared)


#: ``masked(vector, mask)``: bitwise "and" with `mask`; ``shifted(vector, bits)``: logical shift to the right.
masked: Any = intrinsic(_masked)
shifted: Any = intrinsic(_shifted)
#: ``rotated(vector, bits)``: rotation of every integer to the right by `bits`.
rotated: Any = intrinsic(_rotated)
#: ``accumulate(array, index, vector)``: add a vector to an array from `index` on, whose integers may have fewer
#: bits.
accumulate: Any = intrinsic(_accumulate)
#: ``zero_like(vector)``: a vector of zeros with the type of `vector`.
zero_like: Any = intrinsic(_zero_like)
#: ``above(values, i, limits, j)``: a word of 64 bits; bit k is set if ``values[i + k] > limits[j + k]``. For `below`
#: the comparison is <, and for `at_most` it is <=. Both arrays are flat and of the same float dtype.
above: Any = _compared(">")
below: Any = _compared("<")
at_most: Any = _compared("<=")
