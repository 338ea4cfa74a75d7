"""Notebooks show the fitted kernel, and text of users as text."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context

import phimap as pm
from phimap.learn.fitted import fitted_html
from tests.support.learners import GAUSSIAN


def shown(model) -> str:
    """What a notebook shows below scikit-learn's diagram; both of its ways show the same."""
    ways = [model._repr_mimebundle_()["text/html"], model._repr_html_()]
    one, other = (html.partition('<table class="phimap-fitted">')[2] for html in ways)
    assert one == other
    assert "phimap-fitted" not in one
    return one


def test_a_model_that_is_not_fitted_shows_its_parameters_alone():
    assert shown(pm.KernelRegressor()) == ""


@pytest.mark.parametrize("learner", [pm.KernelRegressor, pm.KernelClassifier])
def test_the_fitted_kernel_is_shown(rng, learner):
    X = rng.standard_normal((60, 3))
    model = learner(n_components=16, alpha=0.125, random_state=0, **GAUSSIAN).fit(X, X[:, 0] > 0)
    html = shown(model)
    assert f"<td>{model.kernel_!r}</td>" in html
    assert "<td>16</td>" in html
    assert "<td>0.125 (given)</td>" in html
    assert "relevances" not in html
    with config_context(display="text"):
        assert "text/html" not in model._repr_mimebundle_()


def test_leading_columns_are_shown_as_text(rng):
    X = pd.DataFrame(rng.standard_normal((300, 7)), columns=["<b>x</b>", *"abcdef"])
    model = pm.KernelRegressor("gaussian", 32, length_scale="median", metric="diagonal", effort="fast", random_state=0)
    html = shown(model.fit(X, np.sin(2 * X["<b>x</b>"].to_numpy())))
    assert "<td>&lt;b&gt;x&lt;/b&gt; " in html
    assert ", 2 more</td>" in html
    assert "<b>x</b>" not in html


def test_showing_does_not_solve(rng):
    X = rng.standard_normal((60, 3))
    model = pm.KernelRegressor(n_components=16, random_state=0, **GAUSSIAN).partial_fit(X, X[:, 0])
    assert "<th>kernel</th>" in fitted_html(model._fitted)
    assert model._fitted.solution is None
