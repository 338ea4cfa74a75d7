"""A single warning, for all batches of a table, about rows that lie far outside the training rows."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from phimap.learn.extrapolation import OutsideWarning


class FarRows:
    """Counts the far rows of all batches, from the warnings of a learner."""

    def __init__(self) -> None:
        self._n_rows = self._n_far = 0
        self._warning: OutsideWarning | None = None

    @contextmanager
    def counted(self, n_rows: int) -> Iterator[None]:
        """Catch the warning about far rows in a block of code that predicts `n_rows` rows; other warnings are shown."""
        with warnings.catch_warnings():
            others = warnings.showwarning

            def show(message: Any, *place: Any, **more: Any) -> None:
                if isinstance(message, OutsideWarning):
                    self._warning, self._n_far = self._warning or message, self._n_far + message.n_far
                else:
                    others(message, *place, **more)

            warnings.simplefilter("always", OutsideWarning)
            warnings.showwarning = show
            yield
        self._n_rows += n_rows

    @property
    def message(self) -> str | None:
        """The warning for all batches; None if there are no far rows."""
        return None if self._warning is None else str(self._warning.among(self._n_far, self._n_rows))
