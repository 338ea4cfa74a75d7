"""Time and error of `CNTKSketch` against the published construction in torch, and its time against the pixels.

1. Seconds an image of both, in turn in one run on as many threads each, and their errors against the exact kernel:
   ratios of the medians of wall time and of CPU time.
2. Seconds a pixel of `CNTKSketch` for images of several sizes.

The published construction, Definition 3 of Zandieh et al. (2021), is there twice: ours with
``construction="published"``, and in torch with the choices of its authors' program: complex features of half the output
width a pixel, polynomial sketches of an eighth, all by FFT; zeros outside the image here.

    python benchmarks/cntk_time.py --data DIR [--images 64] [--degrees 2 4] [--sides 8 16 32 64] [--parts 1 2]
        [--threads 1 2]
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.optimize import nnls
from timing import timed

import phimap as pm
from phimap.bench.images import load_images
from phimap.kernels import kappa0, kappa1

DEPTH, FILTER_SIZE, WIDTH = 3, 3, 4096
# Images that each method takes in turn.
_CHUNK = 8


class Rotation:
    """Complex SRHT: random signs, a Fourier transform, and rows of it."""

    def __init__(self, n_features: int, n_components: int, rng: np.random.Generator):
        self.signs = torch.tensor(rng.choice([-1.0, 1.0], n_features), dtype=torch.float32)
        self.rows = torch.tensor(rng.integers(n_features, size=n_components))

    def __call__(self, X: torch.Tensor) -> torch.Tensor:
        return torch.fft.fft(X * self.signs)[:, self.rows] * self.rows.shape[0] ** -0.5


class Product:
    """Complex TensorSRHT of two vectors."""

    def __init__(self, widths: tuple[int, int], n_components: int, rng: np.random.Generator):
        self.sides = [Rotation(width, n_components, rng) for width in widths]
        self.gain = n_components**0.5

    def __call__(self, X: torch.Tensor, Y: torch.Tensor) -> torch.Tensor:
        return self.sides[0](X) * self.sides[1](Y) * self.gain


class PowerTree:
    """PolySketch of the powers 1, ..., p of a vector, p a power of two, by one path of a binary tree at a time."""

    def __init__(self, n_features: int, degree: int, n_components: int, rng: np.random.Generator):
        self.levels, width, n_nodes = [], n_features, degree // 2
        while n_nodes:
            self.levels.append([Product((width, width), n_components, rng) for _ in range(n_nodes)])
            width, n_nodes = n_components, n_nodes // 2
        self.degree = degree

    def __call__(self, X: torch.Tensor) -> list[torch.Tensor]:
        one = torch.zeros((1, X.shape[1]), dtype=X.dtype)
        one[:, 0] = 1
        values = [[X] * self.degree]
        for level in self.levels:
            below = values[-1]
            values.append([node(below[2 * k], below[2 * k + 1]) for k, node in enumerate(level)])
        powers = [values[-1][0]]
        for leaf in range(self.degree - 1):
            values[0][leaf], k = one, leaf
            for depth, level in enumerate(self.levels):
                k //= 2
                values[depth + 1][k] = level[k](values[depth][2 * k], values[depth][2 * k + 1])
            powers.append(values[-1][0])
        return powers[::-1]


def coefficients(kappa: Callable[[np.ndarray], np.ndarray], degree: int, low: float) -> np.ndarray:
    """Non-negative coefficients of a polynomial near kappa on [low, 1]."""
    nodes = np.linspace(low, 1.0, 201)
    return nnls(nodes[:, None] ** np.arange(degree + 1), kappa(nodes))[0]


def window(F: torch.Tensor, shape: tuple[int, int], reduce: bool = False) -> torch.Tensor:
    """Direct sums, or sums, of the features (h w, k) of an image's pixels over windows, zeros outside."""
    height, width = shape
    radius = FILTER_SIZE // 2
    padded = torch.zeros((height + 2 * radius, width + 2 * radius, F.shape[1]), dtype=F.dtype)
    padded[radius : radius + height, radius : radius + width] = F.reshape(height, width, -1)
    moved = [padded[a : a + height, b : b + width] for a in range(FILTER_SIZE) for b in range(FILTER_SIZE)]
    return (sum(moved) if reduce else torch.cat(moved, dim=2)).reshape(height * width, -1)  # pyright: ignore


class PublishedSketch:
    """Definition 3 for one image at a time, features (m,)."""

    def __init__(self, channels: int, n_components: int, degree: int, seed: int):
        rng = np.random.default_rng(seed)
        half, eighth, places = n_components // 2, n_components // 8, FILTER_SIZE**2
        powers = degree * eighth
        self.trees = [PowerTree(places * channels if h == 0 else half, degree, eighth, rng) for h in range(DEPTH)]
        self.patches = [Rotation(places * (1 + powers), half, rng) for _ in range(DEPTH - 1)]
        self.slopes = [Rotation(powers, half - 1, rng) for _ in range(DEPTH - 1)]
        self.products = [Product((half, half), half, rng) for _ in range(DEPTH - 1)]
        self.sums = [Rotation(half + powers, half // 2 - 1, rng) for _ in range(DEPTH - 2)]
        self.tangents = [Rotation(places * half // 2, half, rng) for _ in range(DEPTH - 2)]
        # Later layers see kappa_1 of cosines, which are not negative.
        self.relu = [coefficients(kappa1, degree, low) ** 0.5 for low in (-1.0, 0.0, 0.0)]
        self.step = [coefficients(kappa0, degree, low) ** 0.5 for low in (-1.0, 0.0, 0.0)]

    @torch.no_grad()
    def __call__(self, image: np.ndarray) -> np.ndarray:
        shape = image.shape[0], image.shape[1]
        X = torch.tensor(image.reshape(-1, image.shape[2]))
        squares = window(X.square().sum(1, keepdim=True), shape, reduce=True)
        mu = window(X, shape) / squares.sqrt()
        psi = None
        for h in range(DEPTH):
            powers = self.trees[h](mu)
            gain = squares.sqrt() / FILTER_SIZE
            phi = torch.cat([c * power for c, power in zip(self.relu[h][1:].tolist(), powers, strict=True)], dim=1)
            phi, constant = phi * gain, self.relu[h][0] * gain
            if h > 0:
                slope = torch.cat([c * power for c, power in zip(self.step[h][1:].tolist(), powers, strict=True)], 1)
                first = torch.full((slope.shape[0], 1), float(self.step[h][0]), dtype=slope.dtype)
                slope = torch.cat([first, self.slopes[h - 1](slope)], dim=1) / FILTER_SIZE
                psi = self.products[h - 1](psi, slope)  # pyright: ignore[reportArgumentType]
            if h == DEPTH - 1:
                break
            squares = window(squares, shape, reduce=True) / FILTER_SIZE**2
            patch = self.patches[h](window(torch.cat([constant, phi], dim=1), shape))
            if psi is None:
                psi = patch
            else:
                eta = torch.cat([constant, self.sums[h - 1](torch.cat([psi, phi], dim=1))], dim=1)
                psi = self.tangents[h - 1](window(eta, shape))
            mu = patch / squares.sqrt()
        mean = psi.mean(0)  # pyright: ignore[reportOptionalMemberAccess]
        return torch.cat([mean.real, mean.imag]).numpy()


def relative_errors(Z: np.ndarray, K: np.ndarray) -> tuple[float, float]:
    """Relative Frobenius error of ``Z Z^T``, plain and centred."""
    centring = np.eye(len(K)) - 1 / len(K)
    difference = Z.astype(np.float64) @ Z.T.astype(np.float64) - K
    pairs = (difference, K), (centring @ difference @ centring, centring @ K @ centring)
    plain, centred = (float(np.linalg.norm(A) / np.linalg.norm(B)) for A, B in pairs)
    return plain, centred


def against_published(images: np.ndarray, degrees: list[int], width: int, seeds: int, threads: list[int]) -> None:
    K = pm.kernels.CNTK(DEPTH, FILTER_SIZE)(images.astype(np.float64))
    for n_threads in threads:
        torch.set_num_threads(n_threads)
        print(
            f"1. {len(images)} images of {images.shape[1:]}, depth {DEPTH}, q = {FILTER_SIZE}, m = {width}, "
            f"{n_threads} threads: medians"
        )
        print(f"  {'':<24}{'s an image':>12}{'ratio':>8}{'CPU s':>10}{'ratio':>8}{'error':>9}{'centred':>9}")
        found = {}
        for seed in range(seeds):
            for name, measured in _compared(images, K, degrees, width, seed, n_threads).items():
                found.setdefault(name, []).append(measured)
        base = np.median([measured[0] for measured in found["CNTKSketch"]], axis=0)
        for name, measured in found.items():
            wall, cpu = np.median([seconds for seconds, _ in measured], axis=0)
            plain, centred = np.mean([errors for _, errors in measured], axis=0)
            ratios = f"{wall:12.3f}{wall / base[0]:8.1f}{cpu:10.3f}{cpu / base[1]:8.1f}"
            print(f"  {name:<24}{ratios}{plain:9.3f}{centred:9.3f}", flush=True)


def _compared(
    images: np.ndarray, K: np.ndarray, degrees: list[int], width: int, seed: int, n_threads: int
) -> dict[str, tuple[np.ndarray, tuple[float, float]]]:
    """For each method the median wall and CPU seconds an image of one draw, and its errors."""
    ours = pm.CNTKSketch(DEPTH, FILTER_SIZE, width, random_state=seed, n_jobs=n_threads).fit(images)
    ours.transform(images[:1])
    transforms: dict[str, Callable[[np.ndarray], Any]] = {"CNTKSketch": ours.transform}
    for degree in degrees:
        options = {"construction": "published", "degree": degree, "random_state": seed, "n_jobs": n_threads}
        published = pm.CNTKSketch(DEPTH, FILTER_SIZE, width, **options).fit(images)
        transforms[f"ours, published, {degree}"] = published.transform
        peer = PublishedSketch(images.shape[3], width, degree, seed)
        transforms[f"published, degree {degree}"] = lambda part, peer=peer: [peer(image) for image in part]
    Z = {name: np.empty((len(images), width), np.float32) for name in transforms}
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in transforms}
    for start in range(0, len(images), _CHUNK):
        part = slice(start, start + _CHUNK)
        for name, transform in transforms.items():
            Z[name][part], spent = timed(lambda transform=transform, part=part: transform(images[part]))
            seconds[name].append((spent.clock / len(images[part]), spent.cpu / len(images[part])))
    return {name: (np.median(seconds[name], axis=0), relative_errors(Z[name], K)) for name in transforms}


def against_pixels(sides: list[int], width: int, rounds: int) -> None:
    print(f"2. CNTKSketch, depth {DEPTH}, q = {FILTER_SIZE}, m = {width}, 3 channels, one thread: least CPU time")
    for side in sides:
        images = np.random.default_rng(0).standard_normal((2, side, side, 3), dtype=np.float32)
        phi = pm.CNTKSketch(DEPTH, FILTER_SIZE, width, random_state=0, n_jobs=1).fit(images)
        phi.transform(images[:1])
        seconds = []
        for _ in range(rounds):
            start = time.process_time()
            phi.transform(images)
            seconds.append((time.process_time() - start) / len(images))
        print(f"  {side:>3} x {side:<3}{min(seconds):10.4f} s an image{1e6 * min(seconds) / side**2:10.1f} us a pixel")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    data = os.environ.get("PHIMAP_DATA")
    parser.add_argument("--data", type=Path, default=data, required=data is None)
    parser.add_argument("--images", type=int, default=64)
    parser.add_argument("--degrees", type=int, nargs="+", default=[2, 4], help="of the published form, powers of two")
    parser.add_argument("--sides", type=int, nargs="+", default=[8, 16, 32, 64])
    parser.add_argument("--width", type=int, default=WIDTH)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--parts", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    arguments = parser.parse_args()
    if 1 in arguments.parts:
        images = load_images(str(arguments.data / "cifar10.npz"), arguments.images, 1).X
        against_published(images, arguments.degrees, arguments.width, arguments.seeds, arguments.threads)
    if 2 in arguments.parts:
        against_pixels(arguments.sides, arguments.width, arguments.rounds)


if __name__ == "__main__":
    main()
