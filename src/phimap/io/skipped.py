"""The rows that a pass over a file leaves out, which are recorded by their numbers in the file."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from phimap._files import DataError

# Largest number of left-out rows that a message names.
_LISTED = 5
# The detected dialect counts as wrong if more than the share `_MOST_RAGGED` of the rows, and more than `_HANDFUL` rows,
# have another number of cells than the header.
_MOST_RAGGED = 0.1
_HANDFUL = 10


@dataclass(frozen=True)
class BadRows:
    """The policy for rows that cannot be used: they are an error, are skipped and counted, or are kept.

    Attributes
    ----------
    ragged : {"error", "skip"}
        Policy for rows with more or fewer values than columns.
    target : {"error", "skip", "keep"}
        Policy for rows with a missing target. In rows that are kept, the target is NaN or empty text.
    features : {"error", "skip", "keep"}
        Policy for rows with a missing, infinite or too large feature. In rows that are kept, it is NaN or infinite.
    infinite : {"error", "skip"}
        Policy for rows with an infinite feature. It applies if `features` is "error", and to frames, in which features
        may be missing.
    """

    ragged: Literal["error", "skip"] = "error"
    target: Literal["error", "skip", "keep"] = "error"
    features: Literal["error", "skip", "keep"] = "error"
    infinite: Literal["error", "skip"] = "error"


class Skipped:
    """The rows that one pass has left out so far. Rows are numbered from 1.

    Parameters
    ----------
    row_name : callable
        ``row_name(number)`` is the name of a row in messages.

    Attributes
    ----------
    seen : int
        Number of rows so far, including those left out.
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
        """Record row `number`, which the parser skips; a restarted parser may report it again."""
        if not self._ragged or number > self._ragged[-1]:
            self._ragged.append(number)

    def place(self, n: int) -> np.ndarray:
        """Return the numbers (n,) in the file of the next `n` rows from the parser."""
        done = bisect_right(self._ragged, self.seen)
        stop = self.seen + n
        # Each skipped row moves the following rows on by one.
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
        """Count the skipped rows after the last usable row; raise if too many rows were skipped."""
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
        """The reasons why rows were left out, as a part of a sentence."""
        return f" left ({'; '.join(self.notes)})" if self.count else ""

    @property
    def notes(self) -> list[str]:
        """One line for each reason why rows were left out."""
        names = {reason: [self._row_name(number) for number in first] for reason, first in self._first.items()}
        return [
            f"{count:,} row{'s' * (count > 1)} left out for {reason}: {listed(names[reason], count)}"
            for reason, count in self._reasons.items()
        ]


def listed(names: Sequence[str], count: int) -> str:
    """Words that list `count` rows; `names` has the names of the first rows."""
    shown = ", ".join(names[:_LISTED])
    more = count - len(names[:_LISTED])
    return f"data row{'s' if count > 1 else ''} {shown}{f' and {more:,} more' if more else ''}"
