"""The page that extrapolates the cost of a fit to a billion rows and more: its figures come from `theory.cost`.

``python benchmarks/cost.py --page docs/results/scale.md`` writes it from `cost_page.md`, and a test compares the two.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from phimap.advice import Cost, cost
from phimap.config import size_text
from phimap.theory import REFERENCE, sums_rounding

TEMPLATE = Path(__file__).with_suffix(".md")
RUNS = Path(__file__).with_name("scale_runs.json")
COLUMNS = {"higgs": 28, "millionsongs": 90}
FORMATS = {".csv": "CSV", ".npy": "NPY", ".parquet": "Parquet"}
WORKERS = (1, 10, 100, 1000)
WIDTHS = (1024, 8192)
TRIANGLES = (1024, 8192, 32_768, 131_072)
# Name, rows, columns as numbers once categories are encoded, and numbers of a row in the file.
SHAPES = (
    ("HIGGS", 11_000_000, 28, 28),
    ("HIGGS' columns", 10**9, 28, 28),
    ("HIGGS' columns", 10**12, 28, 28),
    ("Criteo, a sample", 44_000_000, 845, 39),
    ("Criteo, 24 days", 4_400_000_000, 845, 39),
)
GRAM = "features and Gram matrix"


def page(runs: Sequence[dict] | None = None) -> str:
    """The page as Markdown, with what `scale_runs.json` tells or these `runs`."""
    if runs is None:
        runs = json.loads(RUNS.read_text(encoding="utf-8"))
    found = _facts() | {
        "machine": REFERENCE.name,
        "constants": _constants(),
        "times": _times(),
        "memory": _memory(),
        "rounding": _rounding(),
        "measured": _measured(runs),
    }
    return re.sub("<<(.*?)>>", lambda match: found[match[1]], TEMPLATE.read_text(encoding="utf-8"))


def planned(n: int, m: int, workers: int, d: int = 28, in_file: int = 28) -> Cost:
    """A fit of a Gaussian kernel from Parquet files, each worker having one thread."""
    return cost(n, d, m, solver="cholesky", file_format="parquet", workers=workers, file_columns=in_file)


def seconds_of(found: Cost, stage: str) -> float:
    """Seconds of a stage."""
    return next(one.seconds for one in found.stages if one.name == stage)


def _constants() -> str:
    machine = REFERENCE

    def nanoseconds(*names: str) -> str:
        return " / ".join(f"{1e9 * getattr(machine, name):.1f}" for name in names) + " ns"

    rows = (
        ("products, float32 / float64", f"{machine.single:.0f} / {machine.double:.0f} GFLOP/s"),
        ("memory", f"{machine.bandwidth / 1e9:.0f} GB/s"),
        ("a feature: stored directions / structured / NTK", nanoseconds("dense", "structured", "ntk")),
        ("a number from CSV / Parquet / NPY", nanoseconds("csv", "parquet", "npy")),
        ("network, assumed", f"{machine.network / 1e9:.2f} GB/s"),
        ("a process with its libraries", size_text(machine.process)),
    )
    return _rows(rows)


def _times() -> str:
    lines = [("rows", "columns", "features", *(f"{workers:,}" for workers in WORKERS))]
    lines.append(("---",) * len(lines[0]))
    for name, n, d, in_file in SHAPES:
        for m in WIDTHS:
            times = [_time(planned(n, m, workers, d, in_file).seconds) for workers in WORKERS]
            lines.append((f"{name}, {_count(n)}", f"{d}", f"{m:,}", *times))
    return _rows(lines)


def _memory() -> str:
    lines = []
    for m in TRIANGLES:
        found = planned(10**9, m, 1000)
        sizes = (found.workload.triangle_bytes, found.worker_memory, found.driver_memory, found.bytes_sent)
        times = (found.seconds_of("sending"), seconds_of(found, "regularisation"))
        lines.append((f"{m:,}", *map(size_text, sizes), *map(_time, times)))
    return _rows(lines)


def _rounding() -> str:
    rows = []
    for n in (10**7, 10**9, 10**12):
        found = (*sums_rounding(n), 2.0**-53 * n / 4096 / 2)
        rows.append((_count(n), *(f"{number:.1e}" for number in found)))
    return _rows(rows)


def _measured(runs: Sequence[dict]) -> str:
    """Fits of whole files beside what theory predicts of them, and what became of a fit that was killed."""
    head = ("rows", "columns", "features", "file", "time", "predicted", "rows/s", "of tiles alone", "peak memory")
    lines, notes = [head, ("---",) * len(head)], []
    for run in runs:
        shape, rows, _ = Path(run["file"]).stem.split("-")
        kind, n, m = Path(run["file"]).suffix, int(rows), run["features"]
        if "same_bits" in run:
            first, second = run["seconds"]
            same = "the same bytes" if run["same_bits"] else "other bytes"
            notes.append(
                f"Killed (SIGKILL) after {run['kill_at']:.0%} of the last pass over {n:,} rows of {FORMATS[kind]} and "
                f"{m:,} features ({first:.0f} s), the same command went on and ended after {second:.0f} s more. Its "
                f"model file had {same} as that of a fit that nobody stopped ({run['date']})."
            )
            continue
        options = {"file_format": kind[1:], "holdout": 0.1, "threads": 2, "memory": run["memory"], "solver": "cholesky"}
        predicted = cost(n, COLUMNS[shape], m, **options).seconds
        lines.append(
            (
                f"{n:,}",
                f"{COLUMNS[shape]}",
                f"{m:,}",
                f"{FORMATS[kind]}, {run['file_mb'] / 1024:.1f} GB",
                f"{run['seconds']:.0f} s",
                f"{predicted:.0f} s",
                f"{run['rows_per_second']:,.0f}",
                f"{run['ratios']['features and products']:.2f}",
                f"{run['peak_mb'] / 1024:.2f} GB",
            )
        )
    dates = sorted({run["date"] for run in runs})
    days = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    return "\n\n".join([f"Two threads, {days}:", _rows(lines), *notes])


def _facts() -> dict[str, str]:
    machine = REFERENCE
    small, large = (planned(10**9, m, 1000) for m in (1024, 32_768))
    trillion = planned(10**12, 1024, 1000)
    passes = cost(10**9, 28, 100_000, solver="cg", memory="8GB", workers=1000, file_format="parquet")
    facts = {
        "triangle": size_text(large.workload.triangle_bytes),
        "solution": _time(seconds_of(large, "regularisation")),
        "small traffic": size_text(small.bytes_sent),
        "large traffic": size_text(large.bytes_sent),
        "small tree": _time(small.seconds_of("sending")),
        "large tree": _time(large.seconds_of("sending")),
        "network": f"{machine.network / 1e9:.2f}",
        "tasks": f"{3 * trillion.n_tasks / 1e6:.1f} million",
        "scheduling": _time(trillion.seconds_of("scheduling")),
        "search": _time(cost(10**6, 28, 1024, kernel="auto").seconds_of("search")),
        "passes": str(passes.workload.n_passes),
        "passes time": _time(passes.seconds),
        "passes memory": size_text(passes.worker_memory),
        # Products in float32 and sums in float64 err as much where B = r^(1/2) u32 / u64.
        "meeting": _power(4096 * 4096**0.5 * 2.0**29),
    }
    for name in ("csv", "parquet"):
        seconds = getattr(machine, name)
        facts[name] = f"{4e-6 / seconds:.0f}"
        # A Gram matrix of so many features costs as much as reading 28 columns and a target.
        facts[f"{name} features"] = f"{round((29 * seconds * machine.single * 1e9) ** 0.5, -1):.0f}"
    return facts


def _rows(lines: Iterable[tuple[str, ...]]) -> str:
    """Lines of a table in Markdown."""
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _count(n: int) -> str:
    """A number of rows, in powers of ten where it is long."""
    return f"{n / 10**6:g} million" if n < 10**9 else _power(n)


def _power(number: float) -> str:
    factor, exponent = f"{number:.1e}".split("e+")
    factor = factor.removesuffix(".0")
    return f"$10^{{{int(exponent)}}}$" if factor == "1" else f"${factor} \\cdot 10^{{{int(exponent)}}}$"


def _time(seconds: float) -> str:
    """Seconds in the unit that suits them, to two digits or three."""
    for unit, size in (("years", 365 * 86400.0), ("days", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {unit}" if seconds >= 10 * size else f"{seconds / size:.1f} {unit}"
    return f"{seconds:,.0f} s" if seconds >= 10 else f"{seconds:.2g} s"
