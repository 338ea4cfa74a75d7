"""Rows of a table far outside of the training rows: told once, however many batches they come in."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from phimap.learn.extrapolation import OutsideWarning


class FarRows:
    """Gathers what a learner says of the batches of a table."""

    def __init__(self) -> None:
        self._n_rows = self._n_far = 0
        self._told: OutsideWarning | None = None

    @contextmanager
    def gathered(self, n_rows: int) -> Iterator[None]:
        """Keep the warning of a block that predicts `n_rows` rows once; other warnings are shown as ever."""
        with warnings.catch_warnings():
            others = warnings.showwarning

            def show(message: Any, *place: Any, **more: Any) -> None:
                if isinstance(message, OutsideWarning):
                    self._told, self._n_far = self._told or message, self._n_far + message.n_far
                else:
                    others(message, *place, **more)

            warnings.simplefilter("always", OutsideWarning)
            warnings.showwarning = show
            yield
        self._n_rows += n_rows

    @property
    def message(self) -> str | None:
        """What there is to say of all batches; None where all rows are near."""
        return None if self._told is None else str(self._told.among(self._n_far, self._n_rows))
