"""The page that extrapolates the cost of a fit to a billion rows and more: all its figures come from `theory.cost`.

``python benchmarks/cost.py --page docs/guide/scale.md`` writes it, and a test compares the two.
"""

from __future__ import annotations

from phimap.config import size_text
from phimap.theory import REFERENCE, Cost, cost, sums_rounding

WORKERS = (1, 10, 100, 1000)
WIDTHS = (1024, 8192)
# Name, rows, columns as numbers once categories are encoded, and numbers of a row in the file.
SHAPES = (
    ("HIGGS", 11_000_000, 28, 28),
    ("HIGGS' columns", 10**9, 28, 28),
    ("HIGGS' columns", 10**12, 28, 28),
    ("Criteo, a sample", 44_000_000, 845, 39),
    ("Criteo, 24 days", 4_400_000_000, 845, 39),
)
FEATURES_OF_TRIANGLES = (1024, 8192, 32_768, 131_072)


def page() -> str:
    """The page as Markdown."""
    day = REFERENCE.name.rpartition(" ")[2]
    return "\n".join(
        [
            "# From one machine to many",
            "",
            "<!-- Written by benchmarks/cost.py --page; do not edit. -->",
            "",
            f"This page says what fits of up to a trillion rows cost. Figures up to some $10^7$ rows can be measured on one "
            f"machine; those beyond are **arithmetic** from the constants of {REFERENCE.name}. No fit of $10^9$ rows has "
            f"been run. The script `benchmarks/cost.py` writes this page, last with the constants of {day}.",
            "",
            *_idea(),
            *_constants(),
            *_times(),
            *_memory(),
            *_breaks(),
            *_rounding(),
        ]
    )


def _idea() -> list[str]:
    return [
        "## `phimap plan` and `theory.cost`",
        "",
        "```sh",
        "phimap plan houses.csv --target price --features 4096 --memory 4GB",
        "phimap plan --rows 1000000000 --columns 28 --features 4096 --workers 100",
        "```",
        "",
        "```python",
        "import phimap as pm",
        "",
        'found = pm.theory.cost(10**9, 28, 4096, file_format="parquet", workers=100)',
        "print(found.seconds, found.worker_memory, found.seconds_of('Gram matrix'))",
        "pm.theory.cost(10**9, 28, 4096, machine=pm.measure_machine())  # for this machine, measured in seconds",
        "```",
        "",
        "**Idea.** A fit goes over the rows a known number of times, and what it does with each row is known. With $n$ rows,",
        "$d$ columns, $m$ features and $t$ targets the parts of a fit by factorisation are",
        "",
        "| part | cost | divided among workers |",
        "|---|---|---|",
        "| reading, 2 times, or 4 by the command line | $c_f\\,n d$ | yes |",
        "| features | $c_m\\,n m$ | yes |",
        "| Gram matrix in the dtype of the features | $n m^2$ operations | yes |",
        "| sums of the features and products with targets | $32\\,n m$ bytes, $2\\,n m t$ operations | yes |",
        "| joining the sums | $4 m (m + 512)$ bytes from each worker, $\\log_2$(workers) levels | no |",
        "| search of kernel and metric | a constant, on a sample of 8,000 rows | no |",
        "| regularisation and solution in float64 | $2.5\\,(m^3/3 + 1024\\,m^2)$ operations, and some | no |",
        "",
        "Conjugate gradients hold no Gram matrix: a pass takes $4\\,n m\\,(k + 12)$ operations for $k$ columns, and sends",
        "$8\\,m k$ bytes to and from each worker.",
        "",
        "**Error.** For fits in one process the aim is 1.3 times in seconds and 1.15 times in bytes; the script prints the",
        "ratios of each stage, for sizes that the model was made with and for others. A search and its corrections depend on",
        "the data and are known within a factor of two, and so is the number of passes of conjugate gradients. What a cluster",
        "adds is a count, not a measurement.",
        "",
    ]


def _constants() -> list[str]:
    machine = REFERENCE
    rows = [
        ("products, float32 / float64", f"{machine.single:.0f} / {machine.double:.0f} GFLOP/s"),
        ("memory", f"{machine.bandwidth / 1e9:.0f} GB/s"),
        ("a feature: stored directions / structured / NTK", _nanoseconds("dense", "structured", "ntk")),
        ("a number from CSV / Parquet / NPY", _nanoseconds("csv", "parquet", "npy")),
        ("network, assumed", f"{machine.network / 1e9:.2f} GB/s"),
        ("a process with its libraries", size_text(machine.process)),
    ]
    return [
        "## Constants",
        "",
        f"One core of {machine.name}:",
        "",
        "| what | constant |",
        "|---|---|",
        *(f"| {name} | {value} |" for name, value in rows),
        "",
        "`pm.measure_machine()` measures all of them but the last two on your machine.",
        "",
    ]


def _nanoseconds(*names: str) -> str:
    return " / ".join(f"{1e9 * getattr(REFERENCE, name):.1f}" for name in names) + " ns"


def _planned(n: int, d: int, in_file: int, m: int, workers: int) -> Cost:
    """A fit of a Gaussian kernel from Parquet files, each worker having one thread."""
    more = {"file_format": "parquet", "workers": workers, "file_columns": in_file}
    return cost(n, d, m, kernel="gaussian", solver="cholesky", holdout=0.0, **more)


def _times() -> list[str]:
    head = ["rows", "columns", "features", *(f"{workers:,}" for workers in WORKERS)]
    lines = []
    for name, n, d, in_file in SHAPES:
        for m in WIDTHS:
            times = [_time(_planned(n, d, in_file, m, workers).seconds) for workers in WORKERS]
            lines.append([f"{name}, {_count(n)}", f"{d}", f"{m:,}", *times])
    return [
        "## Time by workers",
        "",
        "Parquet files, a Gaussian kernel of fixed width, one target, one thread a worker; `phimap fit --holdout 0`. Criteo's",
        "39 columns are 13 numbers and 26 categories, each of which is hashed to 32 columns here.",
        "",
        "| " + " | ".join(head) + " |",
        "|" + "---|" * len(head),
        *("| " + " | ".join(line) + " |" for line in lines),
        "",
    ]


def _memory() -> list[str]:
    lines = []
    for m in FEATURES_OF_TRIANGLES:
        found = _planned(10**9, 28, 28, m, 1000)
        tree = next(stage for stage in found.stages if stage.name == "features and Gram matrix")
        sending = dict(tree.parts)["sending"]
        lines.append(
            f"| {m:,} | {size_text(found.workload.triangle_bytes)} | {size_text(found.worker_memory)} | "
            f"{size_text(found.driver_memory)} | {size_text(tree.bytes_sent)} | {_time(sending)} | "
            f"{_time(_solution(found))} |"
        )
    return [
        "## Memory and traffic by features",
        "",
        "A thousand workers. Each holds the sums of its rows, and a triangle that is being joined to them; the driver holds",
        "three triangles. Neither depends on the number of rows.",
        "",
        "| features | triangle | a worker | the driver | all traffic | time of the tree | time of the solution, one core |",
        "|---|---|---|---|---|---|---|",
        *lines,
        "",
    ]


def _solution(found: Cost) -> float:
    return next(stage.seconds for stage in found.stages if stage.name == "regularisation")


def _breaks() -> list[str]:
    machine = REFERENCE
    # A Gram matrix of so many features costs as much as reading a row of 28 columns.
    reading = {name: (29 * getattr(machine, name) * machine.single * 1e9) ** 0.5 for name in ("csv", "parquet")}
    rate = {name: 4 * 1e-6 / getattr(machine, name) for name in ("csv", "parquet")}
    trillion = _planned(10**12, 28, 28, 1024, 1000)
    small, large = (_planned(10**9, 28, 28, m, 1000) for m in (1024, 32_768))
    searching = cost(10**6, 28, 1024, kernel="auto").seconds_of("search")
    wide = cost(10**9, 28, 100_000, solver="cg", memory="8GB", workers=1000, file_format="parquet")
    scheduling = trillion.seconds_of("scheduling") / 3600
    tree = {m: dict(next(s.parts for s in c.stages if "Gram" in s.name)) for m, c in ((1024, small), (32_768, large))}
    return [
        "## What breaks first",
        "",
        f"1. **Reading, where features are few.** A core decodes {rate['parquet']:.0f} MB/s of Parquet as float32 and",
        f"   {rate['csv']:.0f} MB/s of CSV. With 28 columns each reading costs as much as the Gram matrix of "
        f"{_rounded(reading['parquet'])} features from",
        f"   Parquet, {_rounded(reading['csv'])} from CSV. More workers help as long as the storage feeds them: a thousand cores",
        f"   take up to {rate['parquet']:.0f} GB/s.",
        f"2. **The triangle, at 32,768 features and more.** It takes {size_text(large.workload.triangle_bytes)} in each worker and three times",
        f"   that in the driver, whose factorisations take {_time(_solution(large))} on one core. Beyond, conjugate gradients",
        "   hold none.",
        f"3. **The tree.** A thousand workers send {size_text(small.bytes_sent)} for 1,024 features and {size_text(large.bytes_sent)} for 32,768.",
        f"   Its levels take {_time(tree[1024]['sending'])} and {_time(tree[32_768]['sending'])} at {machine.network / 1e9:.2f} GB/s, however many rows there are.",
        f"4. **The scheduler.** Three tasks for each 128 MB of the table are {3 * trillion.n_tasks:,} tasks a pass for $10^{{12}}$",
        f"   rows. At a millisecond each, three passes take {scheduling:.1f} h, whatever the workers. Larger parts are the remedy.",
        f"5. **The search.** It looks at 8,000 rows whatever there are: some {_time(searching)} on one core. It does not grow, and",
        "   no worker shares it.",
        f"6. **Passes.** With 100,000 features and $10^9$ rows a thousand workers take {_time(wide.seconds)} for "
        f"{wide.workload.n_passes} passes of conjugate",
        f"   gradients, features formed anew in each; a worker holds {size_text(wide.worker_memory)}.",
        "",
    ]


def _rounding() -> list[str]:
    lines = []
    for n in (1e7, 1e9, 1e12):
        products, sums = sums_rounding(n)
        lines.append(f"| {_count(int(n))} | {products:.1e} | {sums:.1e} | {2.0**-53 * n / 4096 / 2:.1e} |")
    return [
        "## Rounding of the sums",
        "",
        "Products of a batch of $r$ = 4,096 rows are formed in float32, with unit roundoff $u_{32} = 2^{-24}$, and $B = n / r$",
        "of them are added in float64, with $u_{64} = 2^{-53}$. Each addition errs by at most $u$ of the sum so far, with a",
        "variance of at most a third of $u^2$. Entries on the diagonal grow evenly, so the squares of the partial sums add up to",
        "$B/3$ times the last. Errors being independent, their relative standard deviations are",
        "",
        "$$\\frac{u_{32}}{3}\\sqrt{\\frac{r}{B}} \\quad\\text{from products, and}\\quad \\frac{u_{64}}{3}\\sqrt{B}",
        "\\quad\\text{from sums, at most } \\tfrac12 u_{64} B.$$",
        "",
        "| rows | products in float32 | sums in float64 | their bound |",
        "|---|---|---|---|",
        *lines,
        "",
        f"The first falls with the rows and the second grows; they meet at some {_meeting():.0e} rows. Both are far below the",
        "rounding that a factorisation may see, which the least regularisation allows for: see [learners](learners.md).",
        "`pm.theory.sums_rounding` computes them, and a test compares it with simulated sums. A bias of products in float32,",
        "should a library have one, does not fall with the rows; the formula knows none.",
        "",
        "## When not",
        "",
        "For fewer than a million rows, fit and see: a plan measures the machine for some seconds. For time on GPUs, measure:",
        "the model knows none.",
        "",
    ]


def _meeting() -> float:
    """Rows at which both kinds of rounding are as large: where B = r^(1/2) u32 / u64."""
    return 4096 * 4096**0.5 * 2.0**29


def _count(n: int) -> str:
    """A number of rows, in powers of ten where it is long."""
    if n < 10**9:
        return f"{n / 10**6:g} million"
    exponent = len(str(n)) - 1
    factor = n / 10**exponent
    return f"$10^{{{exponent}}}$" if factor == 1 else f"${factor:g} \\cdot 10^{{{exponent}}}$"


def _rounded(number: float) -> str:
    return f"{round(number, -1):,.0f}"


def _time(seconds: float) -> str:
    """Seconds in the unit that suits them, to two digits or three."""
    for unit, size in (("years", 365 * 86400.0), ("days", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {unit}" if seconds >= 10 * size else f"{seconds / size:.1f} {unit}"
    return f"{seconds:,.0f} s" if seconds >= 10 else f"{seconds:.2g} s"
