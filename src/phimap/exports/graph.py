"""The graph of an exported model: operations on arrays, from which the writers make ONNX nodes and NumPy source."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, TypeAlias

import numpy as np

from phimap._files import one_line

#: This number stands for the number of rows of the input while a model is traced. Its multiples stand for multiples of
#: the number of rows. It is a prime above every other length, so no other length is one of its multiples.
ROWS = 2**61 - 1

FLOAT: np.dtype = np.dtype(np.float32)
DOUBLE: np.dtype = np.dtype(np.float64)
INTEGER: np.dtype = np.dtype(np.int64)
BOOLEAN: np.dtype = np.dtype(np.bool_)

#: An input of a node: another node, or a constant.
Operand: TypeAlias = "Node | np.ndarray"


class ExportError(ValueError):
    """A model has a part that cannot be exported; the message names it."""


#: Errors that code raises if it uses traced arrays in a way that a graph cannot represent.
TRACING_ERRORS = (ArithmeticError, AssertionError, AttributeError, MemoryError, TypeError, ValueError)


def without_form(what: str, error: BaseException) -> ExportError:
    """Return the error for a part of a model, named by `what`, whose code failed with traced arrays."""
    reason = one_line(error) if isinstance(error, ExportError) else "it computes more than graphs of arrays can state."
    return ExportError(f"the {what} has no exported form: {reason}")


@dataclass(frozen=True, eq=False)
class Node:
    """The result of one operation.

    Attributes
    ----------
    operation : str
        Name of the operation, see `phimap.exports.numpy_source` and `phimap.exports.onnx_model`.
    inputs : tuple of Node or ndarray
    shape : tuple of int
        Multiples of `ROWS` stand for multiples of the number of rows.
    dtype : numpy.dtype
    options : dict
        Arguments that are not arrays.
    """

    operation: str
    inputs: tuple[Operand, ...]
    shape: tuple[int, ...]
    dtype: np.dtype
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Graph:
    """Named outputs as functions of inputs.

    Attributes
    ----------
    inputs : dict of str to Node
    outputs : dict of str to Node
    """

    inputs: dict[str, Node]
    outputs: dict[str, Node]

    def nodes(self) -> list[Node]:
        """Return all nodes on which the outputs depend, each after its inputs."""
        found: dict[int, Node] = {}
        # Graphs of sketches are deep. The search therefore uses an explicit stack instead of recursion.
        stack: list[tuple[Node, bool]] = [(node, False) for node in reversed(list(self.outputs.values()))]
        while stack:
            node, complete = stack.pop()
            if id(node) in found:
                continue
            if complete:
                found[id(node)] = node
                continue
            stack.append((node, True))
            stack += [(one, False) for one in reversed(node.inputs) if isinstance(one, Node)]
        return list(found.values())


def is_rows(length: int) -> bool:
    """Whether a length stands for a number of rows."""
    return length >= ROWS and length % ROWS == 0


def has_rows(shape: tuple[int, ...]) -> bool:
    """Whether a shape depends on the number of rows."""
    return any(map(is_rows, shape))


def broadcast_shape(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape to which arrays of these shapes are broadcast.

    Raises
    ------
    ExportError
        If the shapes do not fit.
    """
    n_axes = max(map(len, shapes))
    padded = [(1,) * (n_axes - len(shape)) + shape for shape in shapes]
    result = []
    for lengths in zip(*padded, strict=True):
        longest = set(lengths) - {1}
        if len(longest) > 1:
            raise ExportError(f"a traced operation has arrays of shapes {shapes}, which do not fit.")
        result.append(longest.pop() if longest else 1)
    return tuple(result)


def array_key(array: np.ndarray) -> tuple[str, tuple[int, ...], bytes]:
    """Return a key of a constant. Constants with equal keys are written once."""
    return array.dtype.str, array.shape, sha256(np.ascontiguousarray(array).tobytes()).digest()
