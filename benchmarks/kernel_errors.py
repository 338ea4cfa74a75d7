"""Relative errors of kernel estimates on MNIST at equal width, beside the figures published or measured for peers.

Relative Frobenius error ``|K - Z Z^T| / |K|`` on 1,000 rows, mean over seeds, plain and doubly centred, with seconds to
map 5,000 rows. Fourier features on pixels in [0, 1] with scikit-learn's ``gamma="scale"``, NTK features on rows of
norm 1.

    python benchmarks/kernel_errors.py --data DIR [--components 8192] [--seeds 3]
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import numpy as np

import phimap as pm

# From the NTK authors' code with independent Gaussian directions and from scikit-learn's RBFSampler, same data.
PEERS = {
    "ntk 1": "0.033-0.048",
    "ntk 3": "0.058-0.062",
    "fourier gaussian offset": "0.038",
    "fourier gaussian": "0.036",
}


def cases(width: int, gamma: float):
    """Name, map and whether it takes rows of norm 1."""
    kernel = pm.kernels.Gaussian(gamma=gamma)
    for projection in ("gaussian", "orthogonal", "sorf"):
        yield f"fourier {projection}", pm.FourierFeatures(kernel, width, projection=projection), False
    yield "fourier gaussian offset", pm.FourierFeatures(kernel, width, projection="gaussian", pairing="offset"), False
    yield "nystroem 1024", pm.NystroemFeatures(kernel, 1024), False
    for depth in (1, 3):
        for sketch in ("tensorsrht", "countsketch"):
            for projection in ("gaussian", "sorf"):
                phi = pm.NTKFeatures(depth, width, sketch=sketch, projection=projection)
                yield f"ntk {depth} {sketch} {projection}", phi, True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    data = os.environ.get("PHIMAP_DATA")
    parser.add_argument("--data", type=Path, default=data, required=data is None)
    parser.add_argument("--components", type=int, default=8192)
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    with np.load(arguments.data / "mnist.npz") as file:
        pixels = file["X_train"][:5000].reshape(5000, -1).astype(np.float32) / 255
    unit = pixels / np.linalg.norm(pixels, axis=1, keepdims=True)
    gamma = float(1 / (pixels.shape[1] * pixels.var()))
    print(f"MNIST, m = {arguments.components}, gamma {gamma:.4f}, {arguments.seeds} seeds")
    print(f"{'map':<34}{'error':>9}{'centred':>10}{'seconds':>9}   peer")
    for name, phi, on_sphere in cases(arguments.components, gamma):
        X = unit if on_sphere else pixels
        plain, centred = [], []
        for seed in range(arguments.seeds):
            phi.set_params(random_state=seed).fit(X)
            plain.append(pm.metrics.relative_error(phi, X[:1000]))
            centred.append(pm.metrics.relative_error(phi, X[:1000], center=True))
        start = time.perf_counter()
        phi.transform(X)
        seconds = time.perf_counter() - start
        peer = PEERS.get(name, PEERS.get(name[:5], "") if name.endswith("gaussian") else "")
        print(f"{name:<34}{np.mean(plain):9.4f}{np.mean(centred):10.4f}{seconds:9.2f}   {peer}", flush=True)


if __name__ == "__main__":
    main()
