"""The rows with which explained rows are compared: who draws them, and when there are too few to draw from."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

import phimap as pm
from phimap.explain.background import LEAST_ROWS, FewRowsWarning, background_of, drawn_places
from tests.explain.models import data, fitted

VALUES = [pm.explain.shapley_values, pm.explain.interactions]


@pytest.fixture(scope="module")
def model():
    return fitted("gaussian phases", *data(3))


@pytest.mark.parametrize("explain", VALUES)
@pytest.mark.parametrize("words", [{}, {"background": 50}])
def test_a_row_is_no_background_of_its_own(model, explain, words):
    """It had values of exactly zero, which were called exact."""
    X, _ = data(3)
    with pytest.raises(ValueError, match=r"`background` must be rows if `X` is one row, got .* Pass training rows"):
        explain(model, X[:1], **words)
    for background in (X, X[5:6]):
        found = explain(model, X[:1], background)
        assert np.abs(found.values).max() > 0.01
    with pytest.raises(TypeError, match="`background` must be an integer"):
        explain(model, X, None)


@pytest.mark.parametrize("explain", VALUES)
def test_few_rows_as_their_own_background_are_told(model, explain):
    X, _ = data(3)
    with pytest.warns(FewRowsWarning, match="the background is the 29 rows of `X` .* as `background`") as told:
        explain(model, X[: LEAST_ROWS - 1])
    assert told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        enough = explain(model, X[:LEAST_ROWS])
        explain(model, X[:LEAST_ROWS], 5)
        given = explain(model, X[:2], X[: LEAST_ROWS - 1])
    assert enough.exact
    assert given.exact


def test_effects_need_levels(model):
    """All shares of one row were zero, and the rest 1."""
    X, _ = data(3)
    with pytest.raises(ValueError, match=r"`X` must have at least 2 rows, .* got 1. Pass training rows"):
        pm.explain.effects(model, X[:1])
    with pytest.warns(FewRowsWarning, match="levels of 29 rows"):
        pm.explain.effects(model, X[: LEAST_ROWS - 1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pm.explain.effects(model, X[:LEAST_ROWS])


@pytest.mark.parametrize("as_frame", [False, True])
def test_the_command_draws_the_rows_that_python_draws(as_frame):
    X, y = data(3)
    X = X.copy()
    X[::10] = 100.0
    rows = pd.DataFrame(X, columns=["a", "b", "c"]) if as_frame else X
    # Every tenth row lies so far outside of the training rows that the model shrinks its output.
    inner = np.arange(len(X)) % 10 > 0
    model = fitted("gaussian phases", rows[inner], y[inner])
    drawn = background_of(model, rows, 20, random_state=3)
    assert len(drawn) == 20
    assert np.abs(np.asarray(drawn)).max() < 100.0
    one, other = (pm.explain.shapley_values(model, rows, background, random_state=3) for background in (20, drawn))
    np.testing.assert_array_equal(one.values, other.values)


def test_far_rows_are_drawn_last():
    def is_far(places):
        return places >= 50

    draw = [drawn_places(5000, count, np.random.default_rng(0), is_far) for count in (20, 50, 70)]
    assert all(len(set(places.tolist())) == count for places, count in zip(draw, (20, 50, 70), strict=True))
    assert [int(is_far(places).sum()) for places in draw] == [0, 0, 20]
    np.testing.assert_array_equal(draw[2][:20], draw[0])
    whole = np.random.default_rng(0).permutation(5000)
    np.testing.assert_array_equal(draw[2], whole[np.argsort(is_far(whole), kind="stable")][:70])
