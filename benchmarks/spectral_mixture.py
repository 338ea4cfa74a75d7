"""Spectral mixtures that are fitted: known ones recovered, and real tables beside the plain Gaussian and the metric.

Known mixtures are two modulated Gaussians on a line and in three columns. Told are the relative errors of the fitted
frequencies, and the root mean square error of kernel ridge regression on rows without noise, as a multiple of that with
the true kernel, beside that of the best Gaussian kernel among powers of 2. Real tables are fitted by `KernelRegressor`
at one width without corrections; told is the share of the targets' spread that is left on a tenth of the rows.

    python benchmarks/spectral_mixture.py --data DIR [--sets airfoil bike concrete kin8nm wind sml] [--seeds 3]
"""

from __future__ import annotations

import argparse
import os
import warnings
from pathlib import Path
from time import perf_counter

import numpy as np

import phimap as pm
from phimap.kernels import Gaussian, Kernel, SpectralMixture

FILES = ("uci_regression.npz", "regression_extra.npz")
#: Names, true kernels and half the extent of a column, and rows.
KNOWN = {
    "line, n = 1,000": (SpectralMixture([1.0, 1.0], [[3.1], [8.2]], [[0.15], [0.25]]), 20.0, 1000),
    "line, n = 2,000": (SpectralMixture([1.0, 1.0], [[3.1], [8.2]], [[0.15], [0.25]]), 20.0, 2000),
    "3 columns, n = 2,000": (
        SpectralMixture([1.0, 1.0], [[2.5, 0.0, 1.0], [0.0, 4.0, -1.5]], [[0.12] * 3, [0.15] * 3]),
        3.0,
        2000,
    ),
}
ALPHAS = (1e-4, 1e-3, 1e-2, 1e-1)
NOISE, TEST_ROWS = 0.1, 1000
# The total count of bike hours is the sum of its last two columns.
LEAKS = {"bike": 2}
METHODS = {
    "gaussian": {"kernel": "gaussian", "metric": None},
    "gaussian, metric": {"kernel": "gaussian"},
    "mixture": {"kernel": "spectral-mixture"},
    "auto": {},
}


def least_error(kernel: Kernel, rows: tuple[np.ndarray, ...]) -> float:
    """Least root mean square error over regularisations."""
    X, y, Z, f = rows
    gram, others = kernel(X), kernel(Z, X)
    fits = (others @ np.linalg.solve(gram + alpha * np.eye(len(X)), y) for alpha in ALPHAS)
    return min(float(np.sqrt(np.square(fit - f).mean())) for fit in fits)


def known(seeds: int) -> None:
    """Known mixtures."""
    print("| data | seed | error of frequencies | error / true kernel's | best Gaussian / true kernel's | seconds |")
    print("|---|---|---|---|---|---|")
    for name, (true, extent, n) in KNOWN.items():
        for seed in range(seeds):
            rng = np.random.default_rng(seed)
            X = rng.uniform(-extent, extent, (n + TEST_ROWS, np.shape(true.means)[1]))
            f = np.linalg.cholesky(true(X) + 1e-8 * np.eye(len(X))) @ rng.standard_normal(len(X))
            rows = (X[:n], f[:n] + NOISE * rng.standard_normal(n), X[n:], f[n:])
            start = perf_counter()
            found = SpectralMixture.fitted(*rows[:2], n_mixtures=2, random_state=seed)
            seconds = perf_counter() - start
            # A frequency and its opposite are one.
            gaps = [min(np.linalg.norm(m - s * g) for g in found.means for s in (-1, 1)) for m in np.array(true.means)]
            off = max(gap / np.linalg.norm(m) for gap, m in zip(gaps, np.array(true.means), strict=True))
            best = least_error(true, rows)
            gaussian = min(least_error(Gaussian(width), rows) for width in 2.0 ** np.arange(-5, 4))
            ours = least_error(found, rows)
            print(
                f"| {name} | {seed} | {off:.1%} | {ours / best:.2f} | {gaussian / best:.2f} | {seconds:.1f} |",
                flush=True,
            )


def table(name: str, folder: Path) -> tuple[np.ndarray, ...]:
    """Rows and targets of a table, the last tenth of them for the test."""
    for file in FILES:
        with np.load(folder / file) as arrays:
            if f"{name}_X" in arrays:
                X, y = arrays[f"{name}_X"].astype(np.float64), arrays[f"{name}_y"].astype(np.float64)
                X = X[:, : X.shape[1] - LEAKS.get(name, 0)]
                order = np.random.default_rng(0).permutation(len(y))
                n = len(y) - len(y) // 10
                return X[order[:n]], y[order[:n]], X[order[n:]], y[order[n:]]
    raise SystemExit(f"no table {name!r} in {', '.join(FILES)} of {folder}.")


def real(names: list[str], folder: Path, width: int, seeds: int) -> None:
    """Real tables."""
    print(f"| table | n | d | {' | '.join(METHODS)} |")
    print("|---|---|---|" + "---|" * len(METHODS))
    for name in names:
        X, y, Z, f = table(name, folder)
        cells = []
        for settings in METHODS.values():
            left, times = [], []
            for seed in range(seeds):
                start = perf_counter()
                model = pm.KernelRegressor(n_components=width, corrections=None, random_state=seed, **settings).fit(
                    X, y
                )
                times.append(perf_counter() - start)
                left.append(1 - model.score(Z, f))
            cells.append(f"{np.median(left):.4f} ({np.median(times):.0f} s)")
        print(f"| {name} | {len(y)} | {X.shape[1]} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=os.environ.get("PHIMAP_DATA"))
    parser.add_argument("--sets", nargs="*", default=["airfoil", "bike", "concrete", "kin8nm", "wind", "sml"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--width", type=int, default=1024)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    known(options.seeds)
    if options.data is not None and options.sets:
        real(options.sets, Path(options.data), options.width, options.seeds)


if __name__ == "__main__":
    main()
