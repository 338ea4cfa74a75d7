"""Descriptions of fitted models in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from phimap._progress import Stage
from phimap.io import Rows
from phimap.io.images import times
from phimap.learn.trees.ensemble import trees_text

#: Largest number of items of a list that are shown.
LISTED = 12
# Largest number of columns that are shown with their relevance.
_LEADING = 5
_SOLVERS = {
    "primal": "Cholesky factorisation",
    "dual": "Cholesky factorisation between the rows",
    "cg": "conjugate gradients",
    "quasi-newton": "quasi-Newton steps",
}


def task_of(model: Any) -> str:
    """The task of a learner, ``"classification"`` or ``"regression"``."""
    from sklearn.base import is_classifier

    return "classification" if is_classifier(model) else "regression"


def length_scale_of(kernel: Any) -> float | None:
    """The length scale of a kernel or of its base kernel; None if there is none."""
    kernel = getattr(kernel, "base", kernel)
    scale = getattr(kernel, "length_scale", None)
    return None if scale is None else float(scale)


def metric_kind(model: Any) -> str:
    """The kind of a learner's metric: ``"none"``, ``"diagonal"`` or ``"full"``."""
    if model.metric_.ndim == 2:
        return "full"
    return "none" if bool((model.metric_ == 1).all()) else "diagonal"


def trees_alone(model: Any) -> bool:
    """Whether the trees of a learner alone predict, so that its kernel model is not used."""
    return model.trees_ is not None and model.trees_.predict_alone


def leading_columns(model: Any, count: int) -> list[tuple[str, float]]:
    """Names and shares of the `count` columns with the largest weights in the metric.

    Empty without a metric. Also empty if the trees alone predict, because the metric does not apply to trees.
    """
    if metric_kind(model) == "none" or trees_alone(model):
        return []
    shares = model.relevances_
    names = getattr(model, "feature_names_in_", [f"column {j}" for j in range(shares.size)])
    return [(str(names[j]), float(shares[j])) for j in np.argsort(-shares, kind="stable")[:count]]


def _n_used(model: Any) -> int:
    """Number of columns of a learner's table that are not left out."""
    columns = None if model.encoder_ is None else model.encoder_.columns_
    return model.n_features_in_ if columns is None else sum(column.encoding is not None for column in columns)


def form_text(scaling: Any) -> str:
    """The form in which amounts enter the kernel, in words: ranks, or squashed tails."""
    return "ranks" if scaling.ranks is not None else "squashed tails"


def loss_of(model: Any) -> str:
    """The loss of a fitted learner. If the parameter is ``"auto"``, the fit has chosen it."""
    return getattr(model, "loss_", None) or model.loss


def loss_text(model: Any) -> str:
    """The loss of a learner and its parameter as text."""
    if model.loss == "auto":
        return f"{loss_of(model)}, chosen automatically"
    if model.loss == "quantile":
        return f"quantile, {', '.join(f'{level:g}' for level in np.ravel(model.quantile))}"
    return f"tweedie, power {model.power:g}" if model.loss == "tweedie" else model.loss


def search_facts(model: Any, stages: Sequence[Stage] = ()) -> list[tuple[str, str]]:
    """Named facts about the search of a learner, such as its metric, leading columns and trials.

    `stages` are the stages of the fit, if known; model files do not hold them.
    """
    facts = [("metric", metric_kind(model))]
    if leading := leading_columns(model, _LEADING):
        shown = [f"{name} {100 * share:.3g} %" for name, share in leading]
        n_more = _n_used(model) - len(leading)
        facts.append(("relevances", ", ".join([*shown, f"{n_more} more"] if n_more > 0 else shown)))
    if model.scaling_.form is not None:
        facts.append(("columns", f"seen as {form_text(model.scaling_)}"))
    if model.corrections_ is not None:
        n_regions, n_models = model.corrections_.n_regions, len(model.corrections_.models)
        text = f"in {n_regions} regions" + (f" of each of {n_models} partitions" if n_models > 1 else "")
        facts.append(("corrections", text))
    if model.trees_ is not None:
        facts.append(("trees", trees_text(model.trees_)))
    elif any(stage.name == "trees" for stage in stages):
        facts.append(("trees", "tried, no gain"))
    facts += [(part, "not tried: time limit") for part in model._fitted.untried]
    log = model.search_
    if log is not None:
        ended = "" if log.is_complete else ", ended by the time limit"
        facts.append(("search", f"{log.errors.size} trials of {some(list(dict.fromkeys(log.kernels)))}{ended}"))
    return facts


def solver_text(solution: Any) -> str:
    """The solver of a solution as text, with its number of passes if it made several, and why it was chosen."""
    text = _SOLVERS.get(solution.form, str(solution.form))
    if solution.n_passes > 1:
        text += f" in {solution.n_passes} passes"
    return text + (f": {solution.choice}" if solution.choice else "")


def inputs_text(table: Rows, left_out: Sequence[str] = ()) -> str:
    """The shape of a row of a table, in words; columns that are `left_out` are named and not counted."""
    if table.is_image:
        return f"images of {times(table.sample_shape)}"
    n_columns = table.n_features - len(left_out)
    without = f", without {some([repr(name) for name in left_out])}" if left_out else ""
    return f"{n_columns:,} column{'s' * (n_columns != 1)}{without}"


def some(items: Sequence[Any]) -> str:
    """The first few of `items` as text."""
    shown = ", ".join(str(item) for item in items[:LISTED])
    return f"{shown}, ..." if len(items) > LISTED else shown
