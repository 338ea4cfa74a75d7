"""Encodings of columns of levels.

If a column has few levels, each level is encoded by an indicator. If it has many, each level is encoded by the mean
target of its rows, shrunk to the mean of all rows; without a target, frequent levels have indicators, and the others
are hashed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np

from phimap.records import NOT_SAVED, of_floats
from phimap.tables.encoding import LARGEST, Encoding
from phimap.tables.tallies import LevelTally
from phimap.tables.targets import FOLDS, ColumnTargets, padded

if TYPE_CHECKING:
    from phimap.tables.cells import Cells

# A level needs `_FEW_ROWS` rows for a column of its own. If half the average number of rows of a level is less, it
# needs only this number, but at least `_LEAST_ROWS`. All other levels share a column.
_FEW_ROWS = 5
_LEAST_ROWS = 2
# Without a target, the most frequent levels have columns of their own, and other levels are hashed into a few columns.
# These are the largest numbers of columns of both kinds.
_FREQUENT, _HASHED = 32, 8
# Bounds on the weight of the overall mean in the mean of a level. The weight is given as a number of rows.
_LEAST_PRIOR, _MOST_PRIOR = 1.0, 1000.0
MISSING, OTHER = "(missing)", "(other)"


@dataclass(frozen=True)
class LevelEncoding(Encoding):
    """Encodes each level by a row of k numbers.

    Attributes
    ----------
    levels : tuple of str
        The L levels that have their own numbers.
    table : ndarray of shape (L + 1 + B, k)
        Rows for the levels, a row for missing cells, and B rows into which unknown levels are hashed.
    labels : tuple of str
        Suffixes of the names of the k numbers.
    variances : ndarray of shape (k,)
    held_out : ndarray of shape (FOLDS, L + 2, k) or None
        For each fold of the training rows, a table made from the other folds. It is used only in the fit and not saved.
    """

    levels: tuple[str, ...]
    table: np.ndarray = field(metadata=of_floats("r", "k", least=-LARGEST, most=LARGEST))
    labels: tuple[str, ...]
    variances: np.ndarray = field(metadata=of_floats("k"))
    held_out: np.ndarray | None = field(default=None, metadata={NOT_SAVED: True, **of_floats(None, None, "k")})

    def requirements(self) -> Iterator[tuple[bool, str]]:
        yield len(self.labels) == self.variances.size, "a label for each of its numbers"
        yield len(self.table) > len(self.levels) + 1, "rows for its levels, for missing cells and for others"

    def apply(self, cells: Cells, first_row: int, folds: np.ndarray | None) -> np.ndarray:
        places, n_levels = cells.places_in(self.levels), len(self.levels)
        n_buckets = len(self.table) - n_levels - 1
        if folds is not None and self.held_out is not None:
            return self.held_out[folds, places]
        if n_buckets > 1:
            buckets = np.array([crc32(text.encode()) % n_buckets for text in cells.texts] + [0])
            places = places + np.where(places > n_levels, buckets[cells.codes], 0)
        return self.table[places]

    def unknown(self, cells: Cells) -> tuple[int, str]:
        """Return the number of cells whose category has no number of its own, and the first such category.

        For hashed levels the number is 0, because hashed categories usually share a number.
        """
        if len(self.table) > len(self.levels) + 2:
            return 0, ""
        rows = np.flatnonzero(cells.places_in(self.levels) > len(self.levels))
        return len(rows), cells.texts[cells.codes[rows[0]]] if len(rows) else ""

    @property
    def has_rare(self) -> bool:
        """Whether rare categories of the training rows share a number with unknown categories."""
        return f"={OTHER}" in self.labels

    def names(self) -> list[str]:
        return list(self.labels)

    def without_folds(self) -> LevelEncoding:
        return replace(self, held_out=None)


def one_hot(tally: LevelTally) -> LevelEncoding:
    """Return one column for each level, or one for two levels; a common factor makes the variances add up to 1."""
    counts, n = _counts(tally), tally.n + tally.n_missing
    few = int(np.clip(n // (2 * max(len(counts), 1)), _LEAST_ROWS, _FEW_ROWS))
    levels = sorted(name for name, count in counts.items() if count >= few)
    return _indicators(tally, levels, 1 if len(levels) < len(counts) else 0)


def frequent_and_hashed(tally: LevelTally) -> LevelEncoding:
    """Return one column for each of the most frequent levels, and a few columns into which other levels are hashed."""
    return _indicators(tally, tally.ranked()[:_FREQUENT], _HASHED)


def _indicators(tally: LevelTally, levels: list[str], n_buckets: int) -> LevelEncoding:
    counts, n_levels = _counts(tally), len(levels)
    known = [counts[name] for name in levels]
    rest = np.zeros(n_buckets)
    for name in counts.keys() - set(levels):
        rest[crc32(name.encode()) % n_buckets] += counts[name]
    # The rows of levels that were dropped from the counts are spread evenly over the buckets.
    rest += (tally.n - sum(known) - rest.sum()) / max(n_buckets, 1)
    rows = np.array([*known, tally.n_missing, *rest])
    labels = [*levels, MISSING, *([OTHER] if n_buckets == 1 else [f"{OTHER} {b}" for b in range(n_buckets)])]
    table = np.eye(rows.size)
    if not n_buckets:
        # An unknown level is encoded by zeros, so it differs from all levels.
        table = np.vstack([table, np.zeros(rows.size)])
    kept = np.flatnonzero(rows > 0)
    shares = rows[kept] / rows.sum()
    if not tally.n_missing and n_buckets:
        # If no training cell was missing, a missing cell is treated as an unknown level.
        table[n_levels] = table[-1]
    table, labels = table[:, kept], [labels[place] for place in kept]
    variances = shares * (1 - shares)
    if kept.size == 2:
        # One column suffices for two levels. An unknown level is encoded by a number between them.
        table, labels, variances, shares = table[:, 1:], labels[1:], variances[1:], shares[1:]
        unknown = ~np.isin(np.arange(len(table)), kept)
        table[unknown] = shares
    total = variances.sum()
    factor = 1 / np.sqrt(total) if total > 0 else 0.0
    return LevelEncoding(tuple(levels), table * factor, tuple(f"={one}" for one in labels), variances * factor**2)


def _counts(tally: LevelTally) -> dict[str, int]:
    return {name: int(count) for name, count in zip(tally.places, tally.counts, strict=True)}


def target_means(tally: LevelTally, targets: ColumnTargets) -> LevelEncoding:
    """Return the mean target of each level, shrunk to the mean of all rows; training rows get means of the other folds.

    Notes
    -----
    A level of n rows with mean y gets ``(n y + m y_0) / (n + m)``, where y_0 is the mean of all rows and m the variance
    within levels divided by the variance between levels. This is the posterior mean if targets and level means are
    normal with these variances.

    References
    ----------
    Micci-Barreca (2001), *A preprocessing scheme for high-cardinality categorical attributes in classification and
    prediction problems*, Section 3.
    """
    levels = tally.ranked()
    chosen = targets.chosen()
    places = np.array([*(tally.places[name] for name in levels), 0], dtype=np.intp)
    counts = tally.sums.counts
    sums = padded(tally.sums.sums, targets.squares.size)[:, :, chosen]
    prior = _prior_rows(counts.sum(axis=1), sums.sum(axis=1), targets.squares[chosen])

    def table_of(counts: np.ndarray, sums: np.ndarray) -> np.ndarray:
        """Return the table (L + 2, k), from the numbers of rows and the sums of targets of all levels."""
        mean = sums.sum(axis=0) / max(counts.sum(), 1)
        drawn = (sums[places] + prior * mean) / (counts[places][:, None] + prior)
        return np.vstack([drawn, mean])

    table = table_of(counts.sum(axis=1), sums.sum(axis=1))
    held_out = np.array(
        [table_of(counts.sum(axis=1) - counts[:, k], sums.sum(axis=1) - sums[:, k]) for k in range(FOLDS)]
    )
    shares = counts.sum(axis=1)[places] / counts.sum()
    mean = table[-1]
    variances = shares @ np.square(table[:-1] - mean)
    total = variances.sum()
    factor = 1 / np.sqrt(total) if total > 0 else 0.0
    names = tuple(f": {name}" for name in targets.names())
    return LevelEncoding(
        tuple(levels), (table - mean) * factor, names, variances * factor**2, (held_out - mean) * factor
    )


def _prior_rows(counts: np.ndarray, sums: np.ndarray, squares: np.ndarray) -> np.ndarray:
    """The weight (k,) of the overall mean, as a number of rows: the variance within levels over that between levels."""
    seen = counts > 0
    counts, sums = counts[seen][:, None], sums[seen]
    n, n_levels = counts.sum(), len(counts)
    mean = sums.sum(axis=0) / n
    between = (counts * np.square(sums / counts - mean)).sum(axis=0)
    within = np.maximum(squares - n * mean**2 - between, 0) / max(n - n_levels, 1)
    spread = (between - (n_levels - 1) * within) / (n - np.square(counts).sum() / n)
    with np.errstate(divide="ignore", invalid="ignore"):
        prior = np.where(spread > 0, within / spread, _MOST_PRIOR)
    return np.clip(prior, _LEAST_PRIOR, _MOST_PRIOR)
