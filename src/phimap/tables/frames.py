"""Data frames of any library: detection, checks, and division into parts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from phimap.tables.cells import Cells

#: Number of rows of a frame that are encoded at a time. It limits the scratch memory.
SLICE_ROWS = 2**16
# Largest number of columns that a message lists.
_NAMED = 8


def is_frame(X: Any) -> bool:
    """Whether `X` is a data frame of pandas, polars, Arrow or another library that exports columns to Arrow."""
    return any(hasattr(X, name) for name in ("__arrow_c_stream__", "__arrow_c_array__", "iloc")) and (
        hasattr(X, "columns") or hasattr(X, "schema")
    )


def check_frame(X: Any) -> None:
    """Raise if a frame has no columns or is lazy."""
    if not hasattr(X, "__arrow_c_stream__") and hasattr(X, "collect_schema"):
        raise TypeError(f"`X` must hold its rows, got a {type(X).__name__}. Use X.collect().")
    if is_frame(X) and not getattr(X, "shape", (0, 1))[1]:
        raise ValueError(f"`X` must have a column, got a frame with 0 feature(s) (shape={X.shape}). Give one or more.")


def n_rows_of(X: Any) -> int:
    """Number of rows of a frame or an array."""
    # If a pandas frame lacks an attribute, pandas looks for it among the columns, which is slow.
    return X.num_rows if not hasattr(X, "iloc") and hasattr(X, "num_rows") else len(X)


def is_numbers(X: Any) -> bool:
    """Whether every cell of a frame is a number or a Boolean, and none is missing.

    Without pyarrow the answer is True for all frames except pandas frames with missing cells.
    """
    if hasattr(X, "iloc") and all(getattr(dtype, "kind", "O") in "biuf" for dtype in X.dtypes):
        return not np.asarray(X.isna()).any()
    if find_spec("pyarrow") is None:
        return True
    from phimap.tables import cells

    return all(cells.is_complete(column) for _, column in cells.columns_of(X))


def cells_of(X: Any) -> dict[str, Cells]:
    """The columns of a frame or of a two-dimensional array, by name.

    Raises
    ------
    ImportError
        If pyarrow is not installed.
    ValueError
        If two columns have the same name.
    """
    if find_spec("pyarrow") is None:
        raise ImportError(
            "`X` holds more than complete numbers, which pyarrow is needed to encode. Install it: pip install pyarrow."
        )
    from phimap.tables import cells

    columns: dict[str, Cells] = {}
    decimal = cells.decimal_mark(X)
    for name, column in cells.columns_of(X):
        if name in columns:
            raise ValueError(f"`X` must have distinct column names, got {name!r} more than once. Rename the columns.")
        columns[name] = cells.Cells(name, column, decimal)
    return columns


def in_order(X: Any, names: Sequence[str]) -> Any:
    """The columns `names` of a frame, in this order; other columns are left out.

    Raises
    ------
    ValueError
        If a column is missing, or a name occurs twice.
    """
    given = [str(name) if not isinstance(name, str) else name for name in _names_of(X)]
    if given == list(names):
        return X
    for name in names:
        if name not in given:
            raise lacking(name, given, names)
        if (count := given.count(name)) > 1:
            raise ValueError(
                f"`X` must have the columns seen in fit, got {count} of them named {name!r} among {_some(given)}. "
                "Rename some."
            )
    if hasattr(X, "iloc"):
        return X.iloc[:, [given.index(name) for name in names]]
    return X.select(list(names))


def lacking(name: str, given: Iterable[str], seen: Iterable[str]) -> ValueError:
    """Return the error for a frame of columns `given` without the column `name` of those `seen` in fit.

    It lists columns that the fit has not seen first, because one of them may be `name` under another name.
    """
    known, given = set(seen), list(given)
    unknown = [one for one in given if one not in known]
    remedy = "Rename a column, or add it" if unknown else "Add it"
    return ValueError(
        f"`X` must have the columns seen in fit, got none named {name!r} among "
        f"{_some(sorted(given, key=known.__contains__))}. {remedy}, NaN or empty where its values are not known."
    )


def _some(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:_NAMED])) + ", ..." * (len(names) > _NAMED)


def _names_of(X: Any) -> list[Any]:
    return list(X.column_names if hasattr(X, "column_names") else X.columns)


def rows_at(X: Any, places: np.ndarray) -> Any:
    """The rows of a frame or an array at the indices `places` (r,)."""
    if hasattr(X, "iloc"):
        return X.iloc[places]
    return X.take(places) if hasattr(X, "num_rows") else X[places]


def slices(X: Any) -> Iterator[tuple[slice, Any]]:
    """Yield the slices of consecutive parts of a frame or an array, each with its part."""
    n_rows = n_rows_of(X)
    for start in range(0, n_rows, SLICE_ROWS):
        part = slice(start, min(start + SLICE_ROWS, n_rows))
        if part == slice(0, n_rows):
            yield part, X
        elif hasattr(X, "iloc"):
            yield part, X.iloc[part]
        elif hasattr(X, "num_rows"):
            yield part, X.slice(start, part.stop - start)
        else:
            yield part, X[part]
