"""``--groups`` and ``--time``: rows that are held out together, or the last rows."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import phimap as pm
from phimap.cli.groups import RowGroups
from tests.cli.test_bad_input import assert_refused
from tests.cli.test_fit import SMALL

N, EACH = 600, 6
TO = (*SMALL, "--model")


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    person = np.repeat([f"p{k}" for k in range(N // EACH)], EACH)
    X = rng.standard_normal((N, 3))
    offset = np.repeat(rng.standard_normal(N // EACH), EACH)
    frame = pd.DataFrame(X, columns=list("abc")).assign(
        person=person, day=pd.date_range("2020-01-01", periods=N).strftime("%Y-%m-%d"), y=X[:, 0] + offset
    )
    frame = frame.iloc[rng.permutation(N)].reset_index(drop=True)
    frame.to_csv(tmp_path / "t.csv", index=False)
    return tmp_path / "t.csv", frame


@pytest.mark.parametrize(("option", "column"), [("--groups", "person"), ("--time", "day")])
def test_a_fit_holds_out_whole_groups_or_the_last_rows(phimap, table, tmp_path, option, column):
    file, frame = table
    result = phimap(
        "fit", file, "--target", "y", option, column, "--columns", "a,b,c", "--json", *TO, tmp_path / "m.phimap"
    )
    assert result.exit_code == 0, result.stderr
    model = pm.load(tmp_path / "m.phimap")
    assert column not in list(model.feature_names_in_)
    assert model._fitted.has_units
    groups = RowGroups.read(str(file), "t.csv", *((column, None) if option == "--groups" else (None, column)), 0.1, 0)
    held_out = groups.held_out
    assert 0.08 * N <= held_out.sum() <= 0.12 * N
    assert model.n_samples_seen_ == N - held_out.sum()
    if option == "--groups":
        assert not set(frame["person"][held_out]) & set(frame["person"][~held_out])
    else:
        assert frame["day"][held_out].min() > frame["day"][~held_out].max()
    # The score on the held-out rows is that of the model.
    known = list(model.feature_names_in_)
    predicted = model.predict(frame[known][held_out].astype(np.float32))
    expected = np.sqrt(np.mean((predicted - frame["y"][held_out]) ** 2))
    told = json.loads(result.stdout)
    assert next(value for name, value in told.items() if name.lower() == "rmse") == pytest.approx(expected, rel=1e-3)


def test_groups_reach_an_encoded_frame_and_its_report(phimap, table, tmp_path):
    file, frame = table
    frame.assign(kind=np.where(frame["a"] > 0, "warm", "cold")).to_csv(file, index=False)
    words = ("fit", file, "--target", "y", "--groups", "person", "--drop", "day", "--report", tmp_path / "r.html")
    result = phimap(*words, "--model", tmp_path / "m.phimap", *SMALL)
    assert result.exit_code == 0, result.stderr
    assert pm.load(tmp_path / "m.phimap")._fitted.has_units
    page = (tmp_path / "r.html").read_text()
    assert "0.1 of the rows, as whole groups" in page
    assert "Which groups are held out depends on the seed and the column &#39;person&#39;." in page


def test_a_report_says_that_the_latest_rows_are_held_out(phimap, table, tmp_path):
    words = ("fit", table[0], "--target", "y", "--time", "day", "--columns", "a,b,c", "--report", tmp_path / "r.html")
    assert phimap(*words, *SMALL).exit_code == 0
    page = (tmp_path / "r.html").read_text()
    assert "0.1 of the rows, the latest ones" in page
    assert "by the column &#39;day&#39; are held out." in page
    assert "place in the file" not in page


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--groups", "person", "--time", "day"), ("--groups and --time", "both")),
        (("--groups", "nobody"), ("no groups column 'nobody'. Choose from ",)),
        (("--time", "nobody"), ("no time column 'nobody'",)),
        (("--weights", "nobody"), ("no weights column 'nobody'",)),
        (("--groups", "y"), ("--groups must name another column than the target, got 'y'",)),
        (("--time", "y"), ("--time must name another column",)),
        (("--weights", "y"), ("--weights must name another column",)),
        (("--groups", "person", "--scheduler", "tcp://localhost:1"), ("--scheduler",)),
    ],
)
def test_what_cannot_be_is_refused(phimap, table, words, told):
    assert_refused(phimap("fit", table[0], "--target", "y", *words, *SMALL), *told)


def test_an_automatic_width_draws_no_warning_of_few_landmarks(phimap, tmp_path):
    rng = np.random.default_rng(0)
    area, rooms, group = rng.uniform(20, 200, 240), rng.integers(1, 6, 240), rng.integers(0, 30, 240)
    price = area * 3000 + rooms * 1e4 + rng.normal(0, 2e4, 240)
    names = [f"p{one}" for one in group]
    pd.DataFrame({"area": area, "rooms": rooms, "g": names, "price": price}).to_csv(tmp_path / "t.csv", index=False)
    done = phimap("fit", tmp_path / "t.csv", "--target", "price", "--groups", "g", "--effort", "fast", "--quiet")
    assert done.exit_code == 0
    assert "landmarks" not in done.stderr


def test_the_target_is_not_offered_for_groups(phimap, table):
    error = phimap("fit", table[0], "--target", "y", "--groups", "nobody", *SMALL).stderr
    assert "'person'" in error
    assert "'y'" not in error


def test_a_missing_group_is_refused(phimap, table):
    file, frame = table
    frame["person"] = frame["person"].where(np.arange(N) != 7)
    frame.to_csv(file, index=False)
    assert_refused(phimap("fit", file, "--target", "y", "--groups", "person", *SMALL), "person", "row 8")


@pytest.mark.parametrize(("option", "column"), [("--groups", "person"), ("--time", "day")])
def test_a_comparison_splits_in_the_same_way(phimap, table, option, column):
    file, frame = table
    quick = {"models": ["linear", "gaussian"], "n_components": 16, "splits": 2}
    words = ("--models", "linear,gaussian", "--features", "16", "--splits", "2", "--json", "-q")
    result = phimap("compare", file, "--target", "y", option, column, "--columns", "a,b,c", *words)
    assert result.exit_code == 0, result.stderr
    validation = "random" if option == "--groups" else "last"
    X = frame[["a", "b", "c"]].to_numpy(np.float32)
    expected = pm.compare(X, frame["y"], groups=frame[column].astype(str), validation=validation, **quick)
    found = {one["name"]: one["errors"] for one in json.loads(result.stdout)["models"]}
    for one in expected.results:
        np.testing.assert_allclose(found[one.name], one.errors, rtol=1e-4)
    # Rows of a known group are predicted better, so the errors on new groups are larger.
    if option == "--groups":
        offsets = pm.compare(np.hstack([X, pd.get_dummies(frame["person"])]), frame["y"], **quick)
        assert min(one.error for one in offsets.results) < 0.7 * min(one.error for one in expected.results)


@pytest.mark.parametrize("form", ["%d/%m/%Y %H:%M", "%b %d, %Y", "%d.%m.%Y"])
def test_dates_as_people_write_them_are_moments(table, form):
    file, frame = table
    frame.assign(day=pd.to_datetime(frame["day"]).dt.strftime(form)).to_csv(file, index=False)
    held_out = RowGroups.read(str(file), "t.csv", None, "day", 0.1, 0).held_out
    assert held_out.sum() == N // 10
    assert frame["day"][held_out].min() > frame["day"][~held_out].max()


def test_dates_of_parquet_are_moments(table, tmp_path):
    _, frame = table
    frame["day"] = pd.to_datetime(frame["day"]).dt.tz_localize("Europe/Berlin") + pd.Timedelta("1ms") * frame.index
    frame.to_parquet(tmp_path / "t.parquet", index=False)
    held_out = RowGroups.read(str(tmp_path / "t.parquet"), "t", None, "day", 0.1, 0).held_out
    assert frame["day"][held_out].min() > frame["day"][~held_out].max()


@pytest.mark.parametrize("command", ["fit", "compare"])
def test_moments_that_cannot_be_told_are_refused(phimap, table, command):
    file, frame = table
    words = (command, file, "--target", "y", "--time", "day", "--columns", "a,b,c")
    days = pd.to_datetime(frame["day"])
    frame.assign(day=[f"{day.day % 12 + 1:02}/{day.month:02}/{day.year}" for day in days]).to_csv(file, index=False)
    assert_refused(phimap(*words), "column 'day'", "the day from the month", "data row 1")
    frame.assign(day=frame["day"].where(frame.index != 4, "soon")).to_csv(file, index=False)
    assert_refused(phimap(*words), "column 'day'", "dates in one form", "31/12/2020", "'soon' in data row 5")


@pytest.mark.parametrize("is_number", [False, True])
def test_a_missing_moment_is_refused(phimap, table, is_number):
    file, frame = table
    times = np.arange(N).astype(float) if is_number else frame["day"]
    frame.assign(day=pd.Series(times).where(frame.index != 7)).to_csv(file, index=False)
    assert_refused(phimap("fit", file, "--target", "y", "--time", "day", "--drop", "person", *SMALL), "day", "row 8")
