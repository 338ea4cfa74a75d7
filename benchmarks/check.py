"""Quick ratios against stored ones, so that a loss of speed is seen: ``make benchmarks-check``.

Each case is timed in turn with its limit: a bare product, or a copy of memory. The least seconds of both are divided.
Ratios travel between machines of one kind. A ratio fails above `TOLERANCE` times the stored one, `ATTEMPTS` times: on
a shared machine a core is slow for minutes. Ratios are stored by processor and kernels of BLAS. Of unknown ones
nothing is compared.

    python benchmarks/check.py                # compare
    python benchmarks/check.py --store        # store the ratios of this processor, after a change that is meant
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import blas
from threadpoolctl import threadpool_info
from timing import clock_times

import phimap as pm
from phimap._files import write_whole
from phimap.comparison.measure import machine

STORED = Path(__file__).with_name("check.json")
TOLERANCE = 1.4
ATTEMPTS = 3
ROUNDS = 8
SEED = 0
#: A case: what is timed, and its limit.
Case = tuple[Callable[[], Any], Callable[[], Any]]


def cases() -> dict[str, Case]:
    """What is timed, by name; everything is compiled and drawn beforehand."""
    rng = np.random.default_rng(SEED)
    X = rng.standard_normal((16_000, 784), dtype=np.float32) / np.float32(28)
    W = rng.standard_normal((784, 1024), dtype=np.float32)
    m, rows = 2048, np.ascontiguousarray(X[:, :9]) * np.float32(28)
    gaussian = pm.kernels.Gaussian(length_scale=1.5)

    def product() -> Any:
        return X @ W

    def mapped(phi: Any, rows: np.ndarray) -> Callable[[], Any]:
        phi.fit(rows[:1000])
        return lambda: phi.transform(rows)

    found: dict[str, Case] = {
        "dense Fourier features / product": (
            mapped(pm.FourierFeatures(gaussian, m, projection="gaussian"), X),
            product,
        ),
        "SORF features / product": (mapped(pm.FourierFeatures(gaussian, m, projection="sorf"), X), product),
        "NTKFeatures, depth 1 / product": (mapped(pm.NTKFeatures(1, m, random_state=SEED), X), product),
        "NTKFeatures, depth 3 / product": (mapped(pm.NTKFeatures(3, m, random_state=SEED), X), product),
        "ternary features / product": (mapped(pm.TernaryFeatures(gaussian, m, random_state=SEED), X), product),
        "Fourier features of 9 columns / product": (
            mapped(pm.FourierFeatures(pm.kernels.Gaussian(3.0), m, random_state=SEED), rows),
            product,
        ),
        "exact NTK, depth 3 / product": (lambda: pm.kernels.NTK(3)(X[:3000]), product),
        "PolySketch, degree 3 / product": (mapped(pm.sketches.PolySketch(m, degree=3, random_state=SEED), X), product),
    }
    wide = sparse.random(16_000, 10_000, 0.01, format="csr", dtype=np.float32, random_state=SEED)
    found["CountSketch of sparse rows / copy of nonzeros"] = (
        mapped(pm.sketches.CountSketch(256, random_state=SEED), wide),
        lambda: wide.copy(),
    )
    pictures = rng.standard_normal((16, 16, 16, 3), dtype=np.float32)
    found["exact CNTK, depth 3 / product"] = (lambda: pm.kernels.CNTK(3, image_shape=(16, 16, 3))(pictures), product)
    published = pm.CNTKSketch(3, 3, 256, degree=4, construction="published", random_state=SEED)
    found["published CNTKSketch, depth 3 / product"] = (mapped(published, pictures), product)
    signs = pm.TernaryFeatures(gaussian, m, packed=True, random_state=SEED).fit(X[:1000]).transform(X[:4000])
    dense = signs.to_dense().astype(np.float32)
    found["packed Gram matrix / float32"] = (signs.gram, lambda: dense @ dense.T)
    y = np.sin(rows[:, 0]) + rows[:, 1]
    gram, Z = np.zeros((m, m), dtype=np.float32, order="F"), rng.standard_normal((len(rows), m), dtype=np.float32)
    found["fit, alpha chosen / rank-k update"] = (
        lambda: pm.KernelRegressor("gaussian", m, length_scale=3.0, metric=None, random_state=SEED).fit(rows, y),
        lambda: blas.ssyrk(1.0, Z.T, beta=1.0, c=gram, overwrite_c=True),
    )
    wanted = {"metric": None, "length_scale": 3.0, "random_state": SEED}
    found["leave-one-out fit of 2,000 rows, 4,096 features / product"] = (
        lambda: pm.KernelRegressor("gaussian", 4096, **wanted).fit(rows[:2000], y[:2000]),
        product,
    )
    return found


def ratio(work: Callable[[], Any], limit: Callable[[], Any]) -> float:
    """The least seconds of the work over those of its limit, from interleaved rounds."""
    found = clock_times({"work": work, "limit": limit}, ROUNDS)
    return found["work"] / found["limit"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", action="store_true", help="store the ratios of this processor")
    options = parser.parse_args()
    stored = json.loads(STORED.read_text(encoding="utf-8")) if STORED.exists() else {}
    kernels = {
        info.get("architecture") or info["internal_api"] for info in threadpool_info() if info["user_api"] == "blas"
    }
    here = ", ".join([machine(), *sorted(kernels)])
    known = stored.get(here, {})
    print(f"{here}; a ratio may be {TOLERANCE} times the stored one")
    found: dict[str, float] = {}
    asked = cases()
    for _ in range(1 if options.store else ATTEMPTS):
        for name, case in asked.items():
            found[name] = min(found.get(name, math.inf), round(ratio(*case), 3))
            change = f"{found[name] / known[name]:6.2f}" if name in known else "   new"
            print(f"{name:<40} {found[name]:8.3f} {known.get(name, math.nan):8.3f} {change}", flush=True)
        asked = {name: case for name, case in asked.items() if found[name] > TOLERANCE * known.get(name, math.inf)}
    if options.store:
        stored[here] = found
        write_whole(STORED, lambda file: file.write((json.dumps(stored, indent=1, sort_keys=True) + "\n").encode()))
    if asked and not options.store:
        raise SystemExit(f"Slower than stored: {', '.join(asked)}. Run again on a quiet machine, or mend what changed.")


if __name__ == "__main__":
    main()
