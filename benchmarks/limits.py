"""The goals of speed in one table, with the instructions of AVX-512 and with those of AVX2 alone.

Each row is a ratio of two times, the least of interleaved rounds: of ours over its limit, or of a peer over ours. A
column is a process in which OpenBLAS, numba and torch are told which instructions to use, so that a processor with
AVX-512 shows both. The main job is timed once, between two runs of its limit.

    python benchmarks/limits.py --data DIR [--rounds 4] [--instructions avx512 avx2]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from timing import clock_times

#: Core types of OpenBLAS, by the instructions that their kernels use.
CORE_TYPES = {"avx512": "SkylakeX", "avx2": "Haswell"}
WIDTH = 8192
SEED = 0


@dataclass(frozen=True)
class Goal:
    """A ratio that is wanted: `over` and `under` are timed, and the quotient of their times is shown."""

    name: str
    wanted: str
    over: Callable[[], Any]
    under: Callable[[], Any]


def environment(instructions: str) -> dict[str, str]:
    """Variables that make libraries use these instructions and no wider ones."""
    found = {**os.environ, "OPENBLAS_CORETYPE": CORE_TYPES[instructions]}
    if instructions == "avx2":
        from numba.core.codegen import get_host_cpu_features

        kept = [name for name in get_host_cpu_features().split(",") if not name.startswith(("+avx512", "+avx10"))]
        found |= {"NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": ",".join(kept)}
        found |= {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"}
    return found


def goals(data: Path) -> Iterator[Goal]:
    """What is timed in one process."""
    import numpy as np
    import torch
    from main_job import load
    from ntk import PublishedFeatures
    from scipy import sparse

    import phimap as pm
    from phimap.config import thread_count
    from phimap.ops import host, run_tasks

    torch.set_num_threads(thread_count())
    rng = np.random.default_rng(SEED)
    with np.load(data / "mnist.npz") as file:
        mnist = file["X_train"][:20_000].reshape(-1, 784).astype(np.float32) / 255
    wide = rng.standard_normal((5000, 4096), dtype=np.float32)

    def mapped(phi: Any, rows: Any) -> Callable[[], Any]:
        phi.fit(rows[:1000])
        return lambda: phi.transform(rows)

    def fourier(projection: str, rows: Any, length_scale: float, width: int = WIDTH) -> Callable[[], Any]:
        kernel = pm.kernels.Gaussian(length_scale)
        return mapped(pm.FourierFeatures(kernel, width, projection=projection, random_state=SEED), rows)

    for X, length_scale, structured in ((mnist, 10.0, "1/5"), (wide, 90.0, "1/15")):
        W = rng.standard_normal((X.shape[1], WIDTH // 2), dtype=np.float32)
        for projection in ("gaussian", "sorf", "fastfood", "circulant", "rom"):
            yield Goal(
                f"{projection} features, d = {X.shape[1]:,} / product",
                "1.10" if projection == "gaussian" else structured,
                fourier(projection, X, length_scale),
                lambda X=X, W=W: X @ W,
            )
    few = load(data)[0][:20_000].astype(np.float32)
    few /= few.std(axis=0)
    yield Goal(
        "features of 9 columns, m = 4,096 / writing a new array",
        "1.5",
        fourier("auto", few, 3.0, 4096),
        lambda: np.full((len(few), 4096), 1.0, np.float32),
    )
    some = mnist[:6000]
    for depth, wanted in ((1, "6"), (3, "40")):
        published = PublishedFeatures(depth, 784, WIDTH, SEED)
        for kind in (pm.NTKFeatures, pm.NTKSketch):
            yield Goal(
                f"published NTK features in torch / {kind.__name__}, depth {depth}",
                wanted,
                lambda published=published: published.transform(torch.from_numpy(some)),
                mapped(kind(depth, WIDTH, random_state=SEED), some),
            )
    csr = sparse.random(20_000, 10_000, 0.01, format="csr", dtype=np.float32, random_state=SEED)
    directions = rng.standard_normal((10_000, 512), dtype=np.float32)
    yield Goal(
        "dense directions, sparse rows / SciPy's product",
        "1",
        fourier("gaussian", csr, 100.0, 1024),
        lambda: csr @ directions,
    )
    yield Goal(
        "CountSketch of sparse rows / copy of the nonzeros",
        "",
        mapped(pm.sketches.CountSketch(256, random_state=SEED), csr),
        csr.copy,
    )
    rows = mnist[:2000].astype(np.float64)
    for X, name in ((rows, "784"), (few[:2000].astype(np.float64), "9")):
        kernel = pm.kernels.NTK(3)
        yield Goal(
            f"exact NTK of depth 3, d = {name} / product in float64",
            "",
            lambda X=X, kernel=kernel: kernel(X),
            lambda: rows @ rows.T,
        )
    pictures = rng.standard_normal((8, 32, 32, 3))
    pairs, pixels = range(36), np.zeros((1024, 1024))
    yield Goal(
        "exact CNTK of depth 3, 32 x 32 / three copies of its pixel pairs",
        "",
        lambda: pm.kernels.CNTK(3, image_shape=(32, 32, 3))(pictures),
        lambda: run_tasks(lambda _: [pixels.copy() for _ in range(3)], pairs),
    )
    signs = pm.projections.SparseSign(0.9).sample(pm.kernels.Gaussian().spectral_law(784), WIDTH, rng)
    ops = host(np.float32)
    bound, W = signs.bind(ops), rng.standard_normal((784, WIDTH), dtype=np.float32)

    def project(start: int) -> None:
        for _columns, _values in bound.blocks(ops, mnist[start : start + 512]):
            pass

    yield Goal(
        "product / ternary projection, eps = 0.9",
        "2",
        lambda: mnist @ W,
        lambda: run_tasks(project, range(0, len(mnist), 512)),
    )
    numbers, copied = np.zeros((2**12, 2**12), np.float32), np.zeros((2**12, 2**12), np.float32)
    yield Goal(
        "Walsh-Hadamard transform of width 4,096, one thread / copy",
        "",
        lambda: ops.fwht(numbers),
        lambda: np.copyto(copied, numbers),
    )


def ratio(goal: Goal, rounds: int) -> float:
    """The least seconds of what is over the line by those of what is under it."""
    found = clock_times({"over": goal.over, "under": goal.under}, rounds)
    return found["over"] / found["under"]


def main_job(data: Path, kernel: str) -> float:
    """A fit of the main job over its bare rank-k updates, each in a process of its own."""
    script = Path(__file__).with_name("main_job.py")

    def seconds(part: str) -> float:
        command = [sys.executable, str(script), "--data", str(data), "--part", part, "--kernel", kernel]
        ended = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        return json.loads(ended.stdout.splitlines()[-1])["seconds"]

    before, fit, after = seconds("limit"), seconds("ours"), seconds("limit")
    return fit / min(before, after)


def measured(data: Path, rounds: int) -> Iterator[dict[str, Any]]:
    """Names, wanted ratios and ratios, in this process and its environment."""
    for goal in goals(data):
        yield {"name": goal.name, "wanted": goal.wanted, "ratio": ratio(goal, rounds)}
    for kernel, wanted in (("gaussian", "1.4"), ("ntk", "")):
        yield {"name": f"main job, {kernel} / bare rank-k updates", "wanted": wanted, "ratio": main_job(data, kernel)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    data = os.environ.get("PHIMAP_DATA")
    parser.add_argument("--data", type=Path, default=data, required=data is None)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--instructions", nargs="+", choices=list(CORE_TYPES), default=list(CORE_TYPES))
    parser.add_argument("--part", action="store_true", help="measure in this process, and print JSON")
    options = parser.parse_args()
    if options.part:
        for one in measured(options.data, options.rounds):
            print(json.dumps(one), flush=True)
        return
    tables = {}
    for instructions in options.instructions:
        command = [sys.executable, __file__, "--data", str(options.data), "--rounds", str(options.rounds), "--part"]
        ended = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment(instructions))
        tables[instructions] = [json.loads(line) for line in ended.stdout.splitlines()]
    print(f"{'ratio of times':<66}{'goal':>6}" + "".join(f"{name:>9}" for name in tables))
    for rows in zip(*tables.values(), strict=True):
        ratios = "".join(f"{row['ratio']:9.2f}" for row in rows)
        print(f"{rows[0]['name']:<66}{rows[0]['wanted']:>6}{ratios}")


if __name__ == "__main__":
    main()
