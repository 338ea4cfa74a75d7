"""The first pass over a table: every value checked, columns and target described before long work starts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from phimap.cli.rows import check_single
from phimap.io import DataError, Table, holdout_mask
from phimap.learn.data.extreme_targets import ExtremeTargets
from phimap.learn.data.scaling import Moments

# More labels than this are names of rows rather than classes; each class costs a column of targets.
MOST_LABELS = 1000
# Rounding to fewer steps than this moves values by more than a thousandth of the column's range.
_FEW_STEPS = 1000
# Columns of wider tables, pixels mostly, are not described one by one.
_MOST_DESCRIBED = 200


@dataclass(frozen=True)
class Columns:
    """Facts about columns over the training rows, each an array (d,)."""

    names: tuple[str, ...]
    low: np.ndarray
    high: np.ndarray
    mean: np.ndarray | None
    standard_deviation: np.ndarray | None


@dataclass(frozen=True)
class Overview:
    """What one pass over the file tells.

    Attributes
    ----------
    n_rows, n_held_out : int
    features : Columns
        Without means and standard deviations for wide tables.
    target : Columns or None
        Of a numeric target.
    labels : tuple or None
        Distinct targets of the training rows, sorted; None where there are too many to be classes.
    whole : bool
        Whether every target is a label or a whole number.
    extreme : str or None
        A line on the one row, held out or not, that has most of the variance of a numeric target.
    """

    n_rows: int
    n_held_out: int
    features: Columns
    target: Columns | None
    labels: tuple | None
    whole: bool
    extreme: str | None = None

    @property
    def n_train(self) -> int:
        return self.n_rows - self.n_held_out


def first_pass(path: str, table: Table, fraction: float, seed: int, batch_rows: int) -> Overview:
    """Read the file once: every value is checked, rows are counted, columns and target described."""
    d = table.n_features
    low, high = np.full(d, np.inf), np.full(d, -np.inf)
    moments = Moments(d) if d <= _MOST_DESCRIBED else None
    target = _Target()
    extremes = ExtremeTargets()
    n_rows = n_held_out = 0
    for X, y in table.batches(batch_rows):
        held_out = holdout_mask(n_rows, len(X), fraction, seed)
        n_rows += len(X)
        n_held_out += int(held_out.sum())
        if np.asarray(y).dtype.kind in "fiu":
            extremes.update(np.asarray(y))
        X, y = X[~held_out], np.asarray(y)[~held_out]
        check_single(path, table, y)
        if len(X):
            X = X.reshape(len(X), -1)
            np.minimum(low, X.min(axis=0), out=low)
            np.maximum(high, X.max(axis=0), out=high)
            target.update(y)
            if moments is not None:
                moments.update(X)
    mean, standard_deviation = _mean_and_standard_deviation(moments) if moments is not None else (None, None)
    features = Columns(table.feature_names, low, high, mean, standard_deviation)
    labels = tuple(sorted(target.labels)) if target.labels is not None else None
    name = str(table.target_name)
    extreme = extremes.message(f"the target {name!r}", first=1)
    return Overview(n_rows, n_held_out, features, target.described(name), labels, target.whole, extreme)


def check_constant_columns(where: str, columns: Columns) -> None:
    """Refuse columns that standardisation would divide by zero."""
    constant = np.flatnonzero(columns.low == columns.high)
    if constant.size:
        names = [columns.names[j] for j in constant]
        value = columns.low[constant[0]]
        more = f" and {len(names) - 1} more columns are" if len(names) > 1 else " is"
        remedy = "--standardize global" if len(names) > 20 else f"--drop {','.join(names)} or --standardize global"
        raise DataError(
            f"{where}: column {names[0]!r} (always {value:g}){more} constant in the training rows. Use {remedy}."
        )


def coarse_columns(columns: Columns, dtype: str) -> str | None:
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


class _Target:
    """Streamed facts about a target (n,)."""

    def __init__(self) -> None:
        self.labels: set | None = set()
        self.whole = True
        self._moments: Moments | None = None
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
                self._moments = Moments(1)
            # Targets whose squares overflow are refused by the learner.
            with np.errstate(over="ignore", invalid="ignore"):
                self._moments.update(y.astype(np.float64)[:, None])
            self._low, self._high = min(self._low, float(y.min())), max(self._high, float(y.max()))

    def described(self, name: str) -> Columns | None:
        """Range, mean and standard deviation; None for labels."""
        if self._moments is None:
            return None
        mean, standard_deviation = _mean_and_standard_deviation(self._moments)
        return Columns((name,), np.array([self._low]), np.array([self._high]), mean, standard_deviation)


def _mean_and_standard_deviation(moments: Moments) -> tuple[np.ndarray, np.ndarray]:
    return moments.mean, np.sqrt(moments.squared_deviations / max(moments.n, 1))
