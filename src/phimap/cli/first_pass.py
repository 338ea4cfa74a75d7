"""The first pass over a table: every value checked, columns and target described before long work starts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from phimap._progress import Watched
from phimap.cli.options import FitOptions
from phimap.cli.rows import check_single, in_terms_of
from phimap.io import DataError, Rows, holdout_mask
from phimap.io.arrow import is_numeric
from phimap.io.batching import Block, chosen
from phimap.io.frame import Frame
from phimap.io.prefetch import read_ahead
from phimap.learn import KernelRegressor
from phimap.learn.rows.first_look import FirstLook
from phimap.learn.rows.scaling import ColumnMoments
from phimap.learn.targets.extreme_targets import ExtremeTargets
from phimap.tables import TableEncoder

# More labels than this are names of rows rather than classes; each class costs a column of targets.
MOST_LABELS = 1000
# Rounding to fewer steps than this moves values by more than a thousandth of the column's range.
_FEW_STEPS = 1000
_MOMENTS = ("mean", "standard_deviation")
# Columns of wider tables, pixels mostly, are not described one by one.
_MOST_DESCRIBED = 200


@dataclass(frozen=True)
class ColumnFacts:
    """Facts about columns over the training rows, each an array (d,)."""

    names: tuple[str, ...]
    low: np.ndarray
    high: np.ndarray
    mean: np.ndarray | None
    standard_deviation: np.ndarray | None

    def without(self, names: Collection[str]) -> ColumnFacts:
        """The facts about all but these columns."""
        kept = [j for j, name in enumerate(self.names) if name not in names]
        mean, deviation = (None if one is None else one[kept] for one in (self.mean, self.standard_deviation))
        return ColumnFacts(tuple(self.names[j] for j in kept), self.low[kept], self.high[kept], mean, deviation)


@dataclass(frozen=True)
class Overview:
    """What one pass over the file tells.

    Attributes
    ----------
    n_rows, n_held_out : int
    features : Columns
        Without means and standard deviations for wide tables; of a frame the columns of numbers.
    target : Columns or None
        Of a numeric target.
    labels : tuple or None
        Distinct targets of the training rows, sorted; None where there are too many to be classes.
    whole : bool
        Whether every target is a label or a whole number.
    encoder : TableEncoder or None
        Of the columns of a frame; None where the table holds numbers alone.
    extreme : str or None
        A line on the one row, held out or not, that has most of the variance of a numeric target.
    held_out : list of (X, y, numbers) or None
        The rows that are held out, as they were read; None where they are too many to be kept.
    look : FirstLook or None
        What a learner wants to know of the training rows; None where it has to see for itself.
    """

    n_rows: int
    n_held_out: int
    features: ColumnFacts
    target: ColumnFacts | None
    labels: tuple | None
    whole: bool
    encoder: TableEncoder | None = None
    extreme: str | None = None
    held_out: list[Block] | None = None
    look: FirstLook | None = None

    @property
    def n_train(self) -> int:
        return self.n_rows - self.n_held_out


def first_pass(
    path: str,
    table: Rows,
    options: FitOptions,
    batch_rows: int,
    advance: Callable[[int], None],
    *,
    learner: KernelRegressor | None = None,
    most_kept: int = 0,
) -> Overview:
    """Read the file once: every value is checked, rows are counted, columns and target described.

    The columns of a frame also fit their encoder. ``advance(rows)`` is told of rows as they are done. A `learner` makes
    its own first pass over the numbers of a table meanwhile. Rows that are held out are kept where they take no more
    than `most_kept` bytes. So nobody needs to read either again.
    """
    look: FirstLook | None = None
    if learner is not None and not isinstance(table, Frame) and not table.is_image:
        look = learner._first_look(MOST_LABELS)
    facts = _Facts(path, table, options, batch_rows, advance, look, _Kept(most_kept))
    encoder = None
    if not isinstance(table, Frame):
        for X, y in facts.training_rows():
            if learner is not None and look is not None:
                look.update(learner._number_rows(X, reset=look.moments is None), y)
    else:
        types = {name: kind for name, kind in (options.types or {}).items() if name in table.feature_names}
        target_type = {"regression": "continuous", "classification": "classes"}.get(options.task, "auto")
        encoder = TableEncoder(types, target_type=target_type)
        with in_terms_of(path, facts.data_row):
            encoder.fit_batches(facts.training_rows()).forget_rows()
    return facts.overview(encoder)


class _Facts:
    """What is gathered in the first pass."""

    def __init__(
        self,
        path: str,
        table: Rows,
        options: FitOptions,
        batch_rows: int,
        advance: Callable[[int], None],
        look: FirstLook | None,
        kept: _Kept,
    ) -> None:
        self._path = path
        self._advance = advance
        self._table = table
        self._options = options
        self._batch_rows = batch_rows
        self._look, self._kept = look, kept
        self._columns = _described_columns(table, look)
        self._target = _Target()
        self._extremes = ExtremeTargets()
        self._n_rows = self._n_held_out = 0
        self._first, self._numbers = 0, np.zeros(0, np.int64)

    def training_rows(self) -> Iterator[tuple[Any, np.ndarray]]:
        """Batches of the rows that are not held out."""
        options = self._options
        batches = read_ahead(self._table.numbered_batches(self._batch_rows))
        for X, y, numbers in Watched(batches, self._advance):
            held_out = holdout_mask(self._n_rows, len(X), options.holdout, options.seed)
            if np.asarray(y).dtype.kind in "fiu":
                self._extremes.update(np.asarray(y), numbers)
            self._n_rows += len(X)
            self._n_held_out += int(held_out.sum())
            self._kept.add((chosen(X, held_out), np.asarray(y)[held_out], numbers[held_out]))
            X, y = chosen(X, ~held_out), np.asarray(y)[~held_out]
            check_single(self._path, self._table, y)
            if len(X):
                self._first, self._numbers = self._first + len(self._numbers), numbers[~held_out]
                # Numbers whose squares overflow are refused by the encoder or the learner, with their place.
                with np.errstate(over="ignore", invalid="ignore"):
                    self._columns.update(X)
                self._target.update(y)
                yield X, y

    def data_row(self, row: int) -> str:
        """Name in the file of a training row of the latest batch, which is counted from 0 over all batches."""
        return self._table.row_name(int(self._numbers[row - self._first]))

    def overview(self, encoder: TableEncoder | None) -> Overview:
        target = self._target
        labels = tuple(sorted(target.labels)) if target.labels is not None else None
        name = str(self._table.target_name)
        return Overview(
            self._n_rows,
            self._n_held_out,
            self._columns.described(),
            target.described(name),
            labels,
            target.whole,
            encoder,
            self._extremes.message(f"the target {name!r}", self._table.row_name),
            self._kept.blocks,
            self._look,
        )


class _Kept:
    """Blocks of rows, as long as all of them take few bytes."""

    def __init__(self, most_bytes: int) -> None:
        self.blocks: list[Block] | None = []
        self._left = most_bytes

    def add(self, block: Block) -> None:
        """Keep a block, whose rows nobody else refers to; or none from now on."""
        self._left -= sum(part.nbytes for part in block if part is not None)
        if self.blocks is not None:
            self.blocks.append(block)
        if self._left < 0:
            self.blocks = None


def constant_columns(where: str, columns: ColumnFacts) -> list[str]:
    """Names of the columns that are constant in the training rows, which standardisation would divide by zero."""
    constant = [name for name, low, high in zip(columns.names, columns.low, columns.high, strict=True) if low == high]
    if len(constant) == len(columns.names):
        raise DataError(f"{where}: every feature column is constant in the training rows. Give columns that vary.")
    return constant


def coarse_columns(columns: ColumnFacts, dtype: str) -> str | None:
    """A line on columns of which rounding to `dtype` leaves few values, such as times in seconds; None without any."""
    largest = np.maximum(np.abs(columns.low), np.abs(columns.high)).astype(dtype)
    steps = (columns.high - columns.low) / np.spacing(largest)
    coarse = np.flatnonzero((steps > 0) & (steps < _FEW_STEPS))
    if not coarse.size:
        return None
    first = coarse[0]
    others = f" (and {coarse.size - 1} more)" if coarse.size > 1 else ""
    return (
        f"column {columns.names[first]!r}{others} lies between {columns.low[first]:.9g} and {columns.high[first]:.9g}, "
        f"{steps[first]:.0f} steps of {dtype}: its digits may be lost. Use --dtype float64, or subtract an offset."
    )


def _described_columns(table: Rows, look: FirstLook | None) -> Any:
    """What describes the feature columns of a table, or those of a frame that hold numbers."""
    if isinstance(table, Frame):
        return _FrameColumns([field.name for field in table.schema if is_numeric(field.type)])
    return _ArrayColumns(table.feature_names, look)


class _ArrayColumns:
    """Streamed facts about all columns of arrays (r, d)."""

    def __init__(self, names: tuple[str, ...], look: FirstLook | None = None) -> None:
        self._names = names
        self._low, self._high = np.full(len(names), np.inf), np.full(len(names), -np.inf)
        self._described = len(names) <= _MOST_DESCRIBED
        # Formed once, by whoever needs them anyway.
        self._look = look
        self._moments = ColumnMoments.empty(len(names)) if self._described and look is None else None

    def update(self, X: np.ndarray) -> None:
        """Add the rows of `X` (r, ...)."""
        X = X.reshape(len(X), -1)
        # Columns that lie in one piece are gone through several times as fast as those across rows.
        columns = np.ascontiguousarray(X.T)
        np.minimum(self._low, columns.min(axis=1), out=self._low)
        np.maximum(self._high, columns.max(axis=1), out=self._high)
        if self._moments is not None:
            self._moments.update(X)

    def described(self) -> ColumnFacts:
        """The facts, all rows seen."""
        moments = self._look.moments if self._look is not None and self._described else self._moments
        mean, deviation = _mean_and_standard_deviation(moments) if moments is not None else (None, None)
        return ColumnFacts(self._names, self._low, self._high, mean, deviation)


class _FrameColumns:
    """Streamed facts about the columns `names` of frames, whose cells may be missing."""

    def __init__(self, names: list[str]) -> None:
        self._each = {name: _ArrayColumns((name,)) for name in names[:_MOST_DESCRIBED]}

    def update(self, X: Any) -> None:
        """Add the rows of the frame `X`."""
        for name, facts in self._each.items():
            cells = X.column(name).cast("double", safe=False).drop_null().to_numpy()
            cells = cells[np.isfinite(cells)]
            if cells.size:
                facts.update(cells[:, None])

    def described(self) -> ColumnFacts:
        """The facts, all rows seen."""
        found = [facts.described() for facts in self._each.values()]
        return ColumnFacts(
            tuple(self._each),
            *(np.array([getattr(one, fact)[0] for one in found]) for fact in ("low", "high", *_MOMENTS)),
        )


class _Target:
    """Streamed facts about a target (n,)."""

    def __init__(self) -> None:
        self.labels: set | None = set()
        self.whole = True
        self._moments: ColumnMoments | None = None
        self._low, self._high = np.inf, -np.inf

    def update(self, y: np.ndarray) -> None:
        """Add the targets `y` (r,)."""
        if y.dtype.kind == "f" and self.whole:
            self.whole = bool((y == np.rint(y)).all())
        if self.labels is not None:
            self.labels.update(np.unique(y).tolist())
            if len(self.labels) > MOST_LABELS:
                self.labels = None
        if y.dtype.kind in "fiu":
            if self._moments is None:
                self._moments = ColumnMoments.empty(1)
            # Targets whose squares overflow are refused by the learner.
            with np.errstate(over="ignore", invalid="ignore"):
                self._moments.update(y.astype(np.float64)[:, None])
            self._low, self._high = min(self._low, float(y.min())), max(self._high, float(y.max()))

    def described(self, name: str) -> ColumnFacts | None:
        """Range, mean and standard deviation; None for labels."""
        if self._moments is None:
            return None
        mean, standard_deviation = _mean_and_standard_deviation(self._moments)
        return ColumnFacts((name,), np.array([self._low]), np.array([self._high]), mean, standard_deviation)


def _mean_and_standard_deviation(moments: ColumnMoments) -> tuple[np.ndarray, np.ndarray]:
    return moments.mean, np.sqrt(moments.squared_deviations / max(moments.n, 1))
