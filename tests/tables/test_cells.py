"""Cells of frames of every library, and text read as numbers and times."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import phimap as pm
from phimap.tables.amounts import affixes_of, how_read, mixed_currencies, numbers_in, readings_of
from phimap.tables.cells import Cells, seconds_in
from phimap.tables.frames import cells_of, is_frame, is_numbers

KINDS = {
    "pandas": lambda columns: pd.DataFrame(columns),
    "polars": lambda columns: pl.DataFrame(columns),
    "arrow": lambda columns: pa.table(columns),
    "batch": lambda columns: pa.RecordBatch.from_pydict(columns),
}
EVERY_LIBRARY = pytest.mark.parametrize("frame", KINDS.values(), ids=KINDS)


@EVERY_LIBRARY
def test_cells_are_the_same_from_every_library(frame):
    when = [dt.datetime(2021, 3, 1, 12), None, dt.datetime(1969, 12, 31)]
    X = frame({"n": [1.5, None, 3.0], "w": [1, 2, 3], "s": ["b ", None, "a"], "t": when, "f": [True, False, None]})
    assert is_frame(X)
    assert not is_numbers(X)
    cells = cells_of(X)
    assert [one.form for one in cells.values()] == ["number", "number", "text", "time", "boolean"] or frame is KINDS[
        "pandas"
    ]
    np.testing.assert_array_equal(cells["n"].numbers(), [1.5, np.nan, 3])
    np.testing.assert_array_equal(cells["w"].numbers(), [1, 2, 3])
    assert [cells["s"].texts[code] for code in cells["s"].codes[[0, 2]]] == ["b", "a"]
    np.testing.assert_array_equal(cells["s"].missing, [False, True, False])
    np.testing.assert_array_equal(cells["t"].seconds(""), [1614600000, np.nan, -86400])


@EVERY_LIBRARY
def test_frames_of_complete_numbers_are_numbers(frame):
    assert is_numbers(frame({"a": [1, 2], "b": [0.5, 2.0], "c": [True, False]}))
    assert not is_numbers(frame({"a": [1, 2], "b": [0.5, None]}))
    assert not is_numbers(frame({"a": [1, 2], "b": [0.5, np.nan]}))
    assert not is_numbers(frame({"a": ["1", "2"]}))


@pytest.mark.parametrize("X", [np.eye(2), [[1, 2]], pd.Series([1, 2]), pl.Series([1, 2])], ids=str)
def test_arrays_and_columns_are_no_frames(X):
    assert not is_frame(X)


def test_columns_of_mixed_objects_are_text():
    cells = cells_of(pd.DataFrame({"m": [1, "z", None, 2.5, pd.NA, Decimal(3)]}))["m"]
    assert cells.form == "text"
    assert [None if code < 0 else cells.texts[code] for code in cells.codes] == ["1", "z", None, "2.5", None, "3"]


@pytest.mark.parametrize("column", [[1, 2, 1], [1.0, 2.0, 1.0], ["1", " 2", "1 "]], ids=str)
def test_levels_are_the_same_text_whichever_type_they_have(column):
    cells = Cells("c", pa.array(column))
    assert cells.texts == ["1", "2"]
    assert cells.codes.tolist() == [0, 1, 0]


def test_pandas_categories_and_their_numbers_are_levels():
    frame = pd.DataFrame({"a": pd.Categorical(["u", None, "v"]), "b": pd.Categorical([3, 4, 3])})
    cells = cells_of(frame)
    assert [one.form for one in cells.values()] == ["levels", "levels"]
    assert cells["a"].places_in(("v", "w")).tolist() == [3, 2, 0]
    assert cells["b"].places_in(("3",)).tolist() == [0, 2, 0]


def test_dictionaries_may_hold_more_than_the_rows_have():
    unused = pa.DictionaryArray.from_arrays(pa.array([0, 2, 0, None]), pa.array(["a", "b", "c"]))
    holes = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0, 2]), pa.array(["a", None, " c"]))
    for column in (unused, holes):
        encoder = pm.TableEncoder().fit(pa.table({"d": column}))
        assert encoder.summary_[0][3:] == (1, "2 levels")


def test_other_types_are_what_they_are_nearest_to():
    hour, day = pa.array([3600, None], pa.time32("s")), pa.array([dt.date(1970, 1, 3), None])
    assert Cells("t", hour).seconds("")[0] == 3600
    assert Cells("t", day).seconds("")[0] == 2 * 86400
    assert Cells("t", pa.array([1500, None], pa.duration("ms"))).numbers()[0] == 1.5
    assert Cells("t", pa.array([Decimal("1.25")])).numbers()[0] == 1.25
    assert Cells("t", pa.array([[1, 2]])).texts == ["[1, 2]"]
    assert Cells("t", pa.array([b"ab", b"\xff"])).texts == ["b'ab'", "b'\\xff'"]
    assert len(cells_of(pd.DataFrame({"i": pd.cut(pd.Series([1.0, 5.0]), 2)}))["i"].texts) == 2
    assert np.isnan(Cells("t", pa.nulls(2)).numbers()).all()


def test_the_hour_is_that_of_the_time_zone():
    zoned = pd.Series(pd.to_datetime(["2020-01-01 12:00"])).dt.tz_localize("Asia/Tokyo")
    assert cells_of(pd.DataFrame({"t": zoned}))["t"].seconds("")[0] % 86400 == 12 * 3600


def test_two_columns_of_one_name_are_refused():
    frame = pd.DataFrame(np.eye(2), columns=["a", "a"])
    with pytest.raises(ValueError, match=r"distinct column names, got 'a' more than once\. Rename"):
        cells_of(frame)


@pytest.mark.parametrize(
    ("text", "point", "comma"),
    [
        ("1.5", 1.5, None),
        ("1,5", None, 1.5),
        ("-1e-3", -0.001, -0.001),
        ("+.5", 0.5, None),
        ("1 234 567", 1234567, 1234567),
        ("1\u00a0234,5", None, 1234.5),
        ("1,234.5", 1234.5, None),
        ("1.234,5", None, 1234.5),
        ("1'000", 1000, 1000),
        ("12,34,56", None, None),
        ("e5", None, None),
        (".", None, None),
        ("12 cm", None, None),
        ("(12.30)", -12.3, None),
        ("( 1.234,5 )", None, -1234.5),
        ("(-5)", None, None),
        ("((5))", None, None),
        ("", None, None),
    ],
)
def test_numbers_are_read_from_text(text, point, comma):
    for decimal, wanted in ((".", point), (",", comma)):
        found = numbers_in(pa.array([text], pa.large_string()), decimal)
        np.testing.assert_array_equal(found, [np.nan if wanted is None else wanted])


@pytest.mark.parametrize(
    ("text", "form", "seconds"),
    [
        ("1970-01-02", "%Y-%m-%d", 86400),
        ("1970-01-01T00:01:00.250Z", "%Y-%m-%dT%H:%M:%S", 60),
        ("1970-01-01 00:01:00+02:00", "%Y-%m-%d %H:%M:%S", 60),
        ("2.1.1970", "%d.%m.%Y", 86400),
        ("Jan 3 1970", "%b %d %Y", 2 * 86400),
        ("2.1.70", "%d.%m.%y", 86400),
        ("2.1.70", "%d.%m.%Y", np.nan),
        ("70/01/02", "%Y/%m/%d", np.nan),
        ("70/01/02 10:00", "%Y/%m/%d %H:%M", np.nan),
        ("2.1.7", "%d.%m.%y", np.nan),
        ("2.1.1970", "%d.%m.%y", np.nan),
        ("1970-13-02", "%Y-%m-%d", np.nan),
        ("soon", "%Y-%m-%d", np.nan),
        ("7:05", "%H:%M", 25500),
        ("07:05:00.5", "%H:%M:%S", 25500),
        ("7:05 pm", "%I:%M %p", 25500 + 43200),
        ("1/2/1970 12:05 AM", "%m/%d/%Y %I:%M %p", 86400 + 300),
        # Scores and ratios are no clock times.
        ("3:2", "%H:%M", np.nan),
        ("16:9", "%H:%M", np.nan),
        ("24:10", "%H:%M", np.nan),
        ("13:05 PM", "%I:%M %p", np.nan),
    ],
)
def test_times_are_read_from_text(text, form, seconds):
    np.testing.assert_array_equal(seconds_in(pa.array([text]), form), [seconds])


@pytest.mark.parametrize(
    ("texts", "affixes", "numbers"),
    [
        (["$1,234", "$ 5.50", "-$2"], "$\t", [1234, 5.5, -2]),
        (["€ 12", "€ 1.5", "€0.25"], "€\t", [12, 1.5, 0.25]),
        (["EUR 12", "EUR 1.5"], "EUR\t", [12, 1.5]),
        (["$973.00", "($1,234.50)", "$(2)", "(3)", "$4", *(f"${k}" for k in range(5, 30))], "$\t", None),
        (["12 USD", "(5 USD)", "(7) USD"], "\tUSD", [12, -5, -7]),
        (["0.71 ct", "1.2 ct", "3ct"], "\tct", [0.71, 1.2, 3]),
        (["12 %", "5%"], "\t%", [12, 5]),
        (["90 km/h", "110 km/h"], "\tkm/h", [90, 110]),
        (["-4 °C", "21 °C"], "\t°C", [-4, 21]),
        (["880 rooms", "1 room", "1,200 rooms"], "\trooms", [880, 1, 1200]),
        (["40 m2", "52.5m2"], "\tm2", [40, 52.5]),
        (["12 years", "3 years"], "\tyears", [12, 3]),
        (["45 sq ft", "33 sq ft"], "\tsq ft", [45, 33]),
        (["7.5 l/100km", "8 l/100km"], "\tl/100km", [7.5, 8]),
        (["3 Zimmer", "4 Räume", *(f"{k} Zimmer" for k in range(20))], "\tZimmer", [3, np.nan, *range(20)]),
    ],
)
def test_currencies_and_units_are_read_as_numbers(texts, affixes, numbers):
    cells = Cells("a", pa.array(texts))
    assert affixes_of(texts) == affixes
    wanted = [973, -1234.5, -2, -3, *range(4, 30)] if numbers is None else numbers
    np.testing.assert_allclose(cells.numbers("." + affixes), wanted)
    # Cells without the unit are numbers too; other texts are not.
    np.testing.assert_allclose(Cells("a", pa.array(["7", "seven"])).numbers("." + affixes), [7, np.nan])


def test_amounts_in_several_currencies_are_read_if_the_user_says_so():
    texts = ["$5", "€1,234.50", "7 USD", "(£2)", "3", "CHF 4"]
    assert affixes_of(texts) == ""
    assert mixed_currencies(["$5", "€6", "7 £"]) == ["$", "€", "£"]
    assert mixed_currencies(["$5", "6"]) == mixed_currencies(["$5", "6 kg"]) == []
    reading = readings_of(texts, any_currency=True)[0]
    np.testing.assert_allclose(Cells("a", pa.array(texts)).numbers(reading), [5, 1234.5, 7, -2, 3, 4])
    assert how_read(reading, negatives=False).endswith(
        "without '$', '€', '£', 'CHF', 'USD', of several currencies as if of one"
    )


@pytest.mark.parametrize(
    "texts",
    [
        ["k1", "k2", "k3"],
        ["5 kg", "300 g", "2 kg"],
        ["Route 66", "Route 1"],
        ["12", "13"],
        ["red", "blue"],
        ["1 of 3 rooms", "2 of 5 rooms"],
        ["A12", "A13"],
        ["12-34", "13-34"],
        ["10-19 years", "20-29 years"],
        ["12 Elm Street", "7 High Street"],
        ["5 January 2020", "7 January 2020"],
        ["12:30", "13:30"],
    ],
)
def test_names_of_levels_and_mixed_units_are_no_numbers(texts):
    assert affixes_of(texts) == ""


def test_a_comma_may_be_the_decimal_mark_of_a_price():
    cells = Cells("a", pa.array(["1.234,50 €", "2,00 €"]))
    assert cells.readings() == [".\t€", ",\t€"]
    np.testing.assert_allclose(cells.numbers(",\t€"), [1234.5, 2])
    assert readings_of(["1.234"], ",") == [",", "."]


@pytest.mark.parametrize(
    ("text", "form"), [("Jan 05, 2020", "%b %d, %Y"), ("January 5, 2020", "%B %d, %Y"), ("5 January 2020", "%d %B %Y")]
)
def test_dates_are_written_out(text, form):
    seconds = Cells("a", pa.array([text])).seconds(form)
    assert seconds[0] == np.datetime64("2020-01-05", "s").astype(int)
