"""The backend that records: the core operations on traced arrays, with the generic bodies of all primitives."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import hadamard

from phimap._files import one_line
from phimap.exports.complex_numbers import Complex
from phimap.exports.graph import (
    FLOAT,
    INTEGER,
    ROWS,
    TRACING_ERRORS,
    ExportError,
    Graph,
    Node,
    has_rows,
    is_rows,
    without_form,
)
from phimap.exports.traced import Traced
from phimap.kernels.geometry import (
    angles,
    city_block_distances,
    row_blocks,
    row_norms,
    squared_distances,
    squared_norms,
    unit_rows,
)
from phimap.ops.base import Array
from phimap.ops.numpy_ops import NumpyOps
from phimap.ops.primitives.activation import interpolate
from phimap.ops.primitives.kernel_matrix import kernel_matrix
from phimap.ops.primitives.piecewise import piecewise_linear

# Largest order of the Hadamard matrices whose products make up a Walsh-Hadamard transform, as for tensors.
_HADAMARD_ORDER = 128


def input_node(width: int, dtype: np.dtype) -> Node:
    """Return an input of rows."""
    return Node("input", (), (ROWS, width), dtype)


class TraceOps(NumpyOps):
    """Core operations that record nodes for traced arrays; constants are NumPy arrays.

    Parameters
    ----------
    inputs : dict of str to Node
    dtype : numpy.dtype, default=float32
        Dtype of constants and results.

    Attributes
    ----------
    row_input : Node
        The first input. All traced arrays have its number of rows.
    """

    backend = "trace"

    def __init__(self, inputs: dict[str, Node], dtype: np.dtype = FLOAT):
        super().__init__(dtype)
        self.inputs, self.row_input = inputs, next(iter(inputs.values()))

    @classmethod
    def of_width(cls, width: int, dtype: np.dtype = FLOAT, given: np.dtype = FLOAT) -> TraceOps:
        """Return a tracing backend whose only input is ``"X"``, with `width` columns of the dtype `given`."""
        return cls({"X": input_node(width, given)}, dtype)

    @property
    def input(self) -> Traced:
        """The first input, in the dtype of the backend."""
        return self.traced(self.row_input).cast(self.dtype)

    def traced(self, node: Node) -> Traced:
        """Return a node as an array."""
        return Traced.of(node, self)

    def graph(self, outputs: dict[str, Traced]) -> Graph:
        """Return the graph of named outputs."""
        return Graph(self.inputs, {name: value.node for name, value in outputs.items()})

    def to_host(self, X: Array) -> Any:
        if isinstance(X, Traced):
            raise ExportError("an operation of this model runs on the host alone.")
        return X

    def empty(self, shape: tuple[int, ...]) -> Array:
        return Traced(shape, self.dtype, self) if has_rows(shape) else super().empty(shape)

    def arange(self, stop: int) -> Array:
        if is_rows(stop):
            raise ExportError("an operation of this model numbers the rows.")
        return super().arange(stop)

    def contiguous(self, X: Array) -> Array:
        return X if isinstance(X, Traced | Complex) else super().contiguous(X)

    def is_finite(self, X: Array) -> bool:
        return isinstance(X, Traced) or super().is_finite(X)

    def floating(self, X: Array) -> Array:
        return X.astype(self.dtype)

    def reversed(self, X: Array) -> Array:
        if isinstance(X, Traced):
            raise ExportError("an operation of this model reverses the rows.")
        return super().reversed(X)

    def truncated(self, X: Array) -> Array:
        return X.cast(INTEGER) if isinstance(X, Traced) else super().truncated(X)

    def multiply(self, A: Array, B: Array, out: Array) -> None:
        out[...] = A * B

    def matmul_upper(self, X: Array, W: Array) -> Array:
        return X @ W

    def matmul_rows(self, Z: Array, W: Array, n_jobs: int | None) -> Array:
        return Z @ W

    def columns(self, X: Array, places: Array) -> Array:
        if isinstance(X, Complex):
            return Complex(self.columns(X.real, places), self.columns(X.imag, places))
        return X.taken(places, 1) if isinstance(X, Traced) else X[:, places]

    def add_columns(self, out: Array, places: Array, X: Array) -> None:
        if isinstance(X, Complex):
            self.add_columns(out.real, places, X.real)
            self.add_columns(out.imag, places, X.imag)
        elif isinstance(X, Traced):
            out += _scattered(X, np.asarray(places), out.shape[1])
        else:
            super().add_columns(out, places, X)

    def row_norms(self, X: Array) -> Array:
        return row_norms(X) if isinstance(X, Traced) else super().row_norms(X)

    def reciprocal(self, x: Array) -> Array:
        if not isinstance(x, Traced):
            return super().reciprocal(x)
        is_zero = x == 0
        return Traced.apply("where", is_zero, 0.0, 1.0 / Traced.apply("where", is_zero, 1.0, x))

    def fwht(self, X: Array) -> Array:
        if not isinstance(X, Traced):
            return super().fwht(X)
        rows, width = X.shape
        right = width
        while right > 1:
            # H of order ab is the Kronecker product of the Hadamard matrices of orders a and b.
            order = min(right, _HADAMARD_ORDER)
            right //= order
            blocks = X.reshape(rows, width // (order * right), order, right)
            matrix = hadamard(order).astype(np.float32)
            X = _swapped(_swapped(blocks) @ matrix) if right > 1 else blocks.reshape(rows, -1, order) @ matrix
        return X.reshape(rows, width)

    def rfft(self, X: Array, length: int | None = None) -> Array:
        if not isinstance(X, Traced):
            return super().rfft(X, length)
        length = X.shape[-1] if length is None else length
        if length > X.shape[-1]:
            padded = self.empty((*X.shape[:-1], length))
            padded[..., : X.shape[-1]] = X
            X = padded
        return self.as_complex(X._of("rfft", (X.node,), (*X.shape[:-1], length // 2 + 1, 2)))

    def irfft(self, X: Array, length: int) -> Array:
        if not isinstance(X, Complex):
            return super().irfft(X, length)
        pairs = self.as_pairs(X)
        return pairs._of("irfft", (pairs.node,), (*X.shape[:-1], length), length=length)

    def fft(self, Z: Array, *, conjugate: bool = False) -> Array:
        if not isinstance(Z, Complex):
            return super().fft(Z, conjugate=conjugate)
        pairs = self.as_pairs(Z)
        return self.as_complex(pairs._of("fft", (pairs.node,), pairs.shape, conjugate=conjugate))

    def as_complex(self, X: Array) -> Array:
        return Complex(X[..., 0], X[..., 1]) if isinstance(X, Traced) else super().as_complex(X)

    def as_pairs(self, Z: Array) -> Array:
        if not isinstance(Z, Complex):
            return super().as_pairs(Z)
        pairs = self.empty((*Z.shape, 2))
        pairs[..., 0], pairs[..., 1] = Z.real, Z.imag
        return pairs

    def oriented(self, Z: Array, orientations: Array, scale: float = 1.0) -> Array:
        if not isinstance(Z, Complex):
            return super().oriented(Z, orientations, scale)
        return Complex(Z.real * scale, Z.imag * (orientations * scale))


def _swapped(X: Traced) -> Traced:
    """Return `X` with its last two axes exchanged."""
    shape = (*X.shape[:-2], X.shape[-1], X.shape[-2])
    return X._of("swapaxes", (X.node,), shape)


def _scattered(X: Traced, places: np.ndarray, width: int) -> Traced:
    """Return an array (r, width) to whose column ``places[j]`` column j of `X` (r, k) is added, for all j.

    Constant places need no scattering: column c sums the columns that go there, padded with a column of zeros.
    """
    counts = np.bincount(places, minlength=width)
    order = np.argsort(places, kind="stable")
    starts = np.cumsum(counts) - counts
    sources = np.full((width, max(1, counts.max(initial=0))), places.size)
    sources[places[order], np.arange(places.size) - starts[places[order]]] = order
    padded = X.ops.empty((X.shape[0], places.size + 1))
    padded[:, : places.size] = X
    taken = padded.taken(sources.reshape(-1), 1).reshape(X.shape[0], *sources.shape)
    return taken.sum(axis=2)


@interpolate.override("trace")
def _(ops: Any, projected: Array, table: Array, reach: float, scale: Array, out: Array, first: int) -> None:
    last = table.shape[0] - 1
    places = ((projected + reach) * (0.5 * last / reach)).clip(0, last)
    number = ops.truncated(places.clip(0, last - 1))
    slopes = table[1:] - table[:-1]
    values = entries(table, number) + (places - number.cast(FLOAT)) * entries(slopes, number)
    ops.multiply(values, scale, out[:, first : first + projected.shape[1]])


def entries(table: np.ndarray, number: Traced) -> Traced:
    """Return the entries of a constant `table` (t, ...) at the indices `number`."""
    shape = (*number.shape, *table.shape[1:])
    return Traced.of(Node("take", (table, number.node), shape, table.dtype, {"axis": 0}), number.ops)


@piecewise_linear.override("trace")
def _(ops: Any, X: Array, knots: Array, inverses: Array, levels: Array) -> Array:
    # All pieces are processed at once. A loop would write a line of the exported program for each piece.
    shares = ((X[:, :, None] - knots) * inverses).clip(0.0, 1.0)
    return (shares * np.diff(levels, axis=1)).sum(axis=2) + levels[:, 0]


@kernel_matrix.override("trace")
def _(ops: Any, kernel: Any, X: Array, landmarks: Array) -> Array:
    return traced_kernel(kernel, X, landmarks)


def traced_kernel(kernel: Any, X: Traced, Y: np.ndarray) -> Traced:
    """Return the kernel values (r, l) of traced rows and the l landmarks `Y`.

    A kernel can be traced if it only uses functions of NumPy, which traced arrays record, and of
    `phimap.kernels.geometry`.

    Raises
    ------
    ExportError
        If the kernel uses other operations.
    """
    try:
        return kernel._evaluate(X, Y)
    except TRACING_ERRORS as error:
        raise without_form(f"kernel {one_line(repr(kernel))}", error) from error


@squared_distances.register
def _(X: Traced, Y: np.ndarray, scale: Any = 1.0) -> Any:
    # The formula |x|^2 + |y|^2 - 2 <x, y> loses digits by cancellation. In float64, the remaining digits suffice for
    # float32 results.
    centre = Y.mean(axis=0)
    left, right = (X - centre) * scale, (Y.astype(np.float64) - centre) * scale
    wide = left.cast(np.dtype(np.float64))
    squared = (wide * wide).sum(axis=1)[:, None] - wide @ (2 * right.T) + np.square(right).sum(axis=1)
    return squared.clip(min=0).cast(X.dtype)


@city_block_distances.register
def _(X: Traced, Y: np.ndarray, scale: Any = 1.0) -> Any:
    factors = np.broadcast_to(np.asarray(scale, dtype=np.float64), X.shape[1])
    others = np.ascontiguousarray((Y * factors).T, dtype=X.dtype)
    return X._of("city_block", ((X * factors).node, others), (X.shape[0], len(Y)))


@row_blocks.register
def _(X: Traced, step: int) -> Any:
    return [X]


@squared_norms.register
def _(X: Traced) -> Any:
    return (X * X).sum(axis=1)


@row_norms.register
def _(X: Traced) -> Any:
    peak = abs(X).max(axis=1)
    scaled = X * X.ops.reciprocal(peak)[:, None]
    return peak * np.sqrt((scaled * scaled).sum(axis=1))


@unit_rows.register
def _(X: Traced) -> Any:
    return X * X.ops.reciprocal(row_norms(X))[:, None]


@angles.register
def _(X: Traced, Y: np.ndarray) -> Any:
    # The angle follows from the chord of the unit rows, or from the chord to the opposite row if that is shorter.
    left, right = unit_rows(X), unit_rows(Y)
    chords = squared_distances(left, np.concatenate([right, -right]))
    near, far = chords[:, : len(Y)], chords[:, len(Y) :]
    acute = 2.0 * np.arcsin((0.5 * np.sqrt(np.minimum(near, far))).clip(0.0, 1.0))
    is_zero = (abs(X).max(axis=1) == 0)[:, None]
    return np.where(is_zero, 0.5 * np.pi, np.where(near <= far, acute, np.pi - acute))
