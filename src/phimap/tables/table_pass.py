"""One pass over the rows of a table, column by column."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from phimap.tables.encoding import EncodedColumn
from phimap.tables.frames import cells_of, is_frame, lacking, n_rows_of, slices
from phimap.tables.kinds import KINDS, Rules, encoded_column, kind_of
from phimap.tables.tallies import ColumnTally, sample_keys, training_folds
from phimap.tables.targets import ColumnTargets

# Largest number of columns that a message lists.
_LISTED = 20
# Without `max_levels`, a category with more than `_FEW_LEVELS` levels is encoded by indicators only if all such
# categories have at most `_MOST_INDICATORS` levels together. Kernels learn from indicators how levels differ: on 17
# tables with 41 to 150 such levels, errors were 18 % smaller than with means of the target, and fits took 1.5 times as
# long. With a thousand indicators, distances between rows become nearly equal, and kernels learn little.
_FEW_LEVELS, _MOST_INDICATORS = 40, 150


@dataclass(frozen=True)
class PassOptions:
    """The checked parameters of an encoder; `max_levels` is None for ``"auto"``."""

    types: Mapping[str, str]
    max_levels: int | None
    n_text_components: int
    sparse_output: bool | str
    target_type: str


class TablePass:
    """Statistics of the rows of a table.

    Attributes
    ----------
    n_rows : int
    names : tuple of str
        Names of the columns, in the order of the first batch.
    has_names : bool
        Whether the names come from a data frame.
    """

    def __init__(self, options: PassOptions):
        self._options = options
        self._targets = ColumnTargets(options.target_type)
        self._tallies: dict[str, ColumnTally] = {}
        self.n_rows = 0
        self.has_names = True

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._tallies)

    def update(self, X: Any, y: Any) -> None:
        """Add the rows of a batch and their targets, if there are any."""
        if y is not None and len(y) != n_rows_of(X):
            raise ValueError(
                f"`y` must have one target per row of X, got {len(y)} targets (inconsistent numbers of samples) for "
                f"{n_rows_of(X)} rows."
            )
        for part, rows in slices(X):
            columns = cells_of(rows)
            if not self._tallies:
                self._start(columns, is_frame(rows))
            n_rows = part.stop - part.start
            targets = self._targets.update(None if y is None else y[part], n_rows)
            keys, folds = sample_keys(self.n_rows, n_rows), training_folds(self.n_rows, n_rows)
            for name, tally in self._tallies.items():
                tally.update(found_in(columns, name, self._tallies), keys, folds, self.n_rows, targets)
            self.n_rows += n_rows

    def _start(self, columns: Mapping[str, Any], has_names: bool) -> None:
        unknown = [name for name in self._options.types if name not in columns]
        if unknown:
            raise ValueError(f"`types` must name columns of X, got {unknown[0]!r}. Name one of {_some(columns)}.")
        self.has_names: bool = has_names
        self._tallies = {name: ColumnTally(name, self._options.types.get(name)) for name in columns}

    def finish(self) -> tuple[EncodedColumn, ...]:
        """Return the encoded columns. Their encodings are chosen by the statistics of all rows."""
        options, kinds = self._options, self._kinds()
        used = {kind for kind in kinds if not kind.startswith("left out")}
        sparse_text = options.sparse_output is True or (options.sparse_output == "auto" and used == {"text"})
        rules = Rules(options.n_text_components, sparse_text, self._targets)
        encoded = (
            encoded_column(tally, kind, rules) for tally, kind in zip(self._tallies.values(), kinds, strict=True)
        )
        columns = tuple(encoded)
        if not any(column.encoding for column in columns):
            notes = ", ".join(f"{column.name!r} ({column.note})" for column in columns[:5])
            raise ValueError(
                f"`X` must have a column that tells rows apart, got only ones to leave out: {notes}. Give other "
                "columns, or name their kind with `types`."
            )
        return columns

    def _kinds(self) -> list[str]:
        """Return the kinds of the columns, see `kind_of`."""
        most, tallies = self._options.max_levels, self._tallies.values()
        kinds = [kind_of(tally, _FEW_LEVELS if most is None else most) for tally in tallies]
        many = [tally.levels for tally, kind in zip(tallies, kinds, strict=True) if kind == "many levels"]
        n_levels = sum(len(levels.places) for levels in many if levels is not None)
        if most is None and n_levels <= _MOST_INDICATORS:
            kinds = ["category" if kind == "many levels" else kind for kind in kinds]
        return kinds


def found_in(columns: Mapping[str, Any], name: str, seen: Iterable[str]) -> Any:
    """The column with this `name`, one of those `seen` in fit; raises if there is none."""
    if name not in columns:
        raise lacking(name, columns, seen)
    return columns[name]


def _some(names: Iterable[str]) -> str:
    return ", ".join(map(repr, list(names)[:_LISTED]))


def checked_types(types: Any) -> dict[str, str]:
    """Check the kinds that the user gives to columns, and return them."""
    if types is None:
        return {}
    if not isinstance(types, Mapping):
        raise TypeError(f"`types` must be a dict of column names and kinds, got {type(types).__name__}.")
    for name, kind in types.items():
        if kind not in KINDS:
            raise ValueError(
                f"`types` must name one of {', '.join(map(repr, KINDS))}, got {kind!r} for column {name!r}. Correct it."
            )
    return {str(name): kind for name, kind in types.items()}
