"""Relative error of positive and of trigonometric features of the softmax kernel, by the size of the kernel.

Centred rows of a set, divided by their norms, at `Exponential(length_scale)`: root mean square of (estimate / kernel -
1) over pairs of rows whose kernel is in a range, and of the derived variance for independent directions beside it.

    python benchmarks/positive.py [--data DIR --sets letter] [--components 256] [--seeds 20]

Without --data the digits that ship with scikit-learn.
"""

from __future__ import annotations

import argparse
from itertools import pairwise
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

import phimap as pm
from phimap.bench.datasets import load

ROWS = 500
# Edges of ranges of <x, y> / length_scale^2, in units of its largest value.
EDGES = (-1.0, -0.5, -0.2, 0.2, 0.5, 1.0)
METHODS = {
    "positive, independent": ("positive", {"projection": "gaussian"}),
    "positive, single": ("positive", {"projection": "gaussian", "pairing": "single"}),
    "positive, orthogonal": ("positive", {"projection": "orthogonal"}),
    "positive, auto": ("positive", {}),
    "cosines, independent": ("cosines", {"projection": "gaussian"}),
    "cosines, orthogonal": ("cosines", {"projection": "orthogonal"}),
    "cosines, auto": ("cosines", {}),
}


def unit_rows(X: np.ndarray) -> np.ndarray:
    """Random rows (500, d), centred and of norm 1."""
    X = X[np.random.default_rng(0).permutation(len(X))[:ROWS]].astype(np.float64)
    X = X - X.mean(axis=0)
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def relative_squares(
    kind: str, options: dict, X: np.ndarray, length_scale: float, width: int, seeds: int
) -> np.ndarray:
    """Mean squares (n, n) of the relative errors over draws."""
    K = pm.kernels.Exponential(length_scale)(X)
    total = np.zeros_like(K)
    for seed in range(seeds):
        if kind == "positive":
            Z = pm.PositiveFeatures(
                pm.kernels.Exponential(length_scale), width, random_state=seed, **options
            ).fit_transform(X)
        else:
            # Of unit rows the exponential kernel is a multiple of the Gaussian one.
            kernel = pm.kernels.Gaussian(length_scale)
            Z = pm.FourierFeatures(kernel, width, random_state=seed, **options).fit_transform(X)
            Z *= np.exp(0.5 / length_scale**2)
        total += (Z @ Z.T / K - 1) ** 2
    return total / seeds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--sets", nargs="+", default=["letter"])
    parser.add_argument("--length-scales", nargs="+", type=float, default=[1.0, 0.7])
    parser.add_argument("--components", type=int, default=256)
    parser.add_argument("--seeds", type=int, default=20)
    arguments = parser.parse_args()
    tables = {"digits": load_digits().data}
    if arguments.data is not None:
        tables |= {name: load(name, arguments.data).X for name in arguments.sets}
    ranges = list(pairwise(EDGES))
    for name, table in tables.items():
        X = unit_rows(table)
        cosines = X @ X.T
        off = ~np.eye(len(X), dtype=bool)
        masks = [(low <= cosines) & (cosines < high) & off for low, high in ranges]
        for length_scale in arguments.length_scales:
            print(f"\n{name}, d = {X.shape[1]}, length scale {length_scale}, m = {arguments.components}")
            print("| method | " + " | ".join(f"{low:g} to {high:g}" for low, high in ranges) + " |")
            print("|---" * (len(ranges) + 1) + "|")
            print("| pairs of rows | " + " | ".join(str(mask.sum() // 2) for mask in masks) + " |")
            for sign, form in ((1, "positive"), (-1, "cosines")):
                square = (2 + sign * 2 * cosines) / length_scale**2
                derived = np.expm1(square) * -np.expm1(-square) / arguments.components
                cells = (f"{np.sqrt(derived[mask].mean()):.3f}" if mask.any() else "" for mask in masks)
                print(f"| {form}, derived | " + " | ".join(cells) + " |")
            for method, (kind, options) in METHODS.items():
                squares = relative_squares(kind, options, X, length_scale, arguments.components, arguments.seeds)
                cells = (f"{np.sqrt(squares[mask].mean()):.3f}" if mask.any() else "" for mask in masks)
                print(f"| {method} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
