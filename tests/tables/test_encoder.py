"""The transformer: its contract, streams of batches, frames of all libraries, files and messages."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

import phimap as pm
from phimap.tables import frames
from phimap.tables.encoding import BadCell
from tests.tables.test_encodings import FRAME, N, Y


@parametrize_with_checks([pm.TableEncoder()])
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def encoder() -> pm.TableEncoder:
    return pm.TableEncoder().fit(FRAME, Y)


def test_batches_give_what_all_rows_give(encoder, monkeypatch):
    parts = [slice(start, start + 100) for start in range(0, N, 100)]
    streamed = pm.TableEncoder().fit_batches((FRAME[part], Y[part]) for part in parts)
    assert streamed.summary_ == encoder.summary_
    np.testing.assert_allclose(streamed.transform(FRAME), encoder.transform(FRAME), atol=2e-5)
    grown = pm.TableEncoder()
    for part in parts:
        grown.partial_fit(FRAME[part], Y[part])
    np.testing.assert_array_equal(grown.transform(FRAME), streamed.transform(FRAME))
    honest = np.concatenate([streamed.transform_training(FRAME[part], part.start) for part in parts])
    np.testing.assert_array_equal(honest, streamed.transform_training(FRAME))
    monkeypatch.setattr(frames, "SLICE_ROWS", 70)
    np.testing.assert_array_equal(streamed.transform_training(FRAME), honest)


@pytest.mark.parametrize("kind", [pl.from_pandas, pa.Table.from_pandas], ids=["polars", "arrow"])
def test_every_library_gives_the_same_numbers(encoder, kind):
    X = kind(FRAME)
    other = pm.TableEncoder().fit(X, Y)
    assert other.summary_ == encoder.summary_
    np.testing.assert_array_equal(other.transform(X), encoder.transform(FRAME))
    assert list(other.feature_names_in_) == list(FRAME.columns)


def test_columns_are_found_by_name(encoder):
    Z = encoder.transform(FRAME)
    shuffled = FRAME[FRAME.columns[::-1]].assign(more=1)
    np.testing.assert_array_equal(encoder.transform(shuffled), Z)
    with pytest.raises(ValueError, match=r"got none named 'town' among 'number', .*\. Add it, NaN or empty where"):
        encoder.transform(FRAME.drop(columns="town"))
    with pytest.raises(ValueError, match=r"none named 'town' among 'city', 'number', .*\. Rename a column, or add it"):
        encoder.transform(FRAME.rename(columns={"town": "city"}))


def test_new_levels_missing_cells_and_empty_columns_are_legal(encoder):
    nothing = pd.DataFrame({name: [None, None] for name in FRAME})
    strange = pd.DataFrame(
        {
            "number": [np.nan],
            "flag": [None],
            "level": ["?"],
            "two": ["x"],
            "town": ["x"],
            "when": [pd.NaT],
            "text": [""],
        }
    )
    for X in (nothing, strange):
        Z = encoder.transform(X)
        assert np.isfinite(Z).all()
    assert encoder.transform(FRAME[:0]).shape == (0, encoder.n_columns_out_)


def test_the_input_is_not_written_to(encoder):
    before = FRAME.copy(deep=True)
    encoder.transform(FRAME)
    pd.testing.assert_frame_equal(FRAME, before)


@pytest.mark.parametrize("sparse_output", [False, True])
def test_files_give_the_same_bits(tmp_path, sparse_output):
    encoder = pm.TableEncoder({"flag": "category"}, sparse_output=sparse_output).fit(FRAME, Y)
    pm.save(encoder, tmp_path / "table.phimap")
    loaded = pm.load(tmp_path / "table.phimap")
    difference = loaded.transform(FRAME) != encoder.transform(FRAME)
    assert not difference.sum()
    assert loaded.summary_ == encoder.summary_
    assert loaded.types == {"flag": "category"}
    with pytest.raises(ValueError, match=r"nothing is kept of the rows seen\. Fit a clone"):
        loaded.partial_fit(FRAME)


def test_names_output_containers_and_clones(encoder):
    copy = clone(encoder).set_output(transform="pandas")
    found = copy.fit_transform(FRAME, Y)
    assert list(found.columns) == list(encoder.get_feature_names_out())
    assert (found.index == FRAME.index).all()
    np.testing.assert_array_equal(found.to_numpy(), encoder.transform_training(FRAME))
    with pytest.raises(NotFittedError):
        clone(encoder).transform(FRAME)


def test_folds_outlive_the_rows_until_they_are_dropped():
    encoder = pm.TableEncoder().fit(FRAME, Y)
    honest = encoder.transform_training(FRAME)
    np.testing.assert_array_equal(encoder.forget_rows().transform_training(FRAME), honest)
    seen = encoder.transform(FRAME)
    assert (seen != honest).any()
    np.testing.assert_array_equal(encoder.forget_folds().transform_training(FRAME), seen)


def test_groups_and_parts_say_what_output_columns_belong_to(encoder):
    owners = np.array([FRAME.columns[group] for group in encoder.groups_])
    assert all(name.startswith(owner) for name, owner in zip(encoder.get_feature_names_out(), owners, strict=True))
    # A number and its indicator are two parts; a date has a trend and three cycles.
    n_parts = [len(set(encoder.parts_[owners == name])) for name in FRAME]
    assert n_parts == [2, 1, 1, 1, 1, 4, 1]


@pytest.mark.parametrize("value", [np.inf, -np.inf, 1e200])
@pytest.mark.parametrize("fitted", [False, True])
def test_numbers_out_of_range_are_located(encoder, fitted, value):
    bad = FRAME.copy()
    bad.loc[17, "number"] = value
    with pytest.raises(ValueError, match=r"in column 'number' at row 17(, beyond .*\d)?\. Correct the cell"):
        encoder.transform(bad) if fitted else pm.TableEncoder().fit(bad)


def test_text_among_numbers_is_located(encoder):
    bad = FRAME.astype({"number": object})
    bad.loc[17, "number"] = "many"
    message = r"X has 'many' in column 'number' at row {}, where the training rows had numbers\. Correct"
    with pytest.raises(ValueError, match=message.format(17)):
        encoder.transform(bad)
    with pytest.raises(ValueError, match=message.format(N + 17)):
        pm.TableEncoder().fit_batches([FRAME, bad])


def test_numbers_as_text_are_read_where_the_training_rows_had_numbers(encoder):
    text = FRAME.assign(number=[None if x != x else repr(float(x)) for x in FRAME["number"]])
    np.testing.assert_array_equal(encoder.transform(text), encoder.transform(FRAME))


def test_a_column_may_begin_without_values():
    late = pd.DataFrame({"a": [None] * 50, "b": range(50)})
    encoder = pm.TableEncoder().fit_batches([late, pd.DataFrame({"a": [1.5, 2.5] * 25, "b": range(50)})])
    assert encoder.summary_[0][:4] == ("a", "number", 2, 50)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"types": {"level": "colour"}},
            ValueError,
            "`types` must name one of .*, got 'colour' for column 'level'. Correct",
        ),
        ({"types": {"lvl": "category"}}, ValueError, "`types` must name columns of X, got 'lvl'. Name one of 'number'"),
        ({"types": "category"}, TypeError, "`types` must be a dict of column names and kinds, got str"),
        ({"max_levels": 1}, ValueError, "`max_levels` must be at least 2, got 1"),
        ({"max_levels": "many"}, ValueError, "`max_levels` must be an integer or 'auto', got 'many'. Use for example"),
        ({"n_text_components": 0}, ValueError, "`n_text_components` must be at least 1, got 0"),
        ({"sparse_output": "maybe"}, ValueError, "`sparse_output` must be True, False or 'auto', got 'maybe'"),
        ({"target_type": "rank"}, ValueError, "`target_type` must be one of .*, got 'rank'"),
    ],
)
def test_bad_parameters_are_refused(options, error, message):
    with pytest.raises(error, match=re.escape(message).replace(r"\.\*", ".*")):
        pm.TableEncoder(**options).fit(FRAME)


def test_targets_must_belong_to_the_rows():
    with pytest.raises(ValueError, match="`y` must have one target per row of X, got 3 targets"):
        pm.TableEncoder().fit(FRAME, Y[:3])
    with pytest.raises(ValueError, match="`y` must be finite, got nan at row 1"):
        pm.TableEncoder().fit(FRAME[:3], [0.5, np.nan, 1])


def test_levels_beyond_the_most_are_forgotten(monkeypatch):
    monkeypatch.setattr("phimap.tables.tallies.MOST_LEVELS", 50)
    rng = np.random.default_rng(0)
    keys = [
        f"k{i}" if i < 20 else f"r{i}"
        for i in rng.choice(np.append(np.repeat(np.arange(20), 50), np.arange(20, 1020)), 3000)
    ]
    frame, y = pd.DataFrame({"key": keys}), rng.standard_normal(3000)
    batches = [(frame[start : start + 300], y[start : start + 300]) for start in range(0, 3000, 300)]
    encoder = pm.TableEncoder(max_levels=40).fit_batches(batches)
    column = encoder.columns_[0]
    assert column.note == "more levels than are counted, by the mean of the target"
    assert len(column.encoding.levels) == 50
    assert {f"k{i}" for i in range(20)} <= set(column.encoding.levels)


def test_bad_cells_are_named_by_their_row_in_the_stream():
    frames = [pd.DataFrame({"a": np.arange(5.0) ** 2 + k, "b": list("xyxyx")}) for k in range(3)]
    encoder = pm.TableEncoder().fit_batches(frames)
    bad = frames[0].assign(a=[0, 1, "x", 3, 4])
    with pytest.raises(BadCell, match="'x' in column 'a' at row 12, where the training rows had numbers"):
        encoder.transform_training(bad, 10)
    with pytest.raises(BadCell, match="'x' in column 'a' at row 2, where") as error:
        encoder.transform(bad)
    assert error.value.in_data_row(8).startswith("data row 8, column 'a' has 'x', where the training rows had numbers.")


@pytest.mark.parametrize("value", [1e100, -1e39])
def test_numbers_that_float32_cannot_hold_are_named(value):
    frame = pd.DataFrame({"a": np.arange(5.0), "b": list("xyxyx")})
    encoder = pm.TableEncoder().fit(frame)
    with pytest.raises(BadCell, match=r"in column 'a' at row 3, beyond .*\d\. Correct the cell"):
        encoder.transform(frame.assign(a=[0, 1, 2, value, 4]))


@pytest.mark.parametrize(
    ("frame", "kind", "message"),
    [
        (pl.LazyFrame({"a": range(5), "b": list("xyxyx")}), TypeError, r"got a LazyFrame\. Use X\.collect\(\)"),
        (pd.DataFrame(index=range(5)), ValueError, r"`X` must have a column, got a frame with 0 feature"),
        (pd.DataFrame({"a": [1j, 2, 3, 4, 5], "b": list("xyxyx")}), ValueError, r"complex128 in column 'a'\. Split"),
    ],
)
def test_frames_that_are_none_are_refused(frame, kind, message):
    for estimator in (pm.TableEncoder(), pm.KernelRegressor("gaussian", n_components=8)):
        with pytest.raises(kind, match=message):
            estimator.fit(frame, np.arange(5.0))
