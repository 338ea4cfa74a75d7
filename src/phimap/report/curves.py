"""Held-out error against regularisation and against number of features, at little extra cost."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from phimap.learn.ridge.cholesky import NotPositiveDefiniteError
from phimap.ops import ops_for

# Maximum number of times that the width is halved. Each halving divides the cost of a solution by eight, so all
# narrower models together cost 1/7 of the full model.
_HALVINGS = 7
_LEAST_WIDTH = 16
# Full width over the width of the models with other regularisations. At an eighth of the width, each solution costs
# 1/512 of the full one.
_PATH_SHARE = 8
_PATH_FACTORS = 10.0 ** np.arange(-3, 4)
# Number of held-out rows after which scoring stops. Errors are then estimated to about one percent.
_ROWS = 20_000


@dataclass(frozen=True)
class Curve:
    """Held-out errors `y` (k,) at values `x` (k,) of the number of features or of the regularisation."""

    x: np.ndarray
    y: np.ndarray


@dataclass(frozen=True)
class Curves:
    """Result of `error_curves`.

    Attributes
    ----------
    width : Curve or None
        Error against the number of features, for narrower models and the model itself; None if the map cannot be
        narrowed.
    path : Curve or None
        Error against regularisation, for models with `path_width` features; None if the curve has fewer than two
        points.
    path_width : int
        Number of features of the models in `path`.
    """

    width: Curve | None
    path: Curve | None
    path_width: int


def error_curves(model: Any, held_out: Iterable[tuple[np.ndarray, np.ndarray]]) -> Curves:
    """Score narrower models, and models with other regularisations, in one pass over held-out rows.

    Parameters
    ----------
    model : KernelRegressor or KernelClassifier
        Fitted in this process, so that its sums over the training rows are in memory.
    held_out : iterable of (X, y)
        Batches of held-out rows and targets.

    Returns
    -------
    Curves

    Notes
    -----
    **Error.** A narrower model is the model that the same seed gives with fewer features and the same regularisation of
    the kernel.

    **Cost.** About a third of the cost of the model's own solution, most of which is for the model of half the width,
    plus the cost of forming the features of about 20,000 rows.
    """
    m = model.feature_map_.record_.n_components
    widths = [m >> k for k in range(1, _HALVINGS + 1) if m >> k >= _LEAST_WIDTH and not (m >> k) % 2]
    narrow = [w for w in widths if model.feature_map_.record_.truncated(w) is not None]
    if not hasattr(model, "solver_"):
        # Models without `solver_` were solved in passes over the rows, so there are no sums for narrower models.
        narrow = []
    if not narrow:
        return Curves(None, None, 0)
    path_width = next((w for w in narrow if w <= m // _PATH_SHARE), narrow[-1])
    alphas = _other_alphas(model)
    solutions = [_solution(model, width, model.alpha_) for width in narrow]
    solutions += [_solution(model, path_width, alpha) for alpha in alphas]
    coef = np.concatenate([model.solution_.coef, *(part for part, _ in solutions)], axis=1)
    intercept = np.concatenate([model.solution_.intercept, *(part for _, part in solutions)])
    errors = _held_out_errors(model, held_out, coef, intercept)
    n_widths = len(narrow) + 1
    width = _curve(np.array([m, *narrow]), errors[:n_widths])
    return Curves(width, _curve(alphas, errors[n_widths:]), path_width)


def _other_alphas(model: Any) -> np.ndarray:
    """Return regularisations around the model's own, within the range that was searched."""
    alphas = model.alpha_ * _PATH_FACTORS
    searched = model.solution_.alphas
    return alphas[(alphas >= searched[0]) & (alphas <= searched[-1])] if searched.size > 1 else alphas


def _curve(x: np.ndarray, y: np.ndarray) -> Curve | None:
    """Return the curve through the points with finite errors, sorted by x, or None if there are fewer than two."""
    order = np.argsort(x)
    order = order[np.isfinite(y[order])]
    return Curve(x[order], y[order]) if order.size > 1 else None


def _solution(model: Any, width: int, alpha: float) -> tuple[np.ndarray, np.ndarray]:
    """Return coefficients (m, t) and intercept (t,) of a narrower model; coefficients of omitted features are 0."""
    columns, factor = model.feature_map_.record_.truncated(width)
    t = model.solution_.coef.shape[1]
    coef = np.zeros((model.feature_map_.record_.n_components, t))
    # The features of the narrower map are `factor` times these columns, so ridge on the columns has alpha / factor^2.
    narrow = model.solver_.subset(columns, model.n_jobs)
    try:
        solution = narrow.finish(alpha / factor**2, None, np.random.default_rng(0), model.n_jobs)
        solution = solution if model.target_units_ is None else model.target_units_.restore(solution)
    except NotPositiveDefiniteError:
        # The regularisation is smaller than the rounding errors of the sums. NaN removes this point from the curve.
        return coef, np.full(t, np.nan)
    coef[columns] = solution.coef
    return coef, solution.intercept


def _held_out_errors(
    model: Any, held_out: Iterable[tuple[np.ndarray, np.ndarray]], coef: np.ndarray, intercept: np.ndarray
) -> np.ndarray:
    """Return the errors (k,) of k models with t outputs each, given their concatenated coefficients (m, k t)."""
    n_outputs = model.solution_.coef.shape[1]
    n_models = coef.shape[1] // n_outputs
    wrong = np.zeros(n_models)
    n = 0
    for X, y in held_out:
        # Pixels of images are still bytes, as they were read.
        rows = X if X.ndim == 2 else X.reshape(len(X), -1).astype(np.float32)
        ops = ops_for(rows)
        Z = model.feature_map_.transform(model.scaling_.bind(ops).apply(ops, rows))
        if model.target_units_ is not None:
            Z = Z.astype(np.float64)
        scores = Z @ coef.astype(Z.dtype) + intercept.astype(Z.dtype)
        scores = scores.reshape(len(X), n_models, n_outputs)
        if hasattr(model, "classes_"):
            index = (scores[:, :, 0] > 0).astype(np.intp) if n_outputs == 1 else scores.argmax(axis=2)
            wrong += (model.classes_[index] != y[:, None]).sum(axis=0)
            wrong[np.isnan(scores[0, :, 0])] = np.nan
        else:
            wrong += np.square(scores[:, :, 0] - y[:, None], dtype=np.float64).sum(axis=0)
        n += len(X)
        if n >= _ROWS:
            break
    return wrong / n if hasattr(model, "classes_") else np.sqrt(wrong / n)
