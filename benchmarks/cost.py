"""Predicted cost of fits against measured ones, stage by stage; and the page that extrapolates from them.

Prints, for fits of several sizes, predicted over measured seconds of each stage and of the whole, and the same of the
memory of the process. Beside them the aim: within 1.3 times in seconds of the whole and 1.25 times in memory. The form
of the model was found on the cases of "tuning"; those "aside" took no part. Every fit runs in a process of its own.

    python benchmarks/cost.py [--cases tuning aside] [--scale 1.0] [--threads 1]
    python benchmarks/cost.py --machine                        # the constants of this machine, as Python
    python benchmarks/cost.py --tables wind pol letter --data DIR    # default fits to tables, which search a kernel
    python benchmarks/cost.py --runs FILE.json [--with '{"threads": 2}']    # runs measured elsewhere
    python benchmarks/cost.py --page docs/results/scale.md       # the page, from the constants of the reference machine

Of conjugate gradients the number of passes is taken from the run: their convergence is no matter of sizes. Seconds are
those of the processor where there is one thread, so that what runs beside a fit takes none of them, and those of the
clock with more.

FILE.json is what ``benchmarks/scale.py --json`` writes; ``--with`` gives arguments of `theory.cost` that it does not
tell. Or it is a list of runs, each with "arguments", "stages" as a list of {"name", "seconds"}, "seconds", and
"peak_bytes", or "worker_bytes" and "driver_bytes".
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

SECONDS_WITHIN, BYTES_WITHIN = 1.3, 1.25
# Shapes of benchmarks/scale.py.
SHAPES = {
    "higgs": {"n_columns": 28, "n_components": 1024},
    "millionsongs": {"n_columns": 90, "n_components": 8192},
}
# n, d, m, t, and what differs from a Gaussian kernel of rows in memory.
TUNING = [
    (100_000, 28, 1024, 1, {}),
    (100_000, 28, 4096, 1, {}),
    (100_000, 90, 2048, 10, {}),
    (30_000, 28, 2048, 1, {"solver": "cg"}),
    (100_000, 28, 1024, 1, {"file_format": "csv"}),
]
ASIDE = [
    (1_000_000, 28, 512, 1, {}),
    (300_000, 90, 1024, 1, {}),
    (200_000, 28, 2048, 3, {"kernel": "laplacian"}),
    (50_000, 10, 8192, 1, {}),
    (100_000, 28, 2048, 1, {"kernel": "ntk"}),
    (60_000, 28, 4096, 1, {"solver": "cg"}),
    (300_000, 28, 1024, 1, {"file_format": "parquet"}),
    (200_000, 28, 512, 1, {"file_format": "npy"}),
    (200_000, 28, 1024, 1, {"kernel": "auto"}),
]


def main() -> None:
    """Read the arguments and do what they ask for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="*", choices=("tuning", "aside"), default=["tuning", "aside"])
    parser.add_argument("--scale", type=float, default=1.0, help="factor of the rows of every case")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--machine", action="store_true")
    parser.add_argument("--reference", action="store_true", help="predict for the reference machine, not for this one")
    parser.add_argument("--tables", nargs="*", help="tables of tabular.py; all without names")
    parser.add_argument("--data", type=Path, help="folder of the tables")
    parser.add_argument("--runs", type=Path)
    parser.add_argument("--with", dest="more", type=json.loads, default={}, help="arguments of all runs, as JSON")
    parser.add_argument("--page", type=Path)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        arguments = json.loads(options.one)
        run = default_fit(**arguments) if "table" in arguments else measured(**arguments)
        sys.stdout.write(json.dumps(run) + "\n")
    elif options.page:
        from cost_page import page

        options.page.write_text(page(), encoding="utf-8")
    elif options.machine:
        sys.stdout.write(f"{this_machine()!r}\n")
    else:
        if options.tables is not None:
            runs = default_fits(options.tables, options.data)
        else:
            runs = elsewhere(options.runs, options.more) if options.runs else cases(options)
        compare(runs, reference=options.reference)


def this_machine() -> Any:
    """The constants of this machine, the memory of a process among them."""
    from dataclasses import replace

    import phimap as pm

    machine = pm.measure_machine()
    small = {"n_rows": 10_000, "n_columns": 28, "n_components": 1024, "threads": 1}
    # Less what a fit of this size holds by itself.
    held = pm.theory.cost(**small, machine=machine).worker_memory - machine.process
    return replace(machine, process=in_process(small)["peak_bytes"] - held)


def cases(options: argparse.Namespace) -> Iterator[dict]:
    """Runs of the cases asked for, measured one after the other."""
    for group in options.cases:
        for n, d, m, t, more in TUNING if group == "tuning" else ASIDE:
            sizes = {"n_rows": int(n * options.scale), "n_columns": d, "n_components": m, "n_targets": t}
            arguments = sizes | {"threads": options.threads} | more
            yield {"group": group, "arguments": arguments} | in_process(arguments)


def default_fits(names: list[str], data: Path) -> Iterator[dict]:
    """Default fits to the training rows of the first splits of tables."""
    from phimap.bench.tabular.tables import expand

    for name in expand(names or None):
        yield in_process({"table": name, "data": str(data)})


def default_fit(table: str, data: str) -> dict:
    """Arguments, stages and seconds of a default fit to a table on one thread; its width is the one that was chosen."""
    import numpy as np

    import phimap as pm
    from phimap.bench.tabular.tables import load

    found = load(table, data)
    rows, _ = found.split(0)
    X, y = found.X[rows], found.y[rows]
    kind = pm.KernelRegressor if found.task == "regression" else pm.KernelClassifier
    pm.KernelRegressor(random_state=0, n_jobs=1).fit(X[:500], np.arange(500.0))
    _time_by_the_processor()
    model = kind(random_state=0, n_jobs=1).fit(X, y)
    width = model.feature_map_.n_components
    sizes = {
        "n_rows": len(X),
        "n_columns": X.shape[1],
        "n_components": width,
        "n_targets": np.atleast_2d(model.coef_).shape[0],
    }
    stages = [{"name": stage.name, "seconds": stage.seconds} for stage in model.stages_]
    seconds = sum(stage["seconds"] for stage in stages)
    return {"group": table, "arguments": sizes | {"kernel": "auto"}, "stages": stages, "seconds": seconds}


def _time_by_the_processor() -> None:
    """Time stages by the processor; they are otherwise timed by the clock."""
    from phimap import _progress

    _progress.time = SimpleNamespace(perf_counter=time.process_time)


def elsewhere(file: Path, more: dict) -> Iterator[dict]:
    """Runs that were measured elsewhere; the arguments `more` hold for all."""
    for run in json.loads(file.read_text(encoding="utf-8")):
        if "arguments" in run:
            yield run | {"arguments": run["arguments"] | more}
            continue
        shape, rows, _ = Path(run["file"]).stem.split("-")
        sizes = {"n_rows": int(rows)} | SHAPES[shape]
        arguments = sizes | {"file_format": Path(run["file"]).suffix[1:], "holdout": 0.1} | more
        stages = [{"name": name, "seconds": seconds} for name, seconds in run["stages"].items()]
        yield {"arguments": arguments, "stages": stages, "seconds": run["seconds"]} | {
            "peak_bytes": run["peak_mb"] * 2**20
        }


def in_process(arguments: dict) -> dict:
    """What a fit of these sizes takes in a process of its own."""
    command = [sys.executable, __file__, "--one", json.dumps(arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def measured(
    n_rows: int,
    n_columns: int,
    n_components: int,
    n_targets: int = 1,
    *,
    kernel: str = "gaussian",
    solver: str = "auto",
    file_format: str = "memory",
    threads: int = 1,
) -> dict:
    """Stages, seconds and peak memory of a fit of synthetic rows, compiled functions being loaded."""
    import numpy as np

    import phimap as pm

    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, n_columns), dtype=np.float32)
    y = np.sin(X @ (rng.standard_normal((n_columns, n_targets)) / n_columns**0.5).astype(np.float32))
    y += 0.1 * rng.standard_normal(y.shape, dtype=np.float32)
    y = y[:, 0] if n_targets == 1 else y
    options = {"solver": solver, "n_jobs": threads, "random_state": 0}
    if kernel != "auto":
        options |= {"length_scale": "median", "metric": None}
    pm.KernelRegressor(kernel if kernel != "auto" else "gaussian", 64, **options).fit(X[:3000], y[:3000])
    if threads == 1:
        _time_by_the_processor()
    model = pm.KernelRegressor(kernel, n_components, **options)
    with tempfile.TemporaryDirectory() as folder:
        if file_format == "memory":
            model.fit(X, y)
        else:
            file = write(X, y, Path(folder) / f"rows.{file_format}")
            del X, y
            model.fit_batches(_table(file, n_columns))
    stages = [{"name": stage.name, "seconds": stage.seconds} for stage in model.stages_]
    peak = max(stage.peak_bytes for stage in model.stages_)
    passes = model.solution_.n_passes
    return {
        "passes": passes,
        "stages": stages,
        "seconds": sum(stage["seconds"] for stage in stages),
        "peak_bytes": peak,
    }


def write(X: Any, y: Any, file: Path) -> Path:
    """The rows, the target last, as a file of its suffix."""
    import numpy as np
    import pyarrow as pa
    from pyarrow import csv, parquet

    rows = np.column_stack([X, y])
    if file.suffix == ".npy":
        np.save(file, rows)
        return file
    table = pa.table({f"c{place}": column for place, column in enumerate(rows.T)})
    (csv.write_csv if file.suffix == ".csv" else parquet.write_table)(table, file)
    return file


def _table(file: Path, target: int) -> Any:
    """The file as batches of the rows that a batch of features has."""
    import numpy as np

    from phimap.io import open_table

    return open_table(file, target, dtype=np.float32, batch_rows=4096)


def compare(runs: Iterable[dict], *, reference: bool) -> None:
    """Print predicted over measured cost of every run, and the worst."""
    import phimap as pm

    machine = pm.theory.REFERENCE if reference else this_machine()
    sys.stdout.write(f"{machine}\n\n")
    worst, of_fits = {"seconds": 1.0, "bytes": 1.0}, list[float]()
    for run in runs:
        arguments = run["arguments"]
        predicted = pm.theory.cost(**arguments, passes=run.get("passes"), machine=machine)
        told = ", ".join(f"{name}={value}" for name, value in arguments.items())
        sys.stdout.write(f"{run.get('group', 'run')}: {told}\n")
        seconds = {stage["name"]: stage["seconds"] for stage in run["stages"]}
        for stage in predicted.stages:
            if stage.name in seconds:
                _line(stage.name, stage.seconds, seconds[stage.name], "s")
        for name in sorted(seconds.keys() - {stage.name for stage in predicted.stages}):
            sys.stdout.write(f"    {name}: measured {seconds[name]:.2f} s, not predicted\n")
        ratios = {"seconds": _line("whole", predicted.seconds, run["seconds"], "s")}
        for name, bytes_ in (("peak_bytes", "worker_memory"), ("worker_bytes", "worker_memory")):
            if name in run:
                ratios["bytes"] = _line("memory", getattr(predicted, bytes_) / 2**20, run[name] / 2**20, "MB")
        if "driver_bytes" in run:
            _line("driver", predicted.driver_memory / 2**20, run["driver_bytes"] / 2**20, "MB")
        of_fits.append(ratios["seconds"])
        for name, ratio in ratios.items():
            worst[name] = max(worst[name], ratio, 1 / ratio)
        sys.stdout.flush()
    sys.stdout.write(
        f"\npredicted over measured seconds: {min(of_fits):.2f} to {max(of_fits):.2f}, "
        f"geometric mean {statistics.geometric_mean(of_fits):.2f}"
        f"\nworst: {worst['seconds']:.2f} times in seconds (aim {SECONDS_WITHIN}), "
        f"{worst['bytes']:.2f} times in bytes (aim {BYTES_WITHIN})\n"
    )


def _line(name: str, predicted: float, measured: float, unit: str) -> float:
    """Print one comparison; predicted over measured."""
    ratio = predicted / max(measured, 1e-9)
    sys.stdout.write(f"    {name}: predicted {predicted:.2f} {unit}, measured {measured:.2f} {unit}, {ratio:.2f}\n")
    return ratio


if __name__ == "__main__":
    main()
