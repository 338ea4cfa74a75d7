"""Test error of ridge regression along the regularisation: ternary features beside those that they stand in for.

Ali, Liao, Couillet (2022), *Random matrices in service of ML footprint: ternary random features with no performance
loss*, Figures 3 and 9: 1,024 training and 512 test rows of MNIST 7 and 9, the 512 columns of largest variance.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import phimap as pm
from phimap.bench.datasets import Dataset
from phimap.bench.experiment import Table

#: Multiples of the identity that are added to the Gram matrix of the centred features.
REGULARISATION = (0.0, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
SPARSITIES = (0.1, 0.5, 0.9)
N_COMPONENTS = 50_000
_ROWS, _TEST_ROWS, _COLUMNS = 1024, 512, 512
_COSTS = ("bytes", "seconds")
# At which d0 of the Gaussian kernel is the 0.39 of Figure 3.
_TAU = 1.34


@dataclass(frozen=True)
class Row:
    """One draw of the rows and of a map.

    Attributes
    ----------
    method : str
    seed : int
    regularisation : float
    error : float
        Mean squared error against labels -1 and 1, on the test rows.
    wrong : float
        Share of test rows with the wrong sign.
    bytes : float
        Of the features of one row.
    seconds : float
        Drawing the map, mapping all rows, and their inner products; the same at every regularisation.
    """

    method: str
    seed: int
    regularisation: float
    error: float
    wrong: float
    bytes: float
    seconds: float


def run(
    data: Dataset,
    *,
    n_components: int = N_COMPONENTS,
    repeats: int = 5,
    seed: int = 0,
    advance: Callable[[], object] = lambda: None,
) -> Iterator[Row]:
    """Ridge regression on the features of each method, on rows centred and scaled to one norm.

    Parameters
    ----------
    data : Dataset
        Of two classes.
    n_components : int
    repeats : int
        Draws, with seeds ``seed, seed + 1, ...``; each also draws its rows.
    advance : callable
        Called after each map.

    Yields
    ------
    Row
    """
    rows = np.random.default_rng(0).standard_normal((32, 16)) * (_TAU / 16) ** 0.5
    for phi in _maps(64).values():
        # What the first use of a map compiles is in no draw's time.
        _products(phi, rows[:16], rows[16:])
    for draw in range(seed, seed + repeats):
        order = np.random.default_rng(draw).permutation(len(data.X))[: _ROWS + _TEST_ROWS]
        n = min(_ROWS, 2 * len(order) // 3)
        X, y = data.X[order].astype(np.float64), np.where(data.y[order] == data.y.max(), 1.0, -1.0)
        X = X[:, np.sort(np.argsort(-X[:n].var(axis=0))[:_COLUMNS])]
        X -= X[:n].mean(axis=0)
        # Theorem 1 is for norms that concentrate.
        X *= _TAU**0.5 / np.linalg.norm(X, axis=1, keepdims=True)
        for name, phi in _maps(n_components).items():
            start = time.perf_counter()
            K, K_test, n_bytes = _products(phi.set_params(random_state=draw), X[:n], X[n:])
            seconds = time.perf_counter() - start
            for row in _path(K.astype(np.float64), K_test.astype(np.float64), y[:n], y[n:]):
                yield Row(name, draw, *row, n_bytes, seconds)
            advance()


def _maps(n_components: int) -> dict[str, Any]:
    """The maps that are compared, by name."""
    kernel = pm.kernels.Gaussian()
    maps: dict[str, Any] = {"rff": pm.FourierFeatures(kernel, n_components, projection="gaussian")}
    for name, degrees in (("trf", None), ("trf-mixture", 3)):
        for sparsity in SPARSITIES:
            phi = pm.TernaryFeatures(kernel, n_components, sparsity=sparsity, degrees=degrees, packed=True)
            maps[f"{name} {sparsity}"] = phi
    return maps


def _products(phi: Any, X: np.ndarray, X_test: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Inner products (n, n) and (n_test, n) of the features in float32, and the bytes of those of one row."""
    Z, Z_test = phi.fit_transform(X.astype(np.float32)), phi.transform(X_test.astype(np.float32))
    K, K_test = (Z.gram(), Z_test.gram(Z)) if isinstance(Z, pm.PackedArray) else (Z @ Z.T, Z_test @ Z.T)
    return K, K_test, Z.nbytes / len(X)


def _path(K: np.ndarray, K_test: np.ndarray, y: np.ndarray, y_test: np.ndarray) -> Iterator[tuple[float, float, float]]:
    """Regularisation, squared error and share of wrong signs, the features centred."""
    means, mean = K.mean(axis=0), K.mean()
    values, vectors = np.linalg.eigh(K - means - means[:, None] + mean)
    weights = vectors.T @ (y - y.mean())
    projected = (K_test - K_test.mean(axis=1, keepdims=True) - means + mean) @ vectors
    # The constant vector, which is centred away.
    kept = values > len(y) * np.finfo(np.float32).eps * values[-1]
    for regularisation in REGULARISATION:
        outputs = y.mean() + projected[:, kept] @ (weights[kept] / (values[kept] + regularisation))
        yield regularisation, float(np.mean((outputs - y_test) ** 2)), float(np.mean(np.sign(outputs) != y_test))


def table(rows: Sequence[Row], dataset: str) -> Table:
    """Mean errors, a row for each method, a column for each regularisation, the least, and the mean costs."""
    cells = []
    for method, path in means(rows).items():
        n_bytes, seconds = (np.mean([getattr(row, name) for row in rows if row.method == method]) for name in _COSTS)
        cells.append(
            (method, *(f"{error:.4f}" for error in path), f"{min(path):.4f}", f"{n_bytes:.0f}", f"{seconds:.2f}")
        )
    columns = ("method", *(f"{value:g}" for value in REGULARISATION), "least", *_COSTS)
    return Table(
        f"{dataset}: squared test error of ridge regression by what is added to the Gram matrix", columns, cells
    )


def means(rows: Sequence[Row]) -> dict[str, list[float]]:
    """Mean squared error over the draws, by method, along the regularisation."""
    return {
        method: [
            float(np.mean([row.error for row in rows if row.method == method and row.regularisation == value]))
            for value in REGULARISATION
        ]
        for method in dict.fromkeys(row.method for row in rows)
    }


def figure(rows: Sequence[Row], path: Path) -> None:
    """Write the errors along the regularisation as a PNG file."""
    from phimap.bench.figures import regularisation_path

    regularisation_path(REGULARISATION, means(rows), path)
