"""How the held-out error depends on regularisation and on the number of features, for little extra work."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from phimap.learn.ridge.cholesky import NotPositiveDefiniteError
from phimap.ops import ops_for

# Halving the width divides the cost of a solution by eight, so all narrower models together cost 1/7 of the model's.
_HALVINGS = 7
_LEAST_WIDTH = 16
# Other regularisations are tried at an eighth of the width: each costs 1/512 of the model's own solution.
_PATH_SHARE = 8
_PATH_FACTORS = 10.0 ** np.arange(-3, 4)
# Held-out rows used: the error is then known to about a percent of itself.
_ROWS = 20_000


@dataclass(frozen=True)
class Curve:
    """Held-out error `y` (k,) at `x` (k,), the number of features or the regularisation."""

    x: np.ndarray
    y: np.ndarray


@dataclass(frozen=True)
class Curves:
    """What `error_curves` finds.

    Attributes
    ----------
    width : Curve or None
        Error of narrower models and of the model; None where a map has no narrower forms.
    path : Curve or None
        Error against regularisation, of models of `path_width` features.
    path_width : int
    """

    width: Curve | None
    path: Curve | None
    path_width: int


def error_curves(model: Any, held_out: Iterable[tuple[np.ndarray, np.ndarray]]) -> Curves:
    """Score narrower and differently regularised models in one pass over held-out rows.

    Parameters
    ----------
    model : KernelRegressor or KernelClassifier
        Fitted in this process, so that its sums over the training rows are there.
    held_out : iterable of (X, y)

    Returns
    -------
    Curves

    Notes
    -----
    **Error.** The narrower models are those that the same seed gives with fewer features, at the same
    regularisation of the kernel.

    **Cost.** About a third of the model's own solution, most of it for half the width, and the features of at most
    20,000 rows.
    """
    m = model.feature_map_.record_.n_components
    widths = [m >> k for k in range(1, _HALVINGS + 1) if m >> k >= _LEAST_WIDTH and not (m >> k) % 2]
    narrow = [w for w in widths if model.feature_map_.record_.truncated(w) is not None]
    if not hasattr(model, "solver_"):
        # Solved in passes, of which no sums are left.
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
    """Regularisations around the model's, within the range that was searched."""
    alphas = model.alpha_ * _PATH_FACTORS
    searched = model.solution_.alphas
    return alphas[(alphas >= searched[0]) & (alphas <= searched[-1])] if searched.size > 1 else alphas


def _curve(x: np.ndarray, y: np.ndarray) -> Curve | None:
    """The points that there are, in order; None for fewer than two."""
    order = np.argsort(x)
    order = order[np.isfinite(y[order])]
    return Curve(x[order], y[order]) if order.size > 1 else None


def _solution(model: Any, width: int, alpha: float) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients (m, t) and intercept (t,) of the model's narrower form, zero at the features it lacks."""
    columns, factor = model.feature_map_.record_.truncated(width)
    t = model.solution_.coef.shape[1]
    coef = np.zeros((model.feature_map_.record_.n_components, t))
    # The narrower map is `factor` times the columns, so their ridge problem has alpha / factor^2.
    narrow = model.solver_.subset(columns, model.n_jobs)
    try:
        solution = narrow.finish(alpha / factor**2, None, np.random.default_rng(0), model.n_jobs)
        solution = solution if model.target_units_ is None else model.target_units_.restore(solution)
    except NotPositiveDefiniteError:
        # So little regularisation is below the rounding of the sums: the curve has no such point.
        return coef, np.full(t, np.nan)
    coef[columns] = solution.coef
    return coef, solution.intercept


def _held_out_errors(
    model: Any, held_out: Iterable[tuple[np.ndarray, np.ndarray]], coef: np.ndarray, intercept: np.ndarray
) -> np.ndarray:
    """Errors (k,) of k models with t outputs each, whose coefficients (m, k t) stand side by side."""
    n_outputs = model.solution_.coef.shape[1]
    n_models = coef.shape[1] // n_outputs
    wrong = np.zeros(n_models)
    n = 0
    for X, y in held_out:
        ops = ops_for(X)
        Z = model.feature_map_.transform(model.scaling_.bind(ops).apply(ops, X))
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
