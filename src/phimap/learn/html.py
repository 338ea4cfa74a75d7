"""What notebooks show of a fitted learner, below scikit-learn's diagram of its parameters."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from phimap.learn.linear import LinearOutputs

# Columns that are named, the most relevant first.
_LEADING = 5


class FittedHTML(LinearOutputs, BaseEstimator):
    """The half of a learner that shows its fitted kernel, regularisation and leading columns."""

    def _repr_html_inner(self) -> str:
        return super()._repr_html_inner() + fitted_html(self)  # pyright: ignore[reportAttributeAccessIssue]

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle = super()._repr_mimebundle_(**kwargs)
        if "text/html" in bundle:
            bundle["text/html"] += fitted_html(self)
        return bundle


def fitted_html(model: LinearOutputs) -> str:
    """A small table of what was fitted; nothing of a model that is not. Nothing is computed for it."""
    if not hasattr(model, "feature_map_"):
        return ""
    facts = [("kernel", repr(model.kernel_)), ("features", f"{model.feature_map_.record_.n_components:,}")]
    solution = vars(model).get("solution_")
    if solution is not None:
        facts.append(("alpha", f"{solution.alpha:.3g} ({solution.criterion})"))
    if leading := _leading_columns(model):
        facts.append(("relevances", leading))
    rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in facts)
    return f'<table class="phimap-fitted"><caption>Fitted</caption><tbody>{rows}</tbody></table>'


def _leading_columns(model: LinearOutputs) -> str:
    """The columns of the largest shares in the metric; nothing where none was learned."""
    metric = model.metric_
    if metric.ndim == 1 and (metric == metric[0]).all():
        return ""
    shares = model.relevances_
    names = getattr(model, "feature_names_in_", [f"column {place}" for place in range(shares.size)])
    places = np.argsort(-shares, kind="stable")[:_LEADING]
    more = f", {shares.size - len(places)} more" if shares.size > len(places) else ""
    return ", ".join(f"{names[place]} {100 * shares[place]:.3g} %" for place in places) + more
