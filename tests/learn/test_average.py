"""The average of a kernel model and trees: its share, its errors, where it is learned, and what is told of it."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor

import phimap as pm
from phimap.learn import average
from phimap.learn.calibration import Calibration
from phimap.learn.left_out import MOST_SCALE_ROWS
from phimap.learn.rows.validation import HeldOutKeys
from phimap.learn.solver import HeldOutScores
from phimap.learn.trees.ensemble import trees_text
from phimap.learn.trees.growth import Boosting, TreeRows
from tests.support.learners import brief_searches
from tests.support.memory import traced

FAST = {"effort": "fast", "random_state": 0, "n_components": 128, "metric": None}


def steps(rng, n=1600):
    """Rows whose target jumps, by one column after the other; a smooth kernel errs near every jump."""
    X = rng.uniform(-1, 1, (n, 5))
    y = np.sign(X[:, 0] - 0.3) + np.sign(X[:, 1] + 0.1) * np.sign(X[:, 2]) + 0.1 * rng.standard_normal(n)
    return X, y


@pytest.fixture(scope="module", autouse=True)
def _brief_searches():
    """Trees follow the choice of the kernel, whichever it is: what is tested is what becomes of them."""
    with brief_searches():
        yield


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(5)
    return *steps(rng), *steps(rng, 4000)


@pytest.fixture(scope="module")
def model(data):
    X, y, _, _ = data
    return pm.KernelRegressor(**FAST).fit(X, y)


def kernel_part(model):
    """The model without its trees."""
    found = pm.KernelRegressor(**model.get_params())
    vars(found).update(vars(model), _fitted=replace(model._fitted, trees=None))
    return found


def test_trees_lower_the_error_where_the_target_jumps(model, data):
    _, _, X, y = data
    without, trees = kernel_part(model), model.trees_
    errors = [np.square(one.predict(X) - y).mean() for one in (model, without)]
    assert errors[0] < 0.7 * errors[1]
    assert 0 < trees.share <= 1
    mixed = (1 - trees.share) * without.predict(X) + trees.share * trees.outputs(X, 1)[:, 0]
    np.testing.assert_allclose(model.predict(X), mixed, rtol=1e-10)


def test_final_trees_that_grow_beside_others_are_those_that_grow_later(data):
    """Mutant: all rounds that were grown, not those that were chosen."""
    X, y, _, _ = data
    later, beside = (pm.KernelRegressor(**FAST, n_jobs=n_jobs).fit(X, y).trees_ for n_jobs in (1, 2))
    for name in ("columns", "thresholds", "children", "values", "roots"):
        np.testing.assert_array_equal(getattr(later, name), getattr(beside, name))


def test_trees_are_grown_again_if_many_rows_were_left_out(data, monkeypatch):
    """Up to one row in eight, the trees that were grown without these rows are those of the model."""
    X, y, _, _ = data
    monkeypatch.setattr(average, "FOLDED_ROWS", 0)
    monkeypatch.setattr(average, "_SMALL_ROWS", 0)
    monkeypatch.setattr(average, "MOST_SCALE_ROWS", 10)
    sizes = []

    class Watched(Boosting):
        def grow(self, n_rounds):
            sizes.append(len(self._rows.Y))
            return super().grow(n_rounds)

    monkeypatch.setattr(average, "Boosting", Watched)
    again = pm.KernelRegressor(**FAST).fit(X, y).trees_
    left_out = len(X) - min(sizes)
    assert set(sizes) == {len(X) - left_out, len(X)}
    sizes.clear()
    # At most one row in this number is left out.
    monkeypatch.setattr(average, "FEW_LEFT_OUT", len(X) // left_out)
    kept = pm.KernelRegressor(**FAST).fit(X, y).trees_
    assert set(sizes) == {len(X) - left_out}
    assert (kept.share, kept.roots.size) == (again.share, again.roots.size)
    np.testing.assert_array_equal(kept.errors, again.errors)


def test_folds_of_trees_hold_classes_in_proportion(rng):
    labels = (rng.permutation(200) < 11).astype(np.intp)
    rows = SimpleNamespace(X=np.zeros((200, 1)), labels=labels, has_labels=True)
    folds = average._folds(rows, None)
    counts = np.array([np.bincount(labels[folds == fold], minlength=2) for fold in range(folds.max() + 1)])
    assert (np.ptp(counts, axis=0) <= 1).all()


@pytest.mark.parametrize("left_out", ["folds", "a third", "validation rows"])
def test_rounds_and_share_have_the_least_squared_error(data, monkeypatch, left_out):
    """Of all multiples of ten rounds and all shares, on rows left out of scikit-learn's boosting as well."""
    X, y, _, _ = data
    if left_out != "folds":
        monkeypatch.setattr(average, "FOLDED_ROWS", 0)
        monkeypatch.setattr(average, "MOST_SCALE_ROWS", 10)
    if left_out == "validation rows":
        monkeypatch.setattr(average, "_SMALL_ROWS", 0)
    # Few enough numbers in a column that scikit-learn, too, has a bin for each.
    X = np.round(X, 1)
    model = pm.KernelRegressor(**FAST).fit(X, y)
    state = model._state
    held_out, keys = HeldOutKeys.of_sample(state.sample, len(X)), state.sample.keys_of(0, len(X))
    by_key = np.argsort(keys)
    others = by_key[~np.isin(keys[by_key], held_out.conformal)]
    if left_out == "folds":
        folds = [np.intersect1d(others, by_key[k::3]) for k in range(3)]
    else:
        folds = [np.flatnonzero(np.isin(keys, model.trees_.keys))]
        assert np.isin(folds[0], others).all()
        assert np.isin(held_out.validation, model.trees_.keys).all()
        assert folds[0].size == (len(X) // 3 if left_out == "a third" else held_out.validation.size)
    outputs = []
    for fold in folds:
        trained = np.setdiff1d(others, fold)
        boosting = HistGradientBoostingRegressor(
            learning_rate=0.1,
            max_iter=250,
            max_leaf_nodes=31 if left_out == "validation rows" else 16,
            l2_regularization=0.1,
            early_stopping=False,
        ).fit(X[trained], y[trained])
        outputs.append(np.stack(list(boosting.staged_predict(X[fold]))))
    judging = np.concatenate(folds)
    errors = leave_one_out_errors(model, X[judging], y[judging])
    best = np.inf
    for n_rounds in range(average._STEP, 251, average._STEP):
        towards = y[judging] - np.concatenate([one[n_rounds - 1] for one in outputs]) - errors
        share = np.clip(-(errors @ towards) / (towards @ towards), 0, 1)
        loss = np.square(errors + share * towards).sum()
        if loss < best:
            best, expected = loss, (n_rounds, share)
    assert model.trees_.roots.size == expected[0]
    assert model.trees_.share == pytest.approx(expected[1], rel=1e-3)
    assert np.square(model.trees_.errors).sum() == pytest.approx(best, rel=1e-3)


@pytest.mark.parametrize(
    ("n_rows", "units", "expected"),
    [
        (3900, None, 3900),
        (4200, None, 1400),
        (7900, None, 1600),
        (9000, None, 900),
        (7900, SimpleNamespace(in_time=False), 4096),
        (7900, SimpleNamespace(in_time=True), 790),
        (9000, SimpleNamespace(in_time=False), 900),
    ],
)
def test_rows_left_out_for_trees_follow_the_number_of_rows(n_rows, units, expected):
    """The sample holds 4,096 rows, and a tenth of the rows validate."""
    sample, tenth = SimpleNamespace(keys=np.zeros(min(n_rows, 4096))), np.zeros(n_rows // 10)
    validation = SimpleNamespace(n_rows=n_rows, units=units, sample=sample, skipped_keys=tenth)
    assert average.n_judging(validation) == max(expected, MOST_SCALE_ROWS)


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_parts_are_whole_steps(n_outputs):
    n_part, most, _ = average._rounds_of(n_outputs)
    assert n_part % average._STEP == most % n_part == 0
    assert average.most_rounds(n_outputs) == most


def test_share_of_labels_has_the_least_log_loss(rng):
    """Of all multiples of a twentieth. Mutants: a search in one direction alone, or that stops after one step."""
    targets = np.where(rng.random((800, 1)) < 0.4, 1.0, -1.0)
    kernel, trees = (targets * 0.5 + rng.standard_normal((800, 1)) for _ in range(2))
    some = HeldOutScores(kernel, targets, None)

    def log_loss(share):
        return Calibration.of(replace(some, predictions=kernel + share * (trees - kernel))).log_loss

    expected = min(np.arange(21) / 20, key=log_loss)
    assert 0.2 < expected < 0.8
    for first in (0.0, 0.33, 1.0):
        assert average._share_of_least_error(some, kernel - trees, first, None) == pytest.approx(expected)


def leave_one_out_errors(model, X, y):
    """Errors of the kernel model at training rows, each predicted by a fit without it, from the hat matrix."""
    state, solution = model._state, model.solution_
    leverages = state.sums.leverages(solution.alpha, 1)
    Z = model.feature_map_.transform(model.scaling_.bind(pm.ops.host()).apply(pm.ops.host(), X)) - leverages.mean
    free = 1 - leverages.quadratic_forms(Z) - 1 / leverages.weight
    return (y - kernel_part(model).predict(X)) / free


def test_no_trees_where_the_kernel_serves(rng):
    X = rng.uniform(-1, 1, (1500, 3))
    y = np.sin(2 * X[:, 0]) * X[:, 1] + np.cos(X[:, 2])
    model = pm.KernelRegressor(**FAST).fit(X, y)
    assert model.trees_ is None
    assert pm.KernelRegressor(**FAST, trees=None).fit(X, y).predict(X).tolist() == model.predict(X).tolist()


@pytest.mark.filterwarnings("ignore::phimap.learn.monotone.MonotonicityWarning")
@pytest.mark.parametrize(
    ("n", "options"),
    [
        (299, {}),
        (1600, {"trees": None}),
        (1600, {"kernel": "gaussian"}),
        (1600, {"loss": "huber"}),
        (1600, {"monotonic_cst": [1, 0, 0, 0, 0]}),
        (1600, {"memory": "600KB"}),
        (1600, {"time_limit": 1e-9}),
    ],
    ids=lambda value: str(value),
)
def test_where_no_trees_are_tried(data, monkeypatch, n, options):
    X, y, _, _ = data
    monkeypatch.setattr(average, "Boosting", None)
    # The constraints need not hold.
    monkeypatch.setattr("phimap.learn.monotone._ROUNDS", 1)
    if options.get("memory"):
        # A budget for which the rows are too many for trees, and enough for the rest of the fit.
        monkeypatch.setattr(average, "_SMALL_BYTES", 1e9)
        options = {"memory": "1GB"}
    model = pm.KernelRegressor(**{**FAST, **options}).fit(X[:n], y[:n])
    assert model.trees_ is None
    assert model._fitted.untried == (("trees",) if "time_limit" in options else ())


def test_a_share_of_one_says_that_the_kernel_model_is_not_used(model):
    """Mutant: a share just below 1, which was printed as 100 %."""
    alone = replace(model.trees_, share=1.0)
    assert trees_text(alone).endswith(", which alone predict: the kernel model is not used")
    assert trees_text(replace(alone, share=0.998)).endswith(", with 99 % of the output")
    assert trees_text(replace(alone, share=0.4)).endswith(", with 40 % of the output")


def test_bad_parameter():
    with pytest.raises(ValueError, match="`trees` must be"):
        pm.KernelRegressor(trees="many").fit(np.eye(4), np.arange(4.0))


def test_intervals_cover_and_deviations_match(model, data):
    _, _, X, y = data
    bounds = model.predict_interval(X, coverage=0.9)
    covered = ((bounds[:, 0] <= y) & (y <= bounds[:, 1])).mean()
    # 160 conformal rows: the coverage has a standard deviation of .024, and the 4,000 rows add .005.
    assert abs(covered - 0.9) < 5 * 0.025
    _, deviation = model.predict(X, return_std=True)
    # The noise is estimated from the errors of the average, which are far smaller than those of the kernel model.
    known, without = model.trees_.errors, leave_one_out_errors(model, X, y)
    assert 0.8 < np.square(deviation).mean() / np.square(known).mean() < 1.25
    assert np.square(deviation).mean() < 0.5 * np.square(without).mean()


def test_few_rows_serve_the_choice_and_the_intervals(data):
    """Mutant: errors of trees at rows on which they were grown, whose intervals are too short."""
    X, y, test, expected = data
    model = pm.KernelRegressor(**FAST).fit(X[:800], y[:800])
    assert model.trees_ is not None
    assert model.trees_.keys.size == 800
    bounds = model.predict_interval(test, coverage=0.9)
    covered = ((bounds[:, 0] <= expected) & (expected <= bounds[:, 1])).mean()
    # The coverage has a standard deviation of .011 with 800 rows, and the 4,000 rows add .005. The intervals are rather
    # long: the trees of a fold are grown on two thirds of the rows, and those of the model on all rows.
    assert 0.9 - 5 * 0.012 < covered < 0.985


def test_diverging_trees_are_not_used(data, monkeypatch):
    class Diverging(Boosting):
        def grow(self, n_rounds):
            trees = super().grow(n_rounds)
            return replace(trees, values=1e6 * trees.values) if len(self._rows.Y) == 1600 else trees

    X, y, test, expected = data
    monkeypatch.setattr(average, "Boosting", Diverging)
    model = pm.KernelRegressor(**FAST).fit(X, y)
    assert model.trees_ is not None
    assert np.abs(model.predict(test) - expected).max() < 4


@pytest.mark.parametrize("n_classes", [2, 3])
def test_classifiers(data, n_classes):
    X, y, test, expected = data
    cuts = np.quantile(y, np.arange(1, n_classes) / n_classes)
    labels, others = (np.array(["a", "b", "c"])[np.digitize(one, cuts)] for one in (y, expected))
    model = pm.KernelClassifier(**FAST).fit(X, labels)
    without = pm.KernelClassifier(**FAST, trees=None).fit(X, labels)
    assert model.trees_ is not None
    assert model.loss_ == "squared"
    assert model.score(test, others) > without.score(test, others)
    losses = []
    for one in (model, without):
        shares = one.predict_proba(test)
        np.testing.assert_allclose(shares.sum(axis=1), 1)
        losses.append(-np.log(shares[np.arange(len(test)), np.searchsorted(one.classes_, others)]).mean())
    assert losses[0] < losses[1]
    sets = model.predict_set(test, coverage=0.9)
    assert sets[np.arange(len(test)), np.searchsorted(model.classes_, others)].mean() > 0.9 - 5 * 0.025


def test_targets_far_from_zero(model, data):
    X, y, test, _ = data
    moved = pm.KernelRegressor(**FAST).fit(X, 1e30 * (y + 1e6))
    assert moved.target_units_ is not None
    assert moved.trees_ is not None
    np.testing.assert_allclose(moved.predict(test) / 1e30 - 1e6, model.predict(test), atol=1e-3)


def test_files_rows_added_and_description(model, data, tmp_path):
    X, y, test, _ = data
    for statistics in (False, True):
        pm.save(model, tmp_path / "m.phimap", statistics=statistics)
        loaded = pm.load(tmp_path / "m.phimap")
        np.testing.assert_allclose(loaded.predict(test), model.predict(test), rtol=1e-6)
    assert loaded.trees_.errors.size
    loaded.partial_fit(X[:50], y[:50])
    assert loaded.trees_ is None
    assert "trees" in model._repr_html_()


@pytest.mark.parametrize("t", [1, 12])
@pytest.mark.parametrize("n", [3000, 12_000])
def test_growth_takes_no_more_memory_than_counted(rng, n, t):
    """Mutants: entries of 8 bytes; a further copy of the derivatives."""
    X, Y = rng.standard_normal((n, 40)), np.eye(t)[rng.integers(t, size=n)]
    # A first growth loads the compiled loop, whose own memory does not count.
    Boosting(TreeRows.of(X[:100], Y[:100], None, has_labels=t > 1), rate=0.1, rng=rng).grow(1)

    def grow() -> None:
        every = TreeRows.of(X, Y, None, has_labels=t > 1)
        parts = [every.rows(np.flatnonzero(np.arange(n) % 3 != fold)) for fold in range(3)] if n < 8000 else [every]
        grown = [Boosting(rows, rate=0.1, rng=rng) for rows in (*parts, every)]
        for boosting in grown:
            boosting.grow(1)

    of_rows = average.trees_memory(n, 40, t) - average.trees_memory(0, 40, t)
    # One tree grows at a time, with three sums for each of 255 bins of a column in each leaf.
    assert X.nbytes + Y.nbytes + traced(grow).peak <= of_rows + 24 * 31 * 255 * 40
