"""Streamed scores of predictions."""

from __future__ import annotations

from collections import Counter

import numpy as np

from phimap.learn.data.scaling import Moments

# Classes that the model was not trained on, of which as many are told one by one.
_LISTED = 5
# Distinct ones that are counted one by one: a column of numbers is none of classes.
_COUNTED = 1000
# Pairs of true and predicted values kept for figures: enough for any, and few megabytes.
_KEPT = 200_000


class Scores:
    """Scores of predictions, batch by batch.

    Attributes
    ----------
    task : str
    n : int
        Rows scored.

    Parameters
    ----------
    task : str
    classes : ndarray, optional
        Those that the model can predict; rows of others are mistakes, and `unseen` tells of them.
    """

    def __init__(self, task: str, classes: np.ndarray | None = None):
        self.task = task
        self.n = 0
        self._classes = classes
        self._unseen: Counter = Counter()
        self._n_unseen = 0
        self._wrong = 0.0
        self._moments = Moments(1)
        self._kept: list[tuple[np.ndarray, np.ndarray]] = []
        self._room = _KEPT

    def update(self, y: np.ndarray, predicted: np.ndarray) -> None:
        """Add true and predicted targets, both (r,)."""
        self.n += len(y)
        if self.task == "regression":
            self._wrong += float(np.square(y - predicted, dtype=np.float64).sum())
            self._moments.update(np.asarray(y, dtype=np.float64)[:, None])
        else:
            self._wrong += int((y != predicted).sum())
            self._count_unseen(y)
        if self._room > 0:
            self._kept.append((y[: self._room].copy(), predicted[: self._room].copy()))
            self._room -= len(y)

    def _count_unseen(self, y: np.ndarray) -> None:
        if self._classes is None:
            return
        unseen = y[~np.isin(y, self._classes)]
        self._n_unseen += len(unseen)
        if len(self._unseen) < _COUNTED:
            self._unseen.update(unseen.tolist())

    def unseen(self) -> str | None:
        """A line on the rows whose class no prediction can meet; None where there are none."""
        if not self._n_unseen:
            return None
        common = self._unseen.most_common(_LISTED)
        listed = ", ".join(f"{label!r} ({count:,})" for label, count in common)
        more = " and others" if len(self._unseen) > len(common) else ""
        return (
            f"{self._n_unseen:,} of {self.n:,} rows have a class that the model was not trained on, and count as "
            f"mistakes: {listed}{more}."
        )

    @property
    def rmse(self) -> float:
        return float(np.sqrt(self._wrong / self.n))

    @property
    def r2(self) -> float:
        total = float(self._moments.squared_deviations[0])
        return 1 - self._wrong / total if total > 0 else float("nan")

    @property
    def accuracy(self) -> float:
        return 1 - self._wrong / self.n

    @property
    def error(self) -> float:
        """What learning makes small: the root mean square error, or the share of wrong labels."""
        return self.rmse if self.task == "regression" else 1 - self.accuracy

    def lines(self) -> list[tuple[str, str]]:
        """Names and values, as printed."""
        if self.task == "regression":
            return [("R2", f"{self.r2:.4f}"), ("RMSE", f"{self.rmse:.4g}")]
        return [("accuracy", f"{self.accuracy:.4f}")]

    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """True and predicted targets, both (k,), of the first rows."""
        return np.concatenate([y for y, _ in self._kept]), np.concatenate([p for _, p in self._kept])
