"""The result of a comparison, as numbers and as sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Self

import numpy as np

from phimap._number_text import number_text
from phimap.comparison.measure import MeasuredFit
from phimap.comparison.noise import FALSE_ALARM, Difference
from phimap.config import size_text

#: Name of the method that is phimap with default settings.
OURS = "phimap"
# Largest number of classes that a sentence lists.
_LISTED = 5


@dataclass(frozen=True)
class ModelResult:
    """The result of one method on all splits.

    Attributes
    ----------
    name, says : str
        Name and description of the method.
    errors : tuple of float
        Error in each split: root mean squared error in the units of the target, or share of wrong labels.
    seconds, predict_seconds : float
        Wall-clock times of the fit and of the prediction, means over the splits.
    processor_seconds : float
        Processor time of a fit with one thread.
    memory : float or None
        Largest increase of memory during a fit, in bytes; None if the system does not report it.
    size : float
        Size of the model in bytes, averaged over the splits.
    """

    name: str
    says: str
    errors: tuple[float, ...]
    seconds: float
    processor_seconds: float
    predict_seconds: float
    memory: float | None
    size: float

    @classmethod
    def of(
        cls,
        name: str,
        says: str,
        task: str,
        losses: Sequence[Any],
        fits: Sequence[MeasuredFit],
        sizes: Sequence[int],
        spent: float,
    ) -> Self:
        """Create a result from the losses of the test rows, the fits and the model sizes of all splits.

        `spent` is the processor time of a fit with one thread.
        """
        means = [float(one.mean()) for one in losses]
        rises = [one.memory for one in fits if one.memory is not None]
        errors = tuple(float(np.sqrt(mean)) if task == "regression" else mean for mean in means)
        fit, predict = np.mean([(one.seconds, one.predict_seconds) for one in fits], axis=0).tolist()
        return cls(name, says, errors, fit, spent, predict, max(rises, default=None), float(np.mean(sizes)))

    @property
    def error(self) -> float:
        """Mean error over the splits."""
        return float(np.mean(self.errors))

    @property
    def spread(self) -> float:
        """Standard deviation of the error over the splits; NaN for one split."""
        return float(np.std(self.errors, ddof=1)) if len(self.errors) > 1 else float("nan")


@dataclass(frozen=True)
class Comparison:
    """Result of `compare`; prints as a table.

    Attributes
    ----------
    task : str
        ``"regression"`` or ``"classification"``.
    n_rows, n_all, n_columns, n_splits : int
        Number of rows used, of rows in the table, of columns, and of splits.
    columns : list of str
        Names of the columns.
    baseline : float
        Error of predicting the mean, or the most frequent class, of the training rows.
    results : tuple of ModelResult
        Results of all methods, smallest error first.
    differences : tuple of Difference
        Differences of all pairs of methods, in the order of the results.
    left_out : dict of str to str
        Methods without a result, and the reason.
    rare_classes : dict of str to int
        Classes with too few rows to be tested in every split, and their numbers of rows.
    """

    task: str
    n_rows: int
    n_all: int
    n_columns: int
    columns: list[str]
    n_splits: int
    baseline: float
    results: tuple[ModelResult, ...]
    differences: tuple[Difference, ...]
    left_out: dict[str, str]
    rare_classes: dict[str, int] = field(default_factory=dict)

    @property
    def measure(self) -> str:
        """Name of the error measure."""
        return "RMSE" if self.task == "regression" else "share of wrong labels"

    def difference(self, one: str, other: str) -> Difference:
        """Return the difference between two methods, given in either order."""
        return next(pair for pair in self.differences if {pair.first, pair.second} == {one, other})

    def beside_best(self, name: str) -> str:
        """Describe the error of a method relative to the method with the smallest error."""
        best = self.results[0]
        if name == best.name:
            return "errs least"
        error = next(one.error for one in self.results if one.name == name)
        more = f"+{number_text(100 * (error / best.error - 1), 3)} %" if best.error > 0 else "more"
        return f"{more}, within noise" if self.difference(best.name, name).is_noise else more

    def verdict(self) -> list[str]:
        """Return the result as sentences. The first one says whether another method has a smaller error than phimap."""
        best, names = self.results[0], [one.name for one in self.results]
        level = [name for name in names[1:] if self.difference(best.name, name).is_noise]
        said = []
        if OURS in names and best.name != OURS:
            ours = self.results[names.index(OURS)]
            pair = self.difference(best.name, OURS)
            least, own = number_text(best.error, 4), number_text(ours.error, 4)
            said.append(
                f"{best.name} errs least: {least}; {OURS} {own}, which is within noise of it."
                if pair.is_noise
                else f"{best.name} is better than {OURS} on these data: {least} against {own}."
            )
        else:
            said.append(f"{best.name} errs least: {number_text(best.error, 4)}.")
        if others := [name for name in level if name != OURS or best.name == OURS]:
            said.append(f"Within noise of it: {', '.join(others)}.")
        elif len(names) > 1 and not level:
            said.append("Its differences from all others are beyond noise.")
        if best.error >= self.baseline:
            said.append(f"No method errs less than {self._constant()} does ({number_text(self.baseline, 4)}).")
        said.append(
            f"Noise: paired t-test over the tested rows{' and the splits' if self.n_splits > 1 else ''}, all pairs "
            f"together at {100 * FALSE_ALARM:g} % false alarms."
            + ("" if self.n_splits > 1 else " One split does not show what other training rows would change.")
        )
        mean = ", means over the splits" if self.n_splits > 1 else ""
        said.append(
            f"CPU s: processor seconds of a fit with one thread; fit s and predict s: wall-clock, all threads{mean}. "
            "The first fit of a method is small, to load and compile code, and is not counted."
        )
        if self.n_rows < self.n_all:
            said.append(f"{self.n_rows:,} of {self.n_all:,} rows, drawn at random, were used.")
        if self.rare_classes:
            named = [f"{label!r} ({count})" for label, count in list(self.rare_classes.items())[:_LISTED]]
            more = f" and {len(self.rare_classes) - _LISTED} more" if len(self.rare_classes) > _LISTED else ""
            said.append(f"The errors say little about classes with few rows: {', '.join(named)}{more}.")
        said += [f"Left out: {name} ({why})." for name, why in self.left_out.items()]
        return said

    def _constant(self) -> str:
        return "the mean" if self.task == "regression" else "the commonest class"

    def table(self) -> list[tuple[str, ...]]:
        """Return the table as rows of text; the first row is the heading."""
        head = ("model", self.measure, "beside the best", "CPU s", "fit s", "predict s", "peak memory", "model size")
        lines = [
            (
                one.name,
                f"{number_text(one.error, 4)}" + (f" ± {number_text(one.spread, 2)}" if self.n_splits > 1 else ""),
                self.beside_best(one.name),
                f"{one.processor_seconds:.2f}",
                f"{one.seconds:.2f}",
                f"{one.predict_seconds:.2f}",
                "-" if one.memory is None else size_text(one.memory),
                size_text(one.size),
            )
            for one in self.results
        ]
        constant = (self._constant(), number_text(self.baseline, 4), "", "", "", "", "", "")
        return [head, *lines, constant]

    def to_dict(self) -> dict[str, Any]:
        """Return the whole result as plain values, for JSON."""
        return {
            "task": self.task,
            "measure": self.measure,
            "rows": self.n_rows,
            "rows_in_all": self.n_all,
            "columns": self.n_columns,
            "splits": self.n_splits,
            "baseline": self.baseline,
            "models": [{"error": one.error, "spread": one.spread, **asdict(one)} for one in self.results],
            "differences": [{**asdict(pair), "within_noise": pair.is_noise} for pair in self.differences],
            "left_out": self.left_out,
            "rare_classes": self.rare_classes,
            "verdict": self.verdict(),
        }

    def __str__(self) -> str:
        rows = self.table()
        widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        return "\n".join([*lines, *self.verdict()])
