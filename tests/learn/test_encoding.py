"""Learners on data frames with text, categories, dates and missing cells."""

from __future__ import annotations

import copy
import re

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import StackingRegressor
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.inspection import PartialDependenceDisplay, permutation_importance
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import HalvingGridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import phimap as pm
from phimap.learn.search.metric import tied
from tests.support.learners import FIXED, GAUSSIAN

N = 1000
RNG = np.random.default_rng(11)
FRAME = pd.DataFrame(
    {
        "area": RNG.gamma(2, 40, N),
        "rooms": np.where(RNG.random(N) < 0.1, np.nan, RNG.integers(1, 7, N)),
        "heating": RNG.choice(["gas", "oil", "wood", None], N, p=[0.5, 0.3, 0.1, 0.1]),
        "street": [f"s{i}" for i in RNG.integers(0, 250, N)],
        "sold": pd.Timestamp("2019-01-01") + pd.to_timedelta(RNG.integers(0, 900, N), unit="D"),
        "key": [f"k{i}" for i in range(N)],
    }
)
NUMBERS = FRAME[["area"]].assign(age=RNG.integers(0, 90, N), new=RNG.random(N) < 0.2)
Y = (
    FRAME["area"] / 40
    + (FRAME["heating"] == "gas") * 2
    + FRAME["street"].str[1:].astype(int) % 3
    + 0.1 * RNG.standard_normal(N)
)
LABELS = np.where(Y.gt(Y.median()), "dear", "cheap")
NEW = FRAME[:60].assign(heating="coal", street="s999", area=np.nan)


def regressor(**options) -> pm.KernelRegressor:
    return pm.KernelRegressor(n_components=64, random_state=0, **(GAUSSIAN | options))


def classifier(**options) -> pm.KernelClassifier:
    return pm.KernelClassifier(n_components=64, random_state=0, **GAUSSIAN, **options)


@pytest.fixture(scope="module")
def model() -> pm.KernelRegressor:
    return regressor().fit(FRAME, Y)


def test_mixed_frames_are_learned(model):
    assert model.score(FRAME, Y) > 0.8
    assert list(model.feature_names_in_) == list(FRAME.columns)
    assert model.n_features_in_ == 6
    assert np.isfinite(model.predict(NEW)).all()
    assert model.encoder_.summary_[-1].note == "one value per row"


def test_what_the_model_does_is_what_its_parts_do(model):
    encoder = pm.TableEncoder(target_type="continuous")
    by_hand = regressor(standardize=False, encode=None).fit(encoder.fit_transform(FRAME, Y), Y)
    # The means, of which the model takes the columns, move the kernel nowhere but in rounding.
    np.testing.assert_allclose(model.predict(FRAME), by_hand.predict(encoder.transform(FRAME)), atol=1e-3)


@pytest.mark.parametrize("kind", [pl.from_pandas, pa.Table.from_pandas], ids=["polars", "arrow"])
def test_frames_of_every_library(model, kind):
    same = regressor().fit(kind(FRAME), Y)
    np.testing.assert_array_equal(same.predict(kind(NEW)), model.predict(NEW))


def test_frames_of_complete_numbers_are_taken_as_they_are():
    one, other = (regressor(encode=encode).fit(NUMBERS, Y) for encode in ("auto", None))
    assert one.encoder_ is None
    np.testing.assert_array_equal(one.predict(NUMBERS), other.predict(NUMBERS))
    np.testing.assert_array_equal(
        one.predict(NUMBERS), regressor().fit(NUMBERS.to_numpy(float), Y).predict(NUMBERS.to_numpy(float))
    )


@pytest.mark.parametrize("make", [regressor, classifier])
def test_classes_streams_and_files(make, tmp_path):
    y = Y.to_numpy() if make is regressor else LABELS
    whole = make().fit(FRAME, y)
    streamed = make().fit_batches([(FRAME[start : start + 300], y[start : start + 300]) for start in range(0, N, 300)])
    # Sums of other batches have other last bits on some processors.
    if make is regressor:
        np.testing.assert_allclose(streamed.predict(NEW), whole.predict(NEW), rtol=1e-5, atol=1e-5)
    else:
        np.testing.assert_array_equal(streamed.predict(NEW), whole.predict(NEW))
    pm.save(whole, tmp_path / "model.phimap")
    loaded = pm.load(tmp_path / "model.phimap")
    np.testing.assert_array_equal(loaded.predict(NEW), whole.predict(NEW))
    assert loaded.encoder_.summary_ == whole.encoder_.summary_


def test_probabilities_and_scores_take_frames():
    model = classifier().fit(FRAME, LABELS)
    assert model.score(FRAME, LABELS) > 0.8
    np.testing.assert_allclose(model.predict_proba(NEW).sum(axis=1), 1, rtol=1e-6)
    assert model.decision_function(FRAME).shape == (N,)


def test_deviations_take_frames(model):
    mean, std = model.predict(FRAME, return_std=True)
    np.testing.assert_array_equal(mean, model.predict(FRAME))
    assert (std > 0).all()


def test_rows_are_added_and_merged():
    first = regressor().partial_fit(FRAME[:250], Y[:250])
    other = copy.deepcopy(first)
    whole = copy.deepcopy(first).partial_fit(FRAME[250:], Y[250:])
    merged = first.merge(other.partial_fit(FRAME[250:], Y[250:]), shared=copy.deepcopy(first))
    np.testing.assert_allclose(merged.predict(NEW), whole.predict(NEW), atol=1e-4)
    with pytest.raises(ValueError, match=r"must share this model's .*, and its encoder"):
        first.merge(regressor().fit(FRAME[::2], Y[::2]))


def test_a_first_batch_of_numbers_does_not_hide_a_later_one():
    frame = FRAME[["area", "rooms"]]
    order = np.argsort(frame["rooms"].isna(), kind="stable")
    frame, y = frame.iloc[order], Y.iloc[order]
    model = regressor().fit_batches([(frame[:200], y[:200]), (frame[200:], y[200:])])
    assert model.encoder_ is not None
    np.testing.assert_allclose(model.predict(frame), regressor().fit(frame, y).predict(frame), rtol=1e-5, atol=1e-5)


def test_rows_that_are_encoded_already():
    encoder = pm.TableEncoder().fit(FRAME, Y)
    rows = encoder.transform_training(FRAME)
    model = regressor().fit_batches([(rows[:200], Y[:200]), (rows[200:], Y[200:])], encoder=encoder)
    np.testing.assert_allclose(model.predict(FRAME), regressor().fit(FRAME, Y).predict(FRAME), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(model.predict(encoder.transform(NEW)), model.predict(NEW))
    assert list(model.feature_names_in_) == list(FRAME.columns)
    # The encoder is the user's own.
    assert (encoder.transform_training(FRAME) == rows).all()


def test_rows_of_no_weight_are_not_encoded_by():
    weights = (np.arange(N) % 2).astype(float)
    one = regressor().fit(FRAME, Y, sample_weight=weights)
    other = regressor().fit(FRAME[1::2], Y[1::2], sample_weight=weights[1::2])
    np.testing.assert_array_equal(one.predict(NEW), other.predict(NEW))


def test_an_encoder_of_the_users_own_is_cloned(tmp_path):
    encoder = pm.TableEncoder({"new": "category"})
    model = regressor(encode=encoder).fit(NUMBERS, Y)
    assert [column.kind for column in model.encoder_.summary_] == ["number", "number", "category"]
    assert not hasattr(encoder, "n_features_in_")
    pm.save(model, tmp_path / "model.phimap")
    loaded = pm.load(tmp_path / "model.phimap")
    assert loaded.encode.types == {"new": "category"}
    np.testing.assert_array_equal(loaded.predict(NUMBERS), model.predict(NUMBERS))


def test_objects_that_are_numbers_are_taken_as_numbers():
    model = regressor().fit(NUMBERS.astype(object), Y)
    assert model.encoder_ is None
    np.testing.assert_array_equal(model.predict(NUMBERS), regressor().fit(NUMBERS, Y).predict(NUMBERS))


def test_text_at_prediction_by_a_model_of_numbers_names_a_remedy_that_holds():
    """It advised `encode='auto'`, which the model had."""
    model = regressor().fit(NUMBERS, Y)
    X = NUMBERS.astype(object)
    X.iloc[2, 0] = "high"
    with pytest.raises(ValueError, match=r"got 'high' in column .* at row 2: .* Give None where a value is not known"):
        model.predict(X)
    X.iloc[2, 0] = None
    assert np.isfinite(model.predict(X)).all()


def test_another_fit_forgets_the_encoder():
    model = regressor().fit(FRAME, Y).fit(NUMBERS.to_numpy(float), Y)
    assert model.encoder_ is None
    assert not hasattr(model, "feature_names_in_")
    assert model.predict(NUMBERS.to_numpy(float)).shape == (N,)


@pytest.mark.parametrize(
    ("fitted", "X", "message"),
    [
        (regressor(encode=None), FRAME, r"got 'oil' in column 'heating' at row \d+: could not .* Use encode='auto' or"),
        (
            regressor(),
            FRAME.to_numpy(),
            r"got '\w+' in column \d at row \d+: could not .*\. Use a data frame, whose columns",
        ),
        (regressor(encode="yes"), FRAME, r"`encode` must be 'auto', None or a TableEncoder, got 'yes'\. Use 'auto'"),
        (regressor(encode=None), FRAME[["area", "rooms"]], r"Input X contains NaN"),
    ],
)
def test_what_is_refused_is_named(fitted, X, message):
    if isinstance(X, pd.DataFrame) and "heating" in X:
        X = X.assign(heating="oil")
    with pytest.raises(ValueError, match=message) as error:
        fitted.fit(X, Y)
    assert "\n" not in str(error.value)


def test_arrays_are_no_frames(model):
    message = "`X` must be a data frame with the columns seen in fit, got ndarray of shape (1000, 6)."
    with pytest.raises(ValueError, match=re.escape(message)):
        model.predict(FRAME.to_numpy())


HOLES = np.column_stack([NUMBERS["area"], NUMBERS["age"], np.sin(NUMBERS["age"])]).astype(float)
WHOLE = HOLES.copy()
HOLES[::7, 1] = np.nan


def frames_of(X):
    """The same rows as frames of three libraries, with missing cells as each of them writes them."""
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    return [frame, pl.from_pandas(frame), pa.table(frame)]


@pytest.mark.parametrize("rows", [HOLES, HOLES.tolist(), HOLES.astype(object), HOLES.astype(np.float32)])
def test_arrays_take_missing_cells_at_fit_as_frames_do(rows, tmp_path):
    model, of_frame = regressor().fit(rows, Y), regressor().fit(frames_of(HOLES)[0], Y)
    expected = of_frame.predict(frames_of(HOLES)[0])
    np.testing.assert_allclose(model.predict(rows), expected, rtol=1e-4, atol=1e-4)
    assert [column.n_columns for column in model.encoder_.summary_] == [1, 2, 1]
    assert model.n_features_in_ == 3
    assert not hasattr(model, "feature_names_in_")
    pm.save(model, tmp_path / "m.phimap")
    np.testing.assert_array_equal(pm.load(tmp_path / "m.phimap").predict(rows), model.predict(rows))


def test_models_of_complete_numbers_take_missing_cells_at_predict():
    """They are replaced by the medians of the training rows, in arrays and in frames of any library."""
    filled = np.where(np.isnan(HOLES), np.median(WHOLE, axis=0), HOLES)
    of_array, of_frame = regressor().fit(WHOLE, Y), regressor().fit(frames_of(WHOLE)[0], Y)
    expected = of_array.predict(filled)
    np.testing.assert_allclose(of_array.predict(HOLES), expected)
    for frame in frames_of(HOLES):
        np.testing.assert_allclose(of_frame.predict(frame), expected)
    later = regressor().partial_fit(WHOLE[:200], Y[:200]).partial_fit(HOLES[200:], Y[200:])
    assert np.isfinite(later.predict(HOLES)).all()


def test_batches_take_missing_cells_wherever_they_are():
    batches = [(WHOLE[:200], Y[:200]), (HOLES[200:], Y[200:])]
    model = regressor().fit_batches(batches)
    whole = regressor().fit(np.concatenate([WHOLE[:200], HOLES[200:]]), Y)
    np.testing.assert_allclose(model.predict(HOLES), whole.predict(HOLES), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("rows", [HOLES, frames_of(HOLES)[0]])
def test_without_encoding_missing_cells_are_refused_at_fit_and_at_predict(rows):
    message = r"Input X contains NaN at row 0, column 1\. Drop or impute such rows\.$"
    with pytest.raises(ValueError, match=message):
        regressor(encode=None).fit(rows, Y)
    with pytest.raises(ValueError, match=message):
        regressor(encode=None).fit(WHOLE if rows is HOLES else frames_of(WHOLE)[0], Y).predict(rows)


@pytest.mark.parametrize("text", [False, True], ids=["numbers", "mixed"])
def test_columns_are_found_by_name_in_any_order_and_among_others(text):
    frame = frames_of(WHOLE)[0]
    frame = frame.assign(d=np.where(Y.median() < Y, "u", "v")) if text else frame
    model = regressor().fit(frame, Y)
    expected = model.predict(frame)
    turned = frame[frame.columns[::-1]].assign(extra=1)
    for same in (turned, pl.from_pandas(turned), pa.table(turned)):
        np.testing.assert_array_equal(model.predict(same), expected)
    with pytest.raises(ValueError, match=r"must have the columns seen in fit, got none named 'b' among"):
        model.predict(frame.drop(columns="b"))


def test_a_column_transformer_may_leave_missing_cells():
    frame = frames_of(HOLES)[0].assign(d=np.where(Y.median() < Y, "u", "v"))
    front = ColumnTransformer([("one_hot", OneHotEncoder(), ["d"])], remainder="passthrough")
    model = make_pipeline(front, regressor()).fit(frame, Y)
    assert np.isfinite(model.predict(frame)).all()


@pytest.mark.parametrize("rows", [HOLES, WHOLE])
def test_infinite_cells_are_refused_beside_missing_ones(rows):
    bad = rows.copy()
    bad[5, 2] = np.inf
    for act in (lambda: regressor().fit(bad, Y), lambda: regressor().fit(WHOLE, Y).predict(bad)):
        with pytest.raises(ValueError, match=r"contains infinity \(inf\) at row 5, column 2\. Drop or correct"):
            act()


def test_columns_of_one_category_share_a_weight():
    options = FIXED | {"metric": "diagonal"}
    model = pm.KernelRegressor("gaussian", 64, random_state=0, effort="fast", **options).fit(FRAME, Y)
    parts = model.encoder_.parts_
    for part in range(parts.max() + 1):
        assert np.ptp(model.metric_[parts == part]) < 1e-12
    assert np.unique(model.metric_).size == parts.max() + 1
    assert model.relevances_.shape == (6,)
    assert model.relevances_.sum() == pytest.approx(1)
    # The key is left out, and the date and the rooms are noise. From 400 rows, a single relevance is uncertain.
    assert model.relevances_[5] == 0
    assert model.relevances_[[0, 2, 3]].mean() > 2 * model.relevances_[[1, 4]].max()


def test_tied_metrics_have_the_mean_of_each_part():
    factor = np.arange(8.0).reshape(2, 4)
    # Squares added up over rows are 16, 26, 40 and 58.
    np.testing.assert_allclose(np.square(tied(factor, np.array([0, 1, 1, 2]))), [[16, 33, 33, 58]])


@pytest.mark.usefixtures("brief_search")
def test_indicators_of_many_levels_learn_how_levels_differ(rng):
    firm, year = rng.integers(0, 50, 900), rng.uniform(-1, 1, 900)
    level, slope = rng.standard_normal((2, 50))
    y = level[firm] + slope[firm] * year + 0.2 * rng.standard_normal(900)
    X = pd.DataFrame({"firm": [f"f{place}" for place in firm], "year": year})
    unexplained = []
    for max_levels in ("auto", 40):
        options = {"trees": None, "effort": "fast", "encode": pm.TableEncoder(max_levels=max_levels)}
        model = pm.KernelRegressor("gaussian", 256, random_state=0, **options).fit(X[300:], y[300:])
        unexplained.append(1 - model.score(X[:300], y[:300]))
    # Means of the target know the level of a firm but not its slope. The ratio was .08 to .16 for four seeds.
    assert unexplained[0] < 0.3 * unexplained[1]


@pytest.mark.usefixtures("brief_search")
def test_numbers_alone_take_another_form():
    frame = FRAME.assign(area=np.exp(FRAME["area"] / 20))
    model = pm.KernelRegressor("auto", 64, random_state=0, effort="fast", length_scale="auto").fit(frame, Y)
    form = model.scaling_.form
    assert form is not None
    amounts = model.encoder_.amounts_
    np.testing.assert_array_equal(form.others, ~amounts)
    names = model.encoder_.get_feature_names_out()[amounts]
    assert list(names) == ["area", "rooms"]


# Inspection and composition ---------------------------------------------------------------------------------------


def test_permutation_importance_on_text_columns(model):
    found = permutation_importance(model, FRAME, Y, n_repeats=2, random_state=0)
    important = dict(zip(FRAME, found.importances_mean, strict=True))
    assert important["area"] > 0.1
    assert important["street"] > 0.1
    assert important["key"] == 0


def test_partial_dependence_on_text_columns(model):
    pytest.importorskip("matplotlib").use("Agg")
    drawn = PartialDependenceDisplay.from_estimator(
        model,
        FRAME.assign(heating=FRAME["heating"].fillna("none")),
        ["area", "heating"],
        categorical_features=["heating"],
        grid_resolution=5,
    )
    area, heating = (result["average"][0] for result in drawn.pd_results)
    assert np.ptp(area) > 0.5
    assert heating.shape == (4,)
    assert np.ptp(heating) > 0.5


def test_columns_go_through_a_transformer():
    columns = ColumnTransformer([("numbers", StandardScaler(), ["area"])], remainder="passthrough")
    pipeline = make_pipeline(columns.set_output(transform="pandas"), regressor())
    assert pipeline.fit(FRAME, Y).score(FRAME, Y) > 0.8


def test_stacks_search_and_clone():
    stack = StackingRegressor([("one", regressor()), ("other", regressor(alpha=1.0))], LinearRegression(), cv=2)
    X, y = FRAME[:600], Y[:600]
    assert stack.fit(X, y).score(X, y) > 0.8
    search = HalvingGridSearchCV(regressor(), {"alpha": [1e-3, 1.0, 1e3]}, random_state=0, cv=2).fit(X, y)
    assert search.best_params_["alpha"] < 1e3
    for model in (regressor(encode=None), classifier(encode=None)):
        assert clone(model).encode is None


def test_weights_are_routed_in_cross_validation():
    weights = RNG.uniform(0.5, 2, N)
    with config_context(enable_metadata_routing=True):
        routed = regressor().set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        found = cross_val_score(routed, FRAME, Y, cv=2, params={"sample_weight": weights})
    half = N // 2
    by_hand = regressor().fit(FRAME[:half], Y[:half], sample_weight=weights[:half])
    assert found[1] == pytest.approx(by_hand.score(FRAME[half:], Y[half:], sample_weight=weights[half:]))
