"""ONNX models of graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from phimap.exports.graph import ROWS, Graph, Node, Operand, array_key, is_rows

#: Version of the set of standard operators. ONNX Runtime 1.14 of 2023 is the first release with this version.
OPSET = 18
# Version of the file format that was published with the operators.
_IR_VERSION = 8
# Prefix of the names of inner values, which distinguishes them from the names of columns.
_INNER = "phimap/"
# Name and version of the set of operators for machine learning, such as `LabelEncoder` and `TreeEnsembleRegressor`.
_ML_DOMAIN, _ML_OPSET = "ai.onnx.ml", 3
# Operators that ONNX Runtime implements only for float32.
_SINGLE = {"Acos", "Asin", "Asinh", "Erf"}
# Operations that correspond to one operator with the same inputs.
_OPERATORS = {
    "abs": "Abs",
    "add": "Add",
    "and": "And",
    "arccos": "Acos",
    "arcsin": "Asin",
    "arcsinh": "Asinh",
    "cos": "Cos",
    "divide": "Div",
    "equal": "Equal",
    "erf": "Erf",
    "exp": "Exp",
    "floor": "Floor",
    "greater": "Greater",
    "greater_equal": "GreaterOrEqual",
    "isnan": "IsNaN",
    "less": "Less",
    "less_equal": "LessOrEqual",
    "log": "Log",
    "matmul": "MatMul",
    "maximum": "Max",
    "minimum": "Min",
    "multiply": "Mul",
    "negative": "Neg",
    "not": "Not",
    "or": "Or",
    "power": "Pow",
    "sign": "Sign",
    "sin": "Sin",
    "sqrt": "Sqrt",
    "subtract": "Sub",
    "tanh": "Tanh",
    "where": "Where",
}


def needs_onnx() -> Any:
    """Import onnx.

    Raises
    ------
    ImportError
        If it is not installed.
    """
    try:
        import onnx
    except ImportError as error:
        raise ImportError(
            "an ONNX model needs onnx, which is not installed. Run pip install onnx onnxruntime."
        ) from error
    return onnx


class OnnxWriter:
    """Writes the nodes of a graph as ONNX nodes and its constants as initializers.

    Attributes
    ----------
    nodes, initializers : list of onnx messages
    names : dict of int to str
        Names of the values of graph nodes, by the identity of the node.
    """

    def __init__(self):
        self.onnx = needs_onnx()
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []
        self.names: dict[int, str] = {}
        self._constants: dict[Any, str] = {}

    def type_of(self, dtype: np.dtype) -> int:
        """Return the number of an element type in ONNX; objects are text."""
        if dtype.kind in "OU":
            return self.onnx.TensorProto.STRING
        return self.onnx.helper.np_dtype_to_tensor_dtype(dtype)

    def add(self, operator: str, inputs: list[str], **attributes: Any) -> str:
        """Add a node with one output, and return the name of the output."""
        name = f"{_INNER}v{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(operator, inputs, [name], **attributes))
        return name

    def constant(self, array: np.ndarray) -> str:
        """Return the name of an initializer."""
        key = array_key(array)
        if key not in self._constants:
            self._constants[key] = f"{_INNER}w{len(self._constants)}"
            self.initializers.append(
                self.onnx.numpy_helper.from_array(np.ascontiguousarray(array), self._constants[key])
            )
        return self._constants[key]

    def integers(self, *values: int) -> str:
        """Return the name of an initializer of integers."""
        return self.constant(np.array(values, dtype=np.int64))

    def operand(self, operand: Operand) -> str:
        """Return the name of an input of a node."""
        return self.names[id(operand)] if isinstance(operand, Node) else self.constant(operand)

    def write(self, graph: Graph, inputs: dict[str, str]) -> dict[str, str]:
        """Write all nodes of a graph whose inputs have the given names; return the names of its outputs."""
        self.names |= {id(node): inputs[name] for name, node in graph.inputs.items()}
        for node in graph.nodes():
            if id(node) not in self.names:
                names = [self.operand(one) for one in node.inputs]
                write = _WRITERS.get(node.operation, _direct)
                self.names[id(node)] = write(self, node, *names)
        return {name: self.names[id(node)] for name, node in graph.outputs.items()}


def _direct(writer: OnnxWriter, node: Node, *values: str) -> str:
    operator = _OPERATORS[node.operation]
    if operator not in _SINGLE or node.dtype == np.float32:
        return writer.add(operator, list(values))
    single, own = writer.type_of(np.dtype(np.float32)), writer.type_of(node.dtype)
    return writer.add("Cast", [writer.add(operator, [writer.add("Cast", list(values), to=single)])], to=own)


def _level(writer: OnnxWriter, node: Node, cells: str) -> str:
    levels, missing = node.options["levels"], node.options["missing"]
    places = [*range(len(levels)), *[len(levels)] * len(missing)]
    options = {"keys_strings": [*levels, *missing], "values_int64s": places, "default_int64": len(levels) + 1}
    return writer.add("LabelEncoder", [cells], domain=_ML_DOMAIN, **options)


def _take(writer: OnnxWriter, node: Node, value: str, places: str) -> str:
    return writer.add("Gather", [value, places], axis=node.options["axis"])


def _slice(writer: OnnxWriter, node: Node, value: str) -> str:
    bounds = [writer.integers(node.options[name]) for name in ("start", "stop", "axis")]
    return writer.add("Slice", [value, *bounds])


def _reshape(writer: OnnxWriter, node: Node, value: str) -> str:
    return writer.add("Reshape", [value, writer.integers(*(-1 if is_rows(one) else one for one in node.shape))])


def _full(writer: OnnxWriter, node: Node, rows: str, constant: str) -> str:
    count = writer.add("Shape", [rows], start=0, end=1)
    lengths = [
        writer.add("Mul", [count, writer.integers(length // ROWS)]) if is_rows(length) else writer.integers(length)
        for length in node.shape
    ]
    return writer.add("Expand", [constant, writer.add("Concat", lengths, axis=0)])


def _reduced(operator: str) -> Callable[..., str]:
    def write(writer: OnnxWriter, node: Node, value: str) -> str:
        return writer.add(operator, [value, writer.integers(node.options["axis"])], keepdims=0)

    return write


def _city_block(writer: OnnxWriter, node: Node, value: str, columns: str) -> str:
    # One column at a time: no temporary array is then larger than the result.
    rows, total = node.inputs[1], ""
    assert isinstance(rows, np.ndarray)
    for column in range(len(rows)):
        own = writer.add("Slice", [value, *(writer.integers(one) for one in (column, column + 1, 1))])
        step = writer.add("Abs", [writer.add("Sub", [own, writer.constant(rows[column])])])
        total = writer.add("Add", [total, step]) if total else step
    return total


def _swapaxes(writer: OnnxWriter, node: Node, value: str) -> str:
    n_axes = len(node.shape)
    return writer.add("Transpose", [value], perm=[*range(n_axes - 2), n_axes - 1, n_axes - 2])


def _rfft(writer: OnnxWriter, node: Node, value: str) -> str:
    axis = len(node.shape) - 2
    wide = writer.add("Unsqueeze", [value, writer.integers(axis + 1)])
    return writer.add("DFT", [wide], axis=axis, onesided=1)


def _irfft(writer: OnnxWriter, node: Node, pairs: str) -> str:
    # The other half of the transform of a real sequence holds the conjugates of the first half, in reverse.
    length, axis = node.options["length"], len(node.shape) - 1
    places = np.arange(length)
    places = np.minimum(places, length - places)
    signs = np.ones((length, 2), np.float32)
    signs[length // 2 + 1 :, 1] = -1
    whole = writer.add(
        "Mul", [writer.add("Gather", [pairs, writer.constant(places)], axis=axis), writer.constant(signs)]
    )
    result = writer.add("DFT", [whole], axis=axis, inverse=1)
    real = writer.add("Slice", [result, writer.integers(0), writer.integers(1), writer.integers(axis + 1)])
    return writer.add("Squeeze", [real, writer.integers(axis + 1)])


def _fft(writer: OnnxWriter, node: Node, pairs: str) -> str:
    axis = len(node.shape) - 2
    result = writer.add("DFT", [pairs], axis=axis, inverse=int(node.options["conjugate"]))
    if not node.options["conjugate"]:
        return result
    return writer.add("Mul", [result, writer.constant(np.array(node.shape[axis], np.float32))])


def _regions(writer: OnnxWriter, node: Node, value: str, regions: str) -> str:
    # The rows of each region are gathered and corrected; the results are scattered to the places of the rows.
    places, results = [], []
    for region, body in enumerate(node.options["bodies"]):
        if body is not None:
            chosen = writer.add("NonZero", [writer.add("Equal", [regions, writer.constant(np.array(region))])])
            chosen = writer.add("Squeeze", [chosen, writer.integers(0)])
            own = writer.add("Gather", [value, chosen], axis=0)
            results.append(writer.write(body, {"X": own})["values"])
            places.append(chosen)
    place = writer.add("Unsqueeze", [writer.add("Concat", places, axis=0), writer.integers(1)])
    zeros = _full(writer, node, value, writer.constant(np.zeros((1, 1), node.dtype)))
    return writer.add("ScatterND", [zeros, place, writer.add("Concat", results, axis=0)])


def _trees(writer: OnnxWriter, node: Node, value: str) -> str:
    # The nodes of each tree are numbered in the order of a traversal from its root.
    trees, columns = node.options, ("treeids", "nodeids", "featureids", "values", "truenodeids", "falsenodeids")
    nodes: dict[str, list[Any]] = {f"nodes_{name}": [] for name in columns}
    modes: list[str] = []
    leaves: dict[str, list[Any]] = {f"target_{name}": [] for name in ("treeids", "nodeids", "ids", "weights")}
    n_targets = node.shape[1]
    for tree, root in enumerate(trees["roots"].tolist()):
        places, number = [root], 0
        while number < len(places):
            place, number = places[number], number + 1
            ends = [0, 0]
            if place >= 0:
                ends = [len(places), len(places) + 1]
                places += trees["children"][place].tolist()
            else:
                for target, weight in enumerate(trees["values"][-1 - place].tolist()):
                    for column, entry in zip(leaves.values(), (tree, number - 1, target, weight), strict=True):
                        column.append(entry)
            split = (int(trees["columns"][place]), float(trees["thresholds"][place])) if place >= 0 else (0, 0.0)
            for column, entry in zip(nodes.values(), (tree, number - 1, *split, *ends), strict=True):
                column.append(entry)
            modes.append("BRANCH_LEQ" if place >= 0 else "LEAF")
    base = trees["baseline"].tolist()
    options: dict[str, Any] = {"nodes_modes": modes, "base_values": base, "n_targets": n_targets, **nodes, **leaves}
    return writer.add("TreeEnsembleRegressor", [value], domain=_ML_DOMAIN, **options)


_WRITERS: dict[str, Callable[..., str]] = {
    "argmax": lambda writer, node, value: writer.add("ArgMax", [value], axis=node.options["axis"], keepdims=0),
    "cast": lambda writer, node, value: writer.add("Cast", [value], to=writer.type_of(node.dtype)),
    "city_block": _city_block,
    "concatenate": lambda writer, node, *parts: writer.add("Concat", list(parts), axis=node.options["axis"]),
    "fft": _fft,
    "full": _full,
    "irfft": _irfft,
    "level": _level,
    "max": _reduced("ReduceMax"),
    "regions": _regions,
    "reshape": _reshape,
    "rfft": _rfft,
    "slice": _slice,
    "sum": _reduced("ReduceSum"),
    "swapaxes": _swapaxes,
    "take": _take,
    "trees": _trees,
}


def onnx_model(graph: Graph, labels: np.ndarray | None = None) -> Any:
    """Return the ONNX model of a graph.

    Parameters
    ----------
    graph : Graph
    labels : ndarray of shape (k,), optional
        Values of the output ``"label"``, whose node holds indices of them.

    Returns
    -------
    onnx.ModelProto
    """
    writer = OnnxWriter()
    helper = writer.onnx.helper
    names = writer.write(graph, {name: name for name in graph.inputs})
    if labels is not None:
        names["label"] = writer.add("Gather", [writer.constant(labels), names["label"]], axis=0)
    for name, value in names.items():
        writer.nodes.append(helper.make_node("Identity", [value], [name]))

    # The constant of an operand is unused if an operator takes the operand as an attribute or in parts.
    used = {name for node in writer.nodes for name in node.input}
    initializers = [one for one in writer.initializers if one.name in used]

    def described(name: str, shape: tuple[int, ...], dtype: np.dtype) -> Any:
        lengths = ["n" if is_rows(length) else length for length in shape]
        return helper.make_tensor_value_info(name, writer.type_of(dtype), lengths)

    dtypes = {
        name: node.dtype if name != "label" or labels is None else labels.dtype for name, node in graph.outputs.items()
    }
    whole = helper.make_graph(
        writer.nodes,
        "phimap",
        [described(name, node.shape, node.dtype) for name, node in graph.inputs.items()],
        [described(name, node.shape, dtypes[name]) for name, node in graph.outputs.items()],
        initializers,
    )
    domains = {node.domain for node in writer.nodes}
    opsets = [helper.make_opsetid("", OPSET)]
    opsets += [helper.make_opsetid(_ML_DOMAIN, _ML_OPSET)] if _ML_DOMAIN in domains else []
    model = helper.make_model(whole, opset_imports=opsets, producer_name="phimap")
    model.ir_version = _IR_VERSION
    return model


def run_onnx(model: bytes, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Run an ONNX model on arrays in ONNX Runtime, on the CPU and with one thread.

    Raises
    ------
    ImportError
        If ONNX Runtime is not installed.
    """
    try:
        import onnxruntime
    except ImportError as error:
        raise ImportError(
            "the check of an ONNX model needs onnxruntime, which is not installed. Run pip install onnx onnxruntime."
        ) from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    results: list[Any] = list(session.run(names, inputs))
    return dict(zip(names, results, strict=True))
