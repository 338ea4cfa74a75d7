"""Statistics of a column from one pass: sums, samples and counts of bounded size."""

from __future__ import annotations

import numpy as np

from phimap._random import row_uniforms
from phimap.tables.bad_cell import BadCell
from phimap.tables.targets import TargetSums

#: Largest number of distinct levels whose counts are kept; if there are more, the rarest are dropped.
MOST_LEVELS = 20_000
# Largest total number of characters of all levels.
_MOST_CHARACTERS = 2**24
# Number of sampled cells that give the median; the rank of the median is then accurate to half a percent.
_NUMBERS = 2**14
# Number of sampled texts.
_TEXTS = 5000
#: Number of characters to which texts are truncated.
TEXT_LENGTH = 2000
# Largest number that is accepted; the sum of squares of larger numbers may overflow float64.
_LARGEST = 1e150
# Seeds of the random keys that sample rows, and of the keys that divide rows into folds.
_SAMPLE_SEED, _FOLD_SEED = 1, 2


def sample_keys(first_row: int, n_rows: int) -> np.ndarray:
    """Random keys (n_rows,) for the rows of a batch. They depend only on the row numbers."""
    return row_uniforms(first_row, n_rows, _SAMPLE_SEED)


def folds_of(first_row: int, n_rows: int, n_folds: int) -> np.ndarray:
    """Random folds (n_rows,) of the rows of a batch. They depend only on the row numbers."""
    return (row_uniforms(first_row, n_rows, _FOLD_SEED) * n_folds).astype(np.intp)


class CellSample:
    """A random sample of the cells of a stream. It consists of the cells whose rows have the smallest keys.

    Attributes
    ----------
    values : ndarray
        The sampled cells, in random order.
    """

    def __init__(self, most: int):
        self._most = most
        self._keys = np.empty(0)
        self.values = np.empty(0)

    def update(self, values: np.ndarray, keys: np.ndarray) -> None:
        """Add the cells `values` (r,) of rows whose keys are `keys` (r,)."""
        if self._keys.size == self._most:
            few = np.flatnonzero(keys < self._keys[-1])
            keys, values = keys[few], values[few]
        if self._keys.size:
            keys, values = np.concatenate([self._keys, keys]), np.concatenate([self.values, values])
        order = np.argsort(keys, kind="stable")[: self._most]
        self._keys, self.values = keys[order], values[order]


class NumberTally:
    """Mean, spread, range and a sample of numbers.

    Attributes
    ----------
    n : int
        Number of cells that are numbers.
    mean, low, high : float
    is_whole : bool
        Whether all numbers are integers.
    sample : ndarray
        Up to 16,384 random numbers of the column.
    """

    def __init__(self, name: str):
        self._name = name
        self.n, self.mean, self._squares = 0, 0.0, 0.0
        self.low, self.high = np.inf, -np.inf
        self.is_whole = True
        self._sample = CellSample(_NUMBERS)

    def update(self, values: np.ndarray, keys: np.ndarray, first_row: int) -> None:
        """Add the numbers (r,) of a batch, with NaN for missing numbers, and the keys (r,) of the rows."""
        check_range(self._name, values, first_row)
        rows = np.flatnonzero(~np.isnan(values))
        found = values[rows]
        if not found.size:
            return
        mean = float(found.mean())
        step, total = mean - self.mean, self.n + found.size
        self._squares += float(np.square(found - mean).sum()) + step**2 * (self.n * found.size / total)
        self.mean += step * (found.size / total)
        self.n: int = total
        self.low, self.high = min(self.low, float(found.min())), max(self.high, float(found.max()))
        self.is_whole: bool = self.is_whole and bool((found == np.floor(found)).all())
        self._sample.update(found, keys[rows])

    @property
    def deviation(self) -> float:
        """Standard deviation; 0 if it is below the rounding error of the mean."""
        spread = float(np.sqrt(self._squares / max(self.n, 1)))
        return spread if spread > 8 * np.finfo(np.float64).eps * abs(self.mean) else 0.0

    @property
    def sample(self) -> np.ndarray:
        return self._sample.values


def check_range(name: str, values: np.ndarray, first_row: int, largest: float = _LARGEST) -> None:
    """Raise unless all numbers (r,) of a column are NaN or at most `largest` in absolute value."""
    bad = np.flatnonzero(np.abs(values) > largest)
    if bad.size:
        value, row = values[bad[0]], first_row + int(bad[0])
        if np.isinf(value):
            raise BadCell("contains infinity (inf)", name, row)
        raise BadCell(f"contains {value:g}", name, row, f", beyond {largest:.3g}")


class LevelTally:
    """Counts and sums of targets for each distinct text and fold, and a sample of the cells.

    Attributes
    ----------
    n : int
        Number of cells that are not missing.
    is_complete : bool
        Whether no level has been dropped.
    places : dict of str to int
        Row of each level in `sums`; row 0 is for missing cells.
    sums : TargetSums
    """

    def __init__(self):
        self.n: int = 0
        self.is_complete = True
        self.places: dict[str, int] = {}
        self.sums = TargetSums()
        self._sample = CellSample(_TEXTS)

    def update(
        self, codes: np.ndarray, texts: list[str], keys: np.ndarray, folds: np.ndarray, targets: np.ndarray | None
    ) -> None:
        """Add r cells, given as indices in `texts` or -1 if missing, with keys (r,), folds (r,) and targets (r, t)."""
        rows = np.flatnonzero(codes >= 0)
        places = np.zeros(len(texts) + 1, dtype=np.intp)
        # `texts` may contain texts that do not occur in the batch.
        for used in np.unique(codes[rows]).tolist():
            places[used] = self.places.setdefault(texts[used], len(self.places) + 1)
        self.sums.update(places[codes], len(self.places) + 1, folds, targets)
        self.n += rows.size
        short = np.array([text[:TEXT_LENGTH] for text in texts], dtype=object)
        self._sample.update(short[codes[rows]], keys[rows])
        if len(self.places) > 2 * MOST_LEVELS or sum(map(len, self.places)) > 2 * _MOST_CHARACTERS:
            self._forget()

    def _forget(self) -> None:
        """Drop all but the most frequent levels."""
        names = np.array(list(self.places), dtype=object)
        order = np.argsort(-self.counts, kind="stable")[:MOST_LEVELS]
        fit = np.cumsum([len(name) for name in names[order]]) <= _MOST_CHARACTERS
        kept = np.sort(order[fit])
        self.places = {name: place + 1 for place, name in enumerate(names[kept])}
        self.sums.keep(np.append(0, kept + 1))
        self.is_complete: bool = False

    @property
    def counts(self) -> np.ndarray:
        """Number of cells of each level, in the order of `places`."""
        return self.sums.counts[1:].sum(axis=1)

    @property
    def n_missing(self) -> int:
        """Number of missing cells."""
        return int(self.sums.counts[0].sum())

    @property
    def sample(self) -> list[str]:
        """Up to 5,000 random cells, truncated to 2,000 characters."""
        return [str(text) for text in self._sample.values]

    def ranked(self) -> list[str]:
        """The levels by descending frequency; levels of equal frequency are in alphabetical order."""
        counts = dict(zip(self.places, self.counts.tolist(), strict=True))
        return sorted(counts, key=lambda name: (-counts[name], name))[:MOST_LEVELS]
