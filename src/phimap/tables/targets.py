"""Targets as numbers, and their sums by level and fold."""

from __future__ import annotations

from typing import Any

import numpy as np

#: Number of folds. Training rows of a fold are encoded with targets of the other folds.
FOLDS = 5
# Largest number of classes or targets that are used. Each of them adds a column.
_MOST_TARGETS = 10
#: Up to this number of distinct whole numbers, targets are treated as labels, such as ratings or codes. With more, they
#: are amounts.
MOST_CODES = 20


class ColumnTargets:
    """Converts targets of a stream to numbers. Amounts are unchanged, and each class seen so far has an indicator.

    Parameters
    ----------
    kind : {"auto", "continuous", "classes"}

    Attributes
    ----------
    n : int
        Number of rows so far.
    squares : ndarray of shape (t,)
        Sums of the squared numbers.
    labels : list
        Classes in order of appearance; empty for amounts.
    """

    def __init__(self, kind: str):
        self._kind = kind
        self.n: int = 0
        self.squares = np.zeros(0)
        self.labels: list[Any] = []
        self._usable = True

    def update(self, y: Any, n_rows: int) -> np.ndarray | None:
        """Return the targets `y` of a batch as float64 (r, t); None if there are no targets or too many of them."""
        if y is None or not self._usable:
            return self._refuse()
        y = np.asarray(y)
        if y.shape[:1] != (n_rows,):
            raise ValueError(f"`y` must have one target per row of X, got shape {y.shape} for {n_rows} rows.")
        if self._kind == "auto":
            self._kind = "classes" if are_classes(y) else "continuous"
        numbers = self._indicators(y) if self._kind == "classes" else y.reshape(n_rows, -1).astype(np.float64)
        if numbers is None or numbers.shape[1] > _MOST_TARGETS:
            return self._refuse()
        if not np.isfinite(numbers).all():
            row = int(np.argwhere(~np.isfinite(numbers))[0, 0])
            raise ValueError(f"`y` must be finite, got {y[row]} at row {self.n + row}. Drop such rows before fitting.")
        # Learners refuse targets whose squares overflow, with their rows.
        with np.errstate(over="ignore"):
            self.squares = padded(self.squares, numbers.shape[1]) + np.square(numbers).sum(axis=0)
        self.n += n_rows
        return numbers

    def _indicators(self, y: np.ndarray) -> np.ndarray | None:
        if y.dtype.kind == "O" and any(label is None or label != label for label in y.tolist()):
            raise ValueError("`y` must hold a label for every row, got missing ones. Drop such rows before fitting.")
        found, codes = np.unique(y, return_inverse=True)
        self.labels += [label for label in found.tolist() if label not in self.labels]
        if len(self.labels) > _MOST_TARGETS:
            return None
        places = np.array([self.labels.index(label) for label in found.tolist()])
        return np.eye(len(self.labels))[places[codes.ravel()]]

    def _refuse(self) -> None:
        # Sums over only some of the rows would be useless.
        self._usable = False

    @property
    def is_usable(self) -> bool:
        """Whether all rows have usable targets."""
        return self._usable and self.n > 0

    def chosen(self) -> list[int]:
        """Indices of the targets that get a column: the second of two classes, else all targets or sorted classes."""
        if not self.labels:
            return list(range(self.squares.size))
        order = sorted(range(len(self.labels)), key=lambda place: self.labels[place])
        return order[1:] if len(order) <= 2 else order

    def names(self) -> list[str]:
        """Names of the columns for the `chosen` targets."""
        if self.labels:
            return [f"share of {self.labels[place]}" for place in self.chosen()]
        one = self.squares.size == 1
        return ["mean of target" if one else f"mean of target {place}" for place in self.chosen()]


def are_classes(y: np.ndarray) -> bool:
    """Whether targets are classes: text, booleans, or at most 20 distinct whole numbers. Several targets are none."""
    if y.ndim == 2:
        return False
    if y.dtype.kind not in "iuf":
        return True
    distinct = np.unique(y)
    return distinct.size <= MOST_CODES and bool((distinct == np.floor(distinct)).all())


def padded(array: np.ndarray, size: int) -> np.ndarray:
    """The array, padded with zeros to `size` along its last axis."""
    missing = size - array.shape[-1]
    return np.pad(array, [(0, 0)] * (array.ndim - 1) + [(0, missing)]) if missing > 0 else array


class TargetSums:
    """Numbers of rows and sums of targets for each level and fold.

    Attributes
    ----------
    counts : ndarray of shape (L, FOLDS)
        Number of rows of each of L levels in each fold.
    sums : ndarray of shape (L, FOLDS, t)
        Sums of the t targets of these rows.
    """

    def __init__(self):
        self.counts = np.zeros((1, FOLDS))
        self.sums = np.zeros((1, FOLDS, 0))

    def update(self, places: np.ndarray, n_levels: int, folds: np.ndarray, targets: np.ndarray | None) -> None:
        """Add rows with the levels `places` (r,) among `n_levels`, the `folds` (r,) and targets (r, t)."""
        t = 0 if targets is None else targets.shape[1]
        grown = n_levels - len(self.counts)
        self.counts = np.pad(self.counts, ((0, grown), (0, 0)))
        self.sums = padded(np.pad(self.sums, ((0, grown), (0, 0), (0, 0))), t)
        cells = places * FOLDS + folds
        self.counts += np.bincount(cells, minlength=n_levels * FOLDS).reshape(n_levels, FOLDS)
        for j in range(t):
            found = np.bincount(cells, targets[:, j], n_levels * FOLDS)  # pyright: ignore[reportOptionalSubscript]
            self.sums[:, :, j] += found.reshape(n_levels, FOLDS)

    def keep(self, places: np.ndarray) -> None:
        """Drop all levels except the levels at `places`."""
        self.counts, self.sums = self.counts[places], self.sums[places]
