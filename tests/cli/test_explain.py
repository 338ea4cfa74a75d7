"""``phimap explain``: values of every row, reports of all rows and of one, and refusals."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import phimap as pm
from tests.cli.test_bad_input import FIXED, assert_refused
from tests.cli.test_fit import values


@pytest.fixture(scope="module")
def mixed(tmp_path_factory) -> tuple[Path, Path, pd.DataFrame]:
    """A model of a table with text and dates, the table, and its frame."""
    folder, rng = tmp_path_factory.mktemp("explain"), np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "size": rng.standard_normal(200),
            "town": rng.choice(["Ulm", "Bonn"], 200),
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 900, 200), unit="D"),
        }
    )
    y = frame["size"] + (frame["town"] == "Ulm")
    model = pm.KernelRegressor("gaussian", 32, metric=None, length_scale=2.0, alpha=0.1, random_state=0).fit(frame, y)
    pm.save(model, folder / "m.phimap")
    frame.assign(price=y).to_csv(folder / "data.csv", index=False)
    return folder / "m.phimap", folder / "data.csv", frame


def test_values_of_every_row_and_a_report(phimap, mixed, tmp_path):
    model, data, frame = mixed
    out, report = tmp_path / "values.parquet", tmp_path / "page.html"
    done = phimap("explain", model, data, "--output", out, "--report", report, "--background-rows", "40")
    assert values(done.stdout)["values"] == "exact"
    assert values(done.stdout)["background_rows"] == "40"
    found = pd.read_parquet(out)
    assert list(found.columns) == ["row", "base value", "output", "size", "town", "day"]
    assert len(found) == 200
    predicted = pm.load(model).predict(frame)
    np.testing.assert_allclose(found["output"], predicted, atol=1e-5)
    np.testing.assert_allclose(found[["size", "town", "day"]].sum(axis=1) + found["base value"], found["output"])
    page = report.read_text()
    assert page.count("<svg") == 4
    assert "What size adds to the output" in page
    assert "Pairs of columns" in page


def test_one_row_is_a_waterfall(phimap, mixed, tmp_path):
    model, data, _ = mixed
    out, report = tmp_path / "values.csv", tmp_path / "page.html"
    phimap("explain", model, data, "-o", out, "--report", report, "--row", "7", "--rows", "500")
    phimap("explain", model, data, "-o", tmp_path / "few.csv", "--row", "7", "--rows", "10")
    assert 7 in pd.read_csv(tmp_path / "few.csv")["row"].to_list()
    page = report.read_text()
    assert page.count("<svg") == 1
    assert "Why row 7 gets its output" in page
    assert len(pd.read_csv(out)) == 200


def test_classes_have_columns_of_their_own(phimap, tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((90, 2)), columns=["a", "b"])
    labels = np.array(["x", "y", "z"])[np.arange(90) % 3]
    model, data = tmp_path / "m.phimap", tmp_path / "data.csv"
    pm.save(pm.KernelClassifier("gaussian", 32, metric=None, random_state=0).fit(frame, labels), model)
    frame.to_csv(data, index=False)
    out = tmp_path / "values.parquet"
    done = phimap("explain", model, data, "-o", out, "--rows", "10", "--report", tmp_path / "page.html")
    assert "exact values: " in done.stderr
    again = phimap("explain", model, data, "-o", out, "--rows", "10", "--quiet")
    assert again.stderr == ""
    # A table of several outputs is its own, too.
    assert again.exit_code == 0
    found = pd.read_parquet(out)
    assert {"a:x", "b:z", "output:y", "base value:z"} <= set(found.columns)
    assert len(found) == 10


def test_refusals(phimap, mixed, tmp_path):
    model, data, _ = mixed
    assert_refused(phimap("explain", model, data, "-o", tmp_path / "a.xlsx"), "must end in .csv or .parquet")
    out = tmp_path / "a.csv"
    assert_refused(phimap("explain", model, data, "-o", out, "--row", "900"), "--row must be the number")
    refused = phimap("explain", model, data, "-o", out, "--report", out)
    assert_refused(refused, "--output and --report both name", "a.csv")
    assert_refused(phimap("explain", model, data, "--json"), "--json needs --output FILE, got none")
    for option in ("--rows", "--background-rows"):
        assert_refused(phimap("explain", model, data, option, "0"), f"{option} must be at least 1, got 0")
    assert_refused(phimap("explain", model, "-", "--background", "-"), "--background must be another input")
    missing = tmp_path / "none.csv"
    assert_refused(phimap("explain", model, data, "--background", missing), "none.csv: no such file")


@pytest.mark.parametrize("name", ["precious.csv", "precious.parquet"])
def test_other_tables_are_kept_unless_forced(phimap, mixed, tmp_path, name):
    """It replaced the training table without a word."""
    model, data, frame = mixed
    precious, words = tmp_path / name, ("explain", model, data, "--rows", "10", "-o", tmp_path / name)
    frame.to_csv(precious, index=False) if name.endswith(".csv") else frame.to_parquet(precious)
    before = precious.read_bytes()
    assert_refused(phimap(*words), "--output", name, "no table of Shapley values", "--force")
    assert precious.read_bytes() == before
    assert phimap(*words, "--force").exit_code == 0
    # Its own tables are replaced as ever, and so are empty files.
    assert phimap(*words).exit_code == 0
    if name.endswith(".csv"):
        precious.write_text("")
        assert phimap(*words).exit_code == 0


def test_values_go_to_the_screen_like_predictions(phimap, mixed, tmp_path):
    model, data, _ = mixed
    words, file = ("explain", model, data, "--rows", "10", "--quiet"), tmp_path / "values.csv"
    facts = phimap(*words, "-o", file).stdout
    shown = phimap(*words)
    assert shown.exit_code == 0
    assert shown.stdout == file.read_text()
    assert shown.stdout.startswith("row,base value,output,size,town,day\n")
    assert values(shown.stderr) == {name: value for name, value in values(facts).items() if name != "output"}
    # Whoever asks for the page alone gets no table.
    page = tmp_path / "page.html"
    assert "rows 10\n" in phimap(*words, "--report", page).stdout
    assert page.read_text().startswith("<!DOCTYPE html")


def table_of(result) -> pd.DataFrame:
    assert result.exit_code == 0, result.stderr
    return pd.read_csv(io.StringIO(result.stdout)).set_index("row")


def test_the_background_comes_from_the_whole_table(phimap, mixed):
    """Fewer explained rows made a smaller background: the base value and all values changed with --rows."""
    model, data, frame = mixed
    whole = table_of(phimap("explain", model, data, "-q"))
    for words in (("--rows", "5"), ("--rows", "1"), ("--rows", "1", "--row", "7")):
        some = table_of(phimap("explain", model, data, "-q", *words))
        assert len(some) < 6
        pd.testing.assert_frame_equal(some, whole.loc[some.index])
    # The rows are those that Python draws, so that the values are the same.
    found = pm.explain.shapley_values(pm.load(model), frame)
    np.testing.assert_allclose(whole[["size", "town", "day"]], found.values, atol=1e-12)


def test_a_background_of_another_table(phimap, mixed, tmp_path):
    model, data, frame = mixed
    one, few = tmp_path / "one.csv", tmp_path / "few.csv"
    frame[6:7].to_csv(one, index=False)
    frame[:12].to_csv(few, index=False)
    assert_refused(phimap("explain", model, one), "one.csv: has one row, which would be compared", "--background")
    noted = phimap("explain", model, few, "-q")
    assert noted.stderr.startswith(f"note: {few}: the 12 rows are compared with each other alone")
    assert "--background" in noted.stderr
    # All 200 rows of the other table, in any order.
    words = ("--background", data, "--background-rows", "200", "-q")
    done, whole = (
        phimap("explain", model, one, *words),
        phimap("explain", model, data, "--background-rows", "200", "-q"),
    )
    assert "note" not in done.stderr
    np.testing.assert_allclose(table_of(done).loc[1], table_of(whole).loc[7], atol=1e-9)
    assert np.abs(table_of(done)[["size", "town"]]).to_numpy().max() > 0.1
    # A single row is a background if someone names it.
    against_one = table_of(phimap("explain", model, data, "--background", one, "-q"))
    np.testing.assert_allclose(against_one.loc[7, ["size", "town", "day"]], 0.0, atol=1e-9)
    assert phimap("explain", model, few, *words, "--report", tmp_path / "page.html").exit_code == 0
    assert "Pairs of columns" in (tmp_path / "page.html").read_text()
    # Inputs are never overwritten.
    refused = phimap("explain", model, few, "--background", one, "-o", one, "--force")
    assert_refused(refused, "one.csv: is the input file")


def test_a_bad_background_is_refused(phimap, mixed, tmp_path):
    model, data, frame = mixed
    other = tmp_path / "other.csv"
    frame.drop(columns="town").to_csv(other, index=False)
    assert_refused(phimap("explain", model, data, "--background", other, "-q"), "other.csv", "'town'")


# The extra of the command does not install pandas.
WITHOUT_PANDAS = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "pandas":
            raise ModuleNotFoundError("No module named 'pandas'", name="pandas")

sys.meta_path.insert(0, Missing())
from phimap.cli import main
main()
"""


def test_the_command_needs_no_pandas(mixed, tmp_path):
    model, data, _ = mixed
    outputs = ("--output", tmp_path / "values.parquet", "--report", tmp_path / "page.html", "--background-rows", "10")
    words = [str(word) for word in ("explain", model, data, *outputs)]
    done = subprocess.run([sys.executable, "-c", WITHOUT_PANDAS, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert {"town", "day"} <= set(pd.read_parquet(tmp_path / "values.parquet").columns)


def test_a_number_is_no_background(phimap, mixed):
    model, data, _ = mixed
    done = phimap("explain", model, data, "--background", "20")
    assert_refused(done, "--background must be a table, got 20. The number of rows is --background-rows 20.")


def test_rows_with_infinite_cells_are_left_out(phimap, tmp_path, rng):
    X = rng.standard_normal((60, 2))
    model = pm.KernelRegressor("gaussian", 16, metric=None, length_scale=2.0, alpha=0.1, random_state=0).fit(X, X[:, 0])
    pm.save(model, tmp_path / "m.phimap")
    frame = pd.DataFrame(X, columns=["a", "b"])
    frame.loc[3, "b"] = np.inf
    frame.to_csv(tmp_path / "data.csv", index=False)
    done = phimap("explain", tmp_path / "m.phimap", tmp_path / "data.csv", "-q")
    assert done.exit_code == 0, done.stderr
    assert f"note: {tmp_path / 'data.csv'}: 1 row left out for an infinite feature." in done.stderr
    rows = pd.read_csv(io.StringIO(done.stdout))["row"].to_list()
    assert rows == [*range(1, 4), *range(5, 61)]


def test_columns_that_are_left_out_have_no_values(phimap, tmp_path, rng):
    frame = pd.DataFrame({"id": [f"n{i}" for i in range(120)], "a": rng.standard_normal(120), "town": ["x", "y"] * 60})
    frame.assign(price=frame["a"] + (frame["town"] == "x")).to_csv(tmp_path / "t.csv", index=False)
    words = ("--features", 32, *FIXED, "--length-scale", 2, "--types", "id=drop", "--report", tmp_path / "r.html")
    done = phimap("fit", tmp_path / "t.csv", "--target", "price", "--model", tmp_path / "m.phimap", *words)
    assert "120 rows, 2 columns" in " ".join(done.stderr.split())
    page = (tmp_path / "r.html").read_text()
    assert "<td>2 columns</td>" in page.replace("<dd>", "<td>").replace("</dd>", "</td>")
    done = phimap("explain", tmp_path / "m.phimap", tmp_path / "t.csv", "-o", tmp_path / "v.csv")
    assert values(done.stdout)["columns"] == "2"
    assert list(pd.read_csv(tmp_path / "v.csv")) == ["row", "base value", "output", "a", "town"]
