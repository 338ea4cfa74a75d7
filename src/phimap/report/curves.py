"""Held-out error against regularisation and against number of features, at little extra cost."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from phimap.learn.blocks.blocks import FeatureRows, feature_block
from phimap.learn.ridge.cholesky import NotPositiveDefiniteError
from phimap.learn.rows.validation import n_held_out
from phimap.ops import ops_for

# Maximum number of halvings of the width. Each halving divides the cost of a solution by eight, so all narrower models
# together cost 1/7 of the full model.
_HALVINGS = 7
_LEAST_WIDTH = 16
# Models with other regularisations have the full width divided by this number. At an eighth of the width, a solution
# costs 1/512 of the full solution.
_PATH_SHARE = 8
_PATH_FACTORS = 10.0 ** np.arange(-3, 4)
# Scoring stops after this number of held-out rows. Errors are then estimated to about one percent.
_ROWS = 20_000


# Widths are compared only on at least this number of validation rows. On fewer rows, the difference of two errors is
# noise.
_LEAST_VALIDATION = 100
# A width is better only if its loss on the same rows is lower by `_STANDARD_ERRORS` standard errors of the mean
# difference, and if its error is lower by about the share `_NOTICEABLE`.
_STANDARD_ERRORS = 2.0
_NOTICEABLE = 0.02


@dataclass(frozen=True)
class Curve:
    """Held-out errors `y` (k,) at values `x` (k,) of the number of features or of the regularisation."""

    x: np.ndarray
    y: np.ndarray


@dataclass(frozen=True)
class WidthAdvice:
    """A comparison of the model's width with smaller widths on validation rows. Test rows are not used.

    Attributes
    ----------
    n_rows : int
        Number of validation rows.
    width : int
        Width of the model.
    fewer : int or None
        A smaller width with a lower error, beyond noise.
    falls : bool
        Whether the error at the model's width is lower than the error at half the width, beyond noise.
    """

    n_rows: int
    width: int
    fewer: int | None
    falls: bool


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
    advice : WidthAdvice or None
        Comparison of widths on the validation rows; None in dual form, and with fewer than 100 validation rows.
    """

    width: Curve | None
    path: Curve | None
    path_width: int
    advice: WidthAdvice | None = None


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

    Advice on the width comes from the validation rows of the fit. Each width is solved again without these rows, and
    scored on them. Test rows do not take part: if they chose a width, they would no longer test it.

    **Cost.** About one and a half times the cost of the model's own solution, which the advice repeats without the
    validation rows, plus the cost of forming the features of about 20,000 rows.
    """
    m = model.feature_map_.record_.n_components
    widths = [m >> k for k in range(1, _HALVINGS + 1) if m >> k >= _LEAST_WIDTH and not (m >> k) % 2]
    narrow = [w for w in widths if model.feature_map_.record_.truncated(w) is not None]
    if not hasattr(model, "solver_"):
        # Models without `solver_` were solved in passes over the rows, so they have no sums for narrower models.
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
    return Curves(width, _curve(alphas, errors[n_widths:]), path_width, _advice(model, narrow))


def _advice(model: Any, narrow: list[int]) -> WidthAdvice | None:
    """Compare the model with narrower models on validation rows; `narrow` lists their widths, the largest first."""
    sample, n_rows = model._state.sample, n_held_out(model._state.sums.n_rows)
    if model.solver_.statistics is None or n_rows < _LEAST_VALIDATION:
        return None
    targets = model._fitted.targets
    X, y, weights = sample.rows(sample.order(by_class=targets.has_labels)[:n_rows])
    Z, Y = feature_block(_features(model, X)), targets.encode(y)
    m = model.feature_map_.record_.n_components
    losses = []
    for width in (m, *narrow):
        columns, factor = (np.arange(m), 1.0) if width == m else model.feature_map_.record_.truncated(width)
        solver = model.solver_ if width == m else model.solver_.subset(columns, model.n_jobs)
        block = Z if width == m else Z.columns(columns)
        rows = FeatureRows(block, Y, targets.weights(y, weights))
        solution = solver.without(rows, model.alpha_ / factor**2, model.n_jobs)
        if solution is None:
            return None
        scores = block.features @ solution.coef.astype(block.dtype) + solution.intercept
        losses.append(
            (targets.decode(scores) != y).astype(np.float64)
            if targets.has_labels
            else np.square(scores - Y).sum(axis=1)
        )
    full, half, best = losses[0], losses[1], min(range(len(losses)), key=lambda k: losses[k].mean())
    return WidthAdvice(n_rows, m, [m, *narrow][best] if _is_lower(losses[best], full) else None, _is_lower(full, half))


def _is_lower(losses: np.ndarray, others: np.ndarray) -> bool:
    """Whether losses (r,) are lower than other losses of the same rows, beyond noise and by a noticeable share."""
    gains = others - losses
    noise = _STANDARD_ERRORS * gains.std(ddof=1) / np.sqrt(gains.size)
    # In regression, the error is a root of the loss. So a share of the error is about twice that share of the loss.
    return bool(gains.mean() > max(noise, 2 * _NOTICEABLE * others.mean()))


def _features(model: Any, X: Any) -> np.ndarray:
    """Return the features (r, m) of rows (r, d), or of images as bytes, as they were read."""
    rows = X if X.ndim == 2 else X.reshape(len(X), -1).astype(np.float32)
    ops = ops_for(rows)
    return model.feature_map_.transform(model.scaling_.bind(ops).apply(ops, rows))


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
    # The features of the narrower map are `factor` times these columns. Ridge regression on the columns therefore has
    # the alpha of the map divided by factor^2.
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
        Z = _features(model, X)
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
