"""Columns that number the rows: integers of which none occurs twice, with few gaps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from phimap.tables.tallies import NumberTally, sample_keys

# Distinct integers may be row numbers only if there are at least this many of them.
_LEAST = 20
# Rising integers between these two may be years.
_YEARS = (1500, 2200)


def numbers_rows(tally: NumberTally) -> bool:
    """Return whether the numbers are distinct integers with few gaps, from about 0 or 1 in any order, or rising.

    Rising integers may begin anywhere, unless they may be years.
    """
    n, low, high = tally.n, tally.low, tally.high
    if not tally.is_whole or n < _LEAST or high - low > 2 * n:
        return False
    if tally.is_rising and not (_YEARS[0] <= low and high <= _YEARS[1]):
        return True
    # If numbers were repeated, the random sample would contain repetitions as well.
    return 0 <= low <= 1 + n // 50 and high <= 2 * n + 1 and np.unique(tally.sample).size == tally.sample.size


class RowNumbers:
    """Find the columns of a stream of numbers (n, d) that number its rows.

    Attributes
    ----------
    places : list of int
        Indices of these columns among the rows read so far.
    """

    def __init__(self) -> None:
        self._tallies: dict[int, NumberTally] | None = None
        self._n_rows = 0

    @property
    def places(self) -> list[int]:
        return [place for place, tally in (self._tallies or {}).items() if numbers_rows(tally)]

    def watched(self, batches: Iterable[tuple[np.ndarray, np.ndarray]]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the batches (X, y), whose rows are images or have columns, and read those with columns."""
        for X, y in batches:
            if X.ndim == 2:
                self._update(X)
            yield X, y

    def _update(self, X: np.ndarray) -> None:
        if self._tallies is None:
            self._tallies = {place: NumberTally(str(place)) for place in range(X.shape[1])}
        keys = sample_keys(self._n_rows, len(X))
        for place, tally in list(self._tallies.items()):
            values = X[:, place].astype(np.float64)
            # Most columns are dropped here, before their numbers are sampled.
            if (values == np.rint(values)).all() and np.unique(values).size == values.size:
                tally.update(values, keys, self._n_rows)
            else:
                del self._tallies[place]
        self._n_rows += len(X)
