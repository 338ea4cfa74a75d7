"""Arrays that record the operations on them, and behave like NumPy arrays of floats."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from phimap.exports.functions import FUNCTIONS, TRUTH
from phimap.exports.graph import BOOLEAN, INTEGER, ExportError, Node, Operand, broadcast_shape, is_rows

# Universal functions that are not one operation, composed of operations.
_COMPOSED: dict[str, Callable[..., Any]] = {
    "logaddexp": lambda x, y: np.maximum(x, y) + np.log(1.0 + np.exp(-abs(x - y))),
    "ndtr": lambda x: 0.5 + 0.5 * Traced.apply("erf", x * 0.5**0.5),
    "positive": lambda x: x,
    "remainder": lambda x, y: x - y * np.floor(x / y),
    "reciprocal": lambda x: 1.0 / x,
    "square": lambda x: x * x,
}


class Traced:
    """An array whose shape may depend on the number of rows of the input.

    Writing to an array changes this object and its views, as it does for NumPy arrays; the nodes are immutable. An
    array consists of pieces side by side along its last axis, so that a block that is written column by column becomes
    one concatenation.

    Parameters
    ----------
    shape : tuple of int
    dtype : numpy.dtype
    ops : TraceOps
        The backend that the array belongs to; `phimap.ops.ops_for` returns it.
    node : Node, optional
        Its value; without it, entries are zero until they are written.
    """

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype, ops: Any, node: Node | None = None):
        self.shape, self.dtype, self.ops = tuple(shape), dtype, ops
        self._pieces: list[tuple[int, int, Node | None]] = [(0, self.shape[-1], node)]

    @staticmethod
    def of(node: Node, ops: Any) -> Traced:
        """Return a node as an array."""
        return Traced(node.shape, node.dtype, ops, node)

    # The operators, which are defined below the class.
    __add__: Any
    __radd__: Any
    __sub__: Any
    __rsub__: Any
    __mul__: Any
    __rmul__: Any
    __truediv__: Any
    __rtruediv__: Any
    __mod__: Any
    __and__: Any
    __or__: Any
    __gt__: Any
    __ge__: Any
    __lt__: Any
    __le__: Any

    # Values ----------------------------------------------------------------------------------------------------

    @property
    def node(self) -> Node:
        """The value of the array."""
        return self.read(0, self.shape[-1])

    def read(self, start: int, stop: int) -> Node:
        """Return the entries `start` to `stop` of the last axis."""
        parts = []
        for first, last, node in self._pieces:
            low, high = max(first, start), min(last, stop)
            if low < high or (start == stop == first == last):
                parts.append(self._part(node, first, low, high, last))
        if len(parts) > 1:
            node = self._node("concatenate", tuple(parts), (*self.shape[:-1], stop - start), axis=len(self.shape) - 1)
            if (start, stop) == (0, self.shape[-1]):
                self._pieces = [(start, stop, node)]
            return node
        return parts[0] if parts else self._filled(0.0, (*self.shape[:-1], 0))

    def write(self, start: int, stop: int, node: Node) -> None:
        """Replace the entries `start` to `stop` of the last axis."""
        pieces: list[tuple[int, int, Node | None]] = [(start, stop, node)]
        for first, last, old in self._pieces:
            for low, high in ((first, min(last, start)), (max(first, stop), last)):
                if low < high:
                    pieces.append((low, high, None if old is None else self._part(old, first, low, high, last)))
        self._pieces = sorted(pieces, key=lambda piece: piece[0])

    def _part(self, node: Node | None, first: int, low: int, high: int, last: int) -> Node:
        shape = (*self.shape[:-1], high - low)
        if node is None:
            return self._filled(0.0, shape)
        if (low, high) == (first, last):
            return node
        return self._node("slice", (node,), shape, axis=len(shape) - 1, start=low - first, stop=high - first)

    def _filled(self, value: Any, shape: tuple[int, ...]) -> Node:
        """Return `value`, a number or an array without rows, broadcast to `shape`."""
        value = np.asarray(value, dtype=self.dtype)
        lead = [axis for axis, length in enumerate(shape) if is_rows(length)]
        rest = tuple(1 if axis in lead else length for axis, length in enumerate(shape))
        constant = np.ascontiguousarray(np.broadcast_to(value, rest))
        return self._node("full", (self.ops.row_input, constant), shape)

    def _node(self, operation: str, inputs: tuple[Operand, ...], shape: tuple[int, ...], **options: Any) -> Node:
        return Node(operation, inputs, shape, self.dtype, options)

    def _of(self, operation: str, inputs: tuple[Operand, ...], shape: tuple[int, ...], **options: Any) -> Traced:
        return Traced.of(self._node(operation, inputs, shape, **options), self.ops)

    def _set(self, value: Any) -> None:
        """Replace the whole array; `value` is broadcast."""
        self._write_value(0, self.shape[-1], value)

    def _write_value(self, start: int, stop: int, value: Any) -> None:
        shape = (*self.shape[:-1], stop - start)
        if isinstance(value, Traced):
            value = value.astype(self.dtype)
            if value.shape != shape:
                value = self._broadcast(value, shape)
            self.write(start, stop, value.node)
        else:
            self.write(start, stop, self._filled(value, shape))

    def _broadcast(self, value: Traced, shape: tuple[int, ...]) -> Traced:
        if broadcast_shape(value.shape, shape) != shape:
            raise ExportError(f"a traced operation writes an array of shape {value.shape} to one of shape {shape}.")
        return Traced.of(self._filled(0.0, shape), self.ops) + value

    # The interface of NumPy arrays -----------------------------------------------------------------------------

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def real(self) -> Traced:
        return self

    @property
    def T(self) -> Traced:
        raise ExportError("the transpose of an array of rows is no operation of exported models.")

    def __len__(self) -> int:
        return self.shape[0]

    def astype(self, dtype: Any, copy: bool = True) -> Traced:
        """Return the array in another dtype. Conversions between floating dtypes have no effect, see `cast`."""
        dtype = np.dtype(dtype)
        if dtype == self.dtype or (dtype.kind == "f" and self.dtype.kind == "f"):
            return Traced.of(self.node, self.ops) if copy else self
        return self.cast(dtype)

    def cast(self, dtype: np.dtype) -> Traced:
        """Return the array in exactly this dtype."""
        if dtype == self.dtype:
            return self
        return Traced.of(Node("cast", (self.node,), self.shape, np.dtype(dtype)), self.ops)

    def reshape(self, *shape: Any) -> Traced:
        shape = tuple(shape[0]) if isinstance(shape[0], tuple) else shape
        if -1 in shape:
            known = prod(length for length in shape if length != -1)
            shape = tuple(prod(self.shape) // known if length == -1 else length for length in shape)
        return self if shape == self.shape else self._of("reshape", (self.node,), shape)

    def clip(self, min: Any = None, max: Any = None, out: Any = None) -> Traced:  # noqa: A002
        value = self if min is None else self.apply("maximum", self, min)
        value = value if max is None else self.apply("minimum", value, max)
        if out is None:
            return value
        out._set(value)
        return out

    def sum(self, axis: Any = None, dtype: Any = None) -> Traced:
        return self._reduced("sum", axis)

    def max(self, axis: Any = None, initial: Any = None) -> Traced:
        return self._reduced("max", axis)

    def min(self, axis: Any = None, initial: Any = None) -> Traced:
        return -(-self)._reduced("max", axis)

    def argmax(self, axis: int) -> Traced:
        shape = tuple(np.delete(np.array(self.shape, dtype=object), axis))
        return Traced.of(Node("argmax", (self.node,), shape, INTEGER, {"axis": axis % self.ndim}), self.ops)

    def _reduced(self, operation: str, axis: Any) -> Traced:
        axis = axis if axis is None else axis % self.ndim
        if axis is None or is_rows(self.shape[axis]):
            raise ExportError(f"a {operation} over rows is no operation of exported models.")
        return self._of(operation, (self.node,), self.shape[:axis] + self.shape[axis + 1 :], axis=axis)

    def __bool__(self) -> bool:
        raise ExportError("a choice that depends on the rows cannot be exported.")

    def any(self) -> bool:
        return bool(self)

    def all(self) -> bool:
        return bool(self)

    def __getitem__(self, key: Any) -> Any:
        keys = self._keys(key)
        last = keys[-1]
        view = not any(one is None for one in keys)
        if view and all(_is_whole(one) for one in keys[:-1]) and isinstance(last, slice):
            start, stop, step = last.indices(self.shape[-1])
            if step == 1:
                return self if _is_whole(last) else View(self, start, stop)
        return self._selected(keys)

    def __setitem__(self, key: Any, value: Any) -> None:
        keys = self._keys(key)
        if any(one is None for one in keys) or not all(_is_whole(one) for one in keys[:-1]):
            raise ExportError("writing to some rows or inner axes is no operation of exported models.")
        last = keys[-1]
        if isinstance(last, slice):
            start, stop, _ = last.indices(self.shape[-1])
            self._write_value(start, max(start, stop), value)
            return
        last = int(last) % self.shape[-1]
        self._write_value(last, last + 1, value[..., None] if np.ndim(value) or isinstance(value, Traced) else value)

    def _keys(self, key: Any) -> list[Any]:
        """Return one key for each axis, and None for each new axis."""
        keys = list(key) if isinstance(key, tuple) else [key]
        place = next((i for i, one in enumerate(keys) if one is Ellipsis), None)
        missing = self.ndim - sum(one is not None and one is not Ellipsis for one in keys)
        if place is None:
            return keys + [slice(None)] * missing
        return keys[:place] + [slice(None)] * missing + keys[place + 1 :]

    def _selected(self, keys: list[Any]) -> Traced:
        value, axis, shape = self, 0, []
        for key in keys:
            if key is None:
                shape.append(1)
                continue
            if isinstance(key, slice):
                start, stop, step = key.indices(value.shape[axis])
                if is_rows(value.shape[axis]):
                    if not _is_whole(key):
                        raise ExportError("a choice of rows is no operation of exported models.")
                elif step != 1:
                    value = value.taken(np.arange(start, stop, step), axis)
                elif (start, stop) != (0, value.shape[axis]):
                    lengths = (*value.shape[:axis], max(stop - start, 0), *value.shape[axis + 1 :])
                    value = value._of("slice", (value.node,), lengths, axis=axis, start=start, stop=max(start, stop))
                shape.append(value.shape[axis])
            elif np.ndim(key) == 0:
                value = value.taken(np.array([int(key) % value.shape[axis]]), axis)
            else:
                value = value.taken(key, axis)
                shape.append(value.shape[axis])
            axis += 1
        return value.reshape(tuple(shape))

    def taken(self, places: np.ndarray, axis: int) -> Traced:
        """Return the entries `places` (k,) of an axis."""
        places = np.asarray(places, dtype=np.int32)
        lengths = (*self.shape[:axis], places.size, *self.shape[axis + 1 :])
        if places.size and (np.diff(places) == 1).all():
            if places.size == self.shape[axis]:
                return self
            start, stop = int(places[0]), int(places[-1]) + 1
            return self._of("slice", (self.node,), lengths, axis=axis, start=start, stop=stop)
        return self._of("take", (self.node, places), lengths, axis=axis)

    # Arithmetic ------------------------------------------------------------------------------------------------

    @staticmethod
    def apply(operation: str, *inputs: Any) -> Traced:
        """Return an entrywise operation of arrays, one of them traced; constants take the dtype of the traced ones."""
        traced = [one for one in inputs if isinstance(one, Traced)]
        kinds = {one.dtype for one in traced}
        dtype = max(kinds, key=lambda kind: ("biuf".index(kind.kind), kind.itemsize))
        arithmetic = operation not in ("and", "or", "not", "where")
        if arithmetic and dtype == BOOLEAN:
            dtype = traced[0].ops.dtype
        constants = [np.asarray(one) for one in inputs if not isinstance(one, Traced)]
        if arithmetic and dtype.kind == "i" and any(one.dtype.kind == "f" for one in constants):
            dtype = traced[0].ops.dtype
        operands = [_operand(one, dtype, keep=operation == "where" and place == 0) for place, one in enumerate(inputs)]
        shape = broadcast_shape(*(one.shape for one in operands))
        node = Node(operation, tuple(operands), shape, BOOLEAN if operation in TRUTH else dtype)
        return Traced.of(node, traced[0].ops)

    def __array_ufunc__(
        self, function: Any, method: str, *inputs: Any, out: Any = None, where: Any = True, **_: Any
    ) -> Any:
        name = function.__name__
        if method == "outer":
            left, right = inputs
            inputs = (left[(..., *(None,) * np.ndim(right))], right)
        elif method != "__call__":
            raise ExportError(f"`numpy.{name}.{method}` is no operation of exported models.")
        if name in _COMPOSED:
            value = _COMPOSED[name](*inputs)
        elif name in FUNCTIONS:
            value = Traced.apply(FUNCTIONS[name], *inputs)
        else:
            raise ExportError(f"the function `{name}` is no operation of exported models.")
        if out is None:
            return value
        target = out[0]
        if not isinstance(target, Traced):
            raise ExportError("a result of rows is written to a constant array.")
        target._set(value if where is True else Traced.apply("where", where, value, target))
        return target

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if function is np.where:
            return Traced.apply("where", *args)
        if function in (np.zeros_like, np.ones_like):
            return Traced.of(self._filled(float(function is np.ones_like), self.shape), self.ops)
        if function in (np.clip, np.sum, np.max, np.reshape):
            return getattr(args[0], function.__name__.replace("amax", "max"))(*args[1:], **kwargs)
        if function is np.shape:
            return self.shape
        if function is np.ndim:
            return self.ndim
        raise ExportError(f"the function `numpy.{function.__name__}` is no operation of exported models.")

    def __matmul__(self, other: Any) -> Traced:
        if not isinstance(other, np.ndarray):
            raise ExportError("a product of two arrays of rows is no operation of exported models.")
        return self._of("matmul", (self.node, other.astype(self.dtype, copy=False)), (*self.shape[:-1], other.shape[1]))

    def __abs__(self) -> Any:
        return self.apply("abs", self)

    def __neg__(self) -> Any:
        return self.apply("negative", self)

    def __invert__(self) -> Any:
        return self.apply("not", self)

    def __pow__(self, power: Any) -> Any:
        if power == 0.5:
            return self.apply("sqrt", self)
        return self * self if power == 2 else Traced.apply("power", self, power)


def _is_whole(key: Any) -> bool:
    return isinstance(key, slice) and key == slice(None)


def _operand(value: Any, dtype: np.dtype, *, keep: bool) -> Operand:
    if isinstance(value, Traced):
        return value.node if keep or value.dtype == dtype else value.cast(dtype).node
    return np.asarray(value) if keep else np.asarray(value, dtype=dtype)


def _binary(name: str, function: Any) -> None:
    def forward(self: Traced, other: Any) -> Any:
        return function(self, other)

    def backward(self: Traced, other: Any) -> Any:
        return function(other, self)

    def in_place(self: Traced, other: Any) -> Any:
        self._set(function(self, other))
        return self

    setattr(Traced, f"__{name}__", forward)
    setattr(Traced, f"__r{name}__", backward)
    setattr(Traced, f"__i{name}__", in_place)


for _name, _function in (
    ("add", np.add),
    ("sub", np.subtract),
    ("mul", np.multiply),
    ("truediv", np.divide),
    ("mod", np.remainder),
    ("and", np.logical_and),
    ("or", np.logical_or),
):
    _binary(_name, _function)
for _name, _function in (
    ("gt", np.greater),
    ("ge", np.greater_equal),
    ("lt", np.less),
    ("le", np.less_equal),
    ("eq", np.equal),
):
    setattr(Traced, f"__{_name}__", lambda self, other, function=_function: function(self, other))


class View(Traced):
    """Some entries along the last axis of another array, or all of them in another shape; writes go to that array."""

    def __init__(self, base: Traced, start: int, stop: int, shape: tuple[int, ...] | None = None):
        self.base, self.start, self.stop = base, start, stop
        self.plain = (*base.shape[:-1], stop - start)
        self.shape, self.dtype, self.ops = self.plain if shape is None else shape, base.dtype, base.ops

    def read(self, start: int, stop: int) -> Node:
        if self.shape == self.plain:
            return self.base.read(self.start + start, self.start + stop)
        whole = self._node("reshape", (self.base.read(self.start, self.stop),), self.shape)
        return self._part(whole, 0, start, stop, self.shape[-1])

    def write(self, start: int, stop: int, node: Node) -> None:
        if self.shape == self.plain:
            self.base.write(self.start + start, self.start + stop, node)
            return
        if (start, stop) != (0, self.shape[-1]):
            raise ExportError("writing to a part of a reshaped array is no operation of exported models.")
        self.base.write(self.start, self.stop, self._node("reshape", (node,), self.plain))

    def reshape(self, *shape: Any) -> Traced:
        shape = tuple(shape[0]) if isinstance(shape[0], tuple) else shape
        if -1 in shape:
            return super().reshape(shape)
        return View(self.base, self.start, self.stop, shape)
