"""Errors and times of the maps of the Laplacian kernel: random partitions beside random Fourier features.

Relative Frobenius errors in percent, root mean square over seeds, on 500 random rows of standardised data; the length
scale is the median city-block distance. In parentheses microseconds a row of `transform` on one thread, the least of
three rounds in which the maps take turns, for 1,000 float32 rows. Fourier features with independent directions are the
first bar to meet: at one column a partition the theory gives partitions the same variance. `auto` directions are the
default of the library.

    python benchmarks/partitions.py --data DIR [--sets letter protein] [--seeds 10]
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy.spatial.distance import pdist
from smaller_maps import ROWS, error
from timing import least_seconds

import phimap as pm
from phimap.features.base import FeatureMap
from projections import rows_of

WIDTHS = (256, 1024, 4096)
Maker = Callable[[int, int], FeatureMap]


def makers(length_scale: float) -> dict[str, Maker]:
    """Functions of width and seed that give the maps, by name."""
    kernel = pm.kernels.Laplacian(length_scale)

    def fourier(projection: str) -> Maker:
        return lambda m, seed: pm.FourierFeatures(kernel, m, projection=projection, random_state=seed, n_jobs=1)

    def binning(each: int) -> Maker:
        return lambda m, seed: pm.BinningFeatures(kernel, m, columns_per_partition=each, random_state=seed, n_jobs=1)

    def mondrian(each: int) -> Maker:
        return lambda m, seed: pm.MondrianFeatures(
            length_scale, m, columns_per_partition=each, random_state=seed, n_jobs=1
        )

    made = {"fourier, independent": fourier("gaussian"), "fourier, auto": fourier("auto")}
    for name, partition in (("binning", binning), ("mondrian", mondrian)):
        made |= {f"{name}, {each} a partition": partition(each) for each in (1, 8, 64)}
    return made


def table(name: str, X: np.ndarray, seeds: int) -> None:
    """Print the table of one set."""
    found: dict[str, list[str]] = {}
    few, made = X[:ROWS], makers(float(np.median(pdist(X, "cityblock"))))
    for m in WIDTHS:
        maps = {label: make(m, 0).fit(X) for label, make in made.items()}
        seconds = least_seconds({label: lambda phi=phi: phi.transform(X) for label, phi in maps.items()}, 3)
        for label, make in made.items():
            percent = 100 * error(lambda seed, m=m, make=make: make(m, seed), few, seeds)
            found.setdefault(label, []).append(f"{percent:.2f} ({1e6 * seconds[label].clock / len(X):.1f})")
    print(f"\n| {name}, {X.shape[1]} columns | " + " | ".join(f"m = {m:,}" for m in WIDTHS) + " |")
    print("|---" * (len(WIDTHS) + 1) + "|")
    for label, cells in found.items():
        print(f"| {label} | " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    data = os.environ.get("PHIMAP_DATA")
    parser.add_argument("--data", type=Path, default=data, required=data is None)
    parser.add_argument("--sets", nargs="+", default=["letter", "protein"])
    parser.add_argument("--seeds", type=int, default=10)
    arguments = parser.parse_args()
    for name in arguments.sets:
        table(name, rows_of(name, arguments.data), arguments.seeds)


if __name__ == "__main__":
    main()
