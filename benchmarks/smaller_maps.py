"""Errors of smaller members beside the defaults: point sets, grids, random degrees, indefinite kernels, few bits.

Relative Frobenius errors, root mean square over seeds, on 500 random rows of standardised data. Tables in Markdown:
Fourier features over independent directions at the same width, for the sets of points of `QuasiMonteCarlo` and for
`GaussGrid` on leading columns; a polynomial of unit rows by every Maclaurin map; the sigmoid kernel of unit rows;
features rounded by chance and to the nearest point.

    python benchmarks/smaller_maps.py --data DIR [--sets letter protein] [--seeds 10]
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy.spatial.distance import pdist

import phimap as pm
from phimap.features.base import FeatureMap
from phimap.projections import Projection
from phimap.projections.quasi_monte_carlo import SEQUENCES, QuasiMonteCarlo
from projections import rows_of

ROWS = 500


def error(make: Callable[[int], FeatureMap], X: np.ndarray, seeds: int) -> float:
    """Root mean square of the relative error over seeds."""
    return float(np.sqrt(np.mean([pm.metrics.relative_error(make(seed).fit(X), X) ** 2 for seed in range(seeds)])))


def fourier_error(
    kernel: pm.kernels.Gaussian, s: int, projection: str | Projection, X: np.ndarray, seeds: int
) -> float:
    """That of pairs from s directions."""
    return error(lambda i: pm.FourierFeatures(kernel, 2 * s, projection=projection, random_state=i), X, seeds)


def points(name: str, X: np.ndarray, seeds: int) -> None:
    """Sets of points over independent directions, for prime and other numbers of them."""
    kernel = pm.kernels.Gaussian(float(np.median(pdist(X))))
    print(f"\n| {name}, {X.shape[1]} columns | " + " | ".join((*SEQUENCES, "auto")) + " |")
    print("|---" * (len(SEQUENCES) + 2) + "|")
    for s in (64, 127, 512, 1021):
        found = []
        for projection in ("gaussian", *map(QuasiMonteCarlo, SEQUENCES), "auto"):
            found.append(fourier_error(kernel, s, projection, X, seeds))
        print(f"| s = {s} | " + " | ".join(f"{value / found[0]:.2f}" for value in found[1:]) + " |", flush=True)


def grids(name: str, X: np.ndarray, seeds: int) -> None:
    """The dense grid of the leading columns."""
    print(f"\n| {name} | directions | gauss-grid | independent | auto |")
    print("|---|---|---|---|---|")
    for d, n in ((1, 8), (2, 6), (3, 6), (4, 5), (6, 4), (8, 2)):
        part = np.ascontiguousarray(X[:, :d])
        kernel = pm.kernels.Gaussian(float(np.median(pdist(part))))
        s = (n**d + 1) // 2
        rivals = (("gauss-grid", 1), ("gaussian", seeds), ("auto", seeds))
        found = [fourier_error(kernel, s, projection, part, n_draws) for projection, n_draws in rivals]
        print(f"| {d} columns | {s} | " + " | ".join(f"{value:.2g}" for value in found) + " |", flush=True)


def degrees(name: str, X: np.ndarray, seeds: int) -> None:
    """A polynomial of unit rows by every map of Maclaurin, with and without exact degrees."""
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    kernel = pm.kernels.Polynomial(3, gamma=1.0, coef0=1.0)
    print(f"\n| {name}, polynomial of degree 3 | 256 | 1024 | 4096 |")
    print("|---|---|---|---|")
    for method, exact, adaptive in (
        ("random-maclaurin", (), False),
        ("maclaurin", (), False),
        ("random-maclaurin", (0, 1), False),
        ("maclaurin", (0, 1), False),
        ("polysketch", (0, 1), True),
    ):
        options = {"method": method, "exact_degrees": exact, "adaptive": adaptive}
        found = [
            error(lambda i, m=m, o=options: pm.DotProductFeatures(kernel, m, random_state=i, **o), unit, seeds)
            for m in (256, 1024, 4096)
        ]
        label = f"{method}, exact {exact}" + (", adaptive" if adaptive else "")
        print(f"| {label} | " + " | ".join(f"{value:.3f}" for value in found) + " |", flush=True)


def indefinite(name: str, X: np.ndarray, seeds: int) -> None:
    """The sigmoid kernel of unit rows."""
    print(f"\n| {name}, tanh(gamma cos + c) | lowest / highest eigenvalue | 256 | 1024 | 4096 |")
    print("|---|---|---|---|---|")
    for gamma, coef0 in ((1.0, 0.0), (1.0, -0.5), (2.0, 0.0), (2.0, 0.3)):
        kernel = pm.kernels.Zonal("tanh", gamma=gamma, coef0=coef0)
        values = np.linalg.eigvalsh(kernel(X.astype(np.float64)))
        found = [
            error(lambda i, m=m, k=kernel: pm.SphericalFeatures(k, m, random_state=i), X, seeds)
            for m in (256, 1024, 4096)
        ]
        cells = " | ".join(f"{value:.3f}" for value in found)
        print(f"| gamma {gamma:g}, c {coef0:g} | {values[0] / values[-1]:.3f} | {cells} |", flush=True)


def roundings(name: str, X: np.ndarray, seeds: int) -> None:
    """Features rounded to a few bits, by chance and to the nearest point."""
    kernel = pm.kernels.Gaussian(float(np.median(pdist(X))))
    print(f"\n| {name}, 4,096 features | 1 bit | 2 bits | 4 bits | 8 bits | not rounded |")
    print("|---|---|---|---|---|---|")

    def plain(seed: int) -> FeatureMap:
        return pm.FourierFeatures(kernel, 4096, projection="gaussian", random_state=seed)

    for rounding in ("stochastic", "nearest"):
        found = [
            error(lambda i, b=bits, r=rounding: pm.QuantizedFeatures(plain(i), b, rounding=r, random_state=i), X, seeds)
            for bits in (1, 2, 4, 8)
        ]
        found.append(error(plain, X, seeds))
        print(f"| {rounding} | " + " | ".join(f"{value:.4f}" for value in found) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    data = os.environ.get("PHIMAP_DATA")
    parser.add_argument("--data", type=Path, default=data, required=data is None)
    parser.add_argument("--sets", nargs="+", default=["letter", "protein"])
    parser.add_argument("--seeds", type=int, default=10)
    arguments = parser.parse_args()
    for name in arguments.sets:
        X = rows_of(name, arguments.data)[:ROWS]
        for measure in (points, grids, degrees, indefinite, roundings):
            measure(name, X, arguments.seeds)


if __name__ == "__main__":
    main()
