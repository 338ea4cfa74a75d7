"""The first pass over a table, before the fit. It checks every value, and summarises the columns and the target."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from phimap._files import one_line
from phimap._progress import Watched
from phimap.cli.copies import CopiedRows
from phimap.cli.groups import RowGroups
from phimap.cli.options import FitOptions
from phimap.cli.rows import check_single, held_out_rows, in_terms_of, rows_read
from phimap.io import DataError, ProportionalHoldout, Rows
from phimap.io.batching import Block, chosen
from phimap.io.frame import Frame
from phimap.io.prefetch import read_ahead
from phimap.learn.rows.scaling import ColumnMoments
from phimap.learn.rows.summary import ExtremeTargets
from phimap.learn.targets.kinds import deviance_power
from phimap.learn.targets.means import outside
from phimap.tables import ColumnSummary, TableEncoder
from phimap.tables.row_numbers import RowNumbers

# The range of a column must contain at least this number of steps of a dtype. With fewer steps, rounding moves values
# by more than a thousandth of the range.
_FEW_STEPS = 1000


@dataclass(frozen=True)
class Overview:
    """Facts about a table.

    Attributes
    ----------
    n_rows, n_held_out : int
    summary : RowSummary
        The learner's summary of the training rows; empty for a frame whose rows are not encoded yet.
    encoder : TableEncoder or None
        Encoder of the columns of a frame; None if the table holds only numbers.
    whole : bool
        Whether every target of the training rows is a label or a whole number.
    extreme : str or None
        A message about a single row that causes most of the variance of a numeric target; the row may be held out.
    held_out : list of (X, y, numbers) or None
        The held-out rows as read; None if they are too large to be kept.
    groups : RowGroups or None
        Groups or moments of the rows of the file.
    of_training : ndarray of shape (n_train,) or None
        Groups of the training rows; None without groups.
    copies : str or None
        A message about held-out rows that are copies of training rows.
    row_numbers : sequence of int
        Indices of the columns that number the rows, if the table holds only numbers.
    """

    n_rows: int
    n_held_out: int
    summary: Any
    encoder: TableEncoder | None
    whole: bool
    extreme: str | None
    held_out: list[Block] | None
    groups: RowGroups | None = None
    of_training: np.ndarray | None = None
    copies: str | None = None
    row_numbers: Sequence[int] = ()

    def with_summary(self, summary: Any, rows: Iterable[tuple[Any, np.ndarray]]) -> Overview:
        """The overview with another `summary`, to which all training `rows`, as batches (X, y), are added."""
        return replace(self, summary=summarised(summary, rows))

    @property
    def left_out(self) -> list[ColumnSummary]:
        """Columns that the encoder leaves out."""
        return [] if self.encoder is None else [one for one in self.encoder.summary_ if one.kind == "left out"]

    @property
    def names_left_out(self) -> list[str]:
        """Names of these columns."""
        return [one.name for one in self.left_out]

    @property
    def n_train(self) -> int:
        return self.n_rows - self.n_held_out

    @property
    def labels(self) -> list | None:
        """Distinct targets of the training rows, sorted; None if there are too many to be classes."""
        return None if self.summary.labels is None else self.summary.labels.values.tolist()

    @property
    def target(self) -> dict[str, float] | None:
        """Mean, deviation and range of a numeric target; None for labels and unusable numbers."""
        ends = self.summary.target_range
        if not self.summary.targets_are_numbers or ends is None:
            return None
        mean, deviation = mean_and_deviation(self.summary.extremes.moments)
        found = {"mean": mean, "deviation": deviation, "low": ends[0], "high": ends[1]}
        return {name: float(value[0]) for name, value in found.items()}


def first_pass(
    table: Rows,
    *,
    options: FitOptions,
    task: str,
    learner: Any,
    most_rows: int,
    most_kept: int,
    advance: Callable[[int], None],
    groups: RowGroups | None = None,
) -> Overview:
    """Read a table once: count and check its rows, summarise numbers, and fit the encoder of a frame.

    Parameters
    ----------
    table : Rows
    options : FitOptions
    task : {"auto", "regression", "classification"}
        The task that the user asks for, directly or through a loss.
    learner : KernelRegressor
        The learner that makes the summary.
    most_rows : int
        Largest number of rows of a batch.
    most_kept : int
        Largest number of bytes of held-out rows that are kept, so that they need not be read again.
    advance : callable
        ``advance(rows)`` is called for every batch.
    groups : RowGroups or None
        Groups of the rows, which decide which rows are held out.
    """
    batches = read_ahead(table.numbered_batches(rows_read(table, most_rows, options.memory)))
    seen = _SeenRows(table, options, task, Watched(batches, advance), most_kept, groups)
    summary, encoder, row_numbers = learner.new_summary(), None, RowNumbers()
    if isinstance(table, Frame):
        types = {name: kind for name, kind in (options.types or {}).items() if name in table.feature_names}
        target_type = {"regression": "continuous", "classification": "classes"}.get(task, "auto")
        encoder = TableEncoder(types, target_type=target_type)
        try:
            with in_terms_of(options.data, seen.data_row):
                encoder.fit_batches(seen.training_rows()).forget_rows()
        except ValueError:
            # The encoder may have too few rows because rows are held out, which it does not know.
            if seen.n_held_out:
                check_left(options.data, seen.n_rows - seen.n_held_out, seen.n_rows)
            raise
    else:
        summarised(summary, row_numbers.watched(seen.training_rows()))
    extreme = seen.extremes.message(f"the target {str(table.target_name)!r}", table.row_name)
    of_training = None if groups is None else np.concatenate([groups.values[:0], *seen.groups_of_training])
    found = seen.n_rows, seen.n_held_out, summary, encoder, seen.whole, extreme, seen.kept
    return Overview(*found, groups, of_training, seen.copies.message(), row_numbers.places)


def check_left(data: str, n_train: int, n_rows: int) -> None:
    """Raise if fewer than 2 rows are left to train on."""
    if n_train < 2:
        raise ValueError(
            f"{data}: {n_train} of {n_rows} rows are left to train on, a fit needs at least 2. Give more rows, or a "
            "smaller --holdout."
        )


def summarised(summary: Any, rows: Iterable[tuple[Any, np.ndarray]]) -> Any:
    """Return the summary of a learner after all `rows`, batches (X, y), are added to it."""
    # The learner raises an error for numbers whose squares overflow, and reports their positions.
    with np.errstate(over="ignore", invalid="ignore"):
        for X, y in rows:
            # Images of bytes are converted to the type that the learner uses.
            X = X if X.dtype.kind == "f" else X.astype(np.float32)
            summary.update(X if X.ndim == 2 else X.reshape(len(X), -1), y)
    return summary


class _SeenRows:
    """The rows of a table in its first pass, and the facts that need all rows or their numbers in the file."""

    def __init__(
        self,
        table: Rows,
        options: FitOptions,
        task: str,
        batches: Iterable[Block],
        most_kept: int,
        groups: RowGroups | None,
    ) -> None:
        self._table, self._options, self._task, self._batches, self._groups = table, options, task, batches, groups
        self.groups_of_training: list[np.ndarray] = []
        self.n_rows = self.n_held_out = 0
        self.whole = True
        self.extremes, self.copies = ExtremeTargets(), CopiedRows()
        self.kept: list[Block] | None = []
        self._most_kept = most_kept
        self._split = ProportionalHoldout(options.holdout, options.seed, classes=options.by_class)
        self._first, self._numbers = 0, np.zeros(0, np.int64)

    def training_rows(self) -> Iterator[tuple[Any, np.ndarray]]:
        """Batches of the rows that are not held out."""
        for X, y, numbers in self._batches:
            y = np.asarray(y)
            check_single(self._options.data, self._table, y)
            self._check_labels(y, numbers)
            if y.dtype.kind in "fiu":
                self.extremes.update(y, numbers)
                self._check_domain(y, numbers)
            held_out = held_out_rows(self._split, y, numbers, self._groups)
            groups = None if self._groups is None else self._groups.of_rows(numbers)
            self.n_rows += len(X)
            self.n_held_out += int(held_out.sum())
            self.copies.update(X, y, held_out)
            self._keep((chosen(X, held_out), y[held_out], numbers[held_out]))
            X, y = chosen(X, ~held_out), y[~held_out]
            if len(X):
                if groups is not None:
                    self.groups_of_training.append(groups[~held_out])
                self._first, self._numbers = self._first + len(self._numbers), numbers[~held_out]
                self.whole: bool = self.whole and (y.dtype.kind != "f" or bool((y == np.rint(y)).all()))
                yield X, y

    def _check_labels(self, y: np.ndarray, numbers: np.ndarray) -> None:
        """Raise if the user asks for regression and a target is text."""
        if self._task == "regression" and y.dtype.kind not in "biuf" and len(y):
            name = str(self._table.target_name)
            amounts = "" if self._table.is_image else f", or --types {name}=number if its cells are amounts"
            raise DataError(
                f"{self._options.data}: the target {name!r} must hold numbers for regression, got {one_line(y[0])!r} "
                f"in data row {self._table.row_name(int(numbers[0]))}. Use --task classification{amounts}."
            )

    def _check_domain(self, y: np.ndarray, numbers: np.ndarray) -> None:
        """Raise if a target is outside the domain of the loss."""
        power = deviance_power(self._options.loss, 1.5 if self._options.power is None else self._options.power)
        if power is not None and (found := outside(y, power)) is not None:
            row, rule = found
            raise DataError(
                f"{self._options.data}: the target {str(self._table.target_name)!r} {rule} in row "
                f"{self._table.row_name(int(numbers[row]))}. Leave out such rows, or use --loss squared."
            )

    def _keep(self, block: Block) -> None:
        """Keep a block of held-out rows; drop all of them once they take too many bytes together."""
        self._most_kept -= sum(part.nbytes for part in block if part is not None)
        self.kept = None if self.kept is None or self._most_kept < 0 else [*self.kept, block]

    def data_row(self, row: int) -> str:
        """The name in the file of a training row of the latest batch; `row` is its index among all training rows."""
        return self._table.row_name(int(self._numbers[row - self._first]))


def useless_columns(table: Rows, overview: Overview) -> dict[str, str]:
    """The columns of numbers to leave out, each with the reason: constant columns and row numbers.

    Standardisation would divide constant columns by zero. Row numbers stay if no other column varies.
    """
    columns = overview.summary.columns
    constant = dict.fromkeys(np.flatnonzero(columns.low == columns.high).tolist(), "constant")
    if len(constant) == table.n_features:
        raise DataError(
            f"{table.where}: every feature column is constant in the training rows. Give columns that vary."
        )
    found = constant | dict.fromkeys(overview.row_numbers, "numbers the rows")
    found = constant if len(found) == table.n_features else found
    return {table.feature_names[place]: why for place, why in sorted(found.items())}


def coarse_columns(table: Rows, summary: Any, dtype: str) -> str | None:
    """A message about columns, such as times in seconds, that keep few distinct values in `dtype`; else None."""
    if np.dtype(dtype) == np.float64:
        return None
    low, high = summary.columns.low, summary.columns.high
    steps = (high - low) / np.spacing(np.maximum(np.abs(low), np.abs(high)).astype(dtype))
    coarse = np.flatnonzero((steps > 0) & (steps < _FEW_STEPS))
    if not coarse.size:
        return None
    first = coarse[0]
    others = f" (and {coarse.size - 1} more)" if coarse.size > 1 else ""
    return (
        f"column {table.feature_names[first]!r}{others} lies between {low[first]:.9g} and {high[first]:.9g}, "
        f"{steps[first]:.0f} steps of {dtype}: its digits may be lost. Use --dtype float64, or subtract an offset."
    )


def mean_and_deviation(moments: ColumnMoments) -> tuple[np.ndarray, np.ndarray]:
    """Means and standard deviations (d,) of columns."""
    return moments.mean, np.sqrt(moments.squared_deviations / max(moments.n, 1))
