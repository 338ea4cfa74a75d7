"""Streamed scores of predictions."""

from __future__ import annotations

import numpy as np

from phimap.learn.scaling import Moments

# Pairs of true and predicted values kept for figures: enough for any, and few megabytes.
_KEPT = 200_000


class Scores:
    """Scores of predictions, batch by batch.

    Attributes
    ----------
    task : str
    n : int
        Rows scored.
    """

    def __init__(self, task: str):
        self.task = task
        self.n = 0
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
        if self._room > 0:
            self._kept.append((y[: self._room].copy(), predicted[: self._room].copy()))
            self._room -= len(y)

    @property
    def rmse(self) -> float:
        return float(np.sqrt(self._wrong / self.n))

    @property
    def r2(self) -> float:
        total = float(self._moments.deviations[0])
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
