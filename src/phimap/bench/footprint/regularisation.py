"""Test error of ridge regression against the regularisation, for ternary features, Fourier features and the kernel.

Ali, Liao, Couillet (2022), *Random matrices in service of ML footprint: ternary random features with no performance
loss*, Figures 3 and 5 to 9: 1,024 training and 512 test rows of two classes, from a Gaussian mixture in 512
dimensions and from MNIST 7 and 9; the exact Gaussian kernel, Fourier features and ternary features of five
sparsities, at the published numbers of features.

Differences from the source: the 512 columns of MNIST with the largest variance are used, while the source does not
state which columns it uses. The columns are centred, and all rows are scaled to the same norm. A mixture of ternary
functions is added, which is not in the source.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import phimap as pm
from phimap._progress import Stages
from phimap.bench.datasets import load
from phimap.bench.experiment import Finding, Report, ResultTable, measured
from phimap.bench.figures import finish, panels
from phimap.bench.options import BenchOptions

#: Values added to the diagonal of the Gram matrix of the centred features.
REGULARISATION = (0.0, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
SPARSITIES = (0.1, 0.3, 0.5, 0.7, 0.9)
#: Published numbers of features by set, each with the number of its figure.
FIGURES = {
    "mixture": {512: 5, 4096: 6, 10_000: 7},
    "MNIST 7-9": {512: 8, 10_000: 9, 50_000: 3},
}
#: Names of the exact kernel, and of the features that ternary features replace.
KERNEL, FOURIER = "kernel", "rff"
_MIXTURE = "trf-mixture 0.5"
_ROWS, _TEST_ROWS, _COLUMNS = 1024, 512, 512
# Squared norm of the rows. At this norm the coefficient d0 of the Gaussian kernel is 0.39, as in Figure 3.
_TAU = 1.34


@dataclass(frozen=True)
class TwoClasses:
    """All rows of a set of two classes, with labels -1 and 1. Each draw takes a subset of the rows.

    Attributes
    ----------
    name : str
    X, y : ndarray
    scaled : bool
        Whether the norms are already nearly equal, as Theorem 1 requires. If not, rows are centred and scaled to one
        norm.
    """

    name: str
    X: np.ndarray
    y: np.ndarray
    scaled: bool = False


def mixture(seed: int = 0) -> TwoClasses:
    """Draw the source's Gaussian mixture of classes a = 1, 2 in p = 512 dimensions.

    The means are ``4 e_a``, and the covariances are ``(1 + 4 (a - 1) / sqrt(p)) I``.
    """
    law = pm.theory.GaussianMixture(4 * np.eye(2, _COLUMNS), 1 + 4 * np.arange(2) / _COLUMNS**0.5)
    X, labels = law.sample(8 * (_ROWS + _TEST_ROWS), random_state=seed)
    return TwoClasses("mixture", X, np.where(labels == labels.max(), 1.0, -1.0), scaled=True)


def of_classes(name: str, X: np.ndarray, y: np.ndarray, first: int, second: int) -> TwoClasses:
    """Return the rows of two classes, labelled -1 (`first`) and 1 (`second`)."""
    kept = np.isin(y, (first, second))
    return TwoClasses(name, X[kept], np.where(y[kept] == second, 1.0, -1.0))


def run(data: TwoClasses, widths: Sequence[int], *, draws: Sequence[int] = range(5)) -> Iterator[dict[str, Any]]:
    """Fit ridge regression with the exact kernel and on the features of each method.

    Each seed in `draws` draws the maps and the rows. In a measurement, `error` is the mean squared error against labels
    -1 and 1 on the test rows. `wrong` is the share of test rows for which the sign of the output is wrong. `bytes` is
    the size of the features of one row, or of a row of the kernel matrix. `seconds` is the time of drawing the map,
    mapping all rows, and forming inner products; it is the same at every regularisation.
    """
    rows = np.random.default_rng(0).standard_normal((32, 16)) * (_TAU / 16) ** 0.5
    for phi in _maps(64).values():
        # The first use of a map compiles code. The measured times must not include the compilation.
        _products(phi, rows[:16], rows[16:])
    for draw in draws:
        order = np.random.default_rng(draw).permutation(len(data.X))[: _ROWS + _TEST_ROWS]
        n = min(_ROWS, 2 * len(order) // 3)
        X, y = data.X[order].astype(np.float64), data.y[order]
        if not data.scaled:
            X = X[:, np.sort(np.argsort(-X[:n].var(axis=0))[:_COLUMNS])]
            X -= X[:n].mean(axis=0)
            X *= _TAU**0.5 / np.linalg.norm(X, axis=1, keepdims=True)
        for width in widths:
            for name, phi in {KERNEL: None, **_maps(width)}.items():
                start = time.perf_counter()
                if phi is None:
                    kernel = pm.kernels.Gaussian()
                    K, K_test, n_bytes = kernel(X[:n]), kernel(X[n:], X[:n]), 4.0 * n
                else:
                    K, K_test, n_bytes = _products(phi.set_params(random_state=draw), X[:n], X[n:])
                seconds = time.perf_counter() - start
                row = {"dataset": data.name, "method": name, "n_components": width, "seed": draw}
                for point in _path(K.astype(np.float64), K_test.astype(np.float64), y[:n], y[n:]):
                    yield row | point | {"bytes": n_bytes, "seconds": seconds}


def _maps(n_components: int) -> dict[str, Any]:
    """Return the compared maps by name."""
    kernel = pm.kernels.Gaussian()
    maps: dict[str, Any] = {FOURIER: pm.FourierFeatures(kernel, n_components, projection="gaussian")}
    for sparsity in SPARSITIES:
        maps[f"trf {sparsity}"] = pm.TernaryFeatures(kernel, n_components, sparsity=sparsity, packed=True)
    maps[_MIXTURE] = pm.TernaryFeatures(kernel, n_components, sparsity=0.5, degrees=3, packed=True)
    return maps


#: Number of measurements for one draw and one width: every method at every regularisation.
STEPS = (1 + len(_maps(1))) * len(REGULARISATION)


def _products(phi: Any, X: np.ndarray, X_test: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Return inner products (n, n) and (n_test, n) of features in float32, and the bytes of one row's features."""
    Z, Z_test = phi.fit_transform(X.astype(np.float32)), phi.transform(X_test.astype(np.float32))
    K, K_test = (Z.gram(), Z_test.gram(Z)) if isinstance(Z, pm.PackedArray) else (Z @ Z.T, Z_test @ Z.T)
    return K, K_test, Z.nbytes / len(X)


def _path(K: np.ndarray, K_test: np.ndarray, y: np.ndarray, y_test: np.ndarray) -> Iterator[dict[str, float]]:
    """Yield the squared error and the share of wrong signs for centred features at every regularisation."""
    means, mean = K.mean(axis=0), K.mean()
    values, vectors = np.linalg.eigh(K - means - means[:, None] + mean)
    weights = vectors.T @ (y - y.mean())
    projected = (K_test - K_test.mean(axis=1, keepdims=True) - means + mean) @ vectors
    # Eigenvectors with an eigenvalue of about 0 are omitted, such as the constant vector after centring.
    kept = values > len(y) * np.finfo(np.float32).eps * values[-1]
    for regularisation in REGULARISATION:
        outputs = y.mean() + projected[:, kept] @ (weights[kept] / (values[kept] + regularisation))
        error, wrong = float(np.mean((outputs - y_test) ** 2)), float(np.mean(np.sign(outputs) != y_test))
        yield {"regularisation": regularisation, "error": error, "wrong": wrong}


def report(options: BenchOptions, stages: Stages) -> Report:
    """Measure the chosen sets at the chosen widths, by default the published ones."""
    draws, names = options.seeds(5), options.sets or tuple(FIGURES)
    for name in names:
        if name not in (*FIGURES, "digits"):
            raise ValueError(f"--sets must be among {', '.join(FIGURES)}, digits, got {name!r}.")
    # All sets are read before the first is measured, so that a missing file is reported at once.
    loaded = [_load(name, options) for name in names]
    parts = []
    for data in loaded:
        widths = options.widths or tuple(FIGURES.get(data.name, {10_000: 0}))
        fits = run(data, widths, draws=draws)
        parts.append(measured(stages, data.name, fits, len(draws) * len(widths) * STEPS))
    found = pd.concat(parts, ignore_index=True)
    groups = list(found.groupby(["dataset", "n_components"], sort=False))
    figures = {
        f"footprint-path_{name}_{width}.png".replace(" ", "-"): partial(_figure, part, f"{name}, m = {width:,}")
        for (name, width), part in groups
    }
    return Report(
        found,
        [_table(part, name, width) for (name, width), part in groups],
        figures,
        [_finding(part, name, width) for (name, width), part in groups],
    )


def _load(name: str, options: BenchOptions) -> TwoClasses:
    if name == "mixture":
        return mixture(options.seed)
    data = load("digits" if name == "digits" else "MNIST", options.data, options.seed)
    return of_classes(name, data.X, data.y, 7, 9)


def _finding(found: pd.DataFrame, dataset: str, width: int) -> Finding:
    """Return the least errors over all regularisations: exact kernel, Fourier features, range over sparsities."""
    least, draws = means(found).min(axis=1), found["seed"].nunique()
    ternary = least[[f"trf {sparsity}" for sparsity in SPARSITIES]]
    figure = FIGURES.get(dataset, {}).get(width)
    published_size = f"{_ROWS:,} rows, m = {width:,}, 5 draws"
    published = "the gap of ternary to Fourier falls as m grows (a plot)"
    if figure == 3:
        published_size += ", sparsity 0.1, 0.5, 0.9"
        published = "virtually no loss of ternary against Fourier (a plot)"
    return Finding(
        "Ali et al. (2022)",
        f"Figure {figure}, {dataset}" if figure else f"like Figures 3 and 5 to 9, {dataset}",
        "least squared error along the regularisation: kernel; Fourier; ternary, sparsity 0.1 to 0.9",
        f"{_ROWS:,} rows, m = {width:,}, {draws} draws",
        f"{least[KERNEL]:.4f}; {least[FOURIER]:.4f}; {ternary.min():.4f} to {ternary.max():.4f}",
        published if figure else "-",
        published_size if figure else "-",
    )


def _table(found: pd.DataFrame, dataset: str, width: int) -> ResultTable:
    """Return a table with a line for each method: mean error at each regularisation, least error, mean costs."""
    paths = means(found)
    frame = paths.rename(columns="{:g}".format).assign(least=paths.min(axis=1))
    formats = dict.fromkeys(frame, ".4f") | {"bytes": ".0f", "seconds": ".2f"}
    frame = frame.join(found.groupby("method")[["bytes", "seconds"]].mean()).reset_index()
    title = f"{dataset}, m = {width:,}: squared test error of ridge regression by what is added to the Gram matrix"
    return ResultTable(title, frame, formats)


def means(found: pd.DataFrame) -> pd.DataFrame:
    """Return squared errors averaged over draws, with a row for each method and a column for each regularisation."""
    return found.pivot_table(index="method", columns="regularisation", values="error", sort=False).sort_index(axis=1)


def _figure(found: pd.DataFrame, title: str, path: Path) -> None:
    """Plot the squared test error against the regularisation, one line per method, on an axis that includes 0."""
    drawn, ((axis,),) = panels(6.4, 4.8)
    for number, (method, errors) in enumerate(means(found).iterrows()):
        style: dict[str, Any] = {"color": "k", "linewidth": 2} if method == KERNEL else {"color": f"C{number - 1}"}
        axis.plot(errors.index, errors, marker="o", markersize=3, label=method, **style)
    axis.set_xscale("symlog", linthresh=min(value for value in REGULARISATION if value > 0))
    axis.set(yscale="log", xlabel="added to the diagonal of the Gram matrix", ylabel="squared test error", title=title)
    axis.legend(frameon=False, fontsize=8)
    finish(drawn, [axis], path)
