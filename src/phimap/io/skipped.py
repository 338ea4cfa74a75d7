"""Rows that a pass over a file leaves out, by their place in the file."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from phimap._files import DataError

# Places of left-out rows that a message names.
_LISTED = 5
# A file of which more rows have another number of values than its header, and more than a handful, is read wrongly.
_MOST_RAGGED = 0.1
_HANDFUL = 10


@dataclass(frozen=True)
class BadRows:
    """What becomes of rows that cannot be used: an error, or left out and counted.

    Attributes
    ----------
    ragged : {"error", "skip"}
        Of rows with more or fewer values than there are columns.
    target : {"error", "skip", "keep"}
        Of rows whose target is missing; where they are kept, it is NaN or empty text.
    features : {"error", "skip", "keep"}
        Of rows with a feature that is missing, infinite or too large; kept ones are NaN or infinite.
    """

    ragged: Literal["error", "skip"] = "error"
    target: Literal["error", "skip", "keep"] = "error"
    features: Literal["error", "skip", "keep"] = "error"


class Skipped:
    """Rows that one pass has left out so far. Rows are numbered from 1.

    Parameters
    ----------
    row_name : callable
        ``row_name(number)`` is what messages call a row.

    Attributes
    ----------
    seen : int
        Rows of the file so far, left-out ones among them.
    """

    def __init__(self, row_name: Callable[[int], str] = str) -> None:
        self.seen: int = 0
        self._row_name = row_name
        self._reasons: Counter[str] = Counter()
        self._first: dict[str, list[int]] = {}
        self._ragged = array("q")

    @property
    def count(self) -> int:
        """Number of rows left out."""
        return self._reasons.total()

    def ragged(self, number: int) -> None:
        """Leave out row `number`, which the parser passes over; a parser that begins anew reports it once more."""
        if not self._ragged or number > self._ragged[-1]:
            self._ragged.append(number)

    def place(self, n: int) -> np.ndarray:
        """Numbers (n,) of the next `n` rows that the parser gives."""
        done = bisect_right(self._ragged, self.seen)
        stop = self.seen + n
        # Each left-out row before the end moves the end by one.
        within = done
        while within < len(self._ragged) and self._ragged[within] <= stop:
            within += 1
            stop += 1
        numbers = np.arange(self.seen + 1, stop + 1)
        left_out = np.frombuffer(self._ragged, dtype=np.int64)[done:within] if within > done else None
        if left_out is not None:
            self.drop(left_out, "another number of values than columns")
            numbers = np.delete(numbers, left_out - self.seen - 1)
        self.seen = stop
        return numbers

    def drop(self, numbers: np.ndarray, reason: str) -> None:
        """Count the rows `numbers` (k,) as left out for `reason`."""
        if not len(numbers):
            return
        self._reasons[reason] += len(numbers)
        first = self._first.setdefault(reason, [])
        first += numbers[: _LISTED - len(first)].tolist()

    def finish(self, where: str) -> None:
        """Count what stands after the last row; refuse a file of which too much was left out."""
        after = np.array([number for number in self._ragged if number > self.seen], dtype=np.int64)
        self.drop(after, "another number of values than columns")
        self.seen += len(after)
        if len(self._ragged) > max(_HANDFUL, _MOST_RAGGED * self.seen):
            raise DataError(
                f"{where}: {len(self._ragged):,} of {self.seen:,} rows have another number of values than there are "
                f"columns, the first is data row {self._row_name(self._ragged[0])}. Correct the separator or header."
            )

    @property
    def excuse(self) -> str:
        """Why no row is left, to be put into a sentence."""
        return f" left ({'; '.join(self.notes)})" if self.count else ""

    @property
    def notes(self) -> list[str]:
        """What was left out, a line for each reason."""
        names = {reason: [self._row_name(number) for number in first] for reason, first in self._first.items()}
        return [
            f"{_count(count, 'row')} left out for {reason}: {listed(names[reason], count)}"
            for reason, count in self._reasons.items()
        ]


def listed(names: Sequence[str], count: int) -> str:
    """The names of the first of `count` rows in words."""
    shown = ", ".join(names[:_LISTED])
    more = count - len(names[:_LISTED])
    return f"data row{'s' if count > 1 else ''} {shown}{f' and {more:,} more' if more else ''}"


def _count(count: int, word: str) -> str:
    return f"{count:,} {word}{'s' if count > 1 else ''}"
