"""Targets of classification."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from numbers import Number
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import column_or_1d

from phimap._validation import check_finite, check_unmasked
from phimap._warnings import caller_level
from phimap.learn.targets.base import Targets
from phimap.learn.weights import LEAST_WEIGHT, MOST_WEIGHT
from phimap.ops import to_host
from phimap.records import equal_records, of_entries, of_floats

if TYPE_CHECKING:
    from phimap.learn.rows.summary import RowSummary

# Up to this number of rows, many classes cause no warning, because in a small table each row may have its own class.
_FEW_ROWS = 20
# Labels are not classes if their number exceeds `_MOST_OWN` and the share `_NEARLY` of the number of rows. Up to
# `_MOST_OWN` classes are fitted in seconds.
_MOST_OWN, _NEARLY = 100, 0.8


def name_rows(n_labels: int, n_rows: int) -> bool:
    """Whether nearly every row has its own label; the labels are then not classes."""
    return n_labels > _MOST_OWN and n_labels > _NEARLY * n_rows


@dataclass(frozen=True)
class Classes(Targets):
    """Labels of classes (n,).

    Two classes are encoded as one number, -1 or 1, more classes as one-hot rows.

    Attributes
    ----------
    labels : ndarray of shape (k,) or None
        All labels, sorted; None before they are learned.
    factors : ndarray of shape (k,) or None
        Weights of the classes; None if all are one.
    """

    labels: np.ndarray | None = field(default=None, metadata=of_entries("any", "k"))
    factors: np.ndarray | None = field(default=None, metadata=of_floats("k", least=0))

    has_labels: ClassVar[bool] = True
    units: ClassVar[None] = None  # pyright: ignore[reportIncompatibleVariableOverride]

    def requirements(self) -> Iterator[tuple[bool, str]]:
        yield self.labels is not None and self.labels.ndim == 1 and self.labels.size > 1, "two classes at least"

    @classmethod
    def of_first(cls, y: Any, n_rows: int) -> Self:
        return cls()

    def learned(self, summary: RowSummary, *, loss: str, class_weight: Any) -> Self:
        labels = None if summary.labels is None else summary.labels.values
        if summary.labels is None or labels is None or labels.size < 2:
            n_classes = 0 if labels is None else labels.size
            raise ValueError(f"`y` must hold at least 2 classes, got {n_classes} class. Add rows of another class.")
        # Classes without rows were announced to `partial_fit`. Later rows may have many of them, so nothing is checked.
        assert summary.labels.weights is not None
        if summary.labels.weights.all() and name_rows(labels.size, summary.n_rows):
            raise ValueError(
                f"`y` must hold classes, got {labels.size} labels in {summary.n_rows} rows: nearly every row has its "
                "own. Use KernelRegressor for numbers, or group the labels."
            )
        # The number of all rows is compared, since a short batch may contain many classes.
        if summary.n_rows > _FEW_ROWS and 2 * labels.size > summary.n_rows:
            warnings.warn(
                f"`y` holds {labels.size} classes in {summary.n_rows} rows, which look like a regression target. "
                "Use KernelRegressor if they are numbers.",
                stacklevel=caller_level(),
            )
        return type(self)(labels, class_factors(class_weight, labels, summary.labels.weights))

    @property
    def known(self) -> np.ndarray:
        """The learned labels. Raises an error before they are learned."""
        assert self.labels is not None
        return self.labels

    @property
    def n_outputs(self) -> int:
        return _n_outputs(self.known.size)

    def n_outputs_of(self, y: np.ndarray) -> int:
        return max(1, _n_outputs(np.unique(y).size))

    def check(self, y: Any, n_rows: int) -> np.ndarray:
        check_unmasked(y, "y")
        y = column_or_1d(to_host(y), warn=True)
        if y.dtype.kind == "f":
            check_finite(y, "y")
        elif y.dtype.kind == "O":
            _check_objects(y)
        kind = type_of_target(y, input_name="y")
        if kind not in ("binary", "multiclass"):
            raise ValueError(
                f"Unknown label type: {kind}. `y` must hold classes; use KernelRegressor for other targets."
            )
        if y.shape[0] != n_rows:
            raise ValueError(
                f"`y` must have one label per sample, got {y.shape[0]} for inconsistent numbers of samples: "
                f"X has {n_rows}."
            )
        return y

    def encode(self, y: np.ndarray) -> np.ndarray:
        index = self._index(y)
        return np.where(index == 1, 1.0, -1.0)[:, None] if self.known.size == 2 else np.eye(self.known.size)[index]

    def signs(self, y: np.ndarray) -> np.ndarray:
        """Return labels as signs (r, t): 1 for the class of the row, -1 for other classes."""
        return np.where(self.encode(y) > 0, 1.0, -1.0)

    def weights(self, y: np.ndarray, weights: np.ndarray | None) -> np.ndarray | None:
        if self.factors is None:
            return weights
        factors = self.factors[np.searchsorted(self.known, y)]
        return factors if weights is None else weights * factors

    def decode(self, scores: np.ndarray) -> np.ndarray:
        index = (scores[:, 0] > 0).astype(np.intp) if self.known.size == 2 else scores.argmax(axis=1)
        return self.known[index]

    def same(self, other: Targets) -> bool:
        return (
            isinstance(other, Classes)
            and np.array_equal(self.known, other.known)
            and equal_records(self.factors, other.factors)
        )

    def check_announced(self, classes: Any) -> None:
        if classes is not None and not np.array_equal(np.unique(classes), self.known):
            raise ValueError(
                f"`classes` must be those of the first call, {self.known.tolist()}, got {list(classes)}. "
                "Leave it out in later calls."
            )

    def _index(self, y: np.ndarray) -> np.ndarray:
        """Return the indices (r,) of labels in the learned labels; raise for a label that was not learned."""
        index = np.searchsorted(self.known, y)
        unknown = self.known[np.minimum(index, self.known.size - 1)] != y
        if unknown.any():
            raise ValueError(
                f"`y` must hold labels among classes_, got {y[unknown].tolist()[0]!r}. "
                "Name all labels in the first call: partial_fit(X, y, classes=...)."
            )
        return index


def _n_outputs(n_classes: int) -> int:
    """Number of outputs: one for two classes, else one for each class."""
    return 1 if n_classes == 2 else n_classes


def class_factors(class_weight: Any, classes: np.ndarray, counts: np.ndarray | None) -> np.ndarray | None:
    """Return the weights of the `classes`, whose rows have the total weights `counts`; None if all weights are one."""
    if class_weight is None:
        return None
    if isinstance(class_weight, str) and class_weight == "balanced" and counts is not None:
        factors = counts.sum() / (classes.size * counts)
    elif isinstance(class_weight, dict):
        factors = compute_class_weight(class_weight, classes=classes, y=classes)
        for label, factor in zip(classes.tolist(), factors.tolist(), strict=True):
            if not LEAST_WEIGHT <= factor <= MOST_WEIGHT:
                raise ValueError(
                    f"`class_weight` must lie between {LEAST_WEIGHT:g} and {MOST_WEIGHT:g}, got {factor:g} for "
                    f"{label!r}. Leave out the rows of a class that is not to count."
                )
    else:
        raise ValueError(
            f"`class_weight` must be None, 'balanced' or a dict of weights by class, got {class_weight!r}. "
            "Use 'balanced' where classes are of unequal size."
        )
    return None if (factors == 1).all() else factors


def _check_objects(y: np.ndarray) -> None:
    """Raise unless the objects `y` (n,) are text or numbers, none of them missing."""
    for row, label in enumerate(y):
        # Only NaN differs from itself.
        if not isinstance(label, str | bytes | Number | np.generic) or label != label:
            raise ValueError(
                f"`y` must hold labels that are text or numbers, got {label!r} at row {row}. Fill it in, or drop such "
                "rows."
            )
