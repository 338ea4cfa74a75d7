"""Results of explanations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class _Explained:
    """The fields that `Explanation` documents."""

    values: np.ndarray
    base_values: Any
    data: np.ndarray
    feature_names: list[str]
    exact: bool
    standard_errors: np.ndarray | None = None
    output_names: list[str] | None = None


class Explanation(_Explained):
    """Shapley values of rows: `base_values` plus the sum of a row's `values` is the output of the model.

    Attributes
    ----------
    values : ndarray of shape (n, d) or (n, d, t)
        Value of each column for each row; t is the number of outputs, if there are several.
    base_values : float or ndarray of shape (t,)
        Mean output over the background rows.
    data : ndarray of shape (n, d)
        The explained rows, as they were given.
    feature_names : list of str
        Names of the d columns.
    exact : bool
        Whether all values are exact up to rounding; False if some were estimated by sampling.
    standard_errors : ndarray of the shape of `values`, or None
        Standard errors of sampled values, 0 where values are exact; None if all values are exact.
    output_names : list of str or None
        Names of the t outputs, such as classes; None for one output.
    """

    @property
    def importances(self) -> np.ndarray:
        """Mean absolute values (d,) of the columns, over rows and outputs."""
        sizes = np.abs(self.values).mean(axis=0)
        return sizes if sizes.ndim == 1 else sizes.mean(axis=1)

    def to_shap(self) -> Any:
        """Return a `shap.Explanation`, for the plots of shap.

        Raises
        ------
        ImportError
            If shap is not installed.
        """
        try:
            import shap
        except ImportError as error:
            raise ImportError("`to_shap` needs the package shap, which is not installed. pip install shap.") from error
        base = np.broadcast_to(self.base_values, (len(self.values), *self.values.shape[2:])).copy()
        return shap.Explanation(
            values=self.values,
            base_values=base,
            data=self.data,
            feature_names=self.feature_names,
            output_names=self.output_names,
        )


class Interactions(_Explained):
    """Shapley interaction values of rows, as shap defines them.

    Attributes
    ----------
    values : ndarray of shape (n, d, d) or (n, d, d, t)
        Off the diagonal, half of the Shapley interaction index of each pair of columns; on the diagonal, the rest of
        the column's Shapley value. A sum over the second columns is a Shapley value.
    base_values, data, feature_names, exact, standard_errors, output_names
        As for `Explanation`.
    """

    def largest(self, count: int = 5) -> list[tuple[str, str, float]]:
        """Return the pairs with the largest mean absolute interaction: two names and the size, both halves added."""
        sizes = 2 * np.abs(self.values).mean(axis=0)
        return largest_pairs(sizes if sizes.ndim == 2 else sizes.mean(axis=2), self.feature_names, count)


def largest_pairs(sizes: np.ndarray, names: list[str], count: int) -> list[tuple[str, str, float]]:
    """Return the pairs of columns with the largest `sizes` (d, d): two names and the size of each pair."""
    left, right = np.triu_indices(len(sizes), 1)
    order = np.argsort(-sizes[left, right], kind="stable")[:count]
    return [(names[left[i]], names[right[i]], float(sizes[left[i], right[i]])) for i in order]
