"""Every map of the registry as a graph: its NumPy source and its ONNX model against `transform`."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from sklearn.base import clone

from phimap.exports.graph import ROWS, ExportError, Graph
from phimap.exports.numpy_source import GraphSource, evaluated
from phimap.exports.onnx_model import onnx_model, run_onnx
from phimap.exports.program import linear_outputs
from phimap.exports.tracer import TraceOps
from phimap.kernels import Kernel
from phimap.ops.primitives.kernel_matrix import kernel_matrix
from phimap.random_map import RandomMap
from tests.support.families import KERNELS, feature_maps

N_ROWS = 40
# Convolutions number the rows, and quantized features and partitions hash them: neither is an operation of graphs.
REFUSED = ("binning", "cntk", "mondrian", "quantized")
# The float32 transforms of ONNX Runtime are less exact than SciPy's, and maps multiply their results.
TOLERANCES = {"numpy": 2e-5, "onnx": 1e-4}
MAPS = feature_maps()


def rows_for(name: str) -> np.ndarray:
    shape = (N_ROWS, 4, 4, 3) if name.startswith("cntk") else (N_ROWS, 5)
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def fitted(name: str) -> tuple[RandomMap, np.ndarray]:
    X = rows_for(name)
    fit = clone(MAPS[name]).fit(X, np.random.default_rng(1).standard_normal(len(X)))
    return fit, X.reshape(len(X), -1)


def graph_of(fit: RandomMap, most_entries: int) -> Graph:
    ops = TraceOps.of_width(fit.n_features_in_)
    coefs = np.eye(fit.record_.n_components)
    return ops.graph({"Z": linear_outputs(ops, fit.record_, ops.input, coefs, most_entries)})


@pytest.mark.parametrize("name", [name for name in MAPS if not name.startswith(REFUSED)])
@pytest.mark.parametrize("most_entries", [0, 2**21], ids=["transforms", "matrices"])
def test_graph_computes_the_features(name: str, most_entries: int) -> None:
    fit, X = fitted(name)
    Z = fit.transform(X)
    expected = Z.to_dense() if hasattr(Z, "to_dense") else np.asarray(Z)
    graph = graph_of(fit, most_entries)
    scale = np.abs(expected).max()
    found = evaluated(graph, {"X": X})["Z"]
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() <= TOLERANCES["numpy"] * scale
    run = run_onnx(onnx_model(graph).SerializeToString(), {"X": X})["Z"]
    assert np.abs(run - expected).max() <= TOLERANCES["onnx"] * scale


@pytest.mark.parametrize("name", [name for name in MAPS if name.startswith(REFUSED)])
def test_maps_without_a_graph_are_named(name: str) -> None:
    fit, _ = fitted(name)
    with pytest.raises(
        ExportError, match=f"the feature map '{type(fit.record_).__name__.removesuffix('Record')}' has no"
    ):
        graph_of(fit, 0)


def exact(kernel: Kernel, X: np.ndarray, Y: np.ndarray) -> np.ndarray | None:
    """Return the values of a kernel by its graph; None if it has none."""
    ops = TraceOps.of_width(X.shape[1], np.dtype(np.float64))
    try:
        values = kernel_matrix(ops, kernel, ops.input, Y)
    except ExportError:
        return None
    assert values.shape == (ROWS, len(Y))
    return evaluated(ops.graph({"K": values}), {"X": X})["K"]


#: Kernels that need functions NumPy lacks (Bessel functions, the bivariate normal distribution, interpolated duals),
#: arrays of a fixed number of rows, means over rows, or a loop over subsets of columns.
WITHOUT_GRAPH = re.compile(
    r"CNTK|FiniteSpectrum|means=|TernaryKernel|Zonal|nu=1\.2|activation=('erf'|'gelu'|'sin'|'softplus'|<ufunc)"
    r"|activation='cos', depth|Additive\(base=StationaryProduct"
)


@pytest.mark.parametrize("place", range(len(KERNELS)))
def test_graph_computes_the_kernel(place: int) -> None:
    kernel = KERNELS[place]
    rng = np.random.default_rng(place)
    X = rng.standard_normal((N_ROWS, 5)).astype(np.float32)
    Y = np.concatenate([X[:3], -X[3:6], rng.standard_normal((20, 5))]).astype(np.float64)
    found = exact(kernel, X, Y)
    if found is None:
        assert WITHOUT_GRAPH.search(repr(kernel))
        return
    assert not WITHOUT_GRAPH.search(repr(kernel))
    expected = kernel(X.astype(np.float64), Y)
    # Each layer of steps takes the root of the error of a small angle, which is the root of eps.
    tolerance = 1e-3 if repr(kernel) == "ArcCosine(depth=2, order=0)" else 1e-6
    assert np.abs(found - expected).max() <= tolerance * np.abs(expected).max()


def test_long_sums_are_broken_in_brackets() -> None:
    # A sum outside of brackets would end at the first break, and the next line would be no statement.
    ops = TraceOps.of_width(1)
    first, second = ops.input, ops.input
    for factor in range(2, 8):
        first, second = first * ops.constant(np.full(1, factor)), second * ops.constant(np.full(1, factor + 1))
    source = GraphSource(ops.graph({"Z": first + second}), inputs={"X": "X"})
    assert any(line.strip().startswith("+ ") for line in source.lines)
    scope = {"X": np.ones((1, 1)), "w": source.constants}
    exec("\n".join(source.lines), scope)
    assert scope[source.results["Z"]] == math.factorial(7) + math.factorial(8) // 2
