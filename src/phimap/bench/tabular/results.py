"""What the fits to tables say together: errors and times by table, ratios, ranks and wins of the methods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from phimap._progress import Stages
from phimap.bench.experiment import Report, Table, as_dicts, grouped, having, measured, values
from phimap.bench.options import BenchOptions
from phimap.bench.tabular import ranking
from phimap.bench.tabular.measure import Failure, Measurement, Store, run
from phimap.bench.tabular.methods import METHODS
from phimap.bench.tabular.tables import expand, load

WIDTH, SPLITS = 4096, (0, 1, 2)
OURS, PEERS = "phimap", ("lightgbm", "hgb")
TASKS = ("regression", "classification")


@dataclass(frozen=True)
class Cell:
    """Means over the splits of a table, of one method.

    Attributes
    ----------
    error : float
    seconds : float
        Of the processor, added up over cores: what else the machine does meanwhile hardly changes them.
    memory : float or None
        The largest rise of the splits, in bytes.
    floor : float
        What an error counts as at least in a ratio: half a test row of all splits where errors are shares of rows,
        which are 0 on some tables.
    """

    error: float
    seconds: float
    memory: float | None
    floor: float


@dataclass(frozen=True)
class Comparison:
    """One method beside another, on the splits that both were fitted to.

    Attributes
    ----------
    n_sets, wins, losses : int
        A win is a smaller mean error.
    rank : float
        Mean of the ranks 1 and 2; equal errors have 1.5.
    ratio, worst, time : float
        Geometric mean and largest of the ratios of errors; geometric mean of those of seconds.
    worst_set : str
    """

    n_sets: int
    wins: int
    losses: int
    rank: float
    ratio: float
    worst: float
    worst_set: str
    time: float


class Summary:
    """The fits to the tables of one task.

    A method counts on a table where it was fitted to as many splits as any other. Two methods are compared on the
    splits that they have in common.

    Parameters
    ----------
    found : sequence of Measurement
        Of one task.

    Attributes
    ----------
    cells : dict of str to dict of str to Cell
        By table, then by method.
    methods : list of str
        Those that count anywhere, in the order of `METHODS`.
    """

    def __init__(self, found: Sequence[Measurement]):
        self.sizes = {one.dataset: (one.n_rows + one.n_test, one.n_columns) for one in found}
        self.cells: dict[str, dict[str, Cell]] = {}
        self._fits: dict[str, dict[str, dict[int, Measurement]]] = {}
        for (dataset,), fits in grouped(found, "dataset").items():
            by_method = grouped(fits, "method")
            self._fits[dataset] = {name: {one.split: one for one in some} for (name,), some in by_method.items()}
            most = max(len(some) for some in by_method.values())
            self.cells[dataset] = {name: _cell(some) for (name,), some in by_method.items() if len(some) == most}
        seen = {method for cells in self.cells.values() for method in cells}
        self.methods: list[str] = [name for name in METHODS if name in seen] + sorted(seen - set(METHODS))

    def everywhere(self) -> list[str]:
        """Methods that count on every table."""
        return [name for name in self.methods if all(name in cells for cells in self.cells.values())]

    def errors(self) -> np.ndarray:
        """Errors (N, k) of the methods that count everywhere."""
        names = self.everywhere()
        return np.array([[cells[name].error for name in names] for cells in self.cells.values()])

    def ranks(self) -> dict[str, float]:
        """Mean ranks of the methods that count everywhere, if there are two of them."""
        names = self.everywhere()
        if len(names) < 2:
            return {}
        return dict(zip(names, ranking.mean_ranks(self.errors()).tolist(), strict=True))

    def wins(self, method: str) -> int:
        """Tables on which no other method errs less."""
        return sum(
            method in cells and cells[method].error == min(cell.error for cell in cells.values())
            for cells in self.cells.values()
        )

    def ratios(self, method: str, other: str) -> dict[str, float]:
        """Ratios of errors by table, with the floors of the cells."""
        return {
            dataset: max(mine.error, mine.floor) / max(theirs.error, theirs.floor)
            for dataset, (mine, theirs) in self.pairs(method, other).items()
        }

    def pairs(self, method: str, other: str) -> dict[str, tuple[Cell, Cell]]:
        """Both methods by table, as far as they have splits in common."""
        found = {}
        for dataset, by_method in self._fits.items():
            mine, theirs = by_method.get(method, {}), by_method.get(other, {})
            common = sorted(mine.keys() & theirs.keys())
            if common:
                found[dataset] = _cell([mine[split] for split in common]), _cell([theirs[split] for split in common])
        return found

    def compare(self, method: str, other: str) -> Comparison | None:
        """The method beside the other; None where they have no table in common."""
        ratios = self.ratios(method, other)
        if not ratios:
            return None
        pairs = list(self.pairs(method, other).values())
        worst_set = max(ratios, key=lambda name: ratios[name])
        wins = sum(mine.error < theirs.error for mine, theirs in pairs)
        losses = sum(mine.error > theirs.error for mine, theirs in pairs)
        return Comparison(
            len(ratios),
            wins,
            losses,
            1.5 + (losses - wins) / (2 * len(ratios)),
            _geometric_mean(list(ratios.values())),
            ratios[worst_set],
            worst_set,
            _geometric_mean([mine.seconds / theirs.seconds for mine, theirs in pairs]),
        )

    def beside(self, method: str) -> dict[str, Comparison]:
        """The method beside each of the others that it has a table in common with, in the order of `METHODS`."""
        found = {other: self.compare(method, other) for other in METHODS if other != method}
        return {other: one for other, one in found.items() if one is not None}


def _cell(fits: Sequence[Measurement]) -> Cell:
    rises = [one.memory for one in fits if one.memory is not None]
    floor = 0.5 / float(values(fits, "n_test").sum()) if fits[0].task == "classification" else 0.0
    return Cell(
        float(values(fits, "error").mean()),
        float(values(fits, "processor_seconds").mean()),
        max(rises) if rises else None,
        floor,
    )


def _geometric_mean(ratios: Sequence[float]) -> float:
    return float(np.exp(np.log(ratios).mean()))


def summaries(found: Sequence[Measurement]) -> dict[str, Summary]:
    """Summaries of the tasks that were measured."""
    return {task: Summary(fits) for task in TASKS if (fits := having(found, task=task))}


def report(options: BenchOptions, stages: Stages) -> Report:
    """Fit the methods asked for to the tables asked for; with ``--json``, only what the file does not hold."""
    methods, names = options.chosen(METHODS), expand(options.sets)
    width, store = (options.widths or (WIDTH,))[0], Store(options.json)
    splits = options.splits or SPLITS
    found: list[Measurement] = []
    failures: list[Failure] = []
    for name in names:
        fits = run(
            load(name, options.data), methods, splits, store, width=width, most_rows=options.rows, failures=failures
        )
        found += measured(stages, name, fits, len(methods) * len(splits))
    by_task = summaries(found)
    tables = [table for task, summary in by_task.items() for table in tables_of(task, summary)]
    figures = {
        f"tabular_{task}.png": partial(ranking.figure, summary.ranks(), len(summary.cells), f"{task}: mean ranks")
        for task, summary in by_task.items()
        if summary.ranks()
    }
    return Report(as_dicts(found), [*tables, *_failed(failures)], figures)


def tables_of(task: str, summary: Summary) -> list[Table]:
    """Errors and seconds by table, the methods together, and ours beside each of the others."""
    measure = "RMSE over the targets' deviation" if task == "regression" else "share of wrong labels"
    columns = ("table", "rows", "columns", *summary.methods)
    return [
        Table(f"{task}: {measure}", columns, _by_set(summary, "error", ".4f")),
        Table(f"{task}: processor seconds of the fit", columns, _by_set(summary, "seconds", ".1f")),
        _together(task, summary),
        *_beside(task, summary),
    ]


def _by_set(summary: Summary, name: str, form: str) -> list[tuple[str, ...]]:
    return [
        (
            dataset,
            *(f"{size:,}" for size in summary.sizes[dataset]),
            *(format(getattr(cells[m], name), form) if m in cells else "-" for m in summary.methods),
        )
        for dataset, cells in summary.cells.items()
    ]


def _together(task: str, summary: Summary) -> Table:
    ranks, lines = summary.ranks(), []
    for method in summary.methods:
        cells = [cells[method] for cells in summary.cells.values() if method in cells]
        beside = [summary.compare(method, peer) for peer in PEERS]
        rises = [cell.memory for cell in cells if cell.memory is not None]
        lines.append(
            (
                method,
                str(len(cells)),
                str(summary.wins(method)),
                f"{ranks[method]:.2f}" if method in ranks else "-",
                *(f"{one.ratio:.3f}" if one else "-" for one in beside),
                f"{_geometric_mean([cell.seconds for cell in cells]):.1f}",
                f"{max(rises) / 2**30:.2f}" if rises else "-",
            )
        )
    columns = ("method", "tables", "best", "mean rank", *(f"/ {peer}" for peer in PEERS), "seconds", "GiB at most")
    return Table(f"{task}: {len(summary.cells)} tables; ratios of errors and seconds by geometric mean", columns, lines)


def _beside(task: str, summary: Summary) -> list[Table]:
    if OURS not in summary.methods:
        return []
    lines = []
    for other, one in summary.beside(OURS).items():
        counts = (str(one.n_sets), str(one.wins), str(one.losses))
        lines.append((other, *counts, f"{one.ratio:.3f}", f"{one.worst:.2f} {one.worst_set}", f"{one.time:.2f}"))
    columns = ("beside", "tables", "smaller", "larger", "ratio", "largest ratio", "time ratio")
    return [Table(f"{task}: errors of {OURS} beside those of each", columns, lines)] if lines else []


def _failed(failures: Sequence[Failure]) -> list[Table]:
    """One line for every method and reason."""
    lines = [
        (str(method), str(why), ", ".join(dict.fromkeys(one.dataset for one in some)))
        for (method, why), some in grouped(failures, "method", "why").items()
    ]
    return [Table("not fitted", ("method", "why", "tables"), lines)] if lines else []
