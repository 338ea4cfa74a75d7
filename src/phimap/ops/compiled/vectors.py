"""Short vectors of floats for compiled loops: loaded, combined and stored in registers.

A compiler turns a loop over array entries into vector instructions only if it can prove that the arrays do not
overlap and that the entries are contiguous. For a butterfly between eight entries of one array it can prove neither.
With the functions of this file a loop states explicitly what a vector holds. A vector has `BYTES` bytes, the size of
the processor's registers, or `LONG_BYTES`; a vector longer than the registers takes several. Results are bitwise
identical for all register sizes.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import config, types
from numba.core.codegen import get_host_cpu_features
from numba.extending import intrinsic, models, register_model


def _register_bytes() -> int:
    """Return the size in bytes of the vector registers of the processor that numba compiles for."""
    asked_for: str | None = config.CPU_FEATURES  # pyright: ignore[reportAttributeAccessIssue]
    features = get_host_cpu_features() if asked_for is None else asked_for
    return 64 if "+avx512f" in features.split(",") else 32


#: Size of a vector in bytes. On x86 processors it is the size of a register. Elsewhere it is 32 bytes, which take
#: several registers. Compiled code contains the number as a constant. Numba caches code separately for each set of
#: processor features, so the constant is right.
BYTES = _register_bytes()
#: Size of a long vector in bytes. It takes one register or two. With two registers, two operations overlap, which hides
#: the latency of long chains of operations.
LONG_BYTES = 64
# This flag lets the compiler fuse a product and a sum into one instruction, without rounding the product.
CONTRACT = ("contract",)


class Vector(types.Type):
    """Type of a vector of `n_bytes` bytes whose entries have one real or integer dtype."""

    def __init__(self, dtype: Any, n_bytes: int = BYTES):
        self.dtype = dtype
        self.n_bytes = n_bytes
        self.lanes = 8 * n_bytes // dtype.bitwidth
        super().__init__(name=f"Vector({dtype}, {n_bytes})")


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, vector: Any):
        scalar = manager.lookup(vector.dtype).get_value_type()
        super().__init__(manager, vector, ir.VectorType(scalar, vector.lanes))


def place_of(context: Any, builder: Any, array_type: Any, array: Any, index: Any, lanes: int) -> Any:
    """Return a pointer to `lanes` entries of a contiguous array, from flat index `index` on."""
    entry = builder.gep(context.make_array(array_type)(context, builder, array).data, [index])
    return builder.bitcast(entry, ir.VectorType(context.get_data_type(array_type.dtype), lanes).as_pointer())


def _lanes_of(n_bytes: int) -> Any:
    def lanes_of(_, array):
        lanes = Vector(array.dtype, n_bytes).lanes
        # This is a compile-time constant. If it were computed from the array's item size, a division would run every
        # time.
        return types.intp(array), lambda context, *_: context.get_constant(types.intp, lanes)

    return intrinsic(lanes_of)


def _load(n_bytes: int) -> Any:
    def load(_, array, index):
        vector = Vector(array.dtype, n_bytes)

        def generate(context, builder, signature, arguments):
            place = place_of(context, builder, signature.args[0], arguments[0], arguments[1], vector.lanes)
            # NumPy aligns arrays to the item size, not to the vector size.
            return builder.load(place, align=array.dtype.bitwidth // 8)

        return vector(array, types.intp), generate

    return intrinsic(load)


def _store(_, array, index, vector):
    def generate(context, builder, signature, arguments):
        place = place_of(context, builder, signature.args[0], arguments[0], arguments[1], vector.lanes)
        builder.store(arguments[2], place, align=array.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(array, types.intp, vector), generate


def _flip(_, vector, signs, index):
    def generate(context, builder, signature, arguments):
        place = place_of(context, builder, signature.args[1], arguments[1], arguments[2], vector.lanes)
        factors = builder.sitofp(builder.load(place, align=1), context.get_value_type(vector))
        return builder.fmul(arguments[0], factors)

    return vector(vector, signs, types.intp), generate


def _butterfly(_, one, other):
    def generate(context, builder, signature, arguments):
        pair = builder.fadd(*arguments), builder.fsub(*arguments)
        return context.make_tuple(builder, signature.return_type, pair)

    return types.UniTuple(one, 2)(one, other), generate


def _add(_, one, other):
    def generate(context, builder, signature, arguments):
        return (builder.add if isinstance(one.dtype, types.Integer) else builder.fadd)(*arguments)

    return one(one, other), generate


def _multiply(_, one, other):
    return one(one, other), lambda context, builder, signature, arguments: builder.fmul(*arguments)


def _subtract(_, one, other):
    def generate(context, builder, signature, arguments):
        return (builder.sub if isinstance(one.dtype, types.Integer) else builder.fsub)(*arguments)

    return one(one, other), generate


def _multiply_add(_, a, b, c):
    def generate(context, builder, signature, arguments):
        product = builder.fmul(arguments[0], arguments[1], flags=CONTRACT)
        return builder.fadd(product, arguments[2], flags=CONTRACT)

    return a(a, b, c), generate


def _multiply_subtract(_, a, b, c):
    def generate(context, builder, signature, arguments):
        product = builder.fmul(arguments[0], arguments[1], flags=CONTRACT)
        return builder.fsub(product, arguments[2], flags=CONTRACT)

    return a(a, b, c), generate


def fill(builder: Any, vector: Any, scalar: Any) -> Any:
    """Return a vector of the LLVM type `vector` whose entries all equal `scalar`."""
    single = builder.insert_element(ir.Constant(vector, ir.Undefined), scalar, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(single, single, ir.Constant(ir.VectorType(ir.IntType(32), vector.count), None))


def _broadcast(_, scalar):
    vector = Vector(scalar)

    def generate(context, builder, signature, arguments):
        return fill(builder, context.get_value_type(vector), arguments[0])

    return vector(scalar), generate


def _spread(_, vector, value):
    def generate(context, builder, signature, arguments):
        scalar = context.cast(builder, arguments[1], types.float64, vector.dtype)
        return fill(builder, context.get_value_type(vector), scalar)

    return vector(vector, types.float64), generate


def _unary(name: str) -> Any:
    """Return the entrywise operation on vectors of floats with this LLVM intrinsic's name."""

    def unary(_, vector):
        def generate(context, builder, signature, arguments):
            entries = context.get_value_type(vector)
            full_name = f"{name}.v{entries.count}{entries.element.intrinsic_name}"
            function = builder.module.declare_intrinsic(full_name, fnty=ir.FunctionType(entries, [entries]))
            return builder.call(function, arguments)

        return vector(vector), generate

    return intrinsic(unary)


def _choose(_, vector, one, other):
    def generate(context, builder, signature, arguments):
        vector, one, other = arguments
        positive = builder.fcmp_ordered(">", vector, ir.Constant(vector.type, None))
        return builder.select(positive, one, other)

    return one(vector, one, other), generate


def _larger(_, one, other):
    def generate(context, builder, signature, arguments):
        return builder.select(builder.icmp_signed(">", *arguments), *arguments)

    return one(one, other), generate


def _transpose(_, source, i, step, before, target, j, target_step, after):
    vector = before

    def generate(context, builder, signature, arguments):
        source_array, first, distance, early, target_array, first_target, target_distance, late = arguments
        lanes = range(vector.lanes)

        def places(array_type, array, index, step):
            for lane in lanes:
                offset = builder.add(index, builder.mul(step, ir.Constant(step.type, lane)))
                yield place_of(context, builder, array_type, array, offset, vector.lanes)

        rows = [builder.load(place, align=1) for place in places(signature.args[0], source_array, first, distance)]
        rows = [builder.fmul(row, early) for row in rows]
        # A transpose exchanges row and lane numbers. Each pass exchanges one bit of them.
        for bit in (1, 2, 4, 8):
            if bit >= vector.lanes:
                break
            upper = [lane if not lane & bit else vector.lanes + lane - bit for lane in lanes]
            lower = [lane + bit if not lane & bit else vector.lanes + lane for lane in lanes]
            masks = [ir.Constant(ir.VectorType(ir.IntType(32), vector.lanes), mask) for mask in (upper, lower)]
            for one in lanes:
                if not one & bit:
                    pair = rows[one], rows[one + bit]
                    rows[one], rows[one + bit] = (builder.shuffle_vector(*pair, mask) for mask in masks)
        targets = places(signature.args[4], target_array, first_target, target_distance)
        for row, place in zip(rows, targets, strict=True):
            builder.store(builder.fmul(row, late), place, align=1)
        return context.get_dummy_value()

    arguments = (source, types.intp, types.intp, before, target, types.intp, types.intp, after)
    return types.void(*arguments), generate


def _within(stride: int) -> Any:
    """Return the operation that replaces lanes i and i + stride by their sum and difference.

    It does nothing if the vector has at most `stride` lanes.
    """

    def within(_, vector):
        def generate(context, builder, signature, arguments):
            (values,) = arguments
            if stride >= vector.lanes:
                return values
            lanes = range(vector.lanes)
            partners = ir.Constant(ir.VectorType(ir.IntType(32), vector.lanes), [lane ^ stride for lane in lanes])
            swapped = builder.shuffle_vector(values, values, partners)
            signs = ir.Constant(context.get_value_type(vector), [-1.0 if lane & stride else 1.0 for lane in lanes])
            # A product with 1 or -1 is exact, so fusing product and sum does not change the result.
            return builder.fadd(builder.fmul(values, signs, flags=CONTRACT), swapped, flags=CONTRACT)

        return vector(vector), generate

    return intrinsic(within)


#: ``lanes_of(array)``: number of entries of the array's dtype in a vector.
lanes_of: Any = _lanes_of(BYTES)
#: ``load(array, index)``: the vector of entries from `index` on of a flat, contiguous array.
load: Any = _load(BYTES)
#: `lanes_of` and `load` for vectors of `LONG_BYTES`.
lanes_of_long: Any = _lanes_of(LONG_BYTES)
load_long: Any = _load(LONG_BYTES)
#: ``store(array, index, vector)``: write a vector to a flat, contiguous array from `index` on.
store: Any = intrinsic(_store)
#: ``flip(vector, signs, index)``: the entrywise product of a vector and the int8 signs from `index` on.
flip: Any = intrinsic(_flip)
#: ``add(a, b)``, ``subtract(a, b)``: sums and differences; ``multiply(a, b)``: products of floats.
add: Any = intrinsic(_add)
subtract: Any = intrinsic(_subtract)
multiply: Any = intrinsic(_multiply)
#: ``multiply_add(a, b, c)``, ``multiply_subtract(a, b, c)``: ``a b + c`` and ``a b - c``; rounded once if the processor
#: has fused instructions, else twice.
multiply_add: Any = intrinsic(_multiply_add)
multiply_subtract: Any = intrinsic(_multiply_subtract)
#: ``broadcast(scalar)``: a vector whose entries all equal a scalar, in the scalar's dtype; ``spread(vector, number)``:
#: a vector whose entries all equal a number, with the type of `vector`.
broadcast: Any = intrinsic(_broadcast)
spread: Any = intrinsic(_spread)
#: ``larger(a, b)``: the entrywise maximum of signed integers.
larger: Any = intrinsic(_larger)
#: ``root(vector)``, ``magnitude(vector)``: square roots and absolute values of floats.
root: Any = _unary("llvm.sqrt")
magnitude: Any = _unary("llvm.fabs")
#: ``choose(vector, a, b)``: the entries of a where the vector is positive, of b elsewhere.
choose: Any = intrinsic(_choose)
#: ``butterfly(a, b)``: ``(a + b, a - b)``.
butterfly: Any = intrinsic(_butterfly)
#: ``transpose(source, i, step, before, target, j, target_step, after)``: transpose a square block. Its rows are the
#: vectors of `source` at i, i + step, ..., each multiplied by the vector `before`. The rows of the transpose, each
#: multiplied by the vector `after`, are written to `target` at j, j + target_step, ...
transpose: Any = intrinsic(_transpose)
#: ``within_k(vector)``: butterflies between lanes of one vector that are k apart.
within_1: Any = _within(1)
within_2: Any = _within(2)
within_4: Any = _within(4)
within_8: Any = _within(8)
