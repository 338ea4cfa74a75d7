"""Training out of core at scale: ``phimap fit`` on a table of any length beside the bare products of its tiles.

Writes a synthetic table piece by piece, runs ``phimap fit`` on it in a process of its own, and prints rows a second and
the peak of the process's resident memory. Beside them stand two limits, measured in this process before and after the
fit, with the fitted map and as many threads:

- *products*: ``G += Z^T Z`` by float32 ``syrk`` for tiles Z, one triangle. Tiles have 4,096 rows or as many as a batch
  of the fit, and all threads work at one tile or each at one of its own, whichever is fastest;
- *features and products*: the same with the features of each tile formed anew from rows that lie in memory, scaled.

Both leave out reading, the sums with the targets, the sum over tiles in float64, the other passes over the file
(checks, moments, held-out rows) and the solution. A ratio is the time of the limit over the training rows by the time
of the whole command, start of the interpreter included.

    python benchmarks/scale.py [--rows 10000000] [--formats parquet csv] [--target classes] [--search] [--memory 700MB]
    python benchmarks/scale.py --shape millionsongs --formats npy      # 467,315 x 90 at 8,192 features
    python benchmarks/scale.py --rows 10000000 --kill-at 0.5           # kill -9, resume, compare the model files

`scale_runs.json` keeps what ``--json`` writes of these runs, for the page that `cost_page.py` writes.

``--reading`` measures instead what reading takes: the file alone, the fit alone on rows in memory, both one after the
other, and both at once.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path
from typing import Any

from phimap.cli.blas import choose_core_type

# Before NumPy is loaded, as the command does.
choose_core_type()

SEED = 0
PIECE_ROWS, TILE_ROWS = 100_000, 4096
SHAPES = {"higgs": (100_000, 28, 1024), "millionsongs": (467_315, 90, 8192)}
LEAST_SECONDS = 3.0
MAIN = "from phimap.cli import main; main()"
STAGE = re.compile(r"^(?P<name>[a-z][A-Za-z -]*): (?P<seconds>[\d.]+) s(?: \((?P<rate>[\d,.]+) rows/s\))?$")
ON_THE_WAY = re.compile(r"^features and Gram matrix: (?P<done>[\d,]+) of (?P<total>[\d,]+) after")


def piece(number: int, rows: int, columns: int, target: str) -> Any:
    """Rows of one piece as an Arrow table: energies, angles and masses of them, float32, and their target."""
    import numpy as np
    import pyarrow as pa

    rng = np.random.default_rng([SEED, number])
    half = columns // 2
    energies = rng.lognormal(0.0, 0.5, (rows, half)).astype(np.float32)
    angles = rng.uniform(-np.pi, np.pi, (rows, columns - half)).astype(np.float32)
    # Invariant masses of pairs, as in the high-level columns of HIGGS: products of energies, cosines of differences.
    gaps = np.cos(angles[:, :half] - np.roll(angles[:, :half], 1, axis=1))
    masses = np.sqrt(2 * energies * np.roll(energies, 1, axis=1) * (1 - gaps) + 1e-6)
    score = np.tanh(masses[:, 0] - 1.2) + 0.8 * np.sin(2 * masses[:, 1]) - 0.5 * (masses[:, 2] > 1) * masses[:, 3]
    n_masses = max(1, columns // 4)
    X = np.concatenate([energies, angles, masses], axis=1)[:, : columns + n_masses][:, n_masses:]
    score = score + 0.3 * rng.standard_normal(rows)
    y = (score > -0.2).astype(np.int8) if target == "classes" else score.astype(np.float32)
    names = [f"f{j}" for j in range(columns)]
    return pa.table([*np.ascontiguousarray(X.T.astype(np.float32)), y], names=[*names, "y"])


def write(path: Path, rows: int, columns: int, target: str) -> None:
    """Write the table in pieces."""
    import numpy as np
    from pyarrow import csv, parquet

    counts = [min(PIECE_ROWS, rows - start) for start in range(0, rows, PIECE_ROWS)]
    pieces = (piece(number, count, columns, target) for number, count in enumerate(counts))
    first = next(pieces)
    if path.suffix == ".npy":
        out = np.lib.format.open_memmap(path, "w+", np.float32, (rows, columns + 1))
        start = 0
        for one in (first, *pieces):
            out[start : start + len(one)] = np.column_stack([column.to_numpy() for column in one.columns])
            start += len(one)
        out.flush()
        return
    maker = parquet.ParquetWriter if path.suffix == ".parquet" else csv.CSVWriter
    with maker(path, first.schema) as writer:
        writer.write_table(first)
        for one in pieces:
            writer.write_table(one)


def command(path: Path, options: argparse.Namespace, model: Path) -> list[str]:
    """The words of the fit."""
    words = [sys.executable, "-c", MAIN, "fit", str(path), "--target", "-1" if path.suffix == ".npy" else "y"]
    words += ["--features", str(options.features), "--holdout", str(options.holdout), "--json", "--model", str(model)]
    if not options.search:
        words += ["--kernel", "gaussian", "--metric", "none", "--length-scale", "median"]
    for name in ("memory", "n_jobs"):
        if (value := getattr(options, name)) is not None:
            words += [f"--{name.replace('_', '-')}", str(value)]
    return words


def run(words: list[str], kill_at: float | None = None) -> dict:
    """Run the fit; with `kill_at` kill it after this share of the rows of the last pass."""
    start = time.perf_counter()
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(words, stdout=out, stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        told, killed = [], False
        for line in process.stderr:
            told.append(line.rstrip())
            place = ON_THE_WAY.match(told[-1])
            if kill_at is not None and place is not None:
                done, total = (int(place[name].replace(",", "")) for name in ("done", "total"))
                if done >= kill_at * total and not killed:
                    process.send_signal(signal.SIGKILL)
                    killed = True
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        out.seek(0)
        content = out.read().decode()
    if status and not killed:
        raise SystemExit("\n".join(told[-3:]))
    stages = {match["name"]: float(match["seconds"]) for match in map(STAGE.match, told) if match}
    return {
        "seconds": seconds,
        "peak_mb": usage.ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10),
        "stages": stages,
        "killed": killed,
        "results": json.loads(content) if content.strip() else {},
    }


def limits(model_file: Path, path: Path, n_jobs: int | None) -> dict[str, float]:
    """Rows a second of the bare products, with and without the features."""
    import numpy as np

    import phimap as pm
    from phimap.config import thread_count
    from phimap.io import open_table
    from phimap.learn.rows.batches import feature_rows
    from phimap.ops import ops_for, run_tasks
    from phimap.random_map import evaluate

    model: Any = pm.load(model_file)
    threads = thread_count(n_jobs)
    record = model.feature_map_.record_
    m = record.n_components
    heights = {TILE_ROWS, feature_rows(m, 4)}
    table = open_table(path, "-1" if path.suffix == ".npy" else "y")
    X = next(table.batches(max(heights) * 2 * threads))[0]
    ops = ops_for(X)
    scaling, record = model.scaling_.bind(ops), record.bind(ops)

    def formed(tile: Any, out: Any, jobs: int) -> None:
        evaluate(record, ops, scaling.apply(ops, tile), out[: len(tile)], jobs)

    def rate(height: int, streams: int, anew: bool) -> float:
        tiles = [X[start : start + height] for start in range(0, len(X), height)]
        sums = [np.zeros((m, m), np.float32, order="F") for _ in range(streams)]
        buffers = [np.empty((height, m), np.float32) for _ in range(streams)]
        for buffer, tile in zip(buffers, tiles, strict=False):
            formed(tile, buffer, threads)

        def work(stream: int) -> int:
            mine = tiles[stream::streams]
            for tile in mine:
                if anew:
                    formed(tile, buffers[stream], threads if streams == 1 else 1)
                _add_products(sums[stream], buffers[stream][: len(tile)])
            return sum(map(len, mine))

        return _rate(lambda: run_streams(work, streams, run_tasks))

    kinds = (("products", False), ("features and products", True))
    ways = [(height, streams) for height in sorted(heights) for streams in sorted({1, threads})]
    return {name: max(rate(*way, anew) for way in ways) for name, anew in kinds}


def run_streams(work: Any, streams: int, run_tasks: Any) -> int:
    """Rows worked through by one stream with all threads, or by a stream for each."""
    return work(0) if streams == 1 else sum(run_tasks(work, range(streams), streams))


def _add_products(total: Any, Z: Any) -> None:
    """Add one triangle of ``Z^T Z`` in place."""
    from scipy.linalg import blas

    blas.ssyrk(  # pyright: ignore[reportAttributeAccessIssue]
        1.0, Z.T, beta=1.0, c=total, overwrite_c=1
    )


def _rate(work: Any) -> float:
    """Rows a second, after one round that warms up."""
    work()
    rows, start = 0, time.perf_counter()
    while (seconds := time.perf_counter() - start) < LEAST_SECONDS:
        rows += work()
    return rows / seconds


def measured(path: Path, options: argparse.Namespace, folder: Path) -> dict:
    """One fit beside the limits."""
    model = folder / f"{path.suffix[1:]}.phimap"
    # What the system still holds of a file differs from run to run: once read, all passes find it alike.
    digest_of_bytes(path)
    fit = run(command(path, options, model))
    # Other work on the machine slows one of them down, not both alike: the better of two is the limit.
    rounds = [limits(model, path, options.n_jobs) for _ in range(2)]
    best = {name: max(one[name] for one in rounds) for name in rounds[0]}
    n_train = fit["results"]["rows_trained"]
    rate = n_train / fit["seconds"]
    results = fit.pop("results")
    return fit | {
        "date": date.today().isoformat(),
        "features": options.features,
        "memory": options.memory,
        "score": results.get("R2", results.get("accuracy")),
        "file": path.name,
        "file_mb": path.stat().st_size / 2**20,
        "rows_trained": n_train,
        "rows_per_second": rate,
        "limits": best,
        "ratios": {name: rate / value for name, value in best.items()},
        "sha256": digest(model),
    }


def killed_and_resumed(path: Path, options: argparse.Namespace, folder: Path) -> dict:
    """The model file of a fit that was killed and resumed, beside that of one that was not."""
    plain, resumed = folder / "plain.phimap", folder / "resumed.phimap"
    run(command(path, options, plain))
    words = [*command(path, options, resumed), "--checkpoint", str(folder / "checkpoint"), "--every", options.every]
    first = run(words, options.kill_at)
    if not first["killed"]:
        raise SystemExit("error: the fit ended before a line told of its progress. Use more --rows.")
    second = run(words)
    same = digest(plain) == digest(resumed)
    seconds = [first["seconds"], second["seconds"]]
    killed = {"kill_at": options.kill_at, "features": options.features, "memory": options.memory}
    return {"date": date.today().isoformat(), "file": path.name, "seconds": seconds, "same_bits": same} | killed


def digest_of_bytes(path: Path) -> str:
    """A hash of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest(path: Path) -> str:
    """A hash of a model file; the order of its header, which safetensors shuffles, does not matter."""
    content = path.read_bytes()
    stop = 8 + int.from_bytes(content[:8], "little")
    header = json.dumps(json.loads(content[8:stop]), sort_keys=True)
    return hashlib.sha256(header.encode() + content[stop:]).hexdigest()


def reading(path: Path, options: argparse.Namespace) -> dict[str, float]:
    """Seconds of a pass that reads, of one that adds products of rows in memory, and of both."""
    from fitted_features import features_of

    import phimap as pm
    from phimap.io import open_table
    from phimap.io.prefetch import read_ahead
    from phimap.learn.ridge.solver import RidgeSolver

    target = "-1" if path.suffix == ".npy" else "y"
    table = open_table(path, target)
    X, y = next(table.batches(20_000))
    assert y is not None
    model = pm.KernelRegressor(
        "gaussian", options.features, length_scale="median", metric=None, alpha=1.0, n_jobs=options.n_jobs,
        random_state=SEED,
    ).fit(X, y)  # fmt: skip
    features = features_of(model)

    def passed(batches: Any) -> float:
        start = time.perf_counter()
        solver = RidgeSolver.start(options.features, 1, None)
        for rows, targets in batches:
            solver.update(features(rows), targets[:, None], options.n_jobs)
        return time.perf_counter() - start

    start = time.perf_counter()
    rows = sum(len(X) for X, _ in table.batches(TILE_ROWS))
    alone = time.perf_counter() - start
    again = X[:TILE_ROWS], y[:TILE_ROWS]
    return {
        "reading": alone,
        "reading_mb_per_second": path.stat().st_size / 2**20 / alone,
        "products": passed(again for _ in range(-(-rows // TILE_ROWS))),
        "one after the other": passed(table.batches(TILE_ROWS)),
        "both at once": passed(read_ahead(table.batches(TILE_ROWS))),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=SHAPES, default="higgs")
    parser.add_argument("--rows", type=int, help="default: 100,000, or 467,315 of millionsongs")
    parser.add_argument("--features", type=int, help="default: 1,024, or 8,192 of millionsongs")
    parser.add_argument("--formats", nargs="+", choices=("parquet", "csv", "npy"), default=["parquet"])
    parser.add_argument("--target", choices=("values", "classes"), default="values")
    parser.add_argument("--search", action="store_true", help="the default search in place of a fixed kernel")
    parser.add_argument("--holdout", type=float, default=0.1)
    parser.add_argument("--memory")
    parser.add_argument("--n-jobs", type=int)
    parser.add_argument("--reading", action="store_true")
    parser.add_argument("--kill-at", type=float, help="share of the rows after which the fit is killed")
    parser.add_argument("--every", default="30s", help="time between checkpoints, with --kill-at")
    parser.add_argument("--folder", type=Path, help="where tables are written, and kept; default: a temporary one")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows, columns, features = SHAPES[options.shape]
    options.rows, options.features = options.rows or rows, options.features or features
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        found = []
        for suffix in options.formats:
            path = folder / f"{options.shape}-{options.rows}-{options.target}.{suffix}"
            if not path.exists():
                write(path, options.rows, columns, options.target)
            if options.reading:
                found.append({"file": path.name} | reading(path, options))
            elif options.kill_at is not None:
                found.append(killed_and_resumed(path, options, Path(temporary)))
            else:
                found.append(measured(path, options, Path(temporary)))
            show(found[-1])
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


def show(found: dict) -> None:
    """Print what was found of one file."""
    if "ratios" not in found:
        for name, value in found.items():
            print(f"{name:<24}{value:.3g}" if isinstance(value, float) else f"{name:<24}{value}")
        return
    print(f"{found['file']}, {found['file_mb']:.0f} MB, {found['rows_trained']:,} rows trained on")
    print(f"  whole command           {found['seconds']:8.1f} s  {found['rows_per_second']:10,.0f} rows/s")
    for name, rate in found["limits"].items():
        seconds, ratio = found["rows_trained"] / rate, found["ratios"][name]
        print(f"  {name:<24}{seconds:8.1f} s  {rate:10,.0f} rows/s  ratio {ratio:.2f}")
    for name, seconds in found["stages"].items():
        print(f"    {name:<26}{seconds:8.1f} s")
    print(f"  peak memory             {found['peak_mb']:8.0f} MB")


if __name__ == "__main__":
    main()
