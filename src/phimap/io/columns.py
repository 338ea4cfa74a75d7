"""The choice of feature and target columns of a table."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from phimap._files import DataError, OverBudgetError
from phimap.config import memory_budget, size_text

# Bytes that a column takes in addition to its numbers: for its name, its position, and its statistics in a fit. This
# was measured with a table of 10^6 columns, which took 446 MB.
_COLUMN_BYTES = 450
# Largest number of columns that a message lists. Wide tables have thousands of columns.
_LISTED = 20
# Likeness, from 0 to 1, from which a name may be a misspelling of another one.
_ALIKE = 0.6


class SchemaError(DataError):
    """A row does not fit the types of the columns, which were inferred from the first rows of the file."""


class MissingColumnError(DataError):
    """A table has no column of the wanted name.

    Parameters
    ----------
    message : str
    wanted : str
    names : sequence of str
        The columns of the table.
    """

    def __init__(self, message: str, wanted: str, names: Sequence[str]) -> None:
        super().__init__(message)
        self.wanted = wanted
        self.names = tuple(names)


@dataclass(frozen=True)
class Selection:
    """Names of the chosen columns, in the order of the arrays.

    `target_name` is None without a target, a name for one target, and a tuple of names for several.
    """

    features: tuple[str, ...]
    target_name: str | tuple[str, ...] | None

    @property
    def targets(self) -> tuple[str, ...]:
        """Names of the target columns; empty without a target."""
        if self.target_name is None:
            return ()
        return (self.target_name,) if isinstance(self.target_name, str) else self.target_name


def check_row(where: str, width: int, itemsize: int, remedy: str) -> None:
    """Raise if one row of a table and the names of its columns exceed the byte budget."""
    budget = memory_budget()
    if width * max(itemsize, _COLUMN_BYTES) > budget:
        raise OverBudgetError(
            f"{where}: a row of {width} numbers is over the budget of {size_text(budget)}. Raise it with "
            f"phimap.config(memory=...), or {remedy}."
        )


def numbered_names(n_columns: int) -> tuple[str, ...]:
    """The names ``c0, c1, ...`` for columns without names."""
    return tuple(f"c{j}" for j in range(n_columns))


def select_columns(
    where: str,
    names: Sequence[str],
    target: str | int | Sequence[str | int] | None,
    columns: Sequence[str | int] | None,
    drop: Sequence[str | int] | None = None,
    *,
    hidden: Sequence[str] = (),
) -> Selection:
    """Resolve `target`, `columns` and `drop` against the table's `names`; `hidden` columns are used only if named.

    Several columns may be unnamed; then their name is empty text.
    """
    repeated = {name for name, count in Counter(names).items() if count > 1 and name}
    for word, given in (("columns", columns), ("drop", drop)):
        if isinstance(given, str | int):
            raise TypeError(f"`{word}` must be a sequence of column names, got {given!r}. Use [{given!r}].")

    known = set(names)
    if target is None:
        target_name = None
    elif isinstance(target, str | int):
        target_name = resolve_column(where, names, known, target, "target column")
    elif not hasattr(target, "__len__"):
        raise TypeError(f"`target` must be a column's name or position, or several, got {target!r}. Use a name.")
    elif not len(target):
        raise ValueError("`target` must name at least one column, got none. Use target=None to read no target.")
    else:
        target_name = tuple(resolve_column(where, names, known, one, "target column") for one in target)
    targets = Selection((), target_name).targets

    if columns is None:
        features = tuple(name for name in names if name not in targets and name not in hidden)
    else:
        features = tuple(resolve_column(where, names, known, one, "feature column", targets) for one in columns)
    dropped = {resolve_column(where, names, known, one, "column to drop", targets) for one in drop or ()}
    if both := dropped.intersection(targets):
        raise DataError(f"{where}: column {both.pop()!r} is the target. Leave it out of drop=...")
    features = tuple(name for name in features if name not in dropped)
    if used := [name for name in (*features, *targets) if name in repeated]:
        raise DataError(
            f"{where}: column name {used[0]!r} occurs more than once. Rename the columns, or leave them out with "
            "drop=..."
        )
    for chosen, word in ((features, "columns"), (targets, "target")):
        twice = [name for name, count in Counter(chosen).items() if count > 1 and name]
        if twice:
            raise DataError(f"{where}: `{word}` names {twice[0]!r} more than once. Name each column once.")
    both = [name for name in targets if name in features]
    if both:
        raise DataError(f"{where}: column {both[0]!r} is both target and feature. Leave it out of columns=...")
    if not features:
        raise DataError(f"{where}: no feature columns are left beside the target. Name some with columns=...")
    return Selection(features, target_name)


def closest_first(wanted: str, names: Sequence[str]) -> str:
    """List the `names` as text: names similar to `wanted` come first, then the other names in their order."""
    likeness = {name: difflib.SequenceMatcher(None, wanted.lower(), name.lower()).ratio() for name in names}
    ordered = sorted(enumerate(names), key=lambda place: -max(likeness[place[1]], _ALIKE))
    shown = [repr(name) if name else f"position {place} (without a name)" for place, name in ordered[:_LISTED]]
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(shown) + more


def resolve_column(
    where: str, names: Sequence[str], known: set[str], wanted: str | int, word: str, taken: Sequence[str] = ()
) -> str:
    """The name of the column called `wanted`; if there is none, the name of the column at position `wanted`.

    A message about a missing column does not offer the names `taken`.
    """
    text = str(wanted)
    if text in known:
        return text
    try:
        position = int(text)
    except ValueError:
        position = len(names)
    if -len(names) <= position < len(names):
        return names[position]
    offered = [name for name in names if name not in taken] or names
    message = f"{where}: no {word} {text!r}. Choose from {closest_first(text, offered)}."
    raise MissingColumnError(message, text, names)
