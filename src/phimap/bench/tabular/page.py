"""The page of the guide that the fits to tables make; no figure in it is typed."""

from __future__ import annotations

from collections.abc import Sequence

from phimap.bench.tabular import ranking
from phimap.bench.tabular.measure import Measurement
from phimap.bench.tabular.methods import METHODS
from phimap.bench.tabular.results import OURS, PEERS, Comparison, Summary, summaries
from phimap.bench.tabular.tables import CLASSIFICATION, REGRESSION

_HEAD = """# Tables

What the default settings of `KernelRegressor` and `KernelClassifier` give on {n_sets} tables, beside gradient boosting
and other methods. `benchmarks/tabular.py --page` writes this page from the file of fits.

{provenance}

```sh
phimap bench tabular --data DIR --json fits.jsonl --output results
python benchmarks/tabular.py --data DIR --json fits.jsonl
python benchmarks/tabular.py --json fits.jsonl --page docs/results/tabular.md
```

Every fit is a line of `fits.jsonl` as soon as it is made, and a second run goes on from there. `results` has the
critical-difference pictures.

## Protocol

Split k tests the first fifth of `numpy.random.default_rng(k).permutation(n)` and fits to the other rows. Training and
test parts of a source are joined first, also where they are published as such. The error of regression is the root mean
squared error over the standard deviation of the test targets, that of classification the share of wrong labels; both
are means over the splits. Seconds are those of the processor for the fit alone, added up over cores, after a first fit
to {warm} that loads and compiles; what else the machine computes hardly changes them. "GiB at most" is the largest rise
of resident memory in a fit. Every method sees the same float32 columns and chooses what it chooses on the training
rows.

| method | |
|---|---|
{methods}

A ratio of errors is a geometric mean over the tables that both methods were fitted to; the errors are means over the
splits that both were fitted to. An error of classification counts in it as half a test row at least, for on some tables
no label is wrong. Mean ranks are those of the methods that were fitted to every table; ranks nearer than the critical
difference are not told apart (Nemenyi's test at 5 %, Demsar 2006).
"""


def markdown(found: Sequence[Measurement]) -> str:
    """The page of fits of one width to whole tables.

    Raises
    ------
    ValueError
        If there is none, or they differ in width, or some are to parts of tables.
    """
    if not found:
        raise ValueError("`found` must have a fit at least, got none. Run benchmarks/tabular.py --json FILE first.")
    settings = sorted({(one.width, one.most_rows or 0) for one in found})
    if len(settings) > 1 or settings[0][1]:
        raise ValueError(
            f"`found` must be fits of one width to whole tables, got (width, rows) in {settings}. Use a file for each."
        )
    by_task = summaries(found)
    methods = [name for name in METHODS if any(one.method == name for one in found)]
    head = _HEAD.format(
        n_sets=sum(len(summary.cells) for summary in by_task.values()),
        provenance=_provenance(found),
        warm="300 rows",
        methods="\n".join(f"| {name} | {METHODS[name].says} |" for name in methods),
    )
    return "\n".join([head, *(_task(task, summary) for task, summary in by_task.items()), _choice(by_task)])


def overview(found: Sequence[Measurement]) -> str:
    """Ours beside each of the others in few lines, losses included, for the front page."""
    lines = []
    for task, summary in summaries(found).items():
        for other, one in summary.beside(OURS).items():
            worst = f"{one.worst:.2f} ({one.worst_set})"
            counts = f"{one.wins} of {one.n_sets}", f"{one.losses}"
            lines.append((task, other, *counts, f"{one.ratio:.3f}", worst, f"{one.time:.2f}"))
    columns = ("tables of", "beside", "smaller error on", "larger on", "error ratio", "largest ratio", "time ratio")
    return "\n".join([_provenance(found), "", *_table(columns, lines)]) + "\n"


def _provenance(found: Sequence[Measurement]) -> str:
    """When, where and with what the fits were made, and how much of the whole they are."""
    dates = sorted({one.date for one in found})
    when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    machines = "; ".join(sorted({one.machine for one in found}))
    software = ", ".join(sorted({package for one in found for package in one.software.split(", ")}))
    names = {one.dataset for one in found}
    missing = [name for name in (*REGRESSION, *CLASSIFICATION) if name not in names]
    splits = ", ".join(str(split) for split in sorted({one.split for one in found}))
    text = f"Measured {when}: {machines}; {software}; {found[0].width:,} features; splits {splits}."
    return text + (f" Not yet measured: {', '.join(missing)}." if missing else "")


def _task(task: str, summary: Summary) -> str:
    methods = summary.methods
    parts = [f"## {task.capitalize()}", "", f"Errors on {len(summary.cells)} tables; the least of a table is bold.", ""]
    parts += _table(("table", "rows", "columns", *methods), [_errors(summary, name) for name in summary.cells])
    parts += ["", "Processor seconds of the fit:", ""]
    parts += _table(("table", *methods), [_seconds(summary, name) for name in summary.cells])
    parts += ["", "All tables:", ""]
    parts += _table(
        ("method", "tables", "least error", "mean rank", *(f"error / {peer}" for peer in PEERS), "GiB at most"),
        [_overall(summary, name) for name in methods],
    )
    parts += ["", _ranks(summary)]
    others = summary.beside(OURS)
    if others:
        parts += ["", f"`{OURS}` beside each of the others:", ""]
        columns = (
            *("beside", "tables", "smaller error", "larger", "mean rank of two", "ratio", "largest ratio"),
            "ratio of seconds",
        )
        parts += _table(columns, [_beside(name, one) for name, one in others.items()])
        parts += ["", *_losses(summary)]
        for name in others:
            parts += _fewer_splits(summary, name)
    return "\n".join(parts) + "\n"


def _table(columns: Sequence[str], lines: Sequence[Sequence[str]]) -> list[str]:
    rule = "|".join(["---"] + ["---:"] * (len(columns) - 1))
    return [f"| {' | '.join(columns)} |", f"|{rule}|", *(f"| {' | '.join(line)} |" for line in lines)]


def _errors(summary: Summary, dataset: str) -> list[str]:
    cells = summary.cells[dataset]
    least = min(cell.error for cell in cells.values())
    shown = []
    for method in summary.methods:
        text = f"{cells[method].error:.4f}" if method in cells else "-"
        shown.append(f"**{text}**" if method in cells and cells[method].error == least else text)
    return [dataset, *(f"{size:,}" for size in summary.sizes[dataset]), *shown]


def _seconds(summary: Summary, dataset: str) -> list[str]:
    cells = summary.cells[dataset]
    return [dataset, *(f"{cells[m].seconds:.1f}" if m in cells else "-" for m in summary.methods)]


def _overall(summary: Summary, method: str) -> list[str]:
    cells = [cells[method] for cells in summary.cells.values() if method in cells]
    rises = [cell.memory for cell in cells if cell.memory is not None]
    ranks, beside = summary.ranks(), [summary.compare(method, peer) for peer in PEERS]
    return [
        method,
        str(len(cells)),
        str(summary.wins(method)),
        f"{ranks[method]:.2f}" if method in ranks else "-",
        *(f"{one.ratio:.3f}" if one else "-" for one in beside),
        f"{max(rises) / 2**30:.2f}" if rises else "-",
    ]


def _ranks(summary: Summary) -> str:
    ranks, n_sets = summary.ranks(), len(summary.cells)
    if len(ranks) < 3 or n_sets < 2:
        return "Mean ranks need three methods and two tables."
    difference = ranking.critical_difference(len(ranks), n_sets)
    groups = ranking.alike(ranks, difference)
    text = (
        f"The critical difference of {len(ranks)} methods on {n_sets} tables is {difference:.2f}; Friedman's test "
        f"gives p = {ranking.friedman(summary.errors()):.1g}."
    )
    return text + (f" Not told apart: {'; '.join(', '.join(group) for group in groups)}." if groups else "")


def _beside(other: str, one: Comparison) -> list[str]:
    counts = [str(one.n_sets), str(one.wins), str(one.losses)]
    return [
        other,
        *counts,
        f"{one.rank:.2f}",
        f"{one.ratio:.3f}",
        f"{one.worst:.2f} ({one.worst_set})",
        f"{one.time:.2f}",
    ]


def _fewer_splits(summary: Summary, other: str) -> list[str]:
    """Errors and seconds on the tables where the other method was fitted to some of the splits alone."""
    pairs = {name: pair for name, pair in summary.pairs(OURS, other).items() if other not in summary.cells[name]}
    if not pairs:
        return []
    lines = [
        [name, *(f"{cell.error:.4f}" for cell in pair), *(f"{cell.seconds:.1f}" for cell in pair)]
        for name, pair in pairs.items()
    ]
    columns = ("table", OURS, other, f"seconds of {OURS}", f"of {other}")
    return [
        "",
        f"`{other}` was fitted to fewer splits of these tables; means over the splits of both:",
        "",
        *_table(columns, lines),
    ]


def _losses(summary: Summary) -> list[str]:
    """Where ours errs more than each kind of boosting, the worst first."""
    lines = []
    for peer in PEERS:
        ratios = {name: ratio for name, ratio in summary.ratios(OURS, peer).items() if ratio > 1}
        if ratios:
            worst = sorted(ratios, key=lambda name: -ratios[name])
            lines.append(f"Larger error than {peer}: {', '.join(f'{name} ({ratios[name]:.2f})' for name in worst)}.")
    return lines


def _choice(by_task: dict[str, Summary]) -> str:
    """When to take it and when not, said by the figures."""
    parts = ["## When not to use it", ""]
    for task, summary in by_task.items():
        for peer in PEERS:
            one = summary.compare(OURS, peer)
            if one is None:
                continue
            parts.append(
                f"- {task.capitalize()}, beside {peer}: the error is larger on {one.losses} of {one.n_sets} tables, "
                f"and the fit takes {one.time:.2g} times as long (geometric mean)."
            )
    parts += [
        "- Where a list of larger errors names tables like yours, fit both. Boosting takes columns of categories as",
        "  they are.",
        '- Where seconds matter more than the last percent, `effort="fast"` or `metric=None` shorten the search, see',
        "  [a kernel that fits the data](../explanation/search.md).",
    ]
    return "\n".join(parts) + "\n"
