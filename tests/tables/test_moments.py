"""Texts that are moments in time, in their order."""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np
import pytest

import phimap as pm
from phimap.tables.moments import FORMS_IN_WORDS, moments_of
from phimap.tables.tallies import TIME_FORMS
from tests.support.learners import GAUSSIAN

START = datetime(2019, 11, 27, 23)
# Steps of a bit more than a day, so that days, months and years change.
TIMES = [START + timedelta(hours=31 * k) for k in range(120)]


def read(texts):
    return moments_of(np.array(texts), "`groups`", lambda row: f"row {row}")


def in_forms(form):
    return [time.strftime(form) for time in TIMES]


@pytest.mark.parametrize(
    "form", [*TIME_FORMS, "%Y-%m", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S.%f", "%Y-%m-%d %H:%M:%S+01:00"]
)
def test_texts_of_every_form_are_in_the_order_of_time(form, rng):
    order = rng.permutation(len(TIMES))
    found = np.empty(len(TIMES))
    found[order] = read(np.array(in_forms(form))[order])
    assert (np.diff(found) >= 0).all()
    assert found[-1] > found[0]


def test_seconds_are_those_of_the_clock():
    stated = [read([text])[0] for text in ("2020-01-01 01:30", "2020-01-01T01:30:00Z", "2020-01-01T03:30:00+02:00")]
    assert stated == [1577842200.0] * 3
    assert read(["2020-01-01", "2020-01-01T00:00:00.25"]).tolist() == [1577836800.0, 1577836800.25]


def test_numbers_and_missing_marks():
    np.testing.assert_array_equal(read(["10", " 2", "", "NA"]), [10, 2, np.nan, np.nan])
    np.testing.assert_array_equal(read(["2020-01-02", "?"]), [1577923200, np.nan])


@pytest.mark.parametrize("texts", [["01/02/2020", "03/04/2020"], ["01/02/2020 10:00", "05/01/2020 09:00"]])
def test_a_day_that_may_be_a_month_is_refused(texts):
    with pytest.raises(ValueError, match=r"must tell the day from the month.* row 0.*Write the year first"):
        read(texts)


def test_one_day_above_twelve_tells_the_day():
    assert np.argsort(read(["01/02/2020", "31/01/2020"])).tolist() == [1, 0]
    assert np.argsort(read(["02/01/2020", "01/31/2020"])).tolist() == [1, 0]


@pytest.mark.parametrize("text", ["soon", "31/12/20", "Q1 2020", "12.31.2020"])
def test_what_is_no_date_is_refused_with_the_forms(text):
    with pytest.raises(ValueError, match=r"31\.12\.2020.*got '" + text + "' in row 1. Write all dates alike"):
        read(["31.12.2020", text])


def test_offsets_in_some_rows_are_refused():
    with pytest.raises(ValueError, match="offset from UTC in all rows or in none"):
        read(["2020-01-01T00:00:00Z", "2020-01-01T00:00:00"])


def test_the_forms_of_the_message_can_be_read():
    examples = [one.strip() for one in FORMS_IN_WORDS.replace(", alone or with 23:00 or 23:00:00", "").split(" or ")]
    words = [word for one in examples for word in one.replace("Dec 31, 2020", "Dec 31 2020").strip(",").split(", ")]
    assert len(words) == 7
    for word in words:
        assert np.isfinite(read([word])).all()


def test_groups_of_dates_hold_out_the_last_rows(rng):
    n = 400
    days = np.datetime64("2020-01-01") + np.arange(n)
    X = np.column_stack([np.arange(n) / n, rng.standard_normal(n)])
    y = np.sin(6 * X[:, 0]) + 0.1 * rng.standard_normal(n)
    order = rng.permutation(n)
    texts = np.array([day.astype(datetime).strftime("%d/%m/%Y") for day in days], dtype=object)

    def predicted(groups):
        model = pm.KernelRegressor(n_components=32, validation="last", random_state=0, **GAUSSIAN)
        return model.fit(X[order], y[order], groups=groups).predict(X)

    expected = predicted(days[order])
    np.testing.assert_array_equal(predicted(texts[order]), expected)
    np.testing.assert_array_equal(predicted(days.astype(str)[order]), expected)
    with pytest.raises(ValueError, match="`groups` of moments must hold numbers, or dates in one form"):
        predicted(np.where(np.arange(n) == 5, "later", texts))
    with pytest.raises(ValueError, match="`groups` must not be missing, got a missing entry at row 3"):
        predicted(np.where(np.arange(n) == 3, "", texts))


def test_a_comparison_orders_texts_in_time(rng):
    n = 200
    days = np.datetime64("2020-01-01") + np.arange(n)
    texts = np.array([day.astype(datetime).strftime("%d.%m.%Y") for day in days])
    X = rng.standard_normal((n, 2))
    quick = {"models": ["linear"], "n_components": 8, "splits": 2, "validation": "last"}
    found = [pm.compare(X, np.arange(n), groups=groups, **quick).results[0].errors for groups in (texts, days)]
    np.testing.assert_array_equal(*found)
