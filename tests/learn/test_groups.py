"""Groups and moments in time: every choice of a fit holds their rows out together."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import RidgeCV

import phimap as pm
from phimap.learn.average import _standard_error
from phimap.learn.blocks.blocks import feature_block
from phimap.learn.losses.preparation import FOLDS, LossSample
from phimap.learn.ridge.solve import solve_ridge_dual
from phimap.learn.rows.grouped import GroupedRowsWarning, shared_columns
from phimap.learn.rows.samples import Reservoir
from phimap.learn.rows.units import RowUnits, units_of
from phimap.learn.rows.validation import HeldOutKeys
from phimap.learn.search.sample import SearchSample
from tests.support.learners import GAUSSIAN

QUICK = {"n_components": 128, "effort": "fast", "random_state": 0}


def grouped(rng, n_groups=150, n_each=8):
    """Rows (n, 8) in groups with an offset each; six columns are constant within a group."""
    groups = np.repeat(np.arange(n_groups), n_each)
    X = np.hstack([rng.standard_normal((n_groups, 6))[groups], rng.standard_normal((groups.size, 2))])
    y = X @ np.linspace(-0.3, 0.3, 8) + rng.standard_normal(n_groups)[groups] + 0.3 * rng.standard_normal(groups.size)
    order = rng.permutation(groups.size)
    return X[order], y[order], groups[order]


def units(rng, n=5000, n_units=300, *, in_time=False):
    groups = rng.integers(0, n_units, n)
    return RowUnits.of_times(groups) if in_time else RowUnits.of_groups(groups, 0)


@pytest.mark.usefixtures("brief_search")
@pytest.mark.filterwarnings("ignore:rows look grouped")
def test_the_error_of_the_fit_is_that_of_new_groups(rng):
    X, y, groups = grouped(rng, 400)
    new = groups >= 200
    found = {}
    for name, given in (("groups", groups[~new]), ("rows", None)):
        model = pm.KernelRegressor("gaussian", effort="fast", random_state=0).fit(X[~new], y[~new], groups=given)
        error = np.sqrt(np.mean((model.predict(X[new]) - y[new]) ** 2))
        found[name] = error, np.sqrt(model.solution_.scores.min())
    assert found["groups"][1] == pytest.approx(found["groups"][0], rel=0.2)
    assert found["groups"][0] < 1.02 * y[new].std()
    # Mutant: rows held out one by one are predicted from their own groups.
    assert found["rows"][1] < 0.6 * found["rows"][0]


def test_rows_that_look_grouped_are_noted(rng):
    X, y, _ = grouped(rng)
    with pytest.warns(GroupedRowsWarning, match="150 groups .* Give fit `groups`; else"):
        pm.KernelRegressor(n_components=32, random_state=0, **GAUSSIAN).fit(X, y)
    sample = Reservoir(0)
    sample.update(X, y)
    assert shared_columns(sample, np.arange(sample.X.shape[1]))[0] == [0, 1, 2, 3, 4, 5]
    for others in (
        X[:, 6:],  # no column is shared
        np.repeat(X[:300, 6:], 4, axis=0),  # rows are repeated as a whole
        np.hstack([X[:, :1], 2 * X[:, :1], -X[:, :1], X[:, 6:]]),  # one column in several units
    ):
        sample = Reservoir(0)
        sample.update(others, np.zeros(len(others)))
        assert shared_columns(sample, np.arange(sample.X.shape[1])) is None


def test_texts_that_repeat_are_no_groups(rng):
    """The directions of one text column agree wherever the text is the same."""
    text = np.array(["a red house", "a blue house", "two rooms", "by the lake", "old and cheap"] * 8)
    texts = rng.permutation(np.repeat([f"{one} {i}" for i, one in enumerate(text)], 12))
    frame = pd.DataFrame({"text": texts, "a": rng.standard_normal(len(texts)), "b": rng.standard_normal(len(texts))})
    with warnings.catch_warnings():
        warnings.simplefilter("error", GroupedRowsWarning)
        pm.KernelRegressor(n_components=32, random_state=0, **GAUSSIAN).fit(frame, rng.standard_normal(len(texts)))


@pytest.mark.parametrize("in_time", [False, True])
def test_keys_sort_rows_by_unit_and_name_it(rng, in_time):
    found = units(rng, in_time=in_time)
    keys = np.concatenate([found.keys(0, 1700, 3), found.keys(1700, 3300, 3)])
    np.testing.assert_array_equal(found.places_of(keys), found.places)
    np.testing.assert_array_equal(found.places[np.argsort(keys)], np.sort(found.places))
    uniforms = found.uniforms_of(keys)
    assert 0 <= uniforms.min() < uniforms.max() <= 1
    assert abs(np.corrcoef(uniforms, found.places)[0, 1]) < 0.06


def test_units_of_many_rows_are_held_out_last():
    groups = np.repeat(np.arange(12), [2000, 10, 10, 600, *[20] * 8])
    found = RowUnits.of_groups(groups, 0)
    assert sorted(found.sizes[-2:]) == [600, 2000]
    assert found.sizes.sum() == groups.size


@pytest.mark.parametrize("in_time", [False, True])
def test_held_out_keys_are_whole_units_that_do_not_meet(rng, in_time):
    found = units(rng, in_time=in_time)
    sample = Reservoir(3, units=found)
    sample.update(np.zeros((5000, 1)), np.zeros(5000))
    keys, every = HeldOutKeys.of_sample(sample, 5000), found.keys(0, 5000, 3)
    parts = [np.flatnonzero(np.isin(every, part)) for part in keys]
    places = [np.unique(found.places[part]) for part in parts]
    for part, whole in zip(parts, places, strict=True):
        assert part.size >= 500
        assert part.size == np.isin(found.places, whole).sum()
    assert places[0].max() < places[1].min()
    rest = np.setdiff1d(found.places, np.concatenate(places))
    # In time, place 0 is the latest: validation rows come last, conformal rows before them.
    assert rest.min() > places[1].max()


@pytest.mark.parametrize(("n", "n_units", "n_folds"), [(800, 60, 3), (4000, 60, 3), (4000, 900, 1)])
def test_folds_of_the_search_do_not_divide_groups(rng, n, n_units, n_folds):
    places = rng.integers(0, n_units, n)
    sample = SearchSample(rng.standard_normal((n, 2)), np.zeros((n, 1)), np.ones(n), places=places)
    folds = sample.folds()
    for training, held_out in folds:
        assert not np.intersect1d(places[training], places[held_out]).size
        assert training.size + held_out.size == n
        assert 0.2 * n < held_out.size < 0.45 * n
    assert len(folds) == n_folds
    training, held_out = sample.split(rng.permutation(n)[:500], 250, rng)
    assert not np.intersect1d(places[training], places[held_out]).size


def test_folds_of_the_search_in_time_hold_out_the_latest_rows(rng):
    places = rng.permutation(3000)
    sample = SearchSample(np.zeros((3000, 1)), np.zeros((3000, 1)), np.ones(3000), places=places, in_time=True)
    ((training, held_out),) = sample.folds()
    assert places[held_out].max() < places[training].min()
    training, held_out = sample.first(800).split(np.arange(800), 200, rng)
    assert held_out.size == 200
    assert places[held_out].max() < places[training].min()


@pytest.mark.parametrize("in_time", [False, True])
def test_folds_of_the_losses_do_not_divide_units(rng, in_time):
    found = units(rng, 3000, in_time=in_time)
    sample = LossSample(3000, 2**30, 0, found)
    numbers = np.arange(3000.0)[:, None]
    sample.update(feature_block(numbers), numbers, np.ones(3000))
    assert len(sample.folds) == (1 if in_time else FOLDS)
    for fold in sample.folds:
        parts = [
            np.concatenate([targets[:, 0] for _, targets, _ in sample.rows(fold, held_out=held_out)]).astype(int)
            for held_out in (True, False)
        ]
        held_out, others = (np.unique(found.places[part]) for part in parts)
        if in_time:
            assert held_out.max() <= others.min()
        else:
            assert not np.intersect1d(held_out, others).size


@pytest.mark.parametrize("weighted", [False, True])
def test_the_score_of_the_dual_form_leaves_out_whole_groups(rng, weighted):
    n = 60
    Z, Y, groups = rng.standard_normal((n, 90)), rng.standard_normal((n, 2)), rng.integers(0, 12, n)
    weights = rng.uniform(0.5, 2, n) if weighted else None
    solution = solve_ridge_dual(Z, Y, weights=weights, units=RowUnits.of_groups(groups, 0))
    at = int(np.argmin(solution.scores))
    squares = np.empty(n)
    for group in np.unique(groups):
        out = groups == group
        kept = None if weights is None else weights[~out]
        other = solve_ridge_dual(Z[~out], Y[~out], float(solution.alphas[at]), weights=kept)
        squares[out] = np.square(Y[out] - Z[out] @ other.coef - other.intercept).sum(axis=1)
    assert solution.scores[at] == pytest.approx(np.average(squares, weights=weights), rel=1e-8)


@pytest.mark.parametrize("validation", ["random", "last"])
@pytest.mark.parametrize("settings", [{}, {"solver": "cg"}, {"loss": "huber"}], ids=["cholesky", "cg", "huber"])
def test_a_stream_gives_the_fit_of_the_whole(rng, validation, settings):
    X, y, groups = grouped(rng, 300)
    model = pm.KernelRegressor(n_components=64, random_state=0, validation=validation, **GAUSSIAN, **settings)
    whole = model.fit(X, y, groups=groups)
    expected, bounds = whole.predict(X), whole.predict_interval(X)
    parts = [(X[:1000], y[:1000]), (X[1000:], y[1000:])]
    streamed = model.fit_batches(parts, groups=groups)
    np.testing.assert_allclose(streamed.predict(X), expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(streamed.predict_interval(X), bounds, rtol=1e-5, atol=1e-5)


def test_the_last_rows_are_held_out_of_a_stream_as_of_an_array(rng):
    X = rng.standard_normal((2600, 3))
    y = X[:, 0] + np.linspace(0, 3, 2600) + 0.1 * rng.standard_normal(2600)
    model = pm.KernelRegressor(n_components=64, random_state=0, validation="last", **GAUSSIAN).fit(X, y)
    alpha, told = model.alpha_, np.sqrt(model.solution_.scores.min())
    streamed = model.fit_batches([(X[:1200], y[:1200]), (X[1200:], y[1200:])])
    assert streamed.alpha_ == pytest.approx(alpha, rel=1e-6)
    # The error at the last rows contains the trend, which random rows hide.
    random = pm.KernelRegressor(n_components=64, random_state=0, **GAUSSIAN).fit(X, y)
    assert told > 1.4 * np.sqrt(random.solution_.scores.min())
    # Times in any order give the same rows.
    order = rng.permutation(2600)
    moved = model.fit(X[order], y[order], groups=np.arange(2600)[order])
    assert np.sqrt(moved.solution_.scores.min()) == pytest.approx(told, rel=0.1)


def test_corrections_are_judged_by_other_groups(rng):
    """No metric is learned: corrections of rows one by one then gain far more than they must."""
    groups = np.repeat(np.arange(1100), 8)
    X = np.hstack([rng.uniform(-1, 1, (1100, 2))[groups], 0.01 * rng.standard_normal((groups.size, 1))])
    # The target of a group does not depend on its rows: only rows of the same group predict it.
    y = rng.standard_normal(1100)[groups] + 0.1 * rng.standard_normal(groups.size)
    model = pm.KernelRegressor(n_components=64, effort="fast", metric=None, trees=False, random_state=0)
    assert model.fit(X, y).corrections_ is not None
    assert model.fit(X, y, groups=groups).corrections_ is None


@pytest.mark.usefixtures("brief_search")
def test_trees_are_judged_by_other_groups(rng):
    """Two seeds. Mutant: folds that divide units, so that trees fit the offsets."""
    errors, n_with_trees = [], 0
    for seed in range(2):
        X, y, groups = grouped(np.random.default_rng(seed), 250)
        new = groups >= 150
        model = pm.KernelRegressor(n_components=128, effort="fast", random_state=0)
        model.fit(X[~new], y[~new], groups=groups[~new])
        n_with_trees += model.trees_ is not None
        ridge = RidgeCV(np.logspace(-2, 4, 13)).fit(X[~new], y[~new])
        errors.append([np.mean((one.predict(X[new]) - y[new]) ** 2) for one in (model, ridge)])
    ours, linear = np.sqrt(np.mean(errors, axis=0))
    assert ours < 1.02 * linear
    assert n_with_trees < 2


def test_the_standard_error_of_a_gain_counts_units():
    """Rows that repeat their unit's value have the standard error of the mean over units; so have weighted rows."""
    rng = np.random.default_rng(0)
    values, places = rng.standard_normal(400), np.repeat(np.arange(400), 9)
    of_units = values.std() / np.sqrt(400)
    assert _standard_error(values, np.ones(400), None) == pytest.approx(of_units)
    assert _standard_error(values[places], np.ones(3600), places) == pytest.approx(of_units)
    assert _standard_error(values[places], np.full(3600, 7.0), places) == pytest.approx(of_units)
    assert _standard_error(values[places], np.ones(3600), None) == pytest.approx(of_units / 3)


def test_classes_are_calibrated_on_other_groups(rng):
    X, y, groups = grouped(rng, 200)
    labels = (y > 0).astype(int)
    new = groups >= 150
    for alpha in ("auto", 0.1):
        model = pm.KernelClassifier(n_components=256, alpha=alpha, random_state=0, **GAUSSIAN)
        model.fit(X[~new], labels[~new], groups=groups[~new])
        found = model.predict_proba(X[new])[np.arange(new.sum()), labels[new]]
        assert -np.log(found).mean() < 0.75


def test_rows_of_weight_zero_have_no_group(rng):
    X, y, groups = grouped(rng)
    weights = np.ones(len(y))
    weights[:100] = 0
    model = pm.KernelRegressor(n_components=64, random_state=0, **GAUSSIAN)
    expected = model.fit(X[100:], y[100:], groups=groups[100:]).predict(X)
    np.testing.assert_array_equal(model.fit(X, y, sample_weight=weights, groups=groups).predict(X), expected)
    with pytest.raises(ValueError, match="leave out rows of weight 0"):
        model.fit_batches([(X, y, weights)], groups=groups)


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        (np.zeros(99), ("shape (100,)", "(99,)")),
        (np.zeros(100), ("at least 2 groups", "got 1")),
        ([None, *["a"] * 99], ("missing", "row 0")),
        ([*range(99), np.nan], ("missing", "row 99")),
    ],
)
def test_bad_groups_are_refused(rng, groups, words):
    model = pm.KernelRegressor(n_components=8, random_state=0, **GAUSSIAN)
    with pytest.raises(ValueError, match="`groups`") as error:
        model.fit(rng.standard_normal((100, 2)), np.arange(100.0), groups=groups)
    assert all(word in str(error.value) for word in words)


def test_no_rows_can_be_added_where_rows_are_held_out_by_their_place(rng):
    X, y, groups = grouped(rng)
    model = pm.KernelRegressor(n_components=32, random_state=0, **GAUSSIAN).fit(X, y, groups=groups)
    with pytest.raises(ValueError, match="Call fit with all rows"):
        model.partial_fit(X, y)
    with pytest.raises(ValueError, match="Call fit with all rows"):
        model.merge(model)
    with pytest.raises(ValueError, match="validation='last'"):
        pm.KernelRegressor(n_components=32, validation="last", **GAUSSIAN).partial_fit(X, y)


def test_a_group_too_large_to_hold_out_asks_for_alpha(rng):
    X, groups = rng.standard_normal((9000, 2)), np.repeat(["a", "b"], 4500)
    y = X[:, 0] + 0.1 * rng.standard_normal(9000)
    model = pm.KernelRegressor(n_components=16, random_state=0, **GAUSSIAN)
    with pytest.raises(ValueError, match="at most 3,072 rows"):
        model.fit(X, y, groups=groups)
    assert model.set_params(alpha=1.0).fit(X, y, groups=groups).score(X, y) > 0.8
    with pytest.raises(ValueError, match="with more of them"):
        model.predict_interval(X[:2])


def test_collections_have_no_groups():
    array = pytest.importorskip("dask.array")
    X, y = array.ones((10, 2), chunks=(5, 2)), array.ones(10, chunks=5)
    with pytest.raises(ValueError, match="`groups` needs the rows in one process"):
        pm.KernelRegressor(n_components=4).fit(X, y, groups=np.arange(10))
    with pytest.raises(ValueError, match="`validation`='last' needs the rows in one process"):
        pm.KernelRegressor(n_components=4, validation="last").fit(X, y)


def test_places_of_no_groups():
    assert units_of(None, 10, 0, last=False) is None
    np.testing.assert_array_equal(units_of(None, 4, 0, last=True).places, [3, 2, 1, 0])
