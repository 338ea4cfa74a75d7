"""Relative error of `CNTKSketch` by activation and width, against the exact kernel.

Images of CIFAR-10, averaged to 16 x 16 pixels and divided by three deviations of their channel, so that units that
saturate see numbers below 1; depth 3, windows of 3 x 3 pixels, mean over draws.

    python benchmarks/cntk_activations.py --data DIR [--images 12] [--components 1024 4096] [--draws 2]
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import numpy as np

import phimap as pm
from phimap.bench.images import load_images

ACTIVATIONS = ("relu", "leaky-relu", "abs", "gelu", "erf", "sin")
SCALE = 3.0


def images(data: Path, n_images: int) -> np.ndarray:
    """Images (n, 16, 16, 3), each pixel the mean of four."""
    X = load_images(data / "cifar10.npz", n_images, 1, "CIFAR-10").X
    return X.reshape(len(X), 16, 2, 16, 2, 3).mean(axis=(2, 4)) / np.float32(SCALE)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    data = os.environ.get("PHIMAP_DATA")
    parser.add_argument("--data", type=Path, default=data, required=data is None)
    parser.add_argument("--images", type=int, default=12)
    parser.add_argument("--components", type=int, nargs="+", default=[1024, 4096])
    parser.add_argument("--draws", type=int, default=2)
    options = parser.parse_args()
    X = images(options.data, options.images)
    print(f"{'activation':<12}" + "".join(f"{m:>10,}" for m in options.components))
    for activation in ACTIVATIONS:
        kernel = pm.kernels.CNTK(3, activation=activation, image_shape=X.shape[1:])
        rows = X.reshape(len(X), -1)
        K = kernel(rows.astype(np.float64))
        found = []
        for m in options.components:
            errors = []
            for seed in range(options.draws):
                phi = pm.CNTKSketch(3, n_components=m, activation=activation, random_state=seed)
                Z = phi.fit_transform(X).astype(np.float64)
                errors.append(np.linalg.norm(K - Z @ Z.T) / np.linalg.norm(K))
            found.append(np.mean(errors))
        print(f"{activation:<12}" + "".join(f"{error:>10.3f}" for error in found), flush=True)


if __name__ == "__main__":
    main()
