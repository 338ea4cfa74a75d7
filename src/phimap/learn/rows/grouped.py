"""A warning that training rows look grouped although the user gave no groups."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

from phimap._warnings import caller_level
from phimap.learn.rows.samples import Reservoir
from phimap.ops import ops_for

# Least number of columns that must give the same groups, least number of groups, and least mean number of rows of a
# group in the sample. Two columns that give the same groups may be one measurement in two units.
_LEAST_COLUMNS, _LEAST_GROUPS, _LEAST_ROWS = 3, 10, 2
# Least number of sampled rows. In fewer rows, the columns of an encoded category may agree by chance.
_LEAST_SAMPLE = 100
# Largest number of columns that are examined. Wider rows are mostly pixels or words.
_MOST_COLUMNS = 200


class GroupedRowsWarning(UserWarning):
    """Rows look grouped, but the user gave no groups."""


# Remedy in the warning of a fit.
_REMEDY = "Give fit `groups`; else its choices and intervals hold for these groups alone."


def warn_of_groups(
    sample: Reservoir, owners: np.ndarray, names: Sequence[Any] | np.ndarray | None, remedy: str = _REMEDY
) -> None:
    """Warn if the rows of a random sample look grouped.

    Parameters
    ----------
    sample : Reservoir
    owners : ndarray of int, shape (d,)
        The table's column from which each column of the rows was made.
    names : sequence of str or None
        Names of the table's columns.
    remedy : str, optional
    """
    if (found := shared_columns(sample, owners)) is None:
        return
    columns, n_groups, n_rows = found
    named = f"column {columns[0]}" if names is None else repr(str(names[columns[0]]))
    warnings.warn(
        f"rows look grouped: {len(columns)} columns, such as {named}, are constant in {n_groups:,} groups "
        f"of {n_rows:,} sampled rows. {remedy}",
        GroupedRowsWarning,
        stacklevel=caller_level(),
    )


def shared_columns(sample: Reservoir, owners: np.ndarray) -> tuple[list[int], int, int] | None:
    """Return table columns that are constant within the same groups, and the numbers of groups and of sampled rows.

    The result is None if no such groups are found. Columns with the same entry in `owners` (d,) were made from one
    column of the table. They count once, because repeated texts alone are not evidence of groups.

    Columns divide the rows into groups of equal values. At least three columns must give the same division, and must
    order its groups differently. Otherwise the columns may be one measurement in several units. If all columns that
    vary give the same division, whole rows are repeated, and the result is None.

    **Cost.** A sort of each column of the sample.
    """
    if sample.X is None or sparse.issparse(sample.X) or sample.X.shape[1] > _MOST_COLUMNS:
        return None
    if sample.X.shape[0] < _LEAST_SAMPLE:
        return None
    X = np.asarray(ops_for(sample.X).to_host(sample.X))
    found: dict[bytes, list[tuple[int, tuple[int, ...]]]] = defaultdict(list)
    n_varying = 0
    for column in range(X.shape[1]):
        values, first, codes = np.unique(X[:, column], return_index=True, return_inverse=True)
        n_varying += values.size > 1
        if _LEAST_GROUPS <= values.size <= len(X) // _LEAST_ROWS:
            order = np.argsort(np.argsort(first))
            # Each row is replaced by the index of the first row of its group, so that equal divisions have equal bytes.
            least = min(tuple(order.tolist()), tuple(order[::-1].tolist()))
            found[first[codes].tobytes()].append((column, least))
    for shared in found.values():
        columns = sorted({int(owners[column]) for column, _ in shared})
        orders = {order for _, order in shared}
        if len(shared) < n_varying and min(len(columns), len(orders)) >= _LEAST_COLUMNS:
            return columns, np.unique(X[:, shared[0][0]]).size, len(X)
    return None
