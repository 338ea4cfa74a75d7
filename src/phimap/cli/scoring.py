"""Streamed scores of predictions."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from phimap.cli.output import Fact
from phimap.learn.rows.scaling import ColumnMoments

# Classes that the model was not trained on, of which as many are told one by one.
_LISTED = 5
# Distinct ones that are counted one by one: a column of numbers is none of classes.
_COUNTED = 1000
# Pairs of true and predicted values kept for figures: enough for any, and few megabytes.
_KEPT = 200_000


@dataclass(frozen=True)
class Balance:
    """The rarer of two classes: its share of the rows, how it is found, and how well the scores rank it."""

    label: Any
    share: float
    recall: float
    precision: float
    auc: float


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
    linear : Scores, optional
        Those of a linear model on the same rows, which the lines show beside the model's.
    """

    def __init__(self, task: str, classes: np.ndarray | None = None, *, linear: Scores | None = None):
        self.task = task
        self.n: int = 0
        self.linear = linear
        self._classes = classes
        self._unseen: Counter = Counter()
        self._n_unseen = 0
        self._wrong = 0.0
        self._moments = ColumnMoments.empty(1)
        self._kept: list[tuple[np.ndarray, np.ndarray]] = []
        self._decisions: list[np.ndarray] = []
        self._room = _KEPT

    def update(self, y: np.ndarray, predicted: np.ndarray, decisions: np.ndarray | None = None) -> None:
        """Add true and predicted targets, both (r,), and of two classes the scores (r,) that rank the rows."""
        self.n += len(y)
        if self.task == "regression":
            self._wrong += float(np.square(y - predicted, dtype=np.float64).sum())
            self._moments.update(np.asarray(y, dtype=np.float64)[:, None])
        else:
            self._wrong += int((y != predicted).sum())
            self._count_unseen(y)
        if self._room > 0:
            self._kept.append((y[: self._room].copy(), predicted[: self._room].copy()))
            if decisions is not None:
                self._decisions.append(decisions[: self._room].copy())
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

    @property
    def baseline(self) -> float:
        """What the best constant gets on these rows: the RMSE of their mean, or the share of the commonest class."""
        if self.task == "regression":
            return float(np.sqrt(self._moments.squared_deviations[0] / self.n))
        true, _ = self.pairs()
        return float(np.unique(true, return_counts=True)[1].max() / true.size)

    def rarer_class(self) -> Balance | None:
        """What is known of the rarer of two classes, over the first 200,000 rows; None for others."""
        true, predicted = self.pairs()
        if not self._decisions or self._classes is None:
            return None
        counts = [int((true == label).sum()) for label in self._classes]
        if min(counts) == 0:
            return None
        # The second of two equally common classes is taken, which is the positive one of scores.
        place = int(counts[1] <= counts[0])
        rare = self._classes[place]
        hits, named = int(((true == rare) & (predicted == rare)).sum()), int((predicted == rare).sum())
        decisions = np.concatenate(self._decisions) * (1 if place else -1)
        return Balance(
            rare,
            counts[place] / true.size,
            hits / counts[place],
            hits / named if named else float("nan"),
            float(roc_auc_score(true == rare, decisions)),
        )

    def facts(self) -> list[Fact]:
        """Names and values, as printed: the model's, a constant's, a linear model's."""
        if self.task == "regression":
            found = [Fact("R2", self.r2, ".4f"), Fact("RMSE", self.rmse, ".4g")]
            found.append(Fact("RMSE_of_the_mean", self.baseline, ".4g"))
            return found + ([Fact("RMSE_of_a_linear_model", self.linear.rmse, ".4g")] if self.linear else [])
        found = [Fact("accuracy", self.accuracy, ".4f"), Fact("accuracy_of_the_commonest_class", self.baseline, ".4f")]
        if self.linear:
            found.append(Fact("accuracy_of_a_linear_model", self.linear.accuracy, ".4f"))
        found.append(Fact("balanced_accuracy", self.balanced_accuracy, ".4f"))
        if (balance := self.rarer_class()) is not None:
            found += [
                Fact("rarer_class", balance.label),
                Fact("share", balance.share, ".4f"),
                Fact("recall", balance.recall, ".4f"),
                Fact("precision", balance.precision, ".4f"),
                Fact("AUC", balance.auc, ".4f"),
            ]
        return found

    @property
    def balanced_accuracy(self) -> float:
        """Mean share of each class that is found, over the first 200,000 rows."""
        true, predicted = self.pairs()
        return float(np.mean([(predicted[true == label] == label).mean() for label in np.unique(true)]))

    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """True and predicted targets, both (k,), of the first rows."""
        return np.concatenate([y for y, _ in self._kept]), np.concatenate([p for _, p in self._kept])
