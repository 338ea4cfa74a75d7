"""Maps and landmarks proposed after the survey of 2021, beside ours at equal width, and what follows of each.

Relative Frobenius errors, root mean square over seeds, on random standardised rows; rows of norm 1 for kernels of the
cosine. Methods that the library does not have are written here, in their plainest form:

- Gegenbauer features of zonal kernels (Han, Zandieh, Avron 2022): `SphericalFeatures` without exact degrees.
- Positive features with a damping for each principal direction of the rows (Likhosherstov et al. 2023, FAVOR#).
- Coupled radii of pairs of orthogonal directions (Reid et al. 2024), and orthogonal directions without radii of the
  law, whose kernel is a Bessel function (Demni, Kadri 2023).
- Randomly pivoted Cholesky in blocks (Epperly, Tropp, Webber 2024): ``landmarks="rpcholesky"``, beside the same law one
  pivot at a time.
- Supervised kernel thinning (Gong, Choi, Dwivedi 2024), here for landmarks, and its halvings alone without the swaps
  that follow them.

    python benchmarks/after_survey.py --data DIR [--sets letter protein a8a] [--seeds 5]
"""

from __future__ import annotations

import argparse
import os
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from scipy.spatial.distance import pdist
from smaller_maps import error

import phimap as pm
from phimap.bench.data_dependent import load
from phimap.features.base import FeatureMap
from phimap.features.nystroem.landmarks import SEARCHES
from phimap.kernels import Gaussian, Kernel, Zonal
from phimap.kernels.spectral import SpectralLaw
from phimap.projections import Orthogonal
from phimap.projections.dense import drawn_blocks, haar_orthogonal
from projections import rows_of

WIDTHS = (256, 1024)
#: Rows of which landmarks are chosen, and numbers of landmarks.
CANDIDATES, LANDMARKS = 4096, (64, 256)
#: Each method, the choice of the library or the method that it improves, and what is compared.
COMPARED = (
    ("Gegenbauer, as published", "FourierFeatures", "error"),
    ("SphericalFeatures", "FourierFeatures", "error"),
    ("damping = 'directions'", "damping = 'auto'", "error"),
    ("orthogonal, coupled radii", "orthogonal", "error"),
    ("orthogonal, coupled radii", "auto", "error"),
    ("orthogonal, fixed radii", "orthogonal", "error"),
    ("orthogonal, fixed radii", "auto", "error"),
    ("rpcholesky, in blocks", "rpcholesky, one by one", "seconds"),
    ("supervised thinning", "uniform", "test error"),
)


class FixedRadii(Orthogonal):
    """Orthogonal directions of norm sqrt(d)."""

    def _directions(self, law: SpectralLaw, n_directions: int, rng: np.random.Generator) -> np.ndarray:
        d = law.n_features
        blocks = drawn_blocks(lambda size, child: haar_orthogonal(d, child, size), n_directions, d, rng)
        return blocks * self._radii(law, n_directions, rng)[:, None] * law.scale

    def _radii(self, law: SpectralLaw, n_directions: int, rng: np.random.Generator) -> np.ndarray:
        return np.full(n_directions, law.n_features**0.5)


class CoupledRadii(FixedRadii):
    """Orthogonal directions, neighbours with radii at p and at 1 - p of their distribution."""

    def _radii(self, law: SpectralLaw, n_directions: int, rng: np.random.Generator) -> np.ndarray:
        p = rng.random((n_directions + 1) // 2)
        return law.radial_quantile(np.stack([p, 1 - p], axis=1).ravel()[:n_directions])


def table(
    name: str, what: str, rivals: Mapping[str, Callable[[int, int], FeatureMap]], X: np.ndarray, seeds: int
) -> dict[str, list[float]]:
    """Print and return the errors of maps, which are functions of width and seed, by name."""
    errors = {}
    print(f"\n| {name}, {X.shape[1]} columns, {what} | " + " | ".join(f"m = {m:,}" for m in WIDTHS) + " |")
    print("|---" * (len(WIDTHS) + 1) + "|")
    for label, make in rivals.items():
        errors[label] = [error(lambda seed, m=m, make=make: make(m, seed), X, seeds) for m in WIDTHS]
        print(f"| {label} | " + " | ".join(f"{value:.4f}" for value in errors[label]) + " |", flush=True)
    return errors


def zonal(name: str, X: np.ndarray, seeds: int) -> dict[str, list[float]]:
    """The Gaussian kernel of unit rows, a function of the cosine."""
    kernel, cosine = Gaussian(0.7), Zonal(lambda a: np.exp((a - 1) / 0.49))

    def spherical(m: int, seed: int, **options) -> FeatureMap:
        return pm.SphericalFeatures(cosine, m, random_state=seed, **options)

    rivals = {
        "Gegenbauer, as published": lambda m, s: spherical(m, s, exact_degrees=(), projection="gaussian"),
        "SphericalFeatures": spherical,
        "FourierFeatures": lambda m, s: pm.FourierFeatures(kernel, m, random_state=s),
        "DotProductFeatures": lambda m, s: pm.DotProductFeatures(kernel, m, random_state=s),
    }
    return table(name, "Gaussian kernel of unit rows", rivals, X, seeds)


def positive(name: str, X: np.ndarray, seeds: int) -> dict[str, list[float]]:
    """The exponential kernel of unit rows: one damping for all directions, and one for each."""
    kernel = pm.kernels.Exponential(0.7)
    rivals = {
        f"damping = {damping!r}{', ' * bool(projection) + projection}": lambda m, s, a=damping, p=projection: (
            pm.PositiveFeatures(kernel, m, damping=a, projection=p or "auto", random_state=s)
        )
        for projection in ("gaussian", "")
        for damping in (0.0, "auto", "directions")
    }
    return table(name, "exponential kernel of unit rows", rivals, X, seeds)


def radii(name: str, X: np.ndarray, seeds: int) -> dict[str, list[float]]:
    """The Gaussian kernel by orthogonal directions."""
    kernel = Gaussian(float(np.median(pdist(X))))
    rivals = {
        label: lambda m, s, p=projection: pm.FourierFeatures(kernel, m, projection=p, random_state=s)
        for label, projection in {
            "orthogonal": "orthogonal",
            "orthogonal, coupled radii": CoupledRadii(),
            "orthogonal, fixed radii": FixedRadii(),
            "sorf": "sorf",
            "auto": "auto",
        }.items()
    }
    return table(name, "Gaussian kernel", rivals, X, seeds)


def one_by_one(kernel: Kernel, rows: np.ndarray, n_landmarks: int, rng: np.random.Generator) -> np.ndarray:
    """Pivots of a randomly pivoted Cholesky factorisation, a kernel column for each."""
    diagonal, factor, pivots = kernel.diag(rows), np.zeros((len(rows), n_landmarks)), []
    for i in range(n_landmarks):
        pivots.append(int(rng.choice(len(rows), p=diagonal / diagonal.sum())))
        column = kernel(rows, rows[pivots[-1:]])[:, 0] - factor[:, :i] @ factor[pivots[-1], :i]
        factor[:, i] = column / column[pivots[-1]] ** 0.5
        diagonal = np.maximum(diagonal - factor[:, i] ** 2, 0)
        diagonal[pivots] = 0
    return np.array(pivots)


def halved(K: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Half of the rows of a kernel matrix, balanced against the other half by a self-balancing walk.

    Dwivedi, Mackey (2022), *Generalized kernel thinning*, Algorithm 1a for one halving, with a failure probability of
    one half spread over the pairs.
    """
    n = len(K) // 2 * 2
    signs, variance = np.zeros(len(K)), 0.0
    for first in range(0, n, 2):
        second = first + 1
        square = K[first, first] + K[second, second] - 2 * K[first, second]
        limit = max((square * variance * 2 * np.log(2 * n)) ** 0.5, square) or 1.0
        variance += square * max(1 + (square - 2 * limit) * variance / limit**2, 0.0)
        balance = float((K[first, :first] - K[second, :first]) @ signs[:first])
        swap = rng.random() < min(1.0, 0.5 * max(1 - balance / limit, 0.0))
        signs[first : first + 2] = (1, -1) if swap else (-1, 1)
    return np.flatnonzero(signs < 0)


def thinned(
    kernel: Kernel, rows: np.ndarray, targets: np.ndarray, n_landmarks: int, rng: np.random.Generator
) -> np.ndarray:
    """Rows left by repeated halving with the kernel of ridge regression, ``k^2 + k <y, y'>``."""
    chosen = rng.permutation(len(rows))
    K = kernel(rows)
    K *= K + targets @ targets.T
    while len(chosen) >= 2 * n_landmarks:
        chosen = chosen[halved(K[np.ix_(chosen, chosen)], rng)]
    return chosen[:n_landmarks]


def landmarks(name: str, folder: Path, seeds: int) -> dict[str, list[float]]:
    """Landmarks chosen among 4,096 rows: error of the kernel on them, of ridge regression on test rows, seconds.

    Returns the seconds of randomly pivoted Cholesky, and the errors of regression for other landmarks.
    """
    task = load(name, folder, most_rows=CANDIDATES)
    X, kernel = task.X.astype(np.float64), Gaussian(float(np.median(pdist(task.X[:1000]))))
    classes = issubclass(task.learner, pm.KernelClassifier)
    targets = np.eye(int(task.y.max()) + 1)[task.y.astype(int)] if classes else task.y[:, None].astype(np.float64)
    targets = (targets - targets.mean(axis=0)) / targets.std()
    K = kernel(X)
    ways = {
        "uniform": lambda m, rng: rng.permutation(len(X))[:m],
        "leverage": lambda m, rng: SEARCHES["leverage"](kernel, X, m, rng),
        "rpcholesky, in blocks": lambda m, rng: SEARCHES["rpcholesky"](kernel, X, m, rng),
        "rpcholesky, one by one": lambda m, rng: one_by_one(kernel, X, m, rng),
        "supervised thinning": lambda m, rng: thinned(kernel, X, targets, m, rng),
    }
    print(f"\n| {name}, landmarks of {len(X):,} rows | " + " | ".join(f"m = {m}" for m in LANDMARKS) + " |")
    print("|---" * (len(LANDMARKS) + 1) + "|")
    compared: dict[str, list[float]] = {label: [] for label in ways}
    for label, choose in ways.items():
        cells = []
        for m in LANDMARKS:
            found = []
            for seed in range(seeds):
                start = time.perf_counter()
                chosen = choose(m, np.random.default_rng(seed))
                seconds = time.perf_counter() - start
                phi = pm.NystroemFeatures(kernel, m, landmarks=X[chosen])
                Z = phi.fit(X).transform(X)
                model = task.learner(phi, standardize=None, random_state=seed).fit(task.X, task.y)
                lost = 1 - model.score(task.X_test, task.y_test)
                found.append((np.linalg.norm(Z @ Z.T - K) / np.linalg.norm(K), lost, seconds))
            means = np.mean(found, axis=0)
            compared[label].append(float(means[2 if "rpcholesky" in label else 1]))
            cells.append(f"{means[0]:.4f}; {means[1]:.4f}; {1000 * means[2]:.0f} ms")
        print(f"| {label} | " + " | ".join(cells) + " |", flush=True)
    return compared


def conclude(found: Mapping[str, list[float]]) -> None:
    """Print how each method compares with the library's choice, over all sets and widths."""
    print("\n| after the survey | beside | ratio of | least | median | largest | below 1 |")
    print("|---" * 7 + "|")
    for label, beside, what in COMPARED:
        ratios = np.divide(found[label], found[beside])
        middle = " | ".join(f"{value:.2f}" for value in np.quantile(ratios, (0, 0.5, 1)))
        print(f"| {label} | {beside} | {what} | {middle} | {(ratios < 1).sum()} of {ratios.size} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    data = os.environ.get("PHIMAP_DATA")
    parser.add_argument("--data", type=Path, default=data, required=data is None)
    parser.add_argument("--sets", nargs="+", default=["letter", "protein", "a8a"])
    parser.add_argument("--tables", nargs="+", default=["letter", "protein"], help="sets of the table of landmarks")
    parser.add_argument("--seeds", type=int, default=5)
    arguments = parser.parse_args()
    found: dict[str, list[float]] = defaultdict(list)

    def keep(values: Mapping[str, list[float]]) -> None:
        for label, of_label in values.items():
            found[label] += of_label

    for name in arguments.sets:
        X = rows_of(name, arguments.data)
        unit = X / np.linalg.norm(X, axis=1, keepdims=True)
        keep(zonal(name, unit, arguments.seeds))
        keep(positive(name, unit, arguments.seeds))
        keep(radii(name, X, arguments.seeds))
    for name in arguments.tables:
        keep(landmarks(name, arguments.data, arguments.seeds))
    conclude(found)


if __name__ == "__main__":
    main()
