"""Units of rows: groups or moments in time.

All rows of a unit are held out together. Keys sort the rows by unit, instead of at random.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from phimap._random import row_uniforms
from phimap.ops import to_host
from phimap.tables.moments import moments_of

# Least distance of a key from the ends of the interval of its unit, as a share of the interval. Rounding then never
# moves the key to another unit.
_MARGIN = 0.25
# Units of at most this many rows are held out before all larger units. The samples of validation rows have room for
# several such units.
_LARGE = 512


@dataclass(frozen=True)
class RowUnits:
    """The unit of every row of a stream, and the order in which units are held out.

    Attributes
    ----------
    places : ndarray of int, shape (n,)
        Number of the unit of each row. Units are held out in the order of their numbers, unit 0 first.
    sizes : ndarray of int, shape (n_units,)
        Number of rows of each unit, in this order.
    in_time : bool
        Whether units are moments in time, numbered backwards: unit 0 is the latest moment.
    """

    places: np.ndarray
    sizes: np.ndarray
    in_time: bool

    @classmethod
    def of_groups(cls, groups: np.ndarray, seed: int) -> RowUnits:
        """Return the units for the groups (n,) of all rows, in random order; large groups come after small groups."""
        _, codes = np.unique(groups, return_inverse=True)
        sizes = np.bincount(codes.ravel())
        order = np.lexsort((row_uniforms(0, sizes.size, seed), sizes > _LARGE))
        places = np.empty(sizes.size, np.int64)
        places[order] = np.arange(sizes.size)
        return cls(places[codes.ravel()], sizes[order], False)

    @classmethod
    def of_times(cls, times: np.ndarray) -> RowUnits:
        """Return the units for the moments (n,) of all rows; the largest moment is held out first."""
        _, codes = np.unique(times, return_inverse=True)
        sizes = np.bincount(codes.ravel())
        return cls(sizes.size - 1 - codes.ravel(), sizes[::-1], True)

    @property
    def n_units(self) -> int:
        """Number of units."""
        return self.sizes.size

    def keys(self, first: int, n: int, seed: int) -> np.ndarray:
        """Return keys (n,) of rows ``first, ..., first + n - 1`` in [0, 1), which sort the rows by unit.

        Rows of the same unit are in random order.
        """
        places = self.places[first : first + n]
        if places.size != n:
            raise ValueError(
                f"`groups` must have an entry for each row of positive weight, got {self.places.size} for more rows. "
                "Give one for every row, and leave out rows of weight 0."
            )
        return (places + _MARGIN + (1 - 2 * _MARGIN) * row_uniforms(first, n, seed)) / self.n_units

    def places_of(self, keys: np.ndarray) -> np.ndarray:
        """Return the numbers (r,) of the units of rows with these keys."""
        return np.floor(keys * self.n_units).astype(np.int64)

    def uniforms_of(self, keys: np.ndarray) -> np.ndarray:
        """Return the random numbers (r,) in [0, 1) from which these keys were made.

        They order the rows at random across units.
        """
        return (keys * self.n_units - self.places_of(keys) - _MARGIN) / (1 - 2 * _MARGIN)

    def members(self) -> list[np.ndarray]:
        """Return the indices of the rows of each unit, unit by unit."""
        order = np.argsort(self.places, kind="stable")
        return np.split(order, np.cumsum(self.sizes)[:-1])

    def folds(self, rows: np.ndarray, n_folds: int) -> np.ndarray:
        """Return the fold (r,) of each of the rows with indices `rows` (r,).

        No fold divides a unit; if `in_time`, fold 0 has the latest rows.
        """
        if self.in_time:
            return (np.cumsum(self.sizes)[self.places[rows]] - 1) * n_folds // self.places.size
        return self.places[rows] % n_folds

    def held_out(self, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the indices of the rows of the first units, about `n_rows` in total, and of the other rows."""
        ends = np.cumsum(self.sizes)
        n_units = int(np.clip(np.argmin(np.abs(ends - n_rows)) + 1, 1, self.n_units - 1))
        order = np.argsort(self.places, kind="stable")
        held_out, others = np.split(order, [ends[n_units - 1]])
        return held_out, others

    def first_units(self, begin: int, n_rows: int, n_units: int, most_rows: int) -> int:
        """Return the end of a range of units that starts at unit `begin`.

        The range is the shortest with at least `n_rows` rows and `n_units` units, or shorter if it would have more than
        `most_rows` rows. It may be empty.
        """
        ends = np.cumsum(self.sizes[begin:])
        wanted = max(int(np.searchsorted(ends, n_rows)) + 1, n_units)
        return begin + min(wanted, int(np.searchsorted(ends, most_rows, side="right")), ends.size)


def check_groups(groups: Any, n_rows: int, *, in_time: bool) -> np.ndarray | None:
    """Return `groups` as an array (n_rows,), or None. If `in_time`, the entries are moments that can be sorted."""
    if groups is None:
        return None
    found = np.asarray(to_host(groups))
    if found.shape != (n_rows,):
        raise ValueError(
            f"`groups` must have shape ({n_rows},), one entry for each row, got {found.shape}. "
            "Give the group of each row."
        )
    if in_time and _is_text(found):
        found = moments_of(found.astype(str), "`groups` of moments", lambda row: f"row {row}")
    missing = found != found if found.dtype.kind in "fmM" else np.array([one is None or one != one for one in found])
    if np.any(missing):
        raise ValueError(
            f"`groups` must not be missing, got a missing entry at row {int(np.argmax(missing))}. Fill it in, or leave "
            "the row out."
        )
    return found.astype(str) if found.dtype.kind == "O" and not _is_ordered(found) else found


def groups_that_count(groups: Any, sample_weight: Any, n_kept: int, *, in_time: bool) -> np.ndarray | None:
    """Check the groups, and return the groups of the `n_kept` rows of positive weight."""
    if groups is None or sample_weight is None or np.ndim(sample_weight) == 0:
        return check_groups(groups, n_kept, in_time=in_time)
    positive = np.asarray(to_host(sample_weight), np.float64) > 0
    found = check_groups(groups, positive.size, in_time=in_time)
    return None if found is None else found[positive]


def units_of(groups: np.ndarray | None, n_rows: int, seed: int, *, last: bool) -> RowUnits | None:
    """Return the units of `n_rows` rows; None if single rows are held out at random.

    Parameters
    ----------
    groups : ndarray of shape (n_rows,) or None
    n_rows, seed : int
    last : bool
        Whether the last rows are held out. `groups` are then moments in time; without groups, rows are in order of
        time.

    Raises
    ------
    ValueError
        If there are fewer than two groups.
    """
    if groups is None:
        return RowUnits.of_times(np.arange(n_rows)) if last else None
    units = RowUnits.of_times(groups) if last else RowUnits.of_groups(groups, seed)
    if units.n_units < 2:
        raise ValueError("`groups` must hold at least 2 groups, got 1: none can be held out. Leave `groups` out.")
    return units


def _is_text(values: np.ndarray) -> bool:
    """Whether an array contains texts; missing entries may be objects of other types."""
    if values.dtype.kind != "O":
        return values.dtype.kind in "SU"
    return any(isinstance(one, str) for one in values)


def _is_ordered(values: np.ndarray) -> bool:
    """Whether objects can be sorted."""
    try:
        np.unique(values)
    except TypeError:
        return False
    return True
