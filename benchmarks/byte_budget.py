"""What work takes beyond the byte budget: the peak of resident memory in a process of its own, over the budget.

Rows in memory and what the process held before count for nothing. Work that cannot fit has to be refused.

    python benchmarks/byte_budget.py [CASE ...]
"""

from __future__ import annotations

import sys
import time

from tests.support.budget_cases import peak

from phimap.config import parse_bytes

SMALL = {"n": 300, "d": 40, "m": 32}

#: By name: the work, the budget, its sizes, and those of a trial before it.
CASES = {
    "wide map": ("feature_map", "300MB", {"n": 2000, "d": 200_000, "m": 256}, SMALL),
    "wide map, gaussian": ("gaussian_map", "300MB", {"n": 2000, "d": 200_000, "m": 256}, SMALL),
    "wide": ("regressor", "300MB", {"n": 2000, "d": 200_000, "m": 256}, SMALL),
    "wide, kernel=auto": ("automatic", "300MB", {"n": 2000, "d": 200_000, "m": 256}, SMALL),
    "1,000 targets": ("regressor", "100MB", {"n": 20_000, "d": 20, "m": 512, "t": 1000}, {**SMALL, "t": 3}),
    "1,000 classes": (
        "classifier",
        "100MB",
        {"n": 20_000, "d": 20, "m": 512, "classes": 1000},
        {**SMALL, "classes": 3},
    ),
    "1,000 classes, logistic": (
        "logistic",
        "100MB",
        {"n": 20_000, "d": 20, "m": 512, "classes": 1000},
        {**SMALL, "classes": 3},
    ),
    "sparse polynomial map": ("polynomial", "300MB", {"n": 2000, "d": 100_000, "m": 4096}, SMALL),
    "sparse polynomial": ("sparse_regressor", "300MB", {"n": 20_000, "d": 100_000, "m": 2048}, SMALL),
    "dual": ("regressor", "1600MB", {"n": 8000, "d": 20, "m": 8192}, SMALL),
    "packed ternary map": ("packed", "50MB", {"n": 20_000, "d": 200, "m": 8192}, SMALL),
    "packed ternary": ("packed_regressor", "300MB", {"n": 20_000, "d": 200, "m": 2048}, SMALL),
    "npz": ("npz", "300MB", {"n": 200, "d": 1_000_000, "m": 128}, SMALL),
    "images": ("images", "1GB", {"n": 6, "side": 4000, "m": 128}, {"n": 4, "side": 8, "m": 8}),
    "300 classes": ("classifier", "64MB", {"n": 6000, "d": 20, "m": 512, "classes": 300}, {**SMALL, "classes": 3}),
    "wide float32": ("single", "200MB", {"n": 2000, "d": 8000, "m": 512}, SMALL),
    "default fit": ("default", "200MB", {"n": 12_000, "d": 12}, {"n": 1200, "d": 12}),
    "default classifier": (
        "default_classifier",
        "200MB",
        {"n": 6000, "d": 12, "classes": 5},
        {"n": 1200, "d": 12, "classes": 2},
    ),
    "frame": ("frame", "200MB", {"n": 12_000}, {"n": 1200}),
    "quantiles": ("quantiles", "100MB", {"n": 20_000, "d": 20, "m": 1024}, SMALL),
    "counts": ("counts", "100MB", {"n": 20_000, "d": 20, "m": 1024}, SMALL),
    "huber": ("huber", "100MB", {"n": 20_000, "d": 20, "m": 1024}, SMALL),
    "doubly stochastic": ("stochastic", "500MB", {"n": 20_000, "d": 20, "m": 8192}, SMALL),
    "parquet": ("parquet", "256MB", {"n": 20_000, "d": 2000, "m": 1024}, SMALL),
}


def main(names: list[str]) -> None:
    print(f"{'case':<26} {'budget':>8} {'peak, MB':>9} {'ratio':>6} {'s':>5}")
    for name in names or CASES:
        work, budget, sizes, warm = CASES[name]
        start = time.perf_counter()
        n_bytes, refusal = peak(work, budget, sizes, warm)
        seconds = time.perf_counter() - start
        row = f"{name:<26} {budget:>8} {n_bytes / 2**20:>9.0f} {n_bytes / parse_bytes(budget):>6.2f} {seconds:>5.0f}"
        print(row, f"refused: {refusal}" if refusal else "", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
