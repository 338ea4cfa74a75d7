"""NumPy source of a graph: one line for each node, or one line for several nodes that are used once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from io import StringIO
from itertools import pairwise
from tokenize import OP, generate_tokens
from typing import Any

import numpy as np

from phimap.exports.graph import ROWS, ExportError, Graph, Node, Operand, array_key, is_rows

# Longest line of source.
_WIDTH = 120
# Precedence of Python's operators, from loose to tight; a call or a subscript binds tightest.
_LOOSE, _COMPARED, _OR, _AND, _SUM, _PRODUCT, _SIGN, _POWER, _TIGHT = range(9)

# Precedence and format of each operator.
_OPERATORS = {
    "add": (_SUM, "{} + {}"),
    "subtract": (_SUM, "{} - {}"),
    "multiply": (_PRODUCT, "{} * {}"),
    "divide": (_PRODUCT, "{} / {}"),
    "matmul": (_PRODUCT, "{} @ {}"),
    "negative": (_SIGN, "-{}"),
    "not": (_SIGN, "~{}"),
    "power": (_POWER, "{} ** {}"),
    "greater": (_COMPARED, "{} > {}"),
    "greater_equal": (_COMPARED, "{} >= {}"),
    "less": (_COMPARED, "{} < {}"),
    "less_equal": (_COMPARED, "{} <= {}"),
    "equal": (_COMPARED, "{} == {}"),
    "and": (_AND, "{} & {}"),
    "or": (_OR, "{} | {}"),
}
# Functions that the source calls, by the operation that needs them.
HELPERS = {
    "erf": '''
def erf(x):
    """Error function, to 1.5e-7 (Abramowitz and Stegun 1964, Formula 7.1.26)."""
    t = 1 / (1 + 0.3275911 * np.abs(x))
    series = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    return np.sign(x) * (1 - series * np.exp(-x * x))
''',
    "city_block": '''
def city_block(x, y):
    """City-block distances between the rows of x and the columns of y."""
    total = np.zeros((len(x), y.shape[1]), x.dtype)
    for j in range(len(y)):
        total += np.abs(x[:, j, None] - y[j])
    return total
''',
    "level": '''
def places(cells, levels):
    """Index of the level of each cell; a missing cell and an unknown level have the next two."""
    missing, unknown = len(levels), len(levels) + 1
    return np.array([[missing if cell == "" else levels.get(cell, unknown)] for cell in cells[:, 0]], np.int64)
''',
    "rfft": '''
def rfft(x):
    """Real and imaginary parts of the Fourier transform of the last axis, side by side on a new axis."""
    z = np.fft.rfft(x)
    return np.stack([z.real, z.imag], axis=-1).astype(x.dtype)
''',
    "irfft": '''
def irfft(pairs, length):
    """Inverse of rfft."""
    return np.fft.irfft(pairs[..., 0] + 1j * pairs[..., 1], length).astype(pairs.dtype)
''',
    "fft": '''
def fft(pairs, conjugate):
    """Fourier transform of complex numbers, whose parts are on the last axis; or its unscaled inverse."""
    z = pairs[..., 0] + 1j * pairs[..., 1]
    z = np.fft.ifft(z, norm="forward") if conjugate else np.fft.fft(z)
    return np.stack([z.real, z.imag], axis=-1).astype(pairs.dtype)
''',
    "trees": '''
def trees(x, columns, thresholds, children, values, roots, baseline):
    """Sums of the leaves in which the rows of x lie; -1 - i is leaf i, with a value for each target."""
    sums = np.tile(baseline, (len(x), 1))
    step = 1 + 10**6 // (roots.size * sums.shape[1])
    for first in range(0, len(x), step):
        part = slice(first, first + step)
        place = np.tile(roots, (len(x[part]), 1))
        row = np.arange(len(place))[:, None]
        while (place >= 0).any():
            split = np.maximum(place, 0)
            above = x[part][row, columns[split]] > thresholds[split]
            place = np.where(place < 0, place, children[split, above.astype(np.int64)])
        sums[part] += values[-1 - place].sum(axis=1)
    return sums
''',
}

_CORRECTIONS = '''
def corrections(x, regions, w):
    """Values of the kernel model of each row's region; a region without a model gives 0."""
    values = np.zeros((len(x), {width}), x.dtype)
    for region in np.unique(regions):
        rows = regions == region
        if f"{{region}}.w0" not in w:
            continue
        X = x[rows]
{lines}
    return values
'''


class GraphSource:
    """The source of a graph, and the constants that it reads.

    Parameters
    ----------
    graph : Graph
    item : str
        The expression of a constant, in which ``{}`` stands for its name.
    inputs : dict of str to str, optional
        The expressions of the inputs; by default their names.

    Attributes
    ----------
    lines : list of str
        Statements. Inputs have their own names, the constants are items of `w`.
    constants : dict of str to ndarray
    levels : dict of str to tuple of str
        Levels of categories, which are also items of `w`.
    results : dict of str to str
        The expression of each output.
    helpers : str
        Definitions of the functions that the statements call.
    """

    def __init__(self, graph: Graph, item: str = 'w["{}"]', inputs: dict[str, str] | None = None):
        self.lines: list[str] = []
        self._item = item
        self.constants: dict[str, np.ndarray] = {}
        self.levels: dict[str, tuple[str, ...]] = {}
        self._names: dict[Any, str] = {}
        nodes = graph.nodes()
        operations = {node.operation for node in nodes}
        self._corrections, self._of_regions, self._n_regions = set[str](), set[str](), 0
        self._uses = Counter(id(one) for node in nodes for one in node.inputs if isinstance(one, Node))
        self._texts: dict[int, tuple[int, str]] = {}
        for name, node in graph.inputs.items():
            self._texts[id(node)] = _TIGHT, name if inputs is None else inputs[name]
        results, n_names = {id(node) for node in graph.outputs.values()}, 0
        for node in nodes:
            if id(node) in self._texts:
                continue
            precedence, text = self._expression(node)
            if self._uses[id(node)] > 1 or id(node) in results or len(text) > _WIDTH - 40:
                n_names += 1
                name = f"a{n_names}"
                self.lines += _wrapped(f"{name} = {text}")
                precedence, text = _TIGHT, name
            self._texts[id(node)] = precedence, text
        self.results = {name: self._texts[id(node)][1] for name, node in graph.outputs.items()}
        operations |= self._of_regions
        helpers = [text for name, text in HELPERS.items() if name in operations]
        self.helpers = "\n".join([*helpers, *self._corrections])

    def _expression(self, node: Node) -> tuple[int, str]:
        """Return the precedence and the text of a node."""
        if node.operation in _OPERATORS:
            precedence, form = _OPERATORS[node.operation]
            # Left operands of the same precedence need brackets: comparisons would chain, and powers associate to
            # the right.
            left = self._text(node.inputs[0], precedence + (precedence in (_COMPARED, _POWER)))
            others = (self._text(one, precedence + 1) for one in node.inputs[1:])
            return precedence, form.format(left, *others)
        if node.operation == "regions":
            rows, regions = (self._text(one, _SUM) for one in node.inputs)
            first = self._define_corrections(node.options["bodies"])
            return _TIGHT, f"corrections({rows}, {f'{regions} + {first}' if first else regions}, w)"
        if node.operation == "trees":
            arrays = (self._text(array, _LOOSE) for array in node.options.values())
            return _TIGHT, f"trees({', '.join([self._text(node.inputs[0], _LOOSE), *arrays])})"
        if node.operation == "level":
            name = f"levels{len(self.levels)}"
            self.levels[name] = node.options["levels"]
            return _TIGHT, f'places({self._text(node.inputs[0], _LOOSE)}, w["{name}"])'
        if node.operation in _FORMS:
            return _TIGHT, _FORMS[node.operation](node, *(self._text(one, _TIGHT) for one in node.inputs))
        # Operations without a helper are NumPy functions of the same name.
        call = node.operation if node.operation in HELPERS else f"np.{node.operation}"
        return _TIGHT, f"{call}({', '.join(self._text(one, _LOOSE) for one in node.inputs)})"

    def _define_corrections(self, bodies: list[Graph | None]) -> int:
        """Define one function for the models of all regions, which differ only in their constants.

        The regions of several partitions are numbered consecutively. Return the number of the first region.
        """
        first = self._n_regions
        self._n_regions += len(bodies)
        for region, body in enumerate(bodies, first):
            if body is not None:
                source = GraphSource(body, 'w[f"{{region}}.{}"]')
                result = source.results["values"]
                lines = "\n".join(f"        {line}" for line in [*source.lines, f"values[rows] = {result}"])
                self._corrections.add(_CORRECTIONS.format(width=body.outputs["values"].shape[1], lines=lines))
                self.constants |= {f"{region}.{name}": array for name, array in source.constants.items()}
                self._of_regions |= {node.operation for node in body.nodes()}
        if len(self._corrections) > 1:
            raise ExportError("the corrections of the regions differ in form, which has no NumPy source.")
        return first

    def _text(self, operand: Operand, precedence: int) -> str:
        """Return the text of an operand, in brackets if it binds less tightly than `precedence`."""
        if isinstance(operand, Node):
            own, text = self._texts[id(operand)]
            return text if own >= precedence else f"({text})"
        if operand.ndim == 0:
            value = operand.item()
            text = repr(value if operand.dtype.kind in "bi" else float(str(operand)))
            return text if precedence < _SIGN or not text.startswith("-") else f"({text})"
        key = array_key(operand)
        if key not in self._names:
            name = f"w{len(self.constants)}"
            self._names[key], self.constants[name] = name, np.ascontiguousarray(operand)
        return self._item.format(self._names[key])


def _lengths(shape: tuple[int, ...]) -> str:
    """The text of a shape as an argument of `reshape`."""
    return ", ".join("-1" if is_rows(length) else str(length) for length in shape)


def _slice(node: Node, value: str) -> str:
    axis, last = node.options["axis"], len(node.shape) - 1
    before = "..., " if axis == last and axis > 1 else ":, " * axis
    return f"{value}[{before}{node.options['start']}:{node.options['stop']}]"


def _take(node: Node, value: str, places: str) -> str:
    axis = node.options["axis"]
    return f"{value}[{places}]" if axis == 0 else f"{value}[{':, ' * axis}{places}]"


def _full(node: Node, rows: str, constant: str) -> str:
    lengths = [
        f"{length // ROWS} * len({rows})" if length > ROWS else f"len({rows})" if length == ROWS else str(length)
        for length in node.shape
    ]
    return f"np.broadcast_to({constant}, ({', '.join(lengths)}{',' if len(lengths) == 1 else ''}))"


_FORMS: dict[str, Callable[..., str]] = {
    "argmax": lambda node, x: f"{x}.argmax(axis={node.options['axis']})",
    "cast": lambda node, x: f"{x}.astype(np.{node.dtype.name})",
    "concatenate": lambda node, *parts: f"np.concatenate([{', '.join(parts)}], axis={node.options['axis']})",
    "fft": lambda node, x: f"fft({x}, conjugate={node.options['conjugate']})",
    "full": _full,
    "irfft": lambda node, x: f"irfft({x}, {node.options['length']})",
    "max": lambda node, x: f"{x}.max(axis={node.options['axis']})",
    "reshape": lambda node, x: f"{x}.reshape({_lengths(node.shape)})",
    "rfft": lambda node, x: f"rfft({x})",
    "slice": _slice,
    "sum": lambda node, x: f"{x}.sum(axis={node.options['axis']})",
    "swapaxes": lambda node, x: f"np.swapaxes({x}, -1, -2)",
    "take": _take,
}


def _wrapped(statement: str) -> list[str]:
    """Break an assignment after commas and before plus signs, so that lines are short.

    The value of a broken assignment is in brackets, for a sum outside of brackets would end at the first break.
    """
    if len(statement) <= _WIDTH - 8:
        return [statement]
    name, value = statement.split(" = ", 1)
    lines, current = [f"{name} = ("], ""
    for word in _words(value):
        if current and len(current) + len(word) > _WIDTH - 12:
            lines.append(f"    {current.strip()}")
            current = ""
        current += word
    return [*lines, f"    {current.strip()}", ")"]


def _words(expression: str) -> list[str]:
    """Cut an expression after its commas and before its plus signs, but not inside of texts."""
    signs = (token for token in generate_tokens(StringIO(expression).readline) if token.type == OP)
    cuts = [token.end[1] if token.string == "," else token.start[1] for token in signs if token.string in (",", "+")]
    return [expression[start:end] for start, end in pairwise([0, *cuts, len(expression)])]


def constants_of(source: GraphSource) -> dict[str, Any]:
    """Return the constants that the statements read from the dict `w`: arrays, and the index of each level."""
    levels = {name: {level: place for place, level in enumerate(some)} for name, some in source.levels.items()}
    return {**source.constants, **levels}


def evaluated(graph: Graph, arrays: dict[str, Any]) -> dict[str, np.ndarray]:
    """Run the source of a graph on arrays; for tests and for the check of an export."""
    source = GraphSource(graph, inputs={name: f"x[{name!r}]" for name in graph.inputs})
    body = "\n".join(f"    {line}" for line in source.lines)
    results = ", ".join(f"{name!r}: {text}" for name, text in source.results.items())
    scope: dict[str, Any] = {"np": np}
    exec(f"{source.helpers}\ndef run(x, w):\n{body}\n    return {{{results}}}", scope)
    return scope["run"](arrays, constants_of(source))
