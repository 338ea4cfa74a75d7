"""Test error of ridge regression along the regularisation: ternary features beside those that they stand in for.

Ali, Liao, Couillet (2022), *Random matrices in service of ML footprint: ternary random features with no performance
loss*, Figures 3 and 9: 1,024 training and 512 test rows of MNIST 7 and 9, the 512 columns of largest variance.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import phimap as pm
from phimap.bench.datasets import Dataset
from phimap.bench.experiment import Table, grouped, having, values
from phimap.bench.figures import panels, save

#: Multiples of the identity that are added to the Gram matrix of the centred features.
REGULARISATION = (0.0, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
SPARSITIES = (0.1, 0.5, 0.9)
N_COMPONENTS = 50_000
#: Measurements of a draw: those of every map at every regularisation.
STEPS = (1 + 2 * len(SPARSITIES)) * len(REGULARISATION)
_ROWS, _TEST_ROWS, _COLUMNS = 1024, 512, 512
_COSTS = ("bytes", "seconds")
# At which d0 of the Gaussian kernel is the 0.39 of Figure 3.
_TAU = 1.34


@dataclass(frozen=True)
class Measurement:
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
    draws: Sequence[int] = range(5),
) -> Iterator[Measurement]:
    """Ridge regression on the features of each method, on rows of two classes, centred and scaled to one norm.

    Each of the seeds `draws` also draws its rows.
    """
    rows = np.random.default_rng(0).standard_normal((32, 16)) * (_TAU / 16) ** 0.5
    for phi in _maps(64).values():
        # What the first use of a map compiles is in no draw's time.
        _products(phi, rows[:16], rows[16:])
    for draw in draws:
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
            for point in _path(K.astype(np.float64), K_test.astype(np.float64), y[:n], y[n:]):
                yield Measurement(name, draw, *point, n_bytes, seconds)


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


def table(found: Sequence[Measurement], dataset: str) -> Table:
    """Mean errors, a line for each method, a column for each regularisation, the least, and the mean costs."""
    lines = []
    for method, path in means(found).items():
        n_bytes, seconds = (values(having(found, method=method), name).mean() for name in _COSTS)
        lines.append(
            (method, *(f"{error:.4f}" for error in path), f"{min(path):.4f}", f"{n_bytes:.0f}", f"{seconds:.2f}")
        )
    columns = ("method", *(f"{value:g}" for value in REGULARISATION), "least", *_COSTS)
    return Table(
        f"{dataset}: squared test error of ridge regression by what is added to the Gram matrix", columns, lines
    )


def means(found: Sequence[Measurement]) -> dict[str, list[float]]:
    """Mean squared error over the draws, by method, along the regularisation."""
    return {
        method: [float(values(having(part, regularisation=value), "error").mean()) for value in REGULARISATION]
        for (method,), part in grouped(found, "method").items()
    }


def figure(found: Sequence[Measurement], path: Path) -> None:
    """Squared test error along the regularisation, a line for each method; 0 left of the smallest other."""
    drawn, ((axis,),) = panels(6.4, 4.8)
    for number, (method, errors) in enumerate(means(found).items()):
        style: dict[str, Any] = {"color": "k", "linewidth": 2} if number == 0 else {"color": f"C{number - 1}"}
        axis.plot(REGULARISATION, errors, marker="o", markersize=3, label=method, **style)
    axis.set_xscale("symlog", linthresh=min(value for value in REGULARISATION if value > 0))
    axis.set(yscale="log", xlabel="added to the diagonal of the Gram matrix", ylabel="squared test error")
    axis.grid(alpha=0.3)
    axis.legend(frameon=False, fontsize=8)
    save(drawn, path)
