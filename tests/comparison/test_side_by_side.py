"""Comparisons: the same as by hand, the same rows for all, and what is said of the result."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.spatial.distance import pdist
from sklearn.base import BaseEstimator
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

import phimap as pm
from phimap.comparison.methods import METHODS, Method
from phimap.comparison.side_by_side import _folds
from phimap.comparison.size import model_bytes
from phimap.config import thread_count
from phimap.learn.rows.grouped import GroupedRowsWarning
from tests.support.learners import FIXED

pytestmark = pytest.mark.usefixtures("brief_search")


def problem(n_rows: int, labels: bool) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, 3))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * rng.standard_normal(n_rows)
    return X, np.where(y > 0.5, "high", "low") if labels else y


def by_hand(name: str, labels: bool, seed: int):
    """Each method written down without the package's table of methods."""
    if name == "linear":
        return make_pipeline(
            StandardScaler(), LogisticRegression(max_iter=200) if labels else RidgeCV(10.0 ** np.arange(-3, 5))
        )
    if name == "hgb":
        model = HistGradientBoostingClassifier if labels else HistGradientBoostingRegressor
        return model(random_state=seed)
    if name == "neighbours":
        model = KNeighborsClassifier() if labels else KNeighborsRegressor()
        pipeline = Pipeline([("scale", StandardScaler()), ("neighbours", model)])
        return GridSearchCV(pipeline, {"neighbours__n_neighbors": [1, 3, 5, 10, 20, 40]}, cv=3)
    model = pm.KernelClassifier if labels else pm.KernelRegressor
    if name == "phimap":
        return model(n_components=64, random_state=seed)
    return model(name, n_components=64, random_state=seed, **FIXED)


def fitted_by_hand(name: str, labels: bool, seed: int, X: np.ndarray, y: np.ndarray):
    """A fit, for which some methods look at the rows in a random order, or at their distances."""
    order = np.random.default_rng(seed).permutation(len(y))
    if name == "neighbours":
        return by_hand(name, labels, seed).fit(X[order], y[order])
    if name == "nystroem":
        some = StandardScaler().fit_transform(X)[order]
        kernel = pm.kernels.Gaussian(np.median(pdist(some)))
        model = pm.KernelClassifier if labels else pm.KernelRegressor
        landmarks = pm.NystroemFeatures(kernel, 64, random_state=seed)
        return model(landmarks, random_state=seed).fit(X, y)
    return by_hand(name, labels, seed).fit(X, y)


@pytest.mark.parametrize("labels", [False, True], ids=["numbers", "labels"])
def test_the_table_is_that_of_the_same_models_run_by_hand(labels):
    X, y = problem(170, labels)
    names = ["linear", "neighbours", "hgb", "phimap", "gaussian", "ntk", "nystroem"]
    found = pm.compare(X, y, models=names, splits=2, n_components=64, random_state=3)
    assert {one.name for one in found.results} == set(names)
    parts = list((StratifiedKFold if labels else KFold)(5, shuffle=True, random_state=3).split(X, y))[:2]
    for one in found.results:
        for k, (train, test) in enumerate(parts):
            predicted = fitted_by_hand(one.name, labels, 3 + k, X[train], y[train]).predict(X[test])
            error = np.mean(predicted != y[test]) if labels else np.sqrt(np.mean((predicted - y[test]) ** 2))
            assert one.errors[k] == pytest.approx(error, rel=1e-6)
        assert one.error == pytest.approx(np.mean(one.errors))
        assert one.spread == pytest.approx(np.std(one.errors, ddof=1))
    baselines = [
        np.mean(y[test] != "low") if labels else np.sqrt(np.mean((y[test] - y[train].mean()) ** 2))
        for train, test in parts
    ]
    assert found.baseline == pytest.approx(np.mean(baselines))


@pytest.mark.parametrize("labels", [False, True], ids=["numbers", "labels"])
@pytest.mark.parametrize("name", ["ntk", "nystroem", "neighbours"])
def test_every_method_beats_a_constant(name, labels):
    X, y = problem(300, labels)
    found = pm.compare(X, y, models=[name], splits=1, n_components=64)
    assert found.results[0].error < 0.75 * found.baseline
    assert found.results[0].size > 0


class Noted(BaseEstimator):
    """Predicts a constant and notes the rows it sees."""

    seen: list[tuple[bytes, bytes]] = []

    def __init__(self, value: float = 0.0):
        self.value = value

    def fit(self, X, y):
        if len(X) != 300:
            self.seen.append((X.tobytes(), y.tobytes()))
        return self

    def predict(self, X):
        return np.full(len(X), self.value)


def made(value: float) -> Method:
    return Method(lambda task, width, seed: Noted(value), "a constant")


def test_all_methods_see_the_same_rows():
    Noted.seen.clear()
    X, y = problem(100, labels=False)
    known = {"a": made(0.0), "b": made(1.0)}
    found = pm.compare(X, y, splits=2, most_rows=60, known=known)
    assert (found.n_rows, found.n_all) == (60, 100)
    # Two splits, and the fit with one thread.
    assert len(Noted.seen) == 6
    assert Noted.seen[:3] == Noted.seen[3:]
    assert Noted.seen[0] == Noted.seen[2]


def test_classes_are_tested_in_proportion_and_rare_ones_are_named():
    """Nine positives in 300 rows: every fifth of the rows has one or two. Mutant: parts that ignore the classes."""
    X, y = np.arange(300.0)[:, None], np.array(["no"] * 291 + ["yes"] * 9)
    y[0] = "odd"
    codes = np.unique(y, return_inverse=True)[1]

    def positives(folds):
        return [int((y[test] == "yes").sum()) for _, test in folds]

    assert sorted(positives(_folds("classification", codes, None, 5, 0, last=False))) == [1, 2, 2, 2, 2]
    assert 0 in positives(KFold(5, shuffle=True, random_state=0).split(X))
    known = {"line": Method(lambda task, width, seed: LogisticRegression(max_iter=1000), "a line")}
    found = pm.compare(X / 300, y, splits=2, known=known)
    assert found.rare_classes == {"odd": 1}
    assert "The errors say little about classes with few rows: 'odd' (1)." in found.verdict()
    assert pm.compare(X, X[:, 0], splits=1, models=["linear"]).rare_classes == {}


class Threaded(BaseEstimator):
    """Notes how many threads it may use in each fit."""

    limits: list[tuple[int | None, int]] = []

    def __init__(self, n_jobs: int | None = None):
        self.n_jobs = n_jobs

    def fit(self, X, y):
        self.limits.append((self.n_jobs, thread_count()))
        return self

    def predict(self, X):
        return np.zeros(len(X))


def test_processor_seconds_are_those_of_one_thread():
    Threaded.limits.clear()
    X, y = problem(60, labels=False)
    with pm.config(n_jobs=3):
        found = pm.compare(X, y, splits=1, known={"a": Method(lambda task, width, seed: Threaded(), "threads")})
    # A small fit before, the measured fit, and the fit with one thread.
    assert Threaded.limits == [(None, 3), (None, 3), (1, 1)]
    assert found.table()[0][3] == "CPU s"
    assert found.to_dict()["models"][0]["processor_seconds"] >= 0


def test_the_legend_says_what_the_seconds_are():
    """A method whose first of three fits took minutes, for code that was loaded, had few "fit s"."""
    X, y = problem(60, labels=False)
    known = {"a": Method(lambda task, width, seed: Threaded(), "threads")}
    for splits, mean in ((1, "all threads. "), (2, "all threads, means over the splits. ")):
        said = " ".join(pm.compare(X, y, splits=splits, known=known).verdict())
        assert f"fit s and predict s: wall-clock, {mean}The first fit of a method is small" in said


def test_the_better_method_is_named_whoever_it_is():
    X, y = problem(400, labels=False)
    known = {"phimap": made(5.0), "rival": made(0.0), "twin": made(0.001)}
    found = pm.compare(X, y, splits=2, known=known)
    said = found.verdict()
    assert [one.name for one in found.results][-1] == "phimap"
    assert "is better than phimap on these data" in said[0]
    assert found.difference("rival", "phimap").is_noise is False
    assert found.beside_best("phimap").startswith("+")
    assert found.beside_best("phimap").endswith(" %")
    # The percentage stands beside the word, so that a large one within noise does not look like a small one.
    assert found.difference("rival", "twin").is_noise is True
    assert found.beside_best(found.results[1].name).endswith(" %, within noise")
    # Both errors lie near that of the mean, which is told where nothing beats it.
    assert "5 % false alarms" in " ".join(said)
    assert "beyond noise" not in " ".join(said)
    clear = replace(found, differences=tuple(replace(pair, p_value=0.0) for pair in found.differences))
    assert "Its differences from all others are beyond noise." in clear.verdict()
    alone = replace(found, n_splits=1, n_all=10**6)
    assert "One split does not show" in " ".join(alone.verdict())
    assert "400 of 1,000,000 rows, drawn at random, were used." in alone.verdict()


def test_nothing_better_than_the_mean_is_told():
    X, y = problem(100, labels=False)
    found = pm.compare(X, y, splits=1, known={"far": made(9.0)})
    assert "No method errs less than the mean does" in " ".join(found.verdict())


def test_what_fails_or_is_missing_is_left_out_with_a_note(capsys):
    def broken(task, width, seed):
        raise RuntimeError("no luck")

    X, y = problem(60, labels=False)
    known = {"a": made(0.0), "broken": Method(broken, ""), "absent": replace(made(0.0), package="no_such_package")}
    found = pm.compare(X, y, splits=1, known=known)
    assert [one.name for one in found.results] == ["a"]
    assert found.left_out == {
        "broken": "RuntimeError: no luck",
        "absent": "the package no_such_package is not installed",
    }
    assert "Left out: broken (RuntimeError: no luck)." in found.verdict()
    # Nothing was done for a method that cannot be fitted, so no stage of it is shown.
    pm.compare(X, y, splits=1, known=known, verbose=True)
    shown = capsys.readouterr()
    assert "broken: " in shown.out + shown.err
    assert "absent: " not in shown.out + shown.err
    assert "not fitted" not in str(found)


def test_frames_have_names_and_the_result_is_plain_values():
    X, y = problem(60, labels=True)
    found = pm.compare(pd.DataFrame(X, columns=["a", "b", "c"]), pd.Series(y), splits=1, models=["linear"])
    assert found.columns == ["a", "b", "c"]
    assert json.loads(json.dumps(found.to_dict()))["models"][0]["name"] == "linear"
    assert str(found).splitlines()[0].split()[:5] == ["model", "share", "of", "wrong", "labels"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"models": ["forest"]}, r"`models` must be among linear, .*, got 'forest'"),
        ({"models": []}, r"`models` must name at least one"),
        ({"splits": 0}, r"`splits` must be at least 1, got 0"),
        ({"task": "ranking"}, r"`task` must be one of"),
        ({"y": np.ones(40)}, r"`y` must not be constant, got 1.0 in all rows"),
        ({"y": np.ones(39)}, r"`y` must have one target for each of the 40 rows, got shape \(39,\)"),
        ({"X": np.ones((5, 2)), "y": np.arange(5.0)}, r"`X` must have at least 20 rows"),
        ({"y": np.array([None, *"abc" * 13], dtype=object)}, r"`y` must have no missing labels, got one in row 0"),
        ({"X": np.full((40, 2), np.nan)}, r"X contains NaN at row 0, column 0"),
    ],
)
def test_bad_input_is_one_line(change, message):
    X, y = problem(40, labels=False)
    with pytest.raises(ValueError, match=message):
        pm.compare(**{"X": X, "y": y, "splits": 1, "models": ["linear"], **change})


def test_sizes_are_of_what_a_model_needs(tmp_path):
    X, y = problem(200, labels=False)
    ours = pm.KernelRegressor("gaussian", n_components=64, random_state=0, **FIXED).fit(X, y)
    pm.save(ours, tmp_path / "m.phimap")
    assert model_bytes(ours) == (tmp_path / "m.phimap").stat().st_size
    neighbours = METHODS["neighbours"].make("regression", None, 0).fit(X, y)
    assert model_bytes(neighbours) >= X.nbytes
    assert model_bytes(METHODS["linear"].make("regression", None, 0).fit(X, y)) < 1000
    small, large = (model_bytes(HistGradientBoostingRegressor(max_iter=n, random_state=0).fit(X, y)) for n in (5, 50))
    assert large > 4 * small


@pytest.mark.parametrize("make", [pd.DataFrame, pa.table, pl.DataFrame])
def test_frames_of_any_columns_are_encoded_on_the_training_rows(make):
    rng = np.random.default_rng(0)
    kind = rng.choice(["gas", "oil", "wood"], 300)
    area = rng.uniform(20, 90, 300)
    y = area + 50 * (kind == "oil") + rng.standard_normal(300)
    found = pm.compare(
        make({"kind": kind.tolist(), "area": np.where(rng.random(300) < 0.1, np.nan, area)}),
        y,
        models=["linear", "hgb", "gaussian", "nystroem"],
        splits=2,
        n_components=32,
    )
    assert found.columns == ["kind", "area"]
    assert found.left_out == {}
    assert {one.name for one in found.results} == {"linear", "hgb", "gaussian", "nystroem"}
    # Without the kinds an error of 23 would be left, without the areas one of 20.
    assert all(one.error < 15 for one in found.results)
    assert all(one.size > 0 for one in found.results)


def test_nothing_that_can_be_fitted_is_an_error():
    X, y = problem(60, labels=False)
    with pytest.raises(
        ValueError, match=r"got none \(absent: the package no_such_package is not installed\)\. Correct X"
    ):
        pm.compare(X, y, splits=1, known={"absent": replace(made(0.0), package="no_such_package")})


@pytest.mark.parametrize("labels", [False, True], ids=["numbers", "labels"])
def test_lightgbm_gets_categories_of_its_own_kind(labels):
    lightgbm = pytest.importorskip("lightgbm")
    rng = np.random.default_rng(0)
    kind = rng.choice([*"abcdefgh"], 300).astype(object)
    y = np.isin(kind, ["a", "c", "f"]) + 0.1 * rng.standard_normal(300)
    kind[rng.random(300) < 0.05] = None
    frame = pd.DataFrame({"kind": kind, "size": np.where(rng.random(300) < 0.1, np.nan, rng.uniform(size=300))})
    y = np.where(y > 0.5, "yes", "no") if labels else y
    found = pm.compare(frame, y, models=["lightgbm"], splits=1)
    train, test = next(KFold(5, shuffle=True, random_state=0).split(frame))
    model = lightgbm.LGBMClassifier if labels else lightgbm.LGBMRegressor
    native = frame.astype({"kind": "category"})
    fit = model(n_estimators=500, learning_rate=0.05, random_state=0, verbose=-1).fit(native.iloc[train], y[train])
    predicted = fit.predict(native.iloc[test])
    error = np.mean(predicted != y[test]) if labels else np.sqrt(np.mean((predicted - y[test]) ** 2))
    assert found.left_out == {}
    assert found.results[0].error == pytest.approx(error, rel=1e-6)
    # A level that the training rows lack is missing.
    fit = METHODS["lightgbm"].make_for_frames("regression", None, 0).fit(frame, np.arange(300.0))
    new, none = frame.iloc[:3].assign(kind="new"), frame.iloc[:3].assign(kind=None)
    np.testing.assert_array_equal(fit.predict(new), fit.predict(none))
    assert not hasattr(fit, "predict_proba")
    fit = METHODS["lightgbm"].make_for_frames("classification", None, 0).fit(frame, np.arange(300) % 3 == 0)
    np.testing.assert_array_equal(fit.classes_[fit.predict_proba(frame).argmax(axis=1)], fit.predict(frame))


@pytest.mark.parametrize("name", ["lightgbm", "catboost"])
def test_peers_get_amounts_and_dates_as_numbers(name):
    """As categories, nearly every cell of the test rows was unknown to them."""
    pytest.importorskip(name)
    rng = np.random.default_rng(0)
    price, days = rng.uniform(1000, 9000, 400), rng.integers(0, 3000, 400)
    dates = pd.Timestamp("2015-03-02") + pd.to_timedelta(days, unit="D")
    kind = rng.choice(["a", "b"], 400)
    text = pd.DataFrame({"price": [f"${x:,.2f}" for x in price], "date": dates.strftime("%d.%m.%Y"), "kind": kind})
    plain = pd.DataFrame({"price": price.round(2), "date": dates, "kind": kind})
    y = price + days + 1000 * (kind == "a")
    method = METHODS[name]
    make = method.make_for_frames or method.make
    found = [make("regression", None, 0).fit(X[:300], y[:300]).predict(X[300:]) for X in (text, plain)]
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("labels", [False, True], ids=["numbers", "labels"])
def test_catboost_gets_categories_of_its_own_kind(labels, monkeypatch):
    catboost = pytest.importorskip("catboost")
    # Fewer trees than its thousand, with which it is fitted four times.
    for name in ("CatBoostClassifier", "CatBoostRegressor"):
        monkeypatch.setattr(catboost, name, partial(getattr(catboost, name), 100))
    rng = np.random.default_rng(0)
    kind = rng.choice([*"abcdefgh"], 300).astype(object)
    y = np.isin(kind, ["a", "c", "f"]) + 0.1 * rng.standard_normal(300)
    kind[rng.random(300) < 0.05] = None
    frame = pd.DataFrame({"kind": kind, "size": np.where(rng.random(300) < 0.1, np.nan, rng.uniform(size=300))})
    y = np.select([y > 0.8, y > 0.1], ["yes", "perhaps"], "no") if labels else y
    found = pm.compare(frame, y, models=["catboost"], splits=1)
    folds = (StratifiedKFold if labels else KFold)(5, shuffle=True, random_state=0)
    train, test = next(folds.split(frame, y))
    model = catboost.CatBoostClassifier if labels else catboost.CatBoostRegressor
    native = frame.assign(kind=frame["kind"].fillna(""))
    fit = model(random_seed=0, verbose=False, allow_writing_files=False)
    fit.fit(native.iloc[train], y[train], cat_features=["kind"])
    predicted = np.ravel(fit.predict(native.iloc[test]))
    error = np.mean(predicted != y[test]) if labels else np.sqrt(np.mean((predicted - y[test]) ** 2))
    assert found.left_out == {}
    assert found.results[0].error == pytest.approx(error, rel=1e-6)
    assert found.results[0].size > 10_000


QUICK = {"models": ["linear", "gaussian"], "splits": 1, "n_components": 16}


def test_columns_of_an_encoding_are_no_groups(rng):
    """The columns of a text agree wherever its words do; methods without frames took them for columns of the table."""
    words = np.array(["bright", "garden", "balcony", "quiet", "old", "lift", "renovated", "garage"])
    texts = [" ".join(np.sort(rng.choice(words, 4, replace=False))) for _ in range(400)]
    X = pd.DataFrame({"text": texts, "a": rng.standard_normal(400), "b": rng.standard_normal(400)})
    with warnings.catch_warnings():
        warnings.simplefilter("error", GroupedRowsWarning)
        pm.compare(X, X["a"], **QUICK)


@pytest.mark.parametrize("kind", [pd.DataFrame, np.asarray])
def test_rows_that_look_grouped_are_noted_once_by_the_columns_of_the_table(rng, kind):
    groups = np.repeat(np.arange(50), 8)
    X = pd.DataFrame(rng.standard_normal((50, 4))[groups], columns=list("pqrs")).assign(a=rng.standard_normal(400))
    X = X.assign(town=np.where(X["a"] > 0, "x", "y")) if kind is pd.DataFrame else X
    said = ".* such as 'p', are .* Give `groups`" if kind is pd.DataFrame else "such as 'c0', are"
    with pytest.warns(GroupedRowsWarning, match=said) as found:
        pm.compare(kind(X), X["a"], **QUICK)
    assert len(found) == 1


def test_columns_of_an_array_may_have_names(rng):
    X = rng.standard_normal((50, 4))[np.repeat(np.arange(50), 8)]
    X = np.c_[X, rng.standard_normal((400, 2))]
    with pytest.warns(GroupedRowsWarning, match="such as 'p', are"):
        found = pm.compare(X, X[:, 0], feature_names=list("pqrstu"), **QUICK)
    assert found.columns == list("pqrstu")
    with pytest.raises(ValueError, match=r"`feature_names` must name 6 columns, got 2\. Name each column of X\."):
        pm.compare(X, X[:, 0], feature_names=["p", "q"], **QUICK)
