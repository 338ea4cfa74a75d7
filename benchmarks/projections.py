"""Error of every projection over that of independent directions, at equal width: what ``projection="auto"`` rests on.

Relative Frobenius error on 1,000 random rows of standardised data (columns that do not vary left out), mean over
seeds. Length scales are the median distance, of absolute differences for the Laplacian kernel. Only projections with
positive weights that are no slower than a stored matrix compete. A table in Markdown: the choice of "auto" is starred,
and its error over that of the best stands in the last column.

    python benchmarks/projections.py --data DIR [--sets letter protein] [--kernels gaussian matern] [--seeds 10]
"""

from __future__ import annotations

import argparse
import gzip
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy.spatial.distance import pdist

import phimap as pm
from phimap.bench.datasets import load
from phimap.features.base import FeatureMap
from phimap.projections import as_projection

RIVALS = [
    "gaussian", "orthogonal", "sorf", "rom", "fastfood", "circulant", "qmc", "moment-matching", "simplex", "ssf",
    "minimum-energy",
]  # fmt: skip
ROWS = 1000


def rows_of(name: str, folder: Path) -> np.ndarray:
    """Standardised rows (1000, d) of a set, without columns that do not vary."""
    if name == "protein":
        with gzip.open(folder / "protein.csv.gz", "rt") as file:
            X = np.loadtxt(file, delimiter=",", skiprows=1)[:, 1:]
    else:
        X = load(name, folder).X.astype(np.float64)
    X = X[:, X.std(axis=0) > 0]
    chosen = np.random.default_rng(0).permutation(len(X))[:ROWS]
    return ((X - X.mean(axis=0)) / X.std(axis=0))[chosen].astype(np.float32)


def maker(kernel: str, X: np.ndarray) -> tuple[Callable[[int, str, int], FeatureMap], pm.kernels.Kernel]:
    """A function of directions, projection and seed that gives the map, and its kernel."""
    if kernel.startswith("arc-cosine"):
        order = int(kernel[-1])

        def arccosine(s: int, projection: str, seed: int) -> pm.ArcCosineFeatures:
            return pm.ArcCosineFeatures(order, s, projection=projection, random_state=seed)

        return arccosine, pm.kernels.ArcCosine(order)
    distances = pdist(X, "cityblock" if kernel == "laplacian" else "euclidean")
    length_scale = float(np.median(distances[distances > 0]))
    made = {
        "gaussian": pm.kernels.Gaussian(length_scale),
        "matern": pm.kernels.Matern(nu=1.5, length_scale=length_scale),
        "laplacian": pm.kernels.Laplacian(length_scale),
        "cauchy": pm.kernels.Cauchy(length_scale),
    }[kernel]

    def fourier(s: int, projection: str, seed: int) -> pm.FourierFeatures:
        return pm.FourierFeatures(made, 2 * s, projection=projection, random_state=seed)

    return fourier, made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    data = os.environ.get("PHIMAP_DATA")
    parser.add_argument("--data", type=Path, default=data, required=data is None)
    parser.add_argument("--sets", nargs="+", default=["letter", "protein", "magic04", "ijcnn1", "a8a", "MNIST"])
    parser.add_argument(
        "--kernels", nargs="+", default=["gaussian", "matern", "laplacian", "arc-cosine-0", "arc-cosine-1"]
    )
    parser.add_argument("--multiples", nargs="+", type=int, default=[2, 4, 8, 32], help="directions over d")
    parser.add_argument("--directions", nargs="*", type=int, default=[], help="further numbers of directions")
    parser.add_argument("--most", type=int, default=4096, help="largest number of directions")
    parser.add_argument("--projections", nargs="+", default=RIVALS)
    parser.add_argument("--seeds", type=int, default=10)
    arguments = parser.parse_args()
    names = list(dict.fromkeys(["gaussian", *arguments.projections]))
    print("| set | kernel | d | s | " + " | ".join(names[1:]) + " | auto / best |")
    print("|---" * (len(names) + 4) + "|")
    for name in arguments.sets:
        X = rows_of(name, arguments.data)
        d = X.shape[1]
        for kernel in arguments.kernels:
            make, exact = maker(kernel, X)
            K = exact(X)
            widths = {multiple * d for multiple in arguments.multiples} | set(arguments.directions)
            for s in sorted(width for width in widths if width <= arguments.most):
                errors = {}
                for projection in names:
                    try:
                        maps = [make(s, projection, seed).fit_transform(X) for seed in range(arguments.seeds)]
                    except ValueError:
                        continue
                    errors[projection] = float(np.mean([np.linalg.norm(Z @ Z.T - K) for Z in maps]))
                stationary = isinstance(exact, pm.kernels.StationaryKernel)
                law = exact.spectral_law(d) if stationary else pm.kernels.StandardGaussianLaw(d)
                auto = as_projection("auto", law).name
                cells = [
                    f"{errors[p] / errors['gaussian']:.3f}{'*' if p == auto else ''}" if p in errors else ""
                    for p in names[1:]
                ]
                loss = errors[auto] / min(errors.values()) if auto in errors else np.nan
                print(f"| {name} | {kernel} | {d} | {s} | " + " | ".join(cells) + f" | {loss:.2f} |", flush=True)


if __name__ == "__main__":
    main()
