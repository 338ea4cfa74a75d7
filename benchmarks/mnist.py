"""MNIST: test accuracy of NTK and Gaussian features with ridge regression on all 60,000 training images.

python benchmarks/mnist.py --data DIR [--components 8192] [--kernels ntk gaussian]
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import numpy as np

import phimap as pm
from phimap._progress import peak_memory


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    data = os.environ.get("PHIMAP_DATA")
    parser.add_argument("--data", type=Path, default=data, required=data is None)
    parser.add_argument("--components", type=int, default=8192)
    parser.add_argument("--kernels", nargs="+", default=["ntk", "gaussian"])
    arguments = parser.parse_args()
    with np.load(arguments.data / "mnist.npz") as file:
        X, X_test = (file[name].reshape(len(file[name]), -1).astype(np.float32) for name in ("X_train", "X_test"))
        y, y_test = file["y_train"], file["y_test"]
    for kernel in arguments.kernels:
        start = time.perf_counter()
        model = pm.KernelClassifier(
            kernel,
            arguments.components,
            length_scale="median",
            metric=None,
            standardize="global",
            random_state=0,
        )
        model.fit(X, y)
        seconds = time.perf_counter() - start
        print(
            f"{kernel:<10} m {arguments.components}   test accuracy {model.score(X_test, y_test):.4f}   "
            f"{seconds:.1f} s   alpha {model.alpha_:.3g}   peak {peak_memory() / 1e9:.2f} GB",
            flush=True,
        )


if __name__ == "__main__":
    main()
