"""What columns are recognised as, and why they are left out."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import phimap as pm
from phimap.tables.cells import Cells
from phimap.tables.encoding import AmbiguousDatesWarning, MixedCellsWarning, UnreadCellsWarning
from phimap.tables.tallies import ALL_FORMS

N = 200
# Times of a day, and their formats.
WATCH = {"": "", " 10:30": " %H:%M", " 10:30:00": " %H:%M:%S"}
# Forms of dates with a short year or the name of the month.
DATES = (
    *("%d/%m/%y", "%m/%d/%y", "%d.%m.%y", "%d-%m-%y", "%y-%m-%d", "%y/%m/%d", "%d-%m-%Y"),
    *("%b %d, %Y", "%b %d %Y", "%d %b %Y", "%d-%b-%Y", "%d-%b-%y"),
)


def draws(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def words(n: int, each: int) -> list[str]:
    some = [f"{a}{b}" for a in ("gr", "bl", "str", "m") for b in ("een", "ock", "and", "ist", "ar")]
    return [" ".join(draws(i).choice(some, each)) + f" {i}" for i in range(n)]


COLUMNS = {
    "number": {
        "reals": draws().standard_normal(N),
        "few integers": draws().integers(0, 3, N),
        "decimal commas": [f"{x:.3f}".replace(".", ",") for x in draws().standard_normal(N)],
        "a bad cell": ["1.5", "x", *map(str, range(N - 2))],
        "years": np.arange(1800, 1800 + N),
        "text and missing marks": ["?", "NA", *map(str, range(N - 2))],
    },
    "boolean": {"booleans": draws().random(N) < 0.5},
    "category": {
        "levels": draws().choice(["x", "y", "z"], N),
        "codes with zeros": draws().choice(["01", "02", "03"], N),
        "too many bad cells": [str(i % 5) if i % 10 else "bad" for i in range(N)],
        "pandas": pd.Categorical(draws().choice([1, 2, 3], N)),
    },
    "many levels": {"towns": [f"t{i}" for i in np.arange(N) % 160]},
    "date": {
        "times": pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(N), unit="h"),
        "iso": [f"2020-01-{1 + i % 28:02}" for i in range(N)],
        "german": [f"{1 + i % 28}.1.2020" for i in range(N)],
    },
    "text": {"reports": words(N, 6), "names": words(N, 2)},
    "left out": {
        "constant": np.ones(N),
        "one text": ["x"] * N,
        "nothing": [None] * N,
        "keys": [f"k{i:04}" for i in range(N)],
        "row numbers": np.arange(1, N + 1),
        "shuffled row numbers": draws().permutation(2 * N)[:N],
        "row numbers from 10001": np.arange(10001, 10001 + N),
    },
}
CASES = [(kind, name) for kind, columns in COLUMNS.items() for name in columns]


def summary(column, **options):
    frame = pd.DataFrame({"c": column, "other": draws(1).standard_normal(N)})
    return pm.TableEncoder(**options).fit(frame).summary_[0]


@pytest.mark.filterwarnings("ignore::phimap.tables.encoding.UnreadCellsWarning")
@pytest.mark.parametrize(("kind", "name"), CASES, ids=[name for _, name in CASES])
def test_columns_are_recognised(kind, name):
    assert summary(COLUMNS[kind][name]).kind == kind


@pytest.mark.parametrize(
    ("name", "note"),
    [
        ("constant", "constant (1)"),
        ("one text", "constant (x)"),
        ("nothing", "no values"),
        ("keys", "one value per row"),
        ("row numbers", "numbers the rows"),
    ],
)
def test_what_is_left_out_is_said(name, note):
    found = summary(COLUMNS["left out"][name])
    assert (found.note, found.n_columns) == (note, 0)


def test_many_levels_have_indicators_if_they_are_few_together():
    towns, streets = ([f"{name}{i % n}" for i in range(N)] for name, n in (("t", 90), ("s", 60)))
    together = pd.DataFrame({"town": towns, "street": streets})
    for max_levels, kind in (("auto", "category"), (40, "many levels")):
        encoder = pm.TableEncoder(max_levels=max_levels).fit(together)
        assert [column.kind for column in encoder.summary_] == [kind, kind]
    # One level more is too many.
    streets[0] = "lane"
    more = pm.TableEncoder().fit(together.assign(street=streets))
    assert [column.kind for column in more.summary_] == ["many levels"] * 2


def test_cells_that_could_not_be_read_are_counted():
    with pytest.warns(
        UnreadCellsWarning,
        match=r"column 'c': cells that cannot be read as numbers .*1 of these rows, such as '.*'\).*as in 1234.5\.",
    ):
        found = summary(COLUMNS["number"]["a bad cell"])
    assert found.n_missing == 1
    assert found.note == "read from text, 1 cell not read as numbers, taken for missing"
    assert summary(COLUMNS["number"]["decimal commas"]).note == "read from text with decimal commas"


@pytest.mark.parametrize(("unit", "other"), [("%", ""), (" kg", " g"), (" EUR", "")])
def test_numbers_in_several_units_are_said(unit, other):
    cells = [f"{k}.5{unit if k % 10 < 6 else other}" for k in range(N)]
    with pytest.warns(MixedCellsWarning, match=r"because these have several units \(.*\)\. Convert"):
        assert summary(cells).kind != "number"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        summary([f"{k}{'ABCDE'[k % 5]}" for k in range(N)])


def test_clock_times_go_around_the_day():
    for form in ("%H:%M", "%H:%M:%S", "%I:%M %p"):
        clock = pd.date_range("2020-01-01", periods=N, freq="7min").strftime(form)
        clock = clock.str.replace("^0(?=[0-9]:)", "", regex=True)
        column = pm.TableEncoder().fit(pd.DataFrame({"c": clock})).columns_[0]
        assert (column.kind, column.note) == ("date", f"read from text as {form}")
        assert column.encoding.cycles == ("hour of the day",)


def test_unread_cells_of_new_rows_are_said_once_and_count_as_missing():
    days = pd.date_range("2020-01-01", periods=N).strftime("%Y-%m-%d").to_series(index=range(N))
    frame = pd.DataFrame({"day": days, "amount": [f"{x:.3f}" for x in draws().standard_normal(N)]})
    frame.loc[3, "day"] = None
    encoder = pm.TableEncoder().fit(frame)
    new = frame.assign(day=days.where(np.arange(N) != 5, "31/12/2020"))
    with pytest.warns(
        UnreadCellsWarning,
        match=r"column 'day': .* as dates .* \(1 of these rows, such as '31/12/2020'\).* as in 2020-12-31\.",
    ) as warned:
        encoded = encoder.transform(new)
    assert len(warned) == 1
    np.testing.assert_array_equal(encoded[5, :-1], encoder.transform(frame)[3, :-1])
    with pytest.warns(UnreadCellsWarning, match=rf"column 'day': .*\({N} of"):
        encoder.transform(frame.assign(day=np.arange(N)))
    with pytest.warns(UnreadCellsWarning, match=r"column 'amount': .* as numbers"):
        encoder.transform(frame.assign(amount=["none of them"] * N))
    # Missing cells are no unread cells.
    encoder.transform(frame.assign(day=[None] * N, amount=["?"] * N))


@pytest.mark.parametrize("form", ["{}", "{},5 €", "$ {}", "USD {}", "{} m2", "{}%"])
def test_the_example_of_a_warning_is_read(form):
    encoder = pm.TableEncoder().fit(pd.DataFrame({"a": [form.format(k**2) for k in range(50)]}))
    example = encoder.columns_[0].encoding.example()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert encoder.transform(pd.DataFrame({"a": [example]}))[0, 0] > 0


@pytest.mark.parametrize("form", ["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M"])
def test_new_rows_may_have_iso_dates_in_place_of_the_trained_form(form):
    days = pd.date_range("2020-01-01", periods=N)
    frame = pd.DataFrame({"day": days.strftime("%d.%m.%Y")})
    encoder = pm.TableEncoder().fit(frame)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = encoder.transform(pd.DataFrame({"day": days.strftime(form)}))
    np.testing.assert_array_equal(found, encoder.transform(frame))
    mixed = frame.assign(day=np.where(np.arange(N) < 7, days.strftime(form), frame["day"]))
    with pytest.warns(UnreadCellsWarning, match=r"\(7 of"):
        encoder.transform(mixed)


def test_iso_dates_with_a_zone_are_refused_where_the_training_rows_had_none():
    days = pd.date_range("2020-01-01", periods=N)
    encoder = pm.TableEncoder().fit(pd.DataFrame({"day": days.strftime("%d.%m.%Y")}))
    with pytest.raises(ValueError, match="times without a time zone"):
        encoder.transform(pd.DataFrame({"day": days.strftime("%Y-%m-%dT%H:%M:%SZ")}))


@pytest.mark.parametrize("clock", ["", " 10:30"])
def test_dates_that_do_not_tell_the_day_from_the_month_are_said(clock):
    months = [f"{1 + k % 12:02}/{1 + k % 11:02}/2021{clock}" for k in range(N)]
    with pytest.warns(AmbiguousDatesWarning, match=r"column 'c': dates such as \d\d/\d\d/2021.* month/day/year, as"):
        found = summary(months)
    assert found.kind == "date"
    for told in (
        [*months[1:], f"11/28/2021{clock}"],
        [*months[1:], f"28/11/2021{clock}"],
        [f"{1 + k % 12:02}/{1 + k % 12:02}/{2000 + k}{clock}" for k in range(N)],
        [f"2021-{1 + k % 12:02}-{1 + k % 11:02}" for k in range(N)],
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert summary(told).kind == "date"


@pytest.mark.parametrize("clock", WATCH)
@pytest.mark.parametrize("form", DATES)
def test_forms_of_dates(form, clock):
    days = pd.date_range("2023-01-01 10:30", periods=N)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        encoder = pm.TableEncoder().fit(pd.DataFrame({"c": days.strftime(form + clock)}))
    assert encoder.summary_[0].note == f"read from text as {form}{WATCH[clock]}"
    again = pm.TableEncoder().fit(pd.DataFrame({"c": days if clock else days.normalize()}))
    assert encoder.columns_[0].encoding.mean == again.columns_[0].encoding.mean


def test_the_number_of_forms_is_that_of_the_page():
    page = Path(__file__).parents[2] / "docs" / "howto" / "tables.md"
    assert f"one of {len(ALL_FORMS)} forms" in page.read_text()


def test_years_of_two_digits_follow_the_pivot_of_posix():
    for text, year in (("31.12.68", 2068), ("31.12.69", 1969), ("31.12.99", 1999), ("31.12.00", 2000)):
        encoder = pm.TableEncoder(types={"c": "date"}).fit(pd.DataFrame({"c": [text, "30.12.98"]}))
        seconds = encoder.columns_[0].encoding._seconds_of(Cells("c", pa.array([text])))
        assert seconds.astype("datetime64[s]").item().year == year


def test_a_year_that_may_be_a_day_is_said():
    with pytest.warns(AmbiguousDatesWarning, match=r"read as day/month/year.*the year\. If they are year/month/day"):
        assert summary(["15/09/23", "23/05/24"] * (N // 2), types={"c": "date"}).note == "read from text as %d/%m/%y"
    # A wrong month does not turn all other dates around.
    days = [*pd.date_range("2023-01-01", periods=N - 1).strftime("%d/%m/%y"), "13/05/24"]
    assert summary(days).note == "read from text as %d/%m/%y"


def test_dates_with_years_of_other_lengths_are_no_dates():
    assert summary([f"{1 + k % 28}/{1 + k % 12}/{100 + k % 800}" for k in range(N)]).kind != "date"


@pytest.mark.parametrize(
    ("kind", "column", "seen"),
    [
        ("category", draws().integers(0, 3, N), "category"),
        ("category", np.arange(N), "many levels"),
        ("text", COLUMNS["category"]["levels"], "text"),
        ("number", COLUMNS["category"]["too many bad cells"], "number"),
        ("number", np.arange(N), "number"),
        ("date", ["2020-01-01", "2020-02-03", *["?"] * (N - 2)], "date"),
        ("drop", draws().standard_normal(N), "left out"),
    ],
)
def test_the_user_may_say_what_a_column_is(kind, column, seen):
    assert summary(column, types={"c": kind}).kind == seen


@pytest.mark.parametrize("kind", ["number", "date"])
def test_a_kind_of_which_there_is_no_cell_is_refused(kind):
    with pytest.raises(ValueError, match=rf"`types` says that column 'c' is a {kind}, got no cell that is one\. Leave"):
        summary(COLUMNS["left out"]["keys"], types={"c": kind})


def test_a_table_without_a_usable_column_is_refused():
    with pytest.raises(ValueError, match=r"tells rows apart, got only ones to leave out: 'a' \(constant \(1\)\)"):
        pm.TableEncoder().fit(pd.DataFrame({"a": [1, 1, 1]}))
