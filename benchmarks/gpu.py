"""Everything that has a CUDA path: time beside the limits of the device, memory, transfers, and the CPU's result.

Each case runs on the device. A smaller one of the same kind runs on the device and on the host, and both must agree.
The limits are one product of the same size by the device's BLAS, and the writing of the output once. Transfers are what
PyTorch's profiler counts between host and device. With ``--device cpu`` the script runs on torch's CPU, where it says
nothing of a GPU.

    python benchmarks/gpu.py --data DIR [--device cuda] [--only map ridge] [--small] [--output gpu.json]
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

import phimap as pm
from phimap._files import write_whole

SEED, ROUNDS = 0, 3
FIXED = {"length_scale": "median", "metric": None, "random_state": SEED}


@dataclass
class Found:
    """What a case took, and how far its result is from the host's."""

    name: str
    size: str
    seconds: float
    product_seconds: float | None
    write_seconds: float | None
    peak_bytes: int
    to_device_bytes: int
    to_host_bytes: int
    difference: float
    tolerance: float

    def line(self) -> str:
        ratios = [
            f"{self.seconds / limit:8.2f}" if limit else f"{'-':>8}"
            for limit in (self.product_seconds, self.write_seconds)
        ]
        agrees = "agrees" if self.difference <= self.tolerance else "DIFFERS"
        return (
            f"{self.name:<28} {self.size:<34} {self.seconds:9.4f} s {ratios[0]} {ratios[1]} "
            f"{self.peak_bytes / 1e9:7.2f} GB {self.to_device_bytes / 1e6:9.1f} MB {self.to_host_bytes / 1e6:9.1f} MB "
            f"{self.difference:9.1e} {agrees}"
        )


class Device:
    """A torch device, and how it is timed."""

    def __init__(self, name: str):
        self.device = torch.device(name)
        self.is_cuda = self.device.type == "cuda"

    def put(self, X: np.ndarray) -> torch.Tensor:
        return torch.as_tensor(X).to(self.device)

    def wait(self) -> None:
        if self.is_cuda:
            torch.cuda.synchronize(self.device)

    def seconds(self, work: Callable[[], Any], rounds: int = ROUNDS) -> float:
        """The least of some rounds, after one that is not counted."""
        work()
        found = []
        for _ in range(rounds):
            self.wait()
            start = time.perf_counter()
            work()
            self.wait()
            found.append(time.perf_counter() - start)
        return min(found)

    def peak(self, work: Callable[[], Any]) -> int:
        """Bytes of the device at the most, those before included."""
        if not self.is_cuda:
            return 0
        torch.cuda.reset_peak_memory_stats(self.device)
        work()
        self.wait()
        return torch.cuda.max_memory_allocated(self.device)

    def transfers(self, work: Callable[[], Any]) -> tuple[int, int]:
        """Bytes from the host to the device, and back."""
        if not self.is_cuda:
            return 0, 0
        from torch.profiler import ProfilerActivity, profile

        with profile(activities=[ProfilerActivity.CUDA]) as trace:
            work()
            self.wait()
        there = back = 0
        for event in trace.profiler.kineto_results.events():
            if "HtoD" in event.name():
                there += event.nbytes()
            elif "DtoH" in event.name():
                back += event.nbytes()
        return there, back

    def product(self, n: int, k: int, m: int) -> float:
        """Seconds of one float32 product (n, k) by (k, m)."""
        left, right = (torch.randn(shape, device=self.device) for shape in ((n, k), (k, m)))
        out = torch.empty((n, m), device=self.device)
        return self.seconds(lambda: torch.mm(left, right, out=out))

    def write(self, n: int, m: int) -> float:
        """Seconds of writing (n, m) float32 numbers once."""
        out = torch.empty((n, m), device=self.device)
        return self.seconds(lambda: out.fill_(1.0))


def relative(found: Any, expected: np.ndarray) -> float:
    found = np.asarray(found.cpu() if isinstance(found, torch.Tensor) else found, dtype=np.float64)
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))


def maps(device: Device, data: Path, small: bool) -> Iterator[Found]:
    """Feature maps of MNIST, at 8,192 features."""
    n, m = (2000, 1024) if small else (60_000, 8192)
    with np.load(data / "mnist.npz") as file:
        X = file["X_train"][:n].reshape(n, -1).astype(np.float32) / 255
    rows = device.put(X)
    gaussian = pm.kernels.Gaussian(length_scale=10.0)
    known = {
        "Fourier, gaussian": pm.FourierFeatures(gaussian, m, projection="gaussian", random_state=SEED),
        "Fourier, auto": pm.FourierFeatures(gaussian, m, random_state=SEED),
        "Fourier, sorf": pm.FourierFeatures(gaussian, m, projection="sorf", random_state=SEED),
        "arc-cosine 1": pm.ArcCosineFeatures(order=1, n_components=m, random_state=SEED),
        "ternary": pm.TernaryFeatures(gaussian, m, random_state=SEED),
        "PolySketch, degree 3": pm.sketches.PolySketch(m, degree=3, random_state=SEED),
        "NTKFeatures, depth 1": pm.NTKFeatures(depth=1, n_components=m, random_state=SEED),
        "NTKFeatures, depth 3": pm.NTKFeatures(depth=3, n_components=m, random_state=SEED),
    }
    product, write = device.product(n, X.shape[1], m), device.write(n, m)
    for name, phi in known.items():
        phi.fit(X[:1024])
        difference = relative(phi.transform(rows[:256]), phi.transform(X[:256]).astype(np.float64))
        seconds, peak, moved = measured(device, lambda phi=phi: phi.transform(rows))
        yield Found(
            f"map: {name}", f"{n} x {X.shape[1]} -> {m}", seconds, product, write, peak, *moved, difference, 1e-4
        )


def images(device: Device, data: Path, small: bool) -> Iterator[Found]:
    """CNTKSketch of CIFAR-10, and the exact kernel."""
    n, m, pairs = (32, 512, 8) if small else (10_000, 8192, 64)
    with np.load(data / "cifar10.npz") as file:
        X = file["X_train"][:n].astype(np.float32) / 255
    n = len(X)
    phi = pm.CNTKSketch(3, n_components=m, random_state=SEED).fit(X[:64])
    rows = device.put(X)
    difference = relative(phi.transform(rows[:16]), phi.transform(X[:16]).astype(np.float64))
    seconds, peak, moved = measured(device, lambda: phi.transform(rows), rounds=1)
    yield Found(
        "map: CNTKSketch, depth 3",
        f"{n} images -> {m}",
        seconds,
        None,
        device.write(n, m),
        peak,
        *moved,
        difference,
        1e-3,
    )
    kernel = pm.kernels.CNTK(3, image_shape=X.shape[1:])
    flat = X[:pairs].reshape(len(X[:pairs]), -1)
    some = device.put(flat)
    difference = relative(kernel(some[:8]), kernel(flat[:8]).astype(np.float64))
    seconds, peak, moved = measured(device, lambda: kernel(some, some), rounds=1)
    size = f"{len(flat)} x {len(flat)} pairs, {1e3 * seconds / len(flat) ** 2:.2f} ms each"
    yield Found("exact CNTK, depth 3", size, seconds, None, None, peak, *moved, difference, 1e-4)


def learners(device: Device, data: Path, small: bool) -> Iterator[Found]:
    """Ridge regression of the protein data: by factorisation, in passes, and after a search."""
    with np.load(data / "uci_regression.npz") as file:
        X, y = file["protein_X"].astype(np.float32), file["protein_y"].ravel()
    n, m = (4000, 512) if small else (41_160, 16_384)
    where = str(device.device)
    cases = {
        "ridge, factorisation": {"kernel": "gaussian", "n_components": m, "solver": "cholesky", **FIXED},
        "ridge, passes": {"kernel": "gaussian", "n_components": m, "solver": "cg", **FIXED},
        "ridge, NTK": {"kernel": "ntk", "n_components": m, "metric": None, "random_state": SEED},
        "default search": {"n_components": min(m, 4096), "random_state": SEED},
    }
    for name, options in cases.items():
        width = options["n_components"]
        few = {**options, "n_components": min(width, 512)}
        host = pm.KernelRegressor(**few, device="cpu").fit(X[:3000], y[:3000]).predict(X[3000:3500])
        here = pm.KernelRegressor(**few, device=where).fit(X[:3000], y[:3000]).predict(X[3000:3500])
        difference = relative(here, np.asarray(host, dtype=np.float64))

        def fit(options: dict[str, Any] = options) -> Any:
            return pm.KernelRegressor(**options, device=where).fit(X[:n], y[:n])

        seconds, peak, moved = measured(device, fit, rounds=1)
        product = device.product(width, n, width) / 2
        yield Found(
            f"fit: {name}", f"{n} rows, {width} features", seconds, product, None, peak, *moved, difference, 1e-2
        )


def measured(device: Device, work: Callable[[], Any], rounds: int = ROUNDS) -> tuple[float, int, tuple[int, int]]:
    """Seconds, peak bytes and transfers of some work."""
    seconds = device.seconds(work, rounds)
    return seconds, device.peak(work), device.transfers(work)


PARTS = {"map": maps, "image": images, "ridge": learners}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    data = os.environ.get("PHIMAP_DATA")
    parser.add_argument("--data", type=Path, default=data, required=data is None)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--small", action="store_true", help="sizes that a CPU takes seconds for")
    parser.add_argument("--output", type=Path, help="JSON file")
    options = parser.parse_args()
    device = Device(options.device)
    name = torch.cuda.get_device_name(device.device) if device.is_cuda else "torch's CPU: says nothing of a GPU"
    print(f"{name}; torch {torch.__version__}, phimap {version('phimap')}")
    print(
        f"{'case':<28} {'size':<34} {'time':>11} {'/product':>8} {'/write':>8} {'peak':>10} {'to device':>12} "
        f"{'to host':>12} {'error':>9}"
    )
    found = []
    for part in options.only:
        for one in PARTS[part](device, options.data, options.small):
            print(one.line(), flush=True)
            found.append(asdict(one))
            if options.output is not None:
                text = json.dumps({"device": name, "torch": torch.__version__, "cases": found}, indent=1)
                write_whole(options.output, lambda file, text=text: file.write(text.encode()))
    if any(one["difference"] > one["tolerance"] for one in found):
        raise SystemExit("Results differ from those of the host.")


if __name__ == "__main__":
    main()
