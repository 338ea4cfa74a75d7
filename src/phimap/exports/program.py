"""A fitted learner as a graph: scaling, features, linear outputs, corrections, shrinking of far rows, probabilities."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np

from phimap.exports.frames import column_inputs, encoded_rows
from phimap.exports.graph import (
    BOOLEAN,
    DOUBLE,
    FLOAT,
    INTEGER,
    ROWS,
    TRACING_ERRORS,
    ExportError,
    Graph,
    Node,
    without_form,
)
from phimap.exports.traced import Traced
from phimap.exports.tracer import TraceOps, traced_kernel
from phimap.features.nystroem.nystroem import NystroemRecord
from phimap.learn.calibration import Calibration
from phimap.learn.corrections.corrections import Corrections, PartitionModel
from phimap.learn.corrections.partition import Partition
from phimap.learn.extrapolation import NEAR
from phimap.learn.fitted import Fitted
from phimap.learn.targets.base import Targets
from phimap.learn.targets.means import LogMeans
from phimap.learn.targets.quantiles import Quantiles
from phimap.learn.trees.ensemble import BoostedTrees, rounded_down
from phimap.ops import Array, Ops
from phimap.projections.base import ProjectionRecord
from phimap.projections.dense import DenseRecord
from phimap.random_map import MapRecord
from phimap.records import Record

# A structured projection is replaced by a dense matrix if the matrix has at most this many entries. For small matrices
# one product is faster than the transforms, because calling so many small operations takes most of their time.
_MOST_ENTRIES = 2**21
# For x below this, log(softplus(x)) equals x up to 1.5e-7. For x above it, 1 + exp(x) keeps half of the digits of
# float64.
_LINEAR = -15.0
# Largest exponent of the power of 2 that scales the targets. Float64 ends near 2^1023, and products with this power
# must not exceed it.
_MOST_EXPONENT = 900


@dataclass(frozen=True)
class WholeMatrix(DenseRecord):
    """Directions that are applied by one matrix product, a single node of a graph."""

    def blocks(self, ops: Ops, X: Array) -> Iterator[tuple[slice, Array]]:
        yield slice(0, self.n_directions), ops.matmul(X, self.matrix)


def in_matrices(value: Any, most_entries: int = _MOST_ENTRIES) -> Any:
    """Return a record in which dense matrices of at most `most_entries` entries replace projections."""
    if isinstance(value, ProjectionRecord):
        small = value.n_features * value.n_directions <= most_entries
        return WholeMatrix(np.ascontiguousarray(value.to_dense().T)) if small else value
    if isinstance(value, tuple):
        return tuple(in_matrices(item, most_entries) for item in value)
    if not (is_dataclass(value) and isinstance(value, Record)):
        return value
    return replace(value, **{one.name: in_matrices(getattr(value, one.name), most_entries) for one in fields(value)})


def linear_outputs(
    ops: TraceOps, record: MapRecord, X: Traced, coefs: np.ndarray, most_entries: int = _MOST_ENTRIES
) -> Traced:
    """Return ``phi(x)^T coefs`` (r, t) at traced scaled rows.

    Raises
    ------
    ExportError
        If the map uses an operation that graphs do not have; the message names the map.
    """
    outputs, coefs = record.unwhitened(coefs)
    try:
        return in_matrices(outputs, most_entries).bind(ops).linear_outputs(ops, X, coefs)
    except TRACING_ERRORS as error:
        raise without_form(f"feature map {type(record).__name__.removesuffix('Record')!r}", error) from error


def scores(ops: TraceOps, fitted: Fitted, X: Traced) -> Traced:
    """Return the outputs (r, t) of a model at traced rows of numbers, as `Fitted.scores_of_rows` computes them."""
    result, trees, units = _kernel_scores(ops, fitted, X), fitted.trees, fitted.targets.units
    if trees is None:
        return result
    found = _tree_outputs(ops, trees, X).cast(result.dtype)
    if units is not None:
        found = found * 2.0**units.exponent + units.shift
    return result + (found - result) * trees.share


def _tree_outputs(ops: TraceOps, trees: BoostedTrees, X: Traced) -> Traced:
    """Return the outputs (r, t) of trees at traced rows of numbers."""
    arrays = {name: getattr(trees, name) for name in ("columns", "thresholds", "children", "values", "roots")}
    arrays |= {"thresholds": rounded_down(trees.thresholds, FLOAT), "values": trees.values.astype(np.float32)}
    arrays["baseline"] = trees.baseline.astype(np.float32)
    node = Node("trees", (X.cast(FLOAT).node,), (ROWS, trees.n_outputs), FLOAT, arrays)
    sums = Traced.of(node, ops)
    if not trees.has_labels:
        return sums
    return np.tanh(sums * 0.5) if trees.n_outputs == 1 else _softmax(sums)


def _kernel_scores(ops: TraceOps, fitted: Fitted, X: Traced) -> Traced:
    """Return the outputs (r, t) of the kernel model."""
    solution, units, mapped = fitted.solved, fitted.targets.units, fitted.map
    scaling = mapped.scaling.bind(ops)
    scaled = scaling.apply(ops, X)
    exponent = 0 if units is None else units.exponent
    if abs(exponent) > _MOST_EXPONENT:
        raise ExportError(f"targets of the order of 2^{exponent} have no exported form. Scale y, and fit again.")
    result = linear_outputs(ops, mapped.record, scaled, np.ldexp(solution.coef, -exponent))
    for name, part in PARTS.items():
        if (record := getattr(fitted, name)) is not None:
            result = result + part(ops, record, scaled)
    if units is not None:
        result = result.cast(DOUBLE) * 2.0**exponent
    result = result + solution.intercept
    columns, kernel = mapped.range, mapped.kernel
    if solution.centre is None or columns is None or columns.margin is None or not kernel.is_stationary:
        return result
    # Rows within the widened ranges have steps of 0 and shares of 1, so their outputs do not change.
    low, high = columns.ends(ops.dtype)
    steps = scaled - scaling.apply(ops, X.clip(low, high))
    origin = np.zeros((1, steps.shape[1]))
    shares = (traced_kernel(kernel, steps, origin) / (NEAR * kernel.diag(origin))).clip(max=1.0)
    return (result - solution.centre) * shares + solution.centre


def corrections(ops: TraceOps, record: Corrections, X: Traced) -> Traced:
    """Return corrections (r, t) at traced scaled rows."""
    root, X = record.root, X.cast(DOUBLE)
    if root is not None:
        X = X * root if root.ndim == 1 else X @ root
    first, *others = (_corrections_of(ops, record, model, X) for model in record.models)
    return sum(others, start=first)


def _corrections_of(ops: TraceOps, record: Corrections, model: PartitionModel, X: Traced) -> Traced:
    """Return the corrections (r, t) of one partition at traced rows times the root."""
    parts = model.parts()
    if len(parts) == 1:
        return _correction(record, model, parts[0], X)
    bodies: list[Graph | None] = []
    for part in parts:
        inner = TraceOps.of_width(X.shape[1], DOUBLE, DOUBLE)
        # The coefficients of a region are zero where all its residuals are.
        known = model.coefs[part].any()
        bodies.append(inner.graph({"values": _correction(record, model, part, inner.input)}) if known else None)
    inputs = X.node, _regions(ops, model.partition, X).node
    return Traced.of(Node("regions", inputs, (ROWS, model.coefs.shape[1]), DOUBLE, {"bodies": bodies}), ops)


def _correction(record: Corrections, model: PartitionModel, part: slice, X: Traced) -> Traced:
    """Return the corrections (r, t) of a region at traced rows times the root."""
    X = X if record.scale == 1 else X * record.scale
    return traced_kernel(record.kernel, X, record.rows[model.order[part]]) @ model.coefs[part]


def _regions(ops: TraceOps, partition: Partition, X: Traced) -> Traced:
    """Return the index (r,) of the region of each row."""
    right = X.cast(DOUBLE) @ partition.directions.T > partition.thresholds
    # Column k of `reached` is true for rows that reach node k of the current depth. The two children of a node are
    # adjacent.
    reached, first = ~(right[:, :1] & ~right[:, :1]), 0
    while first < partition.n_regions - 1:
        count = first + 1
        turns = right[:, first : first + count]
        children = Traced((ROWS, count, 2), BOOLEAN, ops)
        children[:, :, 0], children[:, :, 1] = reached & ~turns, reached & turns
        reached, first = children.reshape(ROWS, 2 * count), first + count
    return reached.cast(FLOAT).argmax(axis=1)


def probabilities(ops: TraceOps, calibration: Calibration | None, values: Traced) -> Traced:
    """Return the probabilities (r, n_classes) of the classes, as `Fitted.log_probabilities` defines them.

    `calibration` is None for the logistic loss.
    """
    if calibration is None:
        logits = values if values.shape[1] > 1 else _beside(ops, values * 0.0, values)
        return _softmax(logits.cast(DOUBLE))
    shares = (values - calibration.low) / (1 - calibration.low)
    if shares.shape[1] == 1:
        shares = _beside(ops, 1.0 - shares, shares)
    x = shares.cast(DOUBLE) / calibration.width
    raised = np.maximum(x, _LINEAR)
    softplus = np.maximum(raised, 0.0) + np.log(1.0 + np.exp(-abs(raised)))
    return _softmax(calibration.power * np.where(x < _LINEAR, x, np.log(softplus)))


def predictions(ops: TraceOps, targets: Targets, values: Traced) -> Traced:
    """Return the predictions (r, t) of a regressor, decoded from its outputs."""
    if isinstance(targets, LogMeans):
        return np.exp(values + 0.0)
    if not isinstance(targets, Quantiles) or targets.levels.size == 1:
        return values
    if targets.n_targets > 1:
        raise ExportError("several quantiles of several targets have no exported form. Fit a model for each target.")
    columns = [values[:, k : k + 1] for k in range(targets.levels.size)]
    # Bubble sort: each pass moves the largest of the columns 0 to `end` to column `end`.
    for end in range(len(columns) - 1, 0, -1):
        for k in range(end):
            low, high = np.minimum(columns[k], columns[k + 1]), np.maximum(columns[k], columns[k + 1])
            columns[k], columns[k + 1] = low, high
    ascending = Traced((ROWS, len(columns)), values.dtype, ops)
    for k, column in enumerate(columns):
        ascending[:, k : k + 1] = column
    return ascending


#: Parts of a model that are added to its linear outputs, by the attribute of `Fitted`. A function takes the backend,
#: the record and the traced scaled rows, and gives outputs (r, t) in float64.
PARTS: dict[str, Callable[[TraceOps, Any, Traced], Traced]] = {"corrections": corrections}


def _softmax(values: Traced) -> Traced:
    powers = np.exp(values - values.max(axis=1)[:, None])
    return (powers / powers.sum(axis=1)[:, None]).cast(FLOAT)


def _beside(ops: TraceOps, left: Traced, right: Traced) -> Traced:
    both = ops.empty((ROWS, 2))
    both[:, :1], both[:, 1:] = left, right
    return both


def _has_landmarks(value: Any) -> bool:
    """Whether a record has landmarks. With whitened coefficients, their outputs lose digits by cancellation."""
    if isinstance(value, tuple):
        return any(map(_has_landmarks, value))
    if not (is_dataclass(value) and isinstance(value, Record)):
        return False
    return isinstance(value, NystroemRecord) or any(_has_landmarks(getattr(value, one.name)) for one in fields(value))


def program(fitted: Fitted, loss: str) -> Graph:
    """Return the graph of a learner.

    Parameters
    ----------
    fitted : Fitted
    loss : str
        The learner's parameter `loss`, for models from files of earlier versions, which do not store their loss.

    Returns
    -------
    Graph
        The input is ``"X"`` (n, d), or one input (n, 1) for each column of a frame. A regressor has the output
        ``"variable"`` (n, t). A classifier has the output ``"label"``, the index (n,) of the class, and the output
        ``"probabilities"`` (n, n_classes). Probabilities are absent if the loss is not logistic and the model has no
        calibration.

    Raises
    ------
    ExportError
        If the model has a part that a graph cannot represent.
    """
    encoder, has_parts = fitted.inputs.encoder, any(getattr(fitted, name) is not None for name in PARTS)
    dtype = DOUBLE if has_parts or _has_landmarks(fitted.map.record) else FLOAT
    if encoder is None:
        ops = TraceOps.of_width(fitted.inputs.width, dtype)
        rows = ops.input
    else:
        ops = TraceOps(column_inputs(encoder), dtype)
        rows = encoded_rows(ops, encoder)
    values = scores(ops, fitted, rows)
    if not fitted.targets.has_labels:
        values = predictions(ops, fitted.targets, values)
        return ops.graph({"variable": values if fitted.targets.units is not None else values.cast(FLOAT)})
    loss, single = fitted.loss or loss, values.shape[1] == 1
    outputs = {"label": (values[:, 0] > 0).cast(INTEGER) if single else values.argmax(axis=1)}
    if loss == "logistic" or fitted.calibration is not None:
        outputs["probabilities"] = probabilities(ops, None if loss == "logistic" else fitted.calibration, values)
    return ops.graph(outputs)
