"""What learners of labels have in common, and what learners of numbers do: checks of targets and shapes of outputs."""

from __future__ import annotations

from typing import Any

import numpy as np

from phimap._dask import by_blocks
from phimap.learn.rows.first_pass import FirstPass
from phimap.learn.targets.label_targets import check_labels, decode_scores
from phimap.learn.targets.target_numbers import check_numbers, check_width


def require_targets(model: Any, y: Any) -> None:
    """Raise where `y` was left out."""
    if y is None:
        raise ValueError(f"{type(model).__name__} requires y to be passed, but the target y is None. Pass the targets.")


class NumberTargets:
    """The half of a regressor that knows its targets."""

    n_targets_: int
    _single_column: bool

    @property
    def _has_labels(self) -> bool:
        return False

    @property
    def _n_outputs(self) -> int:
        return self.n_targets_

    def _check_targets(self, y: Any, n_rows: int, *, reset: bool) -> np.ndarray:
        y = check_numbers(y, n_rows)
        n_targets = 1 if y.ndim == 1 else y.shape[1]
        if reset:
            self.n_targets_, self._single_column = n_targets, y.ndim == 1
        check_width(n_targets, self.n_targets_)
        return y.reshape(n_rows) if self._single_column else y.reshape(n_rows, n_targets)

    def _targets_in(self, y: np.ndarray) -> int:
        return self.n_targets_

    def _serves(self, n_outputs: int) -> bool:
        return n_outputs == self.n_targets_ and (n_outputs == 1 or not self._single_column)

    def _decode(self, scores: np.ndarray) -> np.ndarray:
        return scores[:, 0] if self._single_column else scores

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # pyright: ignore[reportAttributeAccessIssue]
        tags.target_tags.single_output = True
        tags.target_tags.multi_output = True
        return tags


class LabelTargets:
    """The half of a classifier that knows its classes."""

    classes_: np.ndarray

    @property
    def _has_labels(self) -> bool:
        return True

    def _check_targets(self, y: Any, n_rows: int, *, reset: bool) -> np.ndarray:
        return check_labels(y, n_rows)

    def _learn_classes(self, first_pass: FirstPass) -> None:
        labels = None if first_pass.labels is None else first_pass.labels.values
        if labels is None or labels.size < 2:
            raise ValueError(f"`y` must hold at least 2 classes, got {0 if labels is None else labels.size} class.")
        self.classes_ = labels

    def _check_classes(self, classes: Any) -> None:
        """Raise if a call names other `classes` than the first one did."""
        if classes is not None and hasattr(self, "classes_") and not np.array_equal(np.unique(classes), self.classes_):
            raise ValueError(
                f"`classes` must be those of the first call, {self.classes_.tolist()}, got {list(classes)}. "
                "Leave it out in later calls."
            )

    @property
    def _n_outputs(self) -> int:
        # Two classes are told apart by one number.
        return 1 if self.classes_.size == 2 else self.classes_.size

    def _targets_in(self, y: np.ndarray) -> int:
        # Two classes are told apart by one number.
        return max(1, n_classes) if (n_classes := np.unique(y).size) != 2 else 1

    def _serves(self, n_outputs: int) -> bool:
        return self.classes_.ndim == 1 and self.classes_.size > 1 and n_outputs == self._n_outputs

    def _decode(self, scores: np.ndarray) -> np.ndarray:
        return decode_scores(scores, self.classes_)

    @by_blocks
    def decision_function(self, X: Any) -> np.ndarray:
        """Outputs of the linear model.

        Parameters
        ----------
        X : array-like, data frame, CSR matrix, torch.Tensor or Dask collection of shape (n_samples, n_features)

        Returns
        -------
        ndarray, or Dask array where `X` is one, of shape (n_samples,) for two classes, else (n_samples, n_classes)
            Positive for ``classes_[1]`` where there are two classes.
        """
        scores: np.ndarray = self._scores(X)  # pyright: ignore[reportAttributeAccessIssue]
        return scores[:, 0] if self.classes_.size == 2 else scores
