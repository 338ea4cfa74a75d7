"""What leverage scores save: features for one Delta-spectral approximation; and scores of a subset beside those of all.

Gaussian kernel on standardised rows. For each lambda, the ridge parameter of a row, the script measures Delta of
``K + n lambda I`` with plain Gaussian directions and with those drawn by leverage. It prints how many times fewer
features the latter need for the Delta that plain ones have at the middle width. The tables are those of
docs/explanation/data_dependent.md, whose other figures are ``phimap bench data-dependent``.

    python benchmarks/data_dependent.py --data DIR [--sets letter,protein] [--rows 2000] [--seeds 3]
"""

from __future__ import annotations

import argparse
import json
import os
import time
from datetime import date
from pathlib import Path

import numpy as np
from scipy.linalg import cholesky, solve_triangular

import phimap as pm
from phimap.bench.data_dependent import MAPS, TableTask, load
from phimap.features.data_dependent.pool import chosen_rows, draw_pool
from phimap.features.data_dependent.scores import leverage_scores
from phimap.learn.search.families import median_length_scale

WIDTHS = (512, 1024, 2048)
SCALES = (1.0, 0.5)
LAMBDAS = (1e-2, 1e-3, 1e-4)
ERROR_WIDTHS = (128, 512)
ERROR_METHODS = (
    "gaussian",
    "orthogonal",
    "minimum-energy",
    "nystroem",
    "least-squares",
    "stein",
    "frank-wolfe",
    "giga",
)


def spectral_delta(phi: pm.features.FeatureMap, X: np.ndarray, K: np.ndarray, factor: np.ndarray) -> float:
    """Delta of `metrics.spectral_approximation`, from the lower factor of ``K + n lambda I`` that many maps share."""
    Z = phi.fit_transform(X)
    half = solve_triangular(factor, Z @ Z.T - K, lower=True)
    return float(np.abs(np.linalg.eigvalsh(solve_triangular(factor, half.T, lower=True))[[0, -1]]).max())


# Methods of the table of scores.
TASK_METHODS = ("gaussian", "polarization", "alignment", "kitchen-sinks", "leverage", "nystroem", "learned metric")


def fewer(plain: np.ndarray, leverage: np.ndarray) -> float:
    """How many times fewer features give the plain Delta of the middle width: lines through the logarithms."""
    lines = [np.polyfit(np.log(deltas), np.log(WIDTHS), 1) for deltas in (plain, leverage)]
    at = np.log(plain[len(WIDTHS) // 2])
    return float(np.exp(np.polyval(lines[0], at) - np.polyval(lines[1], at)))


def gains(name: str, X: np.ndarray, seeds: int) -> None:
    """Print the table of one set."""
    n, median = len(X), median_length_scale(X[:1000])
    for scale in SCALES:
        kernel = pm.kernels.Gaussian(median * scale)
        K = kernel(X)
        eigenvalues = np.maximum(np.linalg.eigvalsh(K), 0)
        for alpha in LAMBDAS:
            factor = cholesky(K + n * alpha * np.eye(n), lower=True)
            dimension = float((eigenvalues / (eigenvalues + n * alpha)).sum())
            deltas = np.zeros((3, len(WIDTHS)))
            for i, width in enumerate(WIDTHS):
                for seed in range(seeds):
                    maps = (
                        pm.FourierFeatures(kernel, width, projection="gaussian", random_state=seed),
                        pm.LeverageFeatures(kernel, width, alpha=alpha, random_state=seed),
                        pm.LeverageFeatures(kernel, width, random_state=seed),
                    )
                    deltas[:, i] += [spectral_delta(phi, X, K, factor) / seeds for phi in maps]
            cells = " | ".join(f"{plain:.2f}, {drawn:.2f}, {auto:.2f}" for plain, drawn, auto in deltas.T)
            times = f"{fewer(deltas[0], deltas[1]):.1f} | {fewer(deltas[0], deltas[2]):.1f}"
            print(f"| {name} | {scale:g} | {alpha:g} | {dimension:.0f} | {cells} | {times} |", flush=True)


def score_errors(name: str, X: np.ndarray) -> None:
    """Print how far scores of a subset lie from those of all rows, each in units of their mean."""
    kernel = pm.kernels.Gaussian(median_length_scale(X[:1000]))
    frequencies, _ = draw_pool(kernel, X.shape[1], 4096, "gaussian", np.random.default_rng(0))
    exact, alpha = leverage_scores(kernel, X, frequencies, None, 1024)
    for size in (500, 1000, 1500):
        start = time.perf_counter()
        rows, _ = chosen_rows(X, size, np.random.default_rng(1))
        scores, _ = leverage_scores(kernel, rows, frequencies, alpha, 1024)
        seconds = time.perf_counter() - start
        error = np.abs(scores / scores.mean() * exact.mean() / exact - 1)
        cells = " | ".join(f"{100 * np.quantile(error, q):.0f} %" for q in (0.5, 0.9, 1.0))
        print(f"| {name} | {size} of {len(X)} | {alpha:.1e} | {cells} | {seconds:.1f} |", flush=True)


def kernel_errors(name: str, task: TableTask, seeds: int) -> None:
    """Print the relative error (%) on test rows of the methods that estimate the kernel, and seconds of a fit."""
    kernel = pm.kernels.Gaussian(median_length_scale(task.X[:1000]))
    for width in ERROR_WIDTHS:
        cells = []
        for method in ERROR_METHODS:
            start = time.perf_counter()
            maps = [MAPS[method](kernel, width).set_params(random_state=seed).fit(task.X) for seed in range(seeds)]
            seconds = (time.perf_counter() - start) / seeds
            errors = [100 * pm.metrics.relative_error(phi, task.X_test) for phi in maps]
            cells.append(f"{np.mean(errors):.2g} ({seconds:.2f})")
        print(f"| {name} | {width} | {' | '.join(cells)} |", flush=True)


def task_table(file: Path) -> None:
    """Print the mean scores in a result of ``phimap bench data-dependent`` at both length scales."""
    measured: dict[tuple, list[float]] = {}
    for row in json.loads(file.read_text())["rows"]:
        place = row["dataset"], row["scale"], row["method"], row["n_components"]
        measured.setdefault(place, []).append(row["score"])
    sets, scales, _, widths = (list(dict.fromkeys(column)) for column in zip(*measured, strict=True))
    print(f"| set, length scale / median | method | {' | '.join(f'm = {width:,}' for width in widths)} |")
    print(f"|---|---|{'---|' * len(widths)}")
    # A metric that is learned has no scale of its own choosing.
    for scale in sorted(filter(None, scales)):
        for name in sets:
            for method in TASK_METHODS:
                known = scale if (name, scale, method, widths[0]) in measured else None
                found = [measured.get((name, known, method, width)) for width in widths]
                cells = " | ".join("" if scores is None else f"{np.mean(scores):.1f}" for scores in found)
                print(f"| {name}, {scale:g} | {method} | {cells} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    data = os.environ.get("PHIMAP_DATA")
    parser.add_argument("--data", type=Path, default=data, required=data is None)
    parser.add_argument("--sets", default="letter,protein")
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--task-table", type=Path, help="results/data-dependent.json, of which a table is printed")
    arguments = parser.parse_args()
    if arguments.task_table is not None:
        task_table(arguments.task_table)
        return
    tables = {name: load(name, arguments.data, most_rows=arguments.rows) for name in arguments.sets.split(",")}
    print(f"{date.today():%d %B %Y}, {arguments.rows} rows, {arguments.seeds} seeds")
    print("| set | rows | lambda | error of scores: median | 90 % | largest | seconds |\n|---|---|---|---|---|---|---|")
    for name, task in tables.items():
        score_errors(name, task.X.astype(np.float64))
    print(f"\n| set | m | {' | '.join(ERROR_METHODS)} |\n|---|---|{'---|' * len(ERROR_METHODS)}")
    for name, task in tables.items():
        kernel_errors(name, task, arguments.seeds)
    widths = " | ".join(f"m = {width}: plain, leverage, with automatic alpha" for width in WIDTHS)
    print(f"\n| set | length scale | lambda | dimension | {widths} | times fewer features | automatic |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name, task in tables.items():
        gains(name, task.X.astype(np.float64), arguments.seeds)


if __name__ == "__main__":
    main()
