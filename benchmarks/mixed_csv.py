"""A CSV file of mixed columns, read, encoded and fitted in bounded memory: rows a second and peak memory of each part.

The table has 12 feature columns: five of numbers, one of them with missing cells, two of dates, two categories, one
category of 5,000 levels, a row number and a constant. Parts run in processes of their own, so that peaks are their own:

    read      the bytes of the file, as the limit
    parse     Arrow's parser alone, which infers the types
    frame     open_frame (one pass for the types) and one pass over its batches
    encode    the same with the pass that fits TableEncoder and one that transforms
    fit       phimap fit with a fixed Gaussian kernel, everything included

    python benchmarks/mixed_csv.py [--rows 5000000] [--features 512] [--memory 1GB] [--keep FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path

PARTS = ("read", "parse", "frame", "encode", "fit")
TARGET = "price"
BLOCK = 100_000


def write(path: Path, n_rows: int) -> None:
    """Write the table, block by block."""
    import numpy as np
    import pandas as pd

    rng = np.random.default_rng(0)
    cities = np.array([f"city {j}" for j in range(12)])
    shops = np.array([f"shop {j:04d}" for j in range(5000)])
    worth = rng.normal(size=shops.size)
    for start in range(0, n_rows, BLOCK):
        n = min(BLOCK, n_rows - start)
        numbers = rng.normal(size=(n, 4)).round(4)
        city, shop = rng.integers(0, cities.size, n), rng.zipf(1.5, n) % shops.size
        seconds = rng.integers(0, 5 * 365 * 86400, n)
        at = pd.Timestamp("2018-01-01") + pd.to_timedelta(seconds, unit="s")
        frame = pd.DataFrame(
            {
                "row": np.arange(start, start + n),
                **{f"x{j}": numbers[:, j] for j in range(4)},
                "gaps": np.where(rng.random(n) < 0.1, np.nan, rng.lognormal(size=n).round(3)),
                "city": cities[city],
                "shop": shops[shop],
                "day": at.strftime("%Y-%m-%d"),
                "at": at.strftime("%Y-%m-%d %H:%M:%S"),
                "member": np.where(rng.random(n) < 0.3, "yes", "no"),
                "same": 7,
            }
        )
        hour = seconds % 86400 / 86400
        target = np.sin(2 * numbers[:, 0]) + worth[shop] + np.sin(6.28 * hour) + 0.1 * city
        frame[TARGET] = (target + 0.3 * rng.normal(size=n)).round(4)
        frame.to_csv(path, mode="a", header=start == 0, index=False)


def read(path: Path, options: argparse.Namespace) -> None:
    with path.open("rb") as file:
        while file.read(2**20):
            pass


def parse(path: Path, options: argparse.Namespace) -> None:
    from pyarrow import csv

    with csv.open_csv(path, read_options=csv.ReadOptions(use_threads=False)) as reader:
        for _ in reader:
            pass


def frame(path: Path, options: argparse.Namespace) -> None:
    from phimap.io import open_frame

    for _ in open_frame(path, TARGET):
        pass


def encode(path: Path, options: argparse.Namespace) -> None:
    import phimap as pm
    from phimap.io import open_frame

    rows = open_frame(path, TARGET)
    encoder = pm.TableEncoder().fit_batches(rows)
    for columns, _ in rows:
        encoder.transform(columns)


def fit(path: Path, options: argparse.Namespace) -> None:
    from phimap.cli.commands import app

    words = ["fit", str(path), "--target", TARGET, "--kernel", "gaussian", "--metric", "none", "--quiet"]
    words += ["--length-scale", "median", "--features", str(options.features), "--memory", options.memory]
    app(words, standalone_mode=False)


def measured(part: str, path: Path, options: argparse.Namespace) -> dict[str, float]:
    """Seconds and peak memory of one part, in this process; what the part needs is loaded before the clock starts."""
    for module in ("pyarrow.csv", "phimap.io.text_columns", "phimap.tables", "phimap.cli.fit"):
        import_module(module)
    start = time.perf_counter()
    globals()[part](path, options)
    seconds = time.perf_counter() - start
    unit = 1 if sys.platform == "darwin" else 1024
    return {"seconds": seconds, "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--features", type=int, default=512)
    parser.add_argument("--memory", default="1GB")
    parser.add_argument("--keep", type=Path, help="file for the table, written if it is not there")
    parser.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part:
        print(json.dumps(measured(options.part, options.keep, options)))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = options.keep or Path(folder) / "mixed.csv"
        if not path.exists():
            write(path, options.rows)
        size = path.stat().st_size
        print(f"{options.rows:,} rows, 12 feature columns, {size / 2**20:.0f} MB, {os.cpu_count()} cores")
        print(f"{'part':8} {'seconds':>8} {'x read':>7} {'rows/s':>10} {'MB/s':>7} {'peak MB':>8}")
        limit = None
        for part in PARTS:
            words = ["--part", part, "--keep", str(path), "--features", str(options.features)]
            words += ["--memory", options.memory]
            done = subprocess.run([sys.executable, __file__, *words], check=True, capture_output=True, text=True)
            found = json.loads(done.stdout.splitlines()[-1])
            seconds = found["seconds"]
            limit = limit or seconds
            print(
                f"{part:8} {seconds:8.2f} {seconds / limit:7.1f} {options.rows / seconds:10,.0f} "
                f"{size / 2**20 / seconds:7.1f} {found['peak'] / 2**20:8.0f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
