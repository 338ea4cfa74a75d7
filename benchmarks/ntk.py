"""Time and error of neural tangent features against the published maps written in torch, as ratios within one run.

The published maps are the random features with dense Gaussian products and complex Fourier transforms (all three widths
half of the output) and the direct sketch of a polynomial of degree 8: all products of x and e1 by a binary tree whose
leaves are replaced one after the other, then one randomised transform of their direct sum. The limits are a product
of the rows with a dense matrix as wide as the output, and the writing of the output.

    python benchmarks/ntk.py --data DIR [--rows 5000] [--features 8192] [--depths 1 3] [--rounds 3] [--draws 3]
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from timing import least_seconds

import phimap as pm
from phimap.config import thread_count
from phimap.kernels.expansion import fitted_coefficients

DEGREE = 8
# Rows that the published sketch takes at a time: it holds some fifty arrays of them.
BATCH = 1000


def signs(n: int, generator: torch.Generator) -> torch.Tensor:
    return 2.0 * torch.randint(2, (n,), generator=generator) - 1.0


class SampledProduct:
    """Sketch of the tensor product of two rows: complex spectra of both, multiplied at random pairs of places."""

    def __init__(self, widths: tuple[int, int], n_components: int, generator: torch.Generator):
        self.signs = [signs(width, generator) for width in widths]
        self.rows = [torch.randint(width, (n_components // 2,), generator=generator) for width in widths]
        self.scale = (2 / n_components) ** 0.5

    def spectrum(self, X: torch.Tensor, side: int) -> torch.Tensor:
        return torch.fft.fft(X * self.signs[side])[:, self.rows[side]]

    def product(self, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        product = first * second
        return self.scale * torch.cat([product.real, product.imag], dim=1)


class PublishedFeatures:
    """Algorithm 2 of the source, with ``m0 = m1 = ms = n_components / 2``."""

    def __init__(self, depth: int, n_features: int, n_components: int, seed: int):
        generator = torch.Generator().manual_seed(seed)
        width = n_components // 2
        phi_width = psi_width = n_features
        self.layers = []
        for _ in range(depth):
            relu, step = (torch.randn(phi_width, width, generator=generator) for _ in range(2))
            self.layers.append((relu, step, SampledProduct((width, psi_width), width, generator)))
            phi_width, psi_width = width, n_components

    def transform(self, X: torch.Tensor) -> torch.Tensor:
        norms = X.norm(dim=1, keepdim=True)
        phi = psi = X / norms
        for relu, step, product in self.layers:
            scale = (2 / relu.shape[1]) ** 0.5
            derivative = scale * (phi @ step > 0).to(X.dtype)
            phi = scale * torch.relu(phi @ relu)
            spectra = product.spectrum(derivative, 0), product.spectrum(psi, 1)
            psi = torch.cat([phi, product.product(*spectra)], dim=1)
        return norms * psi


class PublishedSketch:
    """Remark 1 of the source: ``S (sum_j sqrt(c_j) Q(x^j (x) e1^(8 - j)))`` with a direct sum over j."""

    def __init__(self, depth: int, n_features: int, n_components: int, seed: int):
        generator = torch.Generator().manual_seed(seed)
        self.roots = np.sqrt(fitted_coefficients(pm.kernels.NTK(depth=depth).kappa, DEGREE)).tolist()
        self.levels, width, n_nodes = [], n_features, DEGREE // 2
        while n_nodes:
            self.levels.append([SampledProduct((width, width), n_components, generator) for _ in range(n_nodes)])
            width, n_nodes = n_components, n_nodes // 2
        self.unit = torch.zeros(1, n_features)
        self.unit[0, 0] = 1.0
        total = (DEGREE + 1) * n_components
        self.signs = signs(total, generator)
        self.rows = torch.randint(total, (n_components // 2,), generator=generator)
        self.scale = (2 / n_components) ** 0.5

    def transform(self, X: torch.Tensor) -> torch.Tensor:
        return torch.cat([self._batch(X[start : start + BATCH]) for start in range(0, len(X), BATCH)])

    def _batch(self, X: torch.Tensor) -> torch.Tensor:
        norms = X.norm(dim=1, keepdim=True)
        spectra: list[list[torch.Tensor]] = []
        vectors = [X / norms] * DEGREE
        for level in self.levels:
            spectra.append([level[i // 2].spectrum(vector, i % 2) for i, vector in enumerate(vectors)])
            vectors = [node.product(*spectra[-1][2 * i : 2 * i + 2]) for i, node in enumerate(level)]
        powers = [vectors[0]]
        for leaf in range(DEGREE):
            # Only what lies between that leaf and the root changes, and what holds e1 alone is one row.
            vector = self.unit
            for height, level in enumerate(self.levels):
                place = leaf >> height
                node, pair = level[place // 2], spectra[height]
                pair[place] = node.spectrum(vector, place % 2)
                vector = node.product(pair[place - place % 2], pair[place - place % 2 + 1])
            powers.append(vector.expand(len(X), -1))
        direct_sum = torch.cat([root * Z for root, Z in zip(self.roots[::-1], powers, strict=True)], dim=1)
        spectrum = torch.fft.fft(direct_sum * self.signs)[:, self.rows]
        return norms * self.scale * torch.cat([spectrum.real, spectrum.imag], dim=1)


def mean_error(draw: Callable[[int], np.ndarray], K: np.ndarray, draws: int) -> float:
    errors = []
    for seed in range(draws):
        Z = draw(seed).astype(np.float64)
        errors.append(np.linalg.norm(Z @ Z.T - K) / np.linalg.norm(K))
    return float(np.mean(errors))


def compare(X: np.ndarray, depth: int, m: int, rounds: int, draws: int) -> None:
    d = X.shape[1]
    peers = {"published features": PublishedFeatures, "published sketch": PublishedSketch}
    maps = {"NTKFeatures": pm.NTKFeatures, "NTKSketch": pm.NTKSketch}
    tensor, few = torch.from_numpy(X), X[:1000]
    K = pm.kernels.NTK(depth=depth)(few)
    fits: dict[str, Callable[[], object]] = {}
    transforms: dict[str, Callable[[], object]] = {}
    errors: dict[str, float] = {}
    for name, peer in peers.items():
        drawn = peer(depth, d, m, 0)
        fits[name] = lambda peer=peer: peer(depth, d, m, 0)
        transforms[name] = lambda drawn=drawn: drawn.transform(tensor)
        errors[name] = mean_error(
            lambda seed, peer=peer: peer(depth, d, m, seed).transform(tensor[:1000]).numpy(), K, draws
        )
    for name, kind in maps.items():
        phi = kind(depth, m, random_state=0).fit(X)
        fits[name] = lambda kind=kind: kind(depth, m, random_state=0).fit(X)
        transforms[name] = lambda phi=phi: phi.transform(X)
        errors[name] = mean_error(
            lambda seed, kind=kind: kind(depth, m, random_state=seed).fit(X).transform(few), K, draws
        )
    W = np.random.default_rng(0).standard_normal((d, m), dtype=np.float32)
    transforms["limit: X @ W"] = lambda: X @ W
    transforms["limit: output written"] = lambda: np.full((len(X), m), 1.0, dtype=np.float32)
    fit_times, times = least_seconds(fits, rounds), least_seconds(transforms, rounds)
    print(f"depth {depth}, {len(X):,} rows, {m:,} features: seconds by the clock (of all threads)")
    for name, (wall, cpu) in times.items():
        fit_wall, fit_cpu = fit_times.get(name, (0.0, 0.0))
        error = f"{errors[name]:10.4f}" if name in errors else ""
        print(f"  {name:<24}transform {wall:8.3f} ({cpu:7.3f})   fit {fit_wall:7.3f} ({fit_cpu:7.3f}){error}")
    for name, peer in (
        ("NTKFeatures", "published features"),
        ("NTKSketch", "published features"),
        ("NTKSketch", "published sketch"),
    ):
        ours, theirs = np.array(times[name]), np.array(times[peer])
        whole = (theirs + fit_times[peer]) / (ours + fit_times[name])
        print(
            f"  {name} against the {peer}: transform {theirs[0] / ours[0]:.1f} times as fast "
            f"({theirs[1] / ours[1]:.1f}), with fit {whole[0]:.1f} ({whole[1]:.1f}), "
            f"error {errors[name] / errors[peer]:.2f} of theirs"
        )
        limit = np.add(times["limit: X @ W"], times["limit: output written"])
        print(f"    transform takes {ours[0] / limit[0]:.2f} ({ours[1] / limit[1]:.2f}) of the limits together")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    data = os.environ.get("PHIMAP_DATA")
    parser.add_argument("--data", type=Path, default=data, required=data is None)
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--features", type=int, default=8192)
    parser.add_argument("--depths", type=int, nargs="+", default=[1, 3])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--draws", type=int, default=3)
    arguments = parser.parse_args()
    torch.set_num_threads(thread_count(None))
    with np.load(arguments.data / "mnist.npz") as file:
        X = file["X_train"][: arguments.rows].reshape(arguments.rows, -1).astype(np.float32)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    for depth in arguments.depths:
        compare(X, depth, arguments.features, arguments.rounds, arguments.draws)


if __name__ == "__main__":
    main()
