"""Aggregated results of the fits to tables: errors and times by table, ratios, ranks and wins of the methods."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import pandas as pd

from phimap._progress import Stages
from phimap.bench.experiment import Report, ResultTable, measured
from phimap.bench.options import BenchOptions
from phimap.bench.tabular import ranking
from phimap.bench.tabular.measure import Fit, Store, run
from phimap.bench.tabular.methods import METHODS
from phimap.bench.tabular.tables import expand, load

#: Number of features of our methods; None leaves the number to their defaults.
WIDTH: int | None = None
SPLITS = (0, 1, 2)
OURS, PEERS = "phimap", ("lightgbm", "hgb", "catboost")
TASKS = ("regression", "classification")

# Two methods are equally good on a table if the larger error is at most this multiple of the smaller error.
_NEAR = 1.05


class Summary:
    """Errors, times and memory of the fits to the tables of one task.

    A method counts on a table if its number of fitted splits is the largest of all methods on this table. Two methods
    are compared on the splits that both have.

    Parameters
    ----------
    found : DataFrame or sequence of fits
        Fits of one task.

    Attributes
    ----------
    sizes : DataFrame
        Number of rows and columns of each table.
    peers : list of str
        The methods of `PEERS` that count on any table.
    errors, losses, seconds, memory : DataFrame
        Mean error, mean log loss and mean processor seconds over the splits, and largest increase of memory in bytes.
        Each frame has a row for each table, and a column for each method that counts on any table, in the order of
        `METHODS`. Values are NaN for tables on which the method does not count. Losses are also NaN for methods without
        probabilities.
    """

    def __init__(self, found: pd.DataFrame | Sequence[Fit]):
        self.found = pd.DataFrame(found)
        by_set = self.found.groupby("dataset", sort=False)
        first = by_set[["n_rows", "n_test", "n_columns"]].last()
        self.sizes = pd.DataFrame({"rows": first["n_rows"] + first["n_test"], "columns": first["n_columns"]})
        self.found = self.found.astype({"memory": float, "log_loss": float})
        groups = self.found.groupby(["dataset", "method"], sort=False)
        columns = {"error": "mean", "log_loss": "mean", "processor_seconds": "mean", "memory": "max", "split": "size"}
        cells = groups.agg(columns).set_axis(["error", "log_loss", "seconds", "memory", "n"], axis=1)
        cells = cells[cells["n"] == cells.groupby("dataset")["n"].transform("max")]
        seen = set(cells.index.get_level_values("method"))
        self.methods = [name for name in METHODS if name in seen] + sorted(seen - set(METHODS))
        self.peers = [name for name in PEERS if name in seen]
        self.errors, self.losses, self.seconds, self.memory = (
            cells[name].unstack().reindex(index=self.sizes.index, columns=self.methods)
            for name in ("error", "log_loss", "seconds", "memory")
        )

    def complete(self) -> pd.DataFrame:
        """Return the errors of the methods that count on every table."""
        return self.errors.dropna(axis=1)

    def ranks(self) -> pd.Series:
        """Return mean ranks of the methods that count on every table; empty if there are fewer than two."""
        errors = self.complete()
        return ranking.mean_ranks(errors) if errors.shape[1] > 1 else pd.Series(dtype=float)

    def pairs(self, method: str, other: str) -> pd.DataFrame:
        """Return mean errors and seconds of two methods on each table, over their common splits.

        Columns are `error`, `log_loss` and `seconds` of `method`, the same of `other` with the prefix `other_`, and the
        `ratio` of the errors. A share of wrong labels may be 0. In the ratio, such shares are raised to at least 0.5
        over the number of test rows in these splits.
        """
        fits = self.found.set_index(["dataset", "split"]).drop(columns="seconds")
        fits = fits.rename(columns={"processor_seconds": "seconds"})
        mine, theirs = (fits.loc[fits["method"] == name] for name in (method, other))
        shared = theirs[["error", "log_loss", "seconds"]].add_prefix("other_")
        both = mine[["error", "log_loss", "seconds", "n_test", "task"]].join(shared, how="inner")
        by_set = both.groupby("dataset", sort=False)
        means = by_set[["error", "log_loss", "seconds", *shared]].mean()
        floor = 0.5 / by_set["n_test"].sum() * (by_set["task"].first() == "classification")
        return means.assign(ratio=means["error"].clip(lower=floor) / means["other_error"].clip(lower=floor))

    def beside(self, method: str, others: Sequence[str] = tuple(METHODS)) -> pd.DataFrame:
        """Compare `method` with each of the `others` that shares a table with it; return one row per other method.

        `wins` and `losses` count the tables on which the error of `method` is smaller or larger. `rank` is the mean
        rank of `method` among the two, 1 or 2 on each table, or 1.5 for equal errors. `ratio` and `time` are geometric
        means of the ratios of errors and of seconds. `median` is the median of the ratios of errors; a few tables with
        very small ratios do not affect it. `near` is the number of tables whose ratio is within 5 % of one. `worst` is
        the largest ratio of errors, and `worst_set` the table with this ratio. `loss_wins` and `loss_losses` count the
        tables on which the log loss of `method` is smaller or larger, and `loss_ratio` is the geometric mean of the
        ratios of log losses.
        """
        rows = {}
        for other in others:
            if other != method and len(pairs := self.pairs(method, other)):
                wins, losses = ((sign * (pairs["error"] - pairs["other_error"]) < 0).sum() for sign in (1, -1))
                rows[other] = {
                    "n_sets": len(pairs),
                    "wins": wins,
                    "losses": losses,
                    "rank": 1.5 + (losses - wins) / (2 * len(pairs)),
                    "ratio": geometric_mean(pairs["ratio"]),
                    "median": pairs["ratio"].median(),
                    "near": int(pairs["ratio"].between(1 / _NEAR, _NEAR).sum()),
                    "worst": pairs["ratio"].max(),
                    "worst_set": pairs["ratio"].idxmax(),
                    "time": geometric_mean(pairs["seconds"] / pairs["other_seconds"]),
                    "loss_wins": (pairs["log_loss"] < pairs["other_log_loss"]).sum(),
                    "loss_losses": (pairs["log_loss"] > pairs["other_log_loss"]).sum(),
                    "loss_ratio": geometric_mean(_positive(pairs["log_loss"]) / _positive(pairs["other_log_loss"])),
                }
        return pd.DataFrame.from_dict(rows, orient="index")

    def overall(self) -> pd.DataFrame:
        """Return a row for each method, over the tables on which it counts.

        `tables` is the number of these tables, `best` the number of tables on which its error is least, and `rank` its
        mean rank. The column of a peer has the geometric mean of the ratios of the method's errors to the peer's.
        `seconds` is the geometric mean of its processor seconds, and `GiB` its largest increase of memory.
        """
        frame = pd.DataFrame({"tables": self.errors.notna().sum()})
        frame["best"] = self.errors.eq(self.errors.min(axis=1), axis=0).sum()
        frame["rank"] = self.ranks().reindex(frame.index)
        for peer in self.peers:
            frame[peer] = [geometric_mean(self.pairs(name, peer)["ratio"]) for name in self.methods]
        return frame.assign(seconds=self.seconds.apply(geometric_mean), GiB=self.memory.max() / 2**30)


def geometric_mean(values: pd.Series) -> float:
    """Return the geometric mean of the values that are not NaN; NaN if there are none."""
    return float(np.exp(np.log(values.dropna()).mean()))


def _positive(losses: pd.Series) -> pd.Series:
    """Return log losses, raised to at least the rounding error of a probability of 1."""
    return losses.clip(lower=float(np.finfo(np.float64).eps))


def summaries(found: pd.DataFrame | Sequence[Fit]) -> dict[str, Summary]:
    """Return a summary for each task that was measured."""
    frame = pd.DataFrame(found)
    return {task: Summary(frame[frame["task"] == task]) for task in TASKS if (frame["task"] == task).any()}


def report(options: BenchOptions, stages: Stages) -> Report:
    """Fit the chosen methods to the chosen tables. With ``--json``, fits that are in the file are not repeated."""
    methods, names = options.chosen(METHODS), expand(options.sets)
    width, store, splits = (options.widths or (WIDTH,))[0], Store(options.json), options.splits or SPLITS
    failures: list[tuple[str, str, str]] = []
    asked = {"width": width, "most_rows": options.rows, "failures": failures}
    parts = []
    for name in names:
        fits = run(load(name, options.data), methods, splits, store, **asked)
        parts.append(measured(stages, name, fits, len(methods) * len(splits)))
    found = pd.concat(parts, ignore_index=True)
    by_task = summaries(found) if len(found) else {}
    tables = [table for task, summary in by_task.items() for table in tables_of(task, summary)]
    if failures:
        frame = pd.DataFrame(failures, columns=["method", "why", "tables"]).drop_duplicates()
        frame = frame.groupby(["method", "why"], sort=False, as_index=False).agg(", ".join)
        tables.append(ResultTable("not fitted", frame))
    figures = {
        f"tabular_{task}.png": partial(ranking.figure, summary.ranks(), len(summary.sizes), f"{task}: mean ranks")
        for task, summary in by_task.items()
        if len(summary.ranks())
    }
    return Report(found, tables, figures)


def tables_of(task: str, summary: Summary) -> list[ResultTable]:
    """Return tables of errors, seconds, aggregates of all methods, and our method against each other method."""
    measure = "RMSE over the targets' deviation" if task == "regression" else "share of wrong labels"
    sizes = {"rows": ",", "columns": ","}
    ratios = {peer: f"/ {peer}" for peer in summary.peers}
    overall = summary.overall().rename(columns={"rank": "mean rank", "GiB": "GiB at most"} | ratios)
    formats = {"mean rank": ".2f", "seconds": ".1f", "GiB at most": ".2f"} | dict.fromkeys(ratios.values(), ".3f")
    title = f"{task}: {len(summary.sizes)} tables; ratios of errors and seconds by geometric mean"
    tables = [
        ResultTable(f"{task}: {name}", by_set(summary, frame), sizes | dict.fromkeys(summary.methods, form))
        for name, frame, form in (
            (measure, summary.errors, ".4f"),
            ("processor seconds of the fit", summary.seconds, ".1f"),
        )
    ]
    tables.append(ResultTable(title, overall.rename_axis("method").reset_index(), formats))
    beside = summary.beside(OURS)
    if OURS in summary.methods and len(beside):
        beside["worst"] = beside["worst"].map("{:.2f} ".format) + beside["worst_set"]
        frame = beside.reset_index()[["index", "n_sets", "wins", "losses", "ratio", "median", "near", "worst", "time"]]
        columns = [
            "beside",
            "tables",
            "smaller",
            "larger",
            "ratio",
            "median",
            "within 5 %",
            "largest ratio",
            "time ratio",
        ]
        title = f"{task}: errors of {OURS} beside those of each"
        tables.append(
            ResultTable(title, frame.set_axis(columns, axis=1), {"ratio": ".3f", "median": ".3f", "time ratio": ".2f"})
        )
    return tables


def by_set(summary: Summary, frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame of a summary, with the sizes of the tables as first columns."""
    return summary.sizes.join(frame).rename_axis("table").reset_index()
