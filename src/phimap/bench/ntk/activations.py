"""Tangent kernels of other activations: errors of the maps, and of gradients of finite networks.

Zandieh, Han, Avron, Shoham, Kim, Shin (2021), *Scaling neural tangent kernels via sketching and random features*,
Equations 18 to 20: the recursion of the tangent kernel for any activation, with its dual functions. The publication
does not test activations other than the ReLU. This experiment measures relative Frobenius errors of `NTKFeatures`, of
`NTKSketch`, and of the mean gradient kernel of finite networks. The errors of networks decrease with their width and
their number. Rows of a data set are scaled to norm 1. The rows of the set ``"gaussian"`` are independent standard
Gaussians of 40 columns, whose norms are about 6.3: kernels of activations that are not homogeneous depend on the norms.

The default for maps is 1,000 rows, 8,192 features and one draw. The default for networks is 20 networks of width 1,024
on 8 of the rows. ``--kernels`` names the activations, and ``--features`` the widths of maps and networks.
``--methods networks --features 8192`` takes minutes per activation and about 2 GB.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import phimap as pm
from phimap._progress import Stages
from phimap.bench.datasets import load, unit_rows
from phimap.bench.experiment import Finding, Report, ResultTable, mean_and_standard_deviation, measured
from phimap.bench.options import BenchOptions
from phimap.kernels import NTK
from phimap.kernels.wide_layers import tangent_layer
from phimap.ops.activations import FUNCTIONS, RECTIFIED

ACTIVATIONS = ("erf", "gelu", "sin", "leaky-relu")
DEPTHS = (1, 2, 3)
MAPS = {"features": pm.NTKFeatures, "sketch": pm.NTKSketch}
METHODS = (*MAPS, "networks")
WIDTH, ROWS, DRAWS = 8192, 1000, 1
NETWORK_WIDTH, NETWORK_ROWS, NETWORKS = 1024, 8, 20
#: Name of the set of Gaussian rows, and its number of columns.
GAUSSIAN, COLUMNS = "gaussian", 40
PAPER = "Zandieh et al. (2021)"
# Step of the central differences for slopes; their error is below the rounding of float32.
_STEP = 1e-4


def network_kernel(X: np.ndarray, depth: int, activation: str, width: int, seeds: Sequence[int]) -> np.ndarray:
    """Mean gradient kernel (n, n) of networks ``v . h_L`` with ``h_l = (c / width)^(1/2) sigma(W_l h_(l-1))``.

    The input h_0 is a row of X, sigma is the activation, and ``c = 1 / E[sigma(z)^2]`` for standard Gaussian z. All
    entries of v and W_l are independent standard Gaussians, and the gradient is with respect to all entries. Products
    are formed in float32, and sums over networks in float64.
    """
    gain = (tangent_layer(activation).gain / width) ** 0.5
    total = np.zeros((len(X), len(X)))
    for seed in seeds:
        rng = np.random.default_rng(seed)
        matrices, inputs, slopes, h = [], [], [], X.astype(np.float32)
        for _ in range(depth):
            matrices.append(rng.standard_normal((h.shape[1], width), dtype=np.float32))
            inputs.append(h)
            projected = (h @ matrices[-1]).astype(np.float64)
            ahead, behind = (_values(activation, projected + step) for step in (_STEP, -_STEP))
            slopes.append((gain / (2 * _STEP) * (ahead - behind)).astype(np.float32))
            h = (gain * _values(activation, projected)).astype(np.float32)
        total += h @ h.T
        signal = rng.standard_normal(width, dtype=np.float32) * slopes[-1]
        for layer in range(depth - 1, -1, -1):
            total += (signal @ signal.T) * (inputs[layer] @ inputs[layer].T)
            if layer:
                signal = (signal @ matrices[layer].T) * slopes[layer - 1]
    return total / len(seeds)


def _values(activation: str, x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0) if activation in RECTIFIED else FUNCTIONS[activation](x)


def read(name: str, folder: Path | None, n_rows: int, seed: int = 0) -> np.ndarray:
    """Return random rows of a set, scaled to norm 1, or Gaussian rows, in float64."""
    rng = np.random.default_rng(seed)
    if name == GAUSSIAN:
        return rng.standard_normal((n_rows, COLUMNS))
    X = load(name, folder).X
    return unit_rows(X[rng.permutation(len(X))[:n_rows]]).astype(np.float64)


def run(
    name: str,
    rows: np.ndarray,
    activations: Sequence[str],
    methods: Sequence[str],
    *,
    depths: Sequence[int] = DEPTHS,
    widths: Sequence[int] | None = None,
    draws: Sequence[int] = range(DRAWS),
    networks: Sequence[int] = range(NETWORKS),
) -> Iterator[dict[str, Any]]:
    """Measure the methods on rows of the set `name`; `networks` are the seeds of the networks.

    In a measurement, `width` is the number of features of a map, or of units in each layer of a network. `draws` is the
    number of networks in the mean, 1 for maps. `error` is the relative Frobenius error. `ratio` is the factor by which
    the exact kernel must be multiplied to be closest to the estimate, 1 if the scale is unbiased.
    """
    for activation, depth, method in product(activations, depths, methods):
        networked = method == "networks"
        few = rows[:NETWORK_ROWS] if networked else rows
        exact = NTK(depth, activation)(few)
        for width in widths or [NETWORK_WIDTH if networked else WIDTH]:
            for seeds in [networks] if networked else [[seed] for seed in draws]:
                start = time.perf_counter()
                if networked:
                    found = network_kernel(few, depth, activation, width, seeds)
                else:
                    phi = MAPS[method](depth, width, activation=activation, random_state=seeds[0])
                    Z = phi.fit_transform(few)
                    found = Z @ Z.T
                seconds = time.perf_counter() - start
                case = {"dataset": name, "n_rows": len(few), "activation": activation, "depth": depth}
                case |= {"method": method, "width": width, "draws": len(seeds), "seed": seeds[0]}
                error = float(np.linalg.norm(found - exact) / np.linalg.norm(exact))
                ratio = float(np.vdot(found, exact) / np.vdot(exact, exact))
                yield case | {"error": error, "ratio": ratio, "seconds": seconds}


def report(options: BenchOptions, stages: Stages) -> Report:
    """Return a table of errors and ratios, and a finding for each line of the table."""
    activations = list(options.kernels or ACTIVATIONS)
    for activation in activations:
        tangent_layer(activation)
    name = (options.sets or ["MNIST" if options.data else "digits"])[0]
    rows, methods = read(name, options.data, options.rows or ROWS, options.seed), options.chosen(METHODS)
    asked: dict[str, Any] = {"depths": options.depths or DEPTHS, "widths": options.widths}
    asked |= {"draws": options.seeds(DRAWS), "networks": options.seeds(NETWORKS)}
    found = measured(stages, "other activations", run(name, rows, activations, methods, **asked))
    keys = ["activation", "depth", "method", "width", "draws", "n_rows"]
    frame = found.groupby(keys, sort=False, as_index=False)[["error", "ratio"]].agg(mean_and_standard_deviation)
    findings = []
    for one in frame.itertuples():
        networks = one.method == "networks"
        what = f"mean of {one.draws} networks of width" if networks else f"{MAPS[one.method].__name__}, m ="
        place = f"Equations 18 to 20, {one.activation}, L = {one.depth}, {one.method}"
        quantity = "relative error; factor of the kernel that is nearest"
        scale = f"Gaussian rows of {COLUMNS} columns" if name == GAUSSIAN else f"rows of {name}, scaled to norm 1"
        size = f"{what} {one.width:,}, {one.n_rows:,} {scale}"
        findings.append(Finding(PAPER, place, quantity, size, f"{one.error}; {one.ratio}"))
    columns = {"depth": "L", "draws": "networks", "error": "relative error", "ratio": "factor"}
    table = ResultTable(
        f"tangent kernels on {name}", frame.drop(columns="n_rows").rename(columns=columns), {"width": ","}
    )
    return Report(found, [table], {}, findings)
