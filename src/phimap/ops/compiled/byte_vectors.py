"""Vectors of bytes for compiled kernels: tables of 16 entries looked up by every byte, and sums of bytes.

The lookup is one instruction of x86 processors with AVX2 and of no others: see `HAS_LOOKUPS`.
"""

from __future__ import annotations

from typing import Any

from llvmlite import binding, ir
from numba import types
from numba.core import config
from numba.extending import intrinsic

from phimap.ops.compiled.vectors import BYTES, Vector

#: Whether code may be compiled for this processor that has `look_up` in it. Where Numba is told to compile for
#: another processor, it may not.
HAS_LOOKUPS: bool = (
    getattr(config, "CPU_NAME", None) is None
    and getattr(config, "CPU_FEATURES", None) is None
    and bool(binding.get_host_cpu_features().get("avx2"))
)

_BYTES = Vector(types.uint8)
_BYTE = ir.IntType(8)
_BYTES_TYPE = ir.VectorType(_BYTE, BYTES)
_TABLE = ir.VectorType(_BYTE, 16)
_PAIRS = ir.VectorType(ir.IntType(16), BYTES // 2)


def _pointer(context: Any, builder: Any, array_type: Any, array: Any, index: Any, entries: ir.VectorType) -> Any:
    place = builder.gep(context.make_array(array_type)(context, builder, array).data, [index])
    return builder.bitcast(place, entries.as_pointer())


def _load_table(_, array, index):
    def generate(context, builder, signature, arguments):
        table = builder.load(_pointer(context, builder, signature.args[0], arguments[0], arguments[1], _TABLE), align=1)
        twice = ir.Constant(ir.VectorType(ir.IntType(32), BYTES), 2 * list(range(16)))
        return builder.shuffle_vector(table, table, twice)

    return _BYTES(array, types.intp), generate


def _copy_table(_, source, i, target, j):
    def generate(context, builder, signature, arguments):
        table = builder.load(_pointer(context, builder, source, arguments[0], arguments[1], _TABLE), align=1)
        builder.store(table, _pointer(context, builder, target, arguments[2], arguments[3], _TABLE), align=1)
        return context.get_dummy_value()

    return types.void(source, types.intp, target, types.intp), generate


def _look_up(_, table, codes, index):
    def generate(context, builder, signature, arguments):
        entries = context.get_value_type(_BYTES)
        place = _pointer(context, builder, signature.args[1], arguments[1], arguments[2], entries)
        kind = ir.FunctionType(entries, [entries, entries])
        function = builder.module.declare_intrinsic("llvm.x86.avx2.pshuf.b", fnty=kind)
        return builder.call(function, [arguments[0], builder.load(place, align=1)])

    return _BYTES(_BYTES, codes, types.intp), generate


def _add_bytes(_, one, other):
    return _BYTES(_BYTES, _BYTES), lambda context, builder, signature, arguments: builder.add(*arguments)


def _low(_, vector):
    def generate(context, builder, signature, arguments):
        return builder.and_(arguments[0], ir.Constant(arguments[0].type, BYTES * [15]))

    return _BYTES(_BYTES), generate


def _shifted(_, vector):
    def generate(context, builder, signature, arguments):
        return _shift_pairs(builder, arguments[0], 4)

    return _BYTES(_BYTES), generate


def _high_sums(_, shifted, low):
    def generate(context, builder, signature, arguments):
        # The sum of the second byte of two, 16 times, modulo 256, in the place of the first.
        carried = builder.and_(_shift_pairs(builder, arguments[1], 4), ir.Constant(_BYTES_TYPE, BYTES // 2 * [240, 0]))
        return builder.sub(arguments[0], carried)

    return _BYTES(_BYTES, _BYTES), generate


def _shift_pairs(builder: Any, vector: Any, bits: int) -> Any:
    """Vectors of bytes, taken as integers of 16 bits, shifted to the right."""
    pairs = builder.lshr(builder.bitcast(vector, _PAIRS), ir.Constant(_PAIRS, _PAIRS.count * [bits]))
    return builder.bitcast(pairs, vector.type)


def _zero_bytes(_):
    return _BYTES(), lambda context, *_: ir.Constant(context.get_value_type(_BYTES), None)


def _accumulate(_, sums, index, vector):
    def generate(context, builder, signature, arguments):
        wide = ir.VectorType(ir.IntType(sums.dtype.bitwidth), BYTES)
        place = _pointer(context, builder, signature.args[0], arguments[0], arguments[1], wide)
        total = builder.add(builder.load(place, align=1), builder.zext(arguments[2], wide))
        builder.store(total, place, align=1)
        return context.get_dummy_value()

    return types.void(sums, types.intp, _BYTES), generate


#: ``load_table(array, index)``: a table of 16 bytes of a flat array.
load_table: Any = intrinsic(_load_table)
#: ``copy_table(source, i, target, j)``: copy such a table from place i of one array to place j of another.
copy_table: Any = intrinsic(_copy_table)
#: ``look_up(table, codes, index)``: its entries at the 32 codes below 16 of a flat array of bytes, from `index` on.
look_up: Any = intrinsic(_look_up)
#: ``add_bytes(a, b)``: sums modulo 256.
add_bytes: Any = intrinsic(_add_bytes)
#: ``low(a)``: the lower four bits of each byte.
low: Any = intrinsic(_low)
#: ``shifted(a)``: every two bytes, an integer of 16 bits, shifted right by four: upper four bits of bytes, with the
#: lower four of its neighbour above those of the first. ``high_sums(b, c)``: the sums modulo 256 of the upper four
#: bits of bytes, from the sums b of `shifted` and c of `low`; this takes less than to mask every summand.
shifted: Any = intrinsic(_shifted)
high_sums: Any = intrinsic(_high_sums)
#: ``zero_bytes()``: 32 zeros.
zero_bytes: Any = intrinsic(_zero_bytes)
#: ``accumulate(sums, index, a)``: add 32 bytes to wider integers of a flat array, from `index` on.
accumulate: Any = intrinsic(_accumulate)
