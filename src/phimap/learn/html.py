"""The table that notebooks show for a fitted learner, below scikit-learn's diagram of its parameters."""

from __future__ import annotations

from html import escape

import numpy as np

from phimap.learn.fitted import Fitted

# Largest number of columns listed, the most relevant first.
_LEADING = 5


def fitted_html(fitted: Fitted | None) -> str:
    """Return a small table of the fitted kernel, regularisation and most relevant columns; nothing is fitted for it."""
    if fitted is None:
        return ""
    facts = [("kernel", repr(fitted.map.kernel)), ("features", f"{fitted.map.width:,}")]
    if fitted.solution is not None:
        facts.append(("alpha", f"{fitted.solution.alpha:.3g} ({fitted.solution.criterion})"))
    if leading := _leading_columns(fitted):
        facts.append(("relevances", leading))
    rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in facts)
    return f'<table class="phimap-fitted"><caption>Fitted</caption><tbody>{rows}</tbody></table>'


def _leading_columns(fitted: Fitted) -> str:
    """Return the columns with the largest shares in the metric, as text; empty if no metric was learned."""
    metric, names = fitted.map.metric, fitted.inputs.names
    if metric.ndim == 1 and (metric == metric[0]).all():
        return ""
    shares = fitted.relevances
    named = [f"column {place}" for place in range(shares.size)] if names is None else names
    places = np.argsort(-shares, kind="stable")[:_LEADING]
    more = f", {shares.size - len(places)} more" if shares.size > len(places) else ""
    return ", ".join(f"{named[place]} {100 * shares[place]:.3g} %" for place in places) + more
