"""First and second order effects of a fitted model: shares of the variance of its outputs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from scipy.stats import norm

from phimap._random import named_streams
from phimap.explain.shapley import require_forms
from phimap.explain.subject import scale_of, subject_of
from phimap.learn.base import KernelModel

# Number of levels of each column, and number of random choices of levels from which the variance is estimated.
_LEVELS, _CHOICES = 32, 4096


@dataclass(frozen=True)
class Effects:
    """Shares of the variance of a model's outputs that single columns and pairs of columns explain.

    Attributes
    ----------
    first : ndarray of shape (d,)
        Share of each column alone.
    second : ndarray of shape (d, d)
        Share of each pair beyond the shares of both columns; symmetric, with a zero diagonal.
    rest : float
        Share of the effects of three and more columns, 1 minus the other shares; 0 if these add up to more than 1.
    variance : ndarray of shape (t,)
        Variance of each output. Shares are means over the outputs, weighted by their variances.
    feature_names : list of str
    """

    first: np.ndarray
    second: np.ndarray
    rest: float
    variance: np.ndarray
    feature_names: list[str]

    def largest(self, count: int = 5) -> list[tuple[str, str, float]]:
        """Return the pairs of columns with the largest shares."""
        left, right = np.triu_indices(len(self.first), 1)
        order = np.argsort(-self.second[left, right], kind="stable")[:count]
        names = self.feature_names
        return [(names[left[i]], names[right[i]], float(self.second[left[i], right[i]])) for i in order]


def effects(model: Any, X: Any = None, *, random_state: Any = 0) -> Effects:
    r"""Decompose the variance of a model's outputs into effects of columns and of pairs (functional ANOVA).

    Parameters
    ----------
    model : estimator
        Fitted learner of phimap with an exact form, see `shapley_values`.
    X : array-like or data frame, optional
        Rows whose columns give the levels: each column takes the values of 32 random rows, independently of other
        columns. By default, columns are normal with the mean and the variance of the training rows, within the range of
        the training rows; columns that are not standardised are uniform in that range. Give rows for tables with
        categories.
    random_state : int, Generator, RandomState or SeedSequence, default=0
        Seed of the rows and of the estimate of the variance.

    Returns
    -------
    Effects

    Raises
    ------
    ValueError
        If the model, or a part of it, has no exact form.

    Notes
    -----
    With independent columns the output is a sum of a constant, functions of one column, functions of two columns, and
    so on, whose variances add up. For a sum of products, the expectation over the other columns is a product of means.

    **Error.** The functions are exact for the levels. The total variance is estimated at 4,096 random choices of
    levels: shares have a relative standard error of about 2 %.

    **Cost.** For m terms, ``m (q d)^2 / 2`` multiplications with q = 32 levels.

    **Differs from the source in** the levels, which take the place of the distribution of each column.

    References
    ----------
    Sobol (1993), *Sensitivity estimates for nonlinear mathematical models*.

    Examples
    --------
    >>> import numpy as np, phimap as pm
    >>> X = np.random.default_rng(0).standard_normal((500, 3))
    >>> y = 3 * X[:, 0] + X[:, 1] * X[:, 2]
    >>> model = pm.KernelRegressor("gaussian", 256, metric=None, random_state=0).fit(X, y)
    >>> found = pm.explain.effects(model, X)
    >>> int(found.first.argmax()), found.largest(1)[0][:2]
    (0, ('column 1', 'column 2'))
    """
    subject = subject_of(model, X)
    require_forms(subject)
    streams = named_streams(random_state, "levels", "choices")
    if X is None:
        levels = _default_levels(model)
    else:
        rows = subject.rows_of(X)
        levels = subject.scale(rows[streams["levels"].permutation(len(rows))[:_LEVELS]])
    p = len(subject.players)
    chosen = streams["choices"].integers(len(levels), size=(_CHOICES, p))
    found = reduce(add, (form.effects(levels, subject.players, chosen) for form in subject.forms))
    variance = found.sampled.var(axis=0, ddof=1)
    total = variance.sum() or 1.0
    first = np.square(found.first).mean(axis=1).sum(axis=1) / total
    second = np.square(found.second).mean(axis=(2, 3)).sum(axis=2) / total
    rest = max(0.0, float(1.0 - first.sum() - second.sum()))
    return Effects(first, second + second.T, rest, variance, subject.names)


def _default_levels(model: Any) -> np.ndarray:
    """Return levels (q, w) of scaled rows from what a model knows of its training rows."""
    if not isinstance(model, KernelModel) or model._fitted.map.range is None or model._fitted.map.range.low is None:
        raise ValueError("`X` must be given for this model, which holds no ranges of its columns. Pass rows.")
    fitted = model._fitted
    columns, scaling = fitted.map.range, fitted.map.scaling
    shares = (np.arange(_LEVELS) + 0.5) / _LEVELS
    low, high = (scale_of(scaling)(end[None].astype(np.float64)) for end in (columns.low, columns.high))  # pyright: ignore
    even = low + shares[:, None] * (high - low)
    if fitted.inputs.encoder is not None or not scaling.shift.any():
        return even
    metric = fitted.map.metric if scaling.root is None else np.ones(scaling.shift.size)
    return np.clip(norm.ppf(shares)[:, None] * np.sqrt(metric), low, high)
