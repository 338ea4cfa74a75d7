"""The page of the guide that the fits to tables make; no figure in it is typed. `tabular.py --page` writes it."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from phimap.bench.experiment import ResultTable
from phimap.bench.tabular import ranking
from phimap.bench.tabular.measure import Fit
from phimap.bench.tabular.methods import METHODS
from phimap.bench.tabular.results import OURS, Summary, by_set, summaries
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
squared error over the standard deviation of the test targets, that of classification the share of wrong labels. The log
loss is the mean negative logarithm of the probability of the true label. All are means over the splits.

Seconds are those of the processor for the fit alone, added up over cores, after a first fit to {warm} that loads and
compiles; other work of the machine raises them. "GiB at most" is the largest rise of resident memory in a fit. Every
method sees the same float32 columns and chooses what it chooses on the training rows.

| method | |
|---|---|
{methods}

The default model of phimap is a kernel model, averaged with boosted trees where validation rows favour the average
([trees beside the kernel](../explanation/corrections.md#trees-beside-the-kernel)).

A ratio of errors is a geometric mean over the tables that both methods were fitted to. Beside it stand the median of
the ratios, which a few tables with very small errors do not move, and the number of tables on which both errors are
within 5 % of each other. The errors are means over the
splits that both were fitted to. An error of classification counts in it as half a test row at least, for on some tables
no label is wrong. Mean ranks are those of the methods that were fitted to every table; ranks nearer than the critical
difference are not told apart (Nemenyi's test at 5 %, Demsar 2006).
"""


def markdown(found: pd.DataFrame | Sequence[Fit]) -> str:
    """The page of fits of one width to whole tables.

    Raises
    ------
    ValueError
        If there is none, or they differ in width, or some are to parts of tables.
    """
    found = pd.DataFrame(found)
    if found.empty:
        raise ValueError("`found` must have a fit at least, got none. Run benchmarks/tabular.py --json FILE first.")
    settings = sorted(
        set(zip(found["width"].fillna(0).astype(int), found["most_rows"].fillna(0).astype(int), strict=True))
    )
    if len(settings) > 1 or settings[0][1]:
        raise ValueError(
            f"`found` must be fits of one width to whole tables, got (width, rows) in {settings}. Use a file for each."
        )
    by_task = summaries(found)
    fitted = set(found["method"])
    head = _HEAD.format(
        n_sets=sum(len(summary.sizes) for summary in by_task.values()),
        provenance=_provenance(found),
        warm="300 rows",
        methods="\n".join(f"| {name} | {METHODS[name].says} |" for name in METHODS if name in fitted),
    )
    return "\n".join([head, *(_task(task, summary) for task, summary in by_task.items()), _choice(by_task)])


def overview(found: pd.DataFrame | Sequence[Fit]) -> str:
    """Ours beside each of the others in few lines, losses included, for the front page."""
    found = pd.DataFrame(found)
    beside = pd.concat([one.beside(OURS).assign(task=task) for task, one in summaries(found).items()]).reset_index()
    beside["wins"] = beside["wins"].astype(str) + " of " + beside["n_sets"].astype(str)
    beside["worst"] = _worst(beside)
    frame = beside[["task", "index", "wins", "losses", "ratio", "median", "near", "worst", "time"]]
    columns = ["tables of", "beside", "smaller error on", "larger on", "error ratio", "median ratio", "within 5 %"]
    columns += ["largest ratio", "time ratio"]
    formats = {"error ratio": ".3f", "median ratio": ".3f", "time ratio": ".2f"}
    table = ResultTable("", frame.set_axis(columns, axis=1), formats)
    return "\n".join([_provenance(found), "", *_rows(table)]) + "\n"


def _worst(beside: pd.DataFrame) -> pd.Series:
    return beside["worst"].map("{:.2f} (".format) + beside["worst_set"] + ")"


def _provenance(found: pd.DataFrame) -> str:
    """When, where and with what the fits were made, and how much of the whole they are."""
    dates = sorted(set(found["date"]))
    when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    machines = "; ".join(sorted(set(found["machine"])))
    software = ", ".join(sorted(set(", ".join(found["software"]).split(", "))))
    names = set(found["dataset"])
    missing = [name for name in (*REGRESSION, *CLASSIFICATION) if name not in names]
    splits = ", ".join(map(str, sorted(set(found["split"]))))
    width = found["width"].iloc[0]
    features = "automatic numbers of features" if pd.isna(width) else f"{width:,.0f} features"
    text = f"Measured {when}: {machines}; {software}; {features}; splits {splits}."
    return text + (f" Not yet measured: {', '.join(missing)}." if missing else "")


def _task(task: str, summary: Summary) -> str:
    parts = [f"## {task.capitalize()}", "", f"Errors on {len(summary.sizes)} tables; the least of a table is bold.", ""]
    parts += _rows(ResultTable("", by_set(summary, _marked(summary.errors)), {"rows": ",", "columns": ","}))
    losses = summary.losses.dropna(axis=1, how="all")
    if losses.size:
        parts += ["", "Log losses of the probabilities; the least of a table is bold.", ""]
        parts += _rows(ResultTable("", _marked(losses).rename_axis("log loss").reset_index()))
    parts += ["", "Processor seconds of the fit:", ""]
    seconds = summary.seconds.rename_axis("table").reset_index()
    parts += _rows(ResultTable("", seconds, dict.fromkeys(summary.methods, ".1f")))
    parts += ["", "All tables:", ""]
    ratios = {peer: f"error / {peer}" for peer in summary.peers}
    overall = summary.overall().drop(columns="seconds").rename_axis("method").reset_index()
    overall = overall.rename(columns={"best": "least error", "rank": "mean rank", "GiB": "GiB at most"} | ratios)
    formats = {"mean rank": ".2f", "GiB at most": ".2f"} | dict.fromkeys(ratios.values(), ".3f")
    parts += [*_rows(ResultTable("", overall, formats)), "", _ranks(summary)]
    beside = summary.beside(OURS)
    if len(beside):
        names = {"index": "beside", "n_sets": "tables", "wins": "smaller error", "losses": "larger"}
        names |= {"rank": "mean rank of two", "ratio": "ratio", "median": "median", "near": "within 5 %"}
        names |= {"worst": "largest ratio", "time": "ratio of seconds"}
        formats = {"mean rank of two": ".2f", "ratio": ".3f", "median": ".3f", "ratio of seconds": ".2f"}
        frame = beside.assign(worst=_worst(beside)).reset_index()
        parts += ["", f"`{OURS}` beside each of the others:", ""]
        parts += _rows(ResultTable("", frame[list(names)].rename(columns=names), formats))
        if losses.size:
            names = {"index": "log loss beside", "loss_wins": "smaller", "loss_losses": "larger", "loss_ratio": "ratio"}
            parts += ["", "The same of log losses:", ""]
            frame = frame[frame["loss_wins"] + frame["loss_losses"] > 0]
            parts += _rows(ResultTable("", frame[list(names)].rename(columns=names), {"ratio": ".3f"}))
        parts += ["", *_losses(summary)]
        for name in beside.index:
            parts += _fewer_splits(summary, name)
    return "\n".join(parts) + "\n"


def _marked(values: pd.DataFrame) -> pd.DataFrame:
    """Return the values as texts, with the least of each row in bold."""
    shown = values.map("{:.4f}".format, na_action="ignore")
    return shown.mask(values.eq(values.min(axis=1), axis=0), "**" + shown + "**")


def _rows(table: ResultTable) -> list[str]:
    """A table as lines of Markdown."""
    rule = "|".join(["---"] + ["---:"] * (len(table.columns) - 1))
    return [f"| {' | '.join(table.columns)} |", f"|{rule}|", *(f"| {' | '.join(line)} |" for line in table.lines)]


def _ranks(summary: Summary) -> str:
    ranks, n_sets = summary.ranks(), len(summary.sizes)
    if len(ranks) < 3 or n_sets < 2:
        return "Mean ranks need three methods and two tables."
    difference = ranking.critical_difference(len(ranks), n_sets)
    groups = ranking.alike(ranks, difference)
    text = (
        f"The critical difference of {len(ranks)} methods on {n_sets} tables is {difference:.2f}; Friedman's test "
        f"gives p = {ranking.friedman(summary.complete().to_numpy()):.1g}."
    )
    return text + (f" Not told apart: {'; '.join(', '.join(group) for group in groups)}." if groups else "")


def _fewer_splits(summary: Summary, other: str) -> list[str]:
    """Errors and seconds on the tables where the other method was fitted to some of the splits alone."""
    pairs = summary.pairs(OURS, other)
    counts = summary.errors[other].notna() if other in summary.errors else pd.Series(False, summary.errors.index)
    pairs = pairs[~counts[pairs.index]][["error", "other_error", "seconds", "other_seconds"]].reset_index()
    if pairs.empty:
        return []
    columns = ["table", OURS, other, f"seconds of {OURS}", f"of {other}"]
    formats = dict(zip(columns[1:], (".4f", ".4f", ".1f", ".1f"), strict=True))
    told = f"`{other}` was fitted to fewer splits of these tables; means over the splits of both:"
    return ["", told, "", *_rows(ResultTable("", pairs.set_axis(columns, axis=1), formats))]


def _losses(summary: Summary) -> list[str]:
    """Where ours errs more than each kind of boosting, the worst first."""
    lines = []
    for peer in summary.peers:
        ratios = summary.pairs(OURS, peer)["ratio"]
        worst = ratios[ratios > 1].sort_values(ascending=False, kind="stable")
        if len(worst):
            named = ", ".join(f"{name} ({ratio:.2f})" for name, ratio in worst.items())
            lines.append(f"Larger error than {peer}: {named}.")
    return lines


def _choice(by_task: dict[str, Summary]) -> str:
    """When to take it and when not, said by the figures."""
    parts = ["## When not to use it", ""]
    for task, summary in by_task.items():
        for one in summary.beside(OURS, summary.peers).itertuples():
            parts.append(
                f"- {task.capitalize()}, beside {one.Index}: the error is larger on {one.losses} of {one.n_sets} "
                f"tables, and the fit takes {one.time:.2g} times as long (geometric mean)."
            )
    parts += [
        "- Where a list of larger errors names tables like yours, fit both. Boosting takes columns of categories as",
        "  they are.",
        '- Where seconds matter more than the last percent, `effort="fast"` or `metric=None` shorten the search, see',
        "  [a kernel that fits the data](../explanation/search.md).",
    ]
    return "\n".join(parts) + "\n"
