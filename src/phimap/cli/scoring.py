"""Streamed scores of predictions."""

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.metrics import balanced_accuracy_score, precision_score, recall_score, roc_auc_score

from phimap.cli.output import Fact
from phimap.learn.rows.scaling import ColumnMoments

# Maximum number of unknown classes that a message lists, and maximum number of distinct unknown classes that are
# counted. A column with more unknown classes probably holds numbers.
_LISTED, _COUNTED = 5, 1000
# A class needs at least this number of scored rows. With fewer, a single row changes its recall by more than a fifth.
_FEW_OF_CLASS = 5
# Number of pairs of true and predicted values that are kept for scores and figures; they take a few megabytes.
_KEPT = 200_000


@dataclass(frozen=True)
class Balance:
    """The rarer of two classes: its share of the rows, recall and precision, and the area under the ROC curve."""

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
        Number of rows scored.

    Parameters
    ----------
    task : str
    classes : ndarray, optional
        Classes that the model can predict. Rows of other classes count as mistakes; `unseen` describes these rows.
    mean : float, optional
        Mean target of the training rows, whose error is the baseline. Default: that of the scored rows.
    linear : Scores, optional
        Scores of a linear model on the same rows, shown next to the model's scores.
    """

    def __init__(
        self,
        task: str,
        classes: np.ndarray | None = None,
        *,
        mean: float | None = None,
        linear: Scores | None = None,
    ):
        self.task = task
        self.n: int = 0
        self.linear = linear
        self._mean = mean
        self._classes = classes
        self._unseen: Counter = Counter()
        self._counts = None if classes is None else np.zeros(len(classes), np.int64)
        self._n_unseen, self._wrong = 0, 0.0
        self._moments = ColumnMoments.empty(1)
        self._kept: list[tuple[np.ndarray, np.ndarray]] = []
        self._decisions: list[np.ndarray] = []

    def update(self, y: np.ndarray, predicted: np.ndarray, decisions: np.ndarray | None = None) -> None:
        """Add true and predicted targets, both (r,), and the decision scores (r,) if there are two classes."""
        self.n += len(y)
        if self.task == "regression":
            self._wrong += float(np.square(y - predicted, dtype=np.float64).sum())
            self._moments.update(np.asarray(y, dtype=np.float64)[:, None])
        else:
            self._wrong += int((y != predicted).sum())
            self._count_classes(y)
        self._keep(y, predicted, decisions)

    def _keep(self, y: np.ndarray, predicted: np.ndarray, decisions: np.ndarray | None) -> None:
        """Keep rows that have been counted, up to 200,000."""
        if (room := _KEPT - (self.n - len(y))) > 0:
            self._kept.append((y[:room].copy(), predicted[:room].copy()))
            if decisions is not None:
                self._decisions.append(decisions[:room].copy())

    def _count_classes(self, y: np.ndarray) -> None:
        if self._classes is None or self._counts is None:
            return
        known = np.isin(y, self._classes)
        # The classes of a model are sorted.
        self._counts += np.bincount(np.searchsorted(self._classes, y[known]), minlength=len(self._classes))
        unseen = y[~known]
        self._n_unseen += len(unseen)
        if len(self._unseen) < _COUNTED:
            self._unseen.update(unseen.tolist())

    def unseen(self) -> str | None:
        """A message on the rows whose class the model cannot predict; None if there are no such rows."""
        if not self._n_unseen:
            return None
        common = self._unseen.most_common(_LISTED)
        listed = ", ".join(f"{label!r} ({count:,})" for label, count in common)
        more = " and others" if len(self._unseen) > len(common) else ""
        return (
            f"{self._n_unseen:,} of {self.n:,} rows have a class that the model was not trained on, and count as "
            f"mistakes: {listed}{more}."
        )

    def hardly_scored(self) -> str | None:
        """A message that lists classes of the model with few scored rows; None if every class has enough rows."""
        if self._classes is None or self._counts is None:
            return None
        few = np.flatnonzero(self._counts < _FEW_OF_CLASS)
        if not few.size:
            return None
        few = few[np.argsort(self._counts[few], kind="stable")]
        listed = ", ".join(f"{self._classes[k].item()!r} ({self._counts[k]})" for k in few[:_LISTED])
        more = f" and {few.size - _LISTED} more" if few.size > _LISTED else ""
        amounts = "; if these are amounts, --task regression" if self._classes.dtype.kind in "iuf" else ""
        return (
            f"the score says little about classes with fewer than {_FEW_OF_CLASS} rows: {listed}{more}. "
            f"Give more rows of them, or a larger --holdout{amounts}."
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
        """The root mean square error, or the share of wrong labels."""
        return self.rmse if self.task == "regression" else 1 - self.accuracy

    @property
    def baseline(self) -> float:
        """The RMSE of the mean training target, or the accuracy of the commonest class in the first 200,000 rows."""
        if self.task == "regression":
            offset = 0.0 if self._mean is None else float(self._moments.mean[0]) - self._mean
            return float(np.sqrt(self._moments.squared_deviations[0] / self.n + offset**2))
        true, _ = self.pairs()
        return float(np.unique(true, return_counts=True)[1].max() / true.size)

    def rarer_class(self) -> Balance | None:
        """Scores of the rarer of two classes in the first 200,000 rows; None if these rows do not hold two classes."""
        true, predicted = self.pairs()
        if not self._decisions or self._classes is None:
            return None
        counts = [int((true == label).sum()) for label in self._classes]
        if min(counts) == 0:
            return None
        # If both classes are equally common, the second class is taken, because positive scores mean the second class.
        place = int(counts[1] <= counts[0])
        rare = self._classes[place]
        is_rare, is_named = true == rare, predicted == rare
        decisions = np.concatenate(self._decisions) * (1 if place else -1)
        return Balance(
            rare,
            counts[place] / true.size,
            float(recall_score(is_rare, is_named)),
            float(precision_score(is_rare, is_named, zero_division=np.nan)),  # pyright: ignore[reportArgumentType]
            float(roc_auc_score(is_rare, decisions)),
        )

    def facts(self) -> list[Fact]:
        """The scores of the model, of a constant and of the linear model, in the order in which they are printed."""
        linear = self.linear
        if self.task == "regression":
            beside = [Fact("RMSE_of_a_linear_model", linear.rmse, ".4g")] if linear else []
            of_mean = Fact("RMSE_of_the_mean", self.baseline, ".4g")
            return [Fact("R2", self.r2, ".4f"), Fact("RMSE", self.rmse, ".4g"), of_mean, *beside]
        found = [Fact("accuracy", self.accuracy, ".4f"), Fact("accuracy_of_the_commonest_class", self.baseline, ".4f")]
        if linear:
            found.append(Fact("accuracy_of_a_linear_model", linear.accuracy, ".4f"))
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
        """Mean recall of the classes in the first 200,000 rows."""
        with warnings.catch_warnings():
            # Some predicted classes may be absent from these rows, which would cause a warning.
            warnings.simplefilter("ignore")
            return float(balanced_accuracy_score(*self.pairs()))

    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """True and predicted targets, both (k,), of the first 200,000 rows."""
        return np.concatenate([y for y, _ in self._kept]), np.concatenate([p for _, p in self._kept])
