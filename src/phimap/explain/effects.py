"""First and second order effects of a fitted model: shares of the variance of its outputs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from scipy.stats import norm

from phimap._random import named_streams
from phimap.config import memory_budget, size_text
from phimap.explain.background import check_levels
from phimap.explain.explanation import largest_pairs
from phimap.explain.forms.base import FormEffects
from phimap.explain.sampled_effects import sampled_shares
from phimap.explain.sampling import Function, owners_of
from phimap.explain.subject import Subject, scale_of, subject_of
from phimap.learn.base import KernelModel

# Number of levels of each column, and number of random choices of levels from which the variance is estimated.
_LEVELS, _CHOICES = 32, 4096
# For parts of a model without an exact form: number of random choices of levels, and number of batches in which these
# choices are evaluated.
_SAMPLED, _PARTS = 16_384, 16
# Number of bisections that find a level. After so many, the level is exact to rounding.
_HALVINGS = 60


@dataclass(frozen=True)
class Effects:
    """Shares of the variance of a model's outputs that single columns and pairs of columns explain.

    Attributes
    ----------
    first : ndarray of shape (d,)
        Share of each column alone.
    second : ndarray of shape (d, d)
        Share of each pair beyond the shares of both columns; symmetric, with a zero diagonal. Sampled shares near 0 may
        be negative.
    rest : float
        Share of the effects of three and more columns, 1 minus the other shares; 0 if these add up to more than 1.
    variance : ndarray of shape (t,)
        Variance of each output. Shares are means over the outputs, weighted by their variances.
    feature_names : list of str
    exact : bool
        Whether the effects are exact up to rounding; False if some were estimated by sampling.
    first_errors, second_errors : ndarray of the shape of `first` and of `second`, or None
        Standard errors of sampled shares; None if the effects are exact.
    """

    first: np.ndarray
    second: np.ndarray
    rest: float
    variance: np.ndarray
    feature_names: list[str]
    exact: bool = True
    first_errors: np.ndarray | None = None
    second_errors: np.ndarray | None = None

    def largest(self, count: int = 5) -> list[tuple[str, str, float]]:
        """Return the pairs of columns with the largest shares: two names and the share of each pair."""
        return largest_pairs(self.second, self.feature_names, count)


def effects(model: Any, X: Any = None, *, random_state: Any = 0) -> Effects:
    r"""Decompose the variance of a model's outputs into effects of columns and of pairs (functional ANOVA).

    Parameters
    ----------
    model : estimator
        Fitted learner of phimap, or any fitted estimator with `predict`.
    X : array-like or data frame, optional
        Rows whose columns give the levels: each column takes the values of 32 random rows, independently of other
        columns. By default, columns are normal with the mean and the variance of the training rows, within the range of
        the training rows; columns that are not standardised are uniform in that range. Rows are required for models
        that are not sums of exact forms (see `shapley_values`), and advisable for tables with categories.
    random_state : int, Generator, RandomState or SeedSequence, default=0
        Seed of the rows and of the estimate of the variance.

    Returns
    -------
    Effects

    Raises
    ------
    ValueError
        If `X` is needed and not given or is one row, or if the effects of all pairs exceed the byte budget.

    Warns
    -----
    FewRowsWarning
        If `X` has fewer than 30 rows.

    Notes
    -----
    With independent columns the output is a sum of a constant, functions of one column, functions of two columns, and
    so on. The variances of these functions add up. For a product, the expectation over the other columns is a product
    of means. Parts of a model without an exact form are evaluated at random choices of levels: the variance of the
    function of a column is the covariance of the outputs at two choices that agree in that column alone.

    **Error.** Exact forms: the functions are exact for the levels. The total variance is estimated at 4,096 random
    choices of levels: shares have a relative standard error of about 2 %. Other parts: unbiased variances from 16,384
    choices, with standard errors.

    **Cost.** For m terms, ``m (q d)^2 / 2`` multiplications with q = 32 levels, for each output. Other parts: 16,384
    outputs, and ``8,192 d^2`` additions for each output.

    **Differs from the source in** the levels, which replace the distribution of each column.

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
    streams = named_streams(random_state, "levels", "choices")
    rest = subject.rest if subject.forms else subject.outputs
    if X is None:
        if rest is not None:
            raise ValueError("`X` must be given for a model that is not a sum of exact forms, got None. Pass rows.")
        levels = _default_levels(model)
    else:
        rows = subject.rows_of(X)
        check_levels(len(rows))
        levels = rows[streams["levels"].permutation(len(rows))[:_LEVELS]]
    p = len(subject.players)
    _check_size(p, len(levels), 1 if subject.intercept is None else subject.intercept.size)
    chosen = streams["choices"].integers(len(levels), size=(_CHOICES if rest is None else _SAMPLED, p))
    effects_of_forms = [form.effects(levels, subject.players, chosen) for form in subject.forms]
    if rest is None:
        return _exact(subject, reduce(add, effects_of_forms))
    return _sampled(subject, rest, reduce(add, effects_of_forms) if effects_of_forms else None, levels, chosen)


def _exact(subject: Subject, found: FormEffects) -> Effects:
    variance = found.sampled.var(axis=0, ddof=1)
    total = variance.sum() or 1.0
    first = np.square(found.first).mean(axis=1).sum(axis=1) / total
    second = np.square(found.second).mean(axis=(2, 3)).sum(axis=2) / total
    return _effects(subject, first, second, variance)


def _sampled(
    subject: Subject, rest: Function, forms: FormEffects | None, levels: np.ndarray, chosen: np.ndarray
) -> Effects:
    """Effects of the sum of the forms and of `rest`, a function without a form."""
    owners = owners_of(subject.players, levels.shape[1])
    values = [rest(levels[part[:, owners], np.arange(owners.size)]) for part in np.split(chosen, _PARTS)]
    # The subtracted mean over the levels does not depend on the choices, so the estimates of variances stay unbiased.
    values = np.concatenate(values) - rest(levels).mean(axis=0)
    found = sampled_shares(forms, chosen, values, len(levels))
    variance = (values if forms is None else forms.sampled + values).var(axis=0, ddof=1)
    errors = found.second_errors + found.second_errors.T
    return replace(
        _effects(subject, found.first, found.second, variance),
        exact=False,
        first_errors=found.first_errors,
        second_errors=errors,
    )


def _effects(subject: Subject, first: np.ndarray, second: np.ndarray, variance: np.ndarray) -> Effects:
    others = max(0.0, float(1.0 - first.sum() - second.sum()))
    return Effects(first, second + second.T, others, variance, subject.names)


def _check_size(n_players: int, n_levels: int, n_outputs: int) -> None:
    n_bytes = 8 * (n_players * n_levels) ** 2 * n_outputs
    if n_bytes > memory_budget():
        raise ValueError(
            f"`model` must have few enough columns for the effects of all pairs, got {n_players} columns, which take "
            f"{size_text(n_bytes)}, over the budget of {size_text(memory_budget())}. Raise pm.config(memory=...), or "
            "use interactions."
        )


def _default_levels(model: Any) -> np.ndarray:
    """Return levels (q, w) of rows of numbers, from the scaling and the column ranges that a model stores."""
    if not isinstance(model, KernelModel) or model._fitted.map.range is None or model._fitted.map.range.low is None:
        raise ValueError("`X` must be given for this model, which holds no ranges of its columns. Pass rows.")
    fitted = model._fitted
    columns, scaling = fitted.map.range, fitted.map.scaling
    scale, shares = scale_of(scaling), (np.arange(_LEVELS) + 0.5) / _LEVELS
    ends = np.stack([columns.low, columns.high]).astype(np.float64)  # pyright: ignore
    low, high = scale(ends)
    wanted = low + shares[:, None] * (high - low)
    if fitted.inputs.encoder is None and scaling.shift.any():
        metric = fitted.map.metric if scaling.root is None else np.ones(scaling.shift.size)
        wanted = np.clip(norm.ppf(shares)[:, None] * np.sqrt(metric), low, high)
    # The scaling is non-decreasing in every column, so bisection inverts it.
    below, above = (np.repeat(end[None], _LEVELS, axis=0) for end in ends)
    for _ in range(_HALVINGS):
        middle = below + (above - below) / 2
        is_below = scale(middle) < wanted
        below, above = np.where(is_below, middle, below), np.where(is_below, above, middle)
    return above
