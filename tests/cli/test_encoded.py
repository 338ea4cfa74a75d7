"""What the command tells of columns that were encoded."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import phimap as pm
from phimap.cli.commands import app
from phimap.cli.describe import leading_columns
from phimap.cli.reporting import encoded_axes
from phimap.report import dependences
from phimap.tables.encoding import AmbiguousDatesWarning
from tests.cli.test_bad_input import assert_refused
from tests.support.learners import GAUSSIAN


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    n = 400
    area, city = rng.uniform(20, 120, n).round(1), rng.choice(["Ulm", "Bonn", "Köln"], n)
    price = 3 * area + 90 * (city == "Ulm") + rng.normal(size=n)
    area[::9] = np.nan
    noise = {f"noise {j}": rng.normal(size=n) for j in range(4)}
    return pd.DataFrame({"[/key]": np.arange(n), "area": area, "city": city, "same": 1, **noise, "price": price})


@pytest.fixture(scope="module")
def fitted(frame, tmp_path_factory) -> tuple[Path, str]:
    """Folder with data, model ``m.phimap`` and report ``r.html``, and what the fit said."""
    folder = tmp_path_factory.mktemp("encoded")
    frame.to_csv(folder / "t.csv", index=False)
    words = [
        "fit",
        folder / "t.csv",
        "--target",
        "price",
        "--model",
        folder / "m.phimap",
        "--report",
        folder / "r.html",
    ]
    words += ["--kernel", "gaussian", "--metric", "diagonal", "--effort", "fast", "--features", "64"]
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, done.stderr
    return folder, done.stderr


def test_info_and_report(phimap, fitted):
    folder, said = fitted
    assert "left out as columns: '[/key]' (numbers the rows), 'same' (constant (1))" in said
    lines = phimap("info", folder / "m.phimap").stdout.splitlines()
    told = {line[2:].partition("  ")[0]: line for line in lines if line.startswith("  ")}
    assert "number, 2 columns, 4" in told["area"]
    assert "category, 3 levels, 3 columns" in told["city"]
    assert "left out, constant (1)" in told["same"]
    page = (folder / "r.html").read_text()
    # Every count of columns is of the same ones, and names the others.
    assert page.count("6 columns, without &#39;[/key]&#39;, &#39;same&#39;") == 3
    assert "8 columns" not in page
    for word in ("<td>numbers the rows</td>", "<td>3 levels</td>", "Mean price against area"):
        assert word in page


def test_a_file_of_decimal_commas_has_thousands_with_points(phimap, tmp_path, rng):
    """The cells 9.110 and 9.110 € of features were read as 9.11, because both marks can read them."""
    people, price, share = rng.integers(1000, 9999, 60), rng.integers(1000, 99999, 60), rng.uniform(1, 30, 60)
    lines = ["ort;people;price;share;y"]
    for a, b, c in zip(people, price, share, strict=True):
        of_thousands = [f"{number:,}".replace(",", ".") for number in (a, b)]
        rest = [f"{number:.1f}".replace(".", ",") for number in (c, a / 100 + b / 1000 + c)]
        lines.append(
            ";".join(["Ulm" if a % 2 else "Bonn", of_thousands[0], f"{of_thousands[1]} €", f"{rest[0]}%", rest[1]])
        )
    data, model, report = tmp_path / "t.csv", tmp_path / "m.phimap", tmp_path / "r.html"
    data.write_text("\n".join(lines) + "\n", encoding="utf-8")
    words = ("--target", "y", "--effort", "fast", "--features", 32, "--kernel", "gaussian", "--model", model)
    said = phimap("fit", data, *words).stderr
    assert "separated by semicolons, decimal commas" in said
    assert "'people' (read from text with decimal commas)" in said
    means = {one.name: one.encoding.mean for one in pm.load(model).encoder_.columns_ if one.kind == "number"}
    np.testing.assert_allclose([means["people"], means["price"], means["share"]], [5500, 50_000, 15], rtol=0.2)
    # A report of explanations has axes of these numbers.
    phimap("explain", model, data, "--report", report)
    assert {"8000", "6000"} & set(re.findall(r">([0-9.]+)</text>", report.read_text(encoding="utf-8")))


@pytest.mark.filterwarnings("always::phimap.tables.encoding.MixedCellsWarning")
@pytest.mark.filterwarnings("always::phimap.tables.encoding.UnreadCellsWarning")
def test_numbers_among_other_cells_are_told(phimap, tmp_path, rng):
    """A column with 8 % of other cells silently became categories."""
    area = rng.uniform(20, 120, 200).round(2)
    frame = pd.DataFrame({"area": area.astype(str), "town": rng.choice(["Ulm", "Bonn"], 200), "y": 3 * area})
    frame.loc[::12, "area"] = "n.a. yet"
    data = tmp_path / "t.csv"
    frame.to_csv(data, index=False)
    words = ("--target", "y", "--effort", "fast", "--features", 32, "--kernel", "gaussian")
    said = phimap("fit", data, *words).stderr
    assert "column 'area' is read as categories or text: 91 % of its cells are numbers, and " in said
    assert "such as 'n.a. yet'. To take these for missing, use --types (area=number)." in said
    said = phimap("fit", data, "--types", "area=number", *words).stderr
    assert "warning" not in said


def test_row_numbers_of_a_table_of_numbers_are_left_out(phimap, tmp_path, rng):
    """They were left out beside text alone."""
    X = rng.standard_normal((60, 2)).round(4)
    frame = pd.DataFrame(
        {"id": np.arange(10001, 10061), "mixed": rng.permutation(60), "a": X[:, 0], "b": X[:, 1], "same": 1}
    )
    frame["y"] = (X.sum(axis=1) + 0.1 * rng.standard_normal(60)).round(4)
    data, model = tmp_path / "t.csv", tmp_path / "m.phimap"
    frame.to_csv(data, index=False)
    words = ("--target", "y", "--effort", "fast", "--features", 32, "--kernel", "gaussian", "--model", model)
    said = phimap("fit", data, *words).stderr
    assert "left out as columns: 'id' (numbers the rows), 'mixed' (numbers the rows), 'same' (constant)" in said
    assert list(pm.load(model).feature_names_in_) == ["a", "b"]
    assert "left out" not in phimap("fit", data, "--columns", "id", *words).stderr


def test_dependences_are_in_the_units_of_the_column(frame, fitted):
    model = pm.load(fitted[0] / "m.phimap")
    rows = model.encoder_.transform(frame)
    leading = [name for name, _ in leading_columns(model, 2)]
    assert set(leading) == {"area", "city"}
    found = dependences(model, rows, encoded_axes(model.encoder_, rows, frame, ["area"]))
    (area,) = found.singles
    assert area.names == ("area",)
    assert found.pair is None
    low, high = area.grids[0][[0, -1]]
    assert 20 < low < 40
    assert 100 < high < 120
    # Three for each unit of the area, as the table was made.
    slope = np.polyfit(area.grids[0], area.mean, 1)[0]
    assert slope == pytest.approx(3, rel=0.1)


def test_dependences_on_categories_and_dates_are_those_of_changed_cells(rng):
    n = 400
    counts = rng.geometric(0.15, n)
    # Mondays alone, so that the day of the week does not vary.
    day = pd.Timestamp("2020-01-06") + pd.to_timedelta(7 * rng.integers(0, 150, n), unit="D")
    frame = pd.DataFrame({"shop": [f"shop {k % 16}" for k in counts], "day": day, "open": rng.random(n) < 0.5})
    frame.loc[::5, "shop"] = None
    y = np.sin(counts) + frame["open"] + (day - day.min()).days / 500
    model = pm.KernelRegressor(n_components=64, random_state=0, **GAUSSIAN).fit(frame, y)
    rows = model.encoder_.transform(frame)
    found = dependences(model, rows, encoded_axes(model.encoder_, rows, frame, ["shop", "day", "open"]))
    shop, day, is_open = found.singles
    names = frame["shop"].fillna("missing").value_counts().index[:12]
    assert set(shop.grids[0]) == set(names)
    assert shop.grids[0][0] == names[0]
    n_levels = len(model.encoder_.columns_[0].encoding.levels)
    assert shop.axes[0].others == f"{n_levels + 1 - 12} less frequent categories and rare ones"
    assert day.grids[0].dtype.kind == "M"
    assert is_open.grids[0].tolist() == ["false", "true"]
    assert found.pair is None
    sample = frame.head(found.n_rows)
    mondays = pd.date_range("2020-01-06", periods=150, freq="7D")
    for one, column, values in ((shop, "shop", [*names[:3], "missing"]), (is_open, "open", ["false", "true"])):
        for value in values:
            cell = {"missing": None, "false": False, "true": True}.get(value, value)
            expected = model.predict(sample.assign(**{column: [cell] * len(sample)}).astype(frame.dtypes)).mean()
            assert one.mean[one.grids[0].tolist().index(value)] == pytest.approx(expected, rel=1e-5)
    on_mondays = [model.predict(sample.assign(day=monday)).mean() for monday in mondays]
    expected = np.interp(
        day.grids[0].astype("int64"), mondays.to_numpy().astype(day.grids[0].dtype).astype("int64"), on_mondays
    )
    np.testing.assert_allclose(day.mean, expected, atol=0.02 * np.ptp(day.mean))


def test_reports_draw_categories_and_dates(rng, phimap, tmp_path):
    n = 300
    shop = rng.integers(0, 14, n)
    day = np.datetime64("2020-01-06") + rng.integers(0, 1000, n)
    frame = pd.DataFrame(
        {"shop": [f"shop {k}" for k in shop], "day": day.astype(str), "y": np.sin(shop) + day.astype(int) / 500}
    )
    frame.to_csv(tmp_path / "t.csv", index=False)
    words = ("--kernel", "gaussian", "--metric", "none", "--features", "64", "--report", tmp_path / "r.html", "-q")
    assert phimap("fit", tmp_path / "t.csv", "--target", "y", *words).exit_code == 0
    page = (tmp_path / "r.html").read_text()
    for text in ("Mean y against shop", "Mean y against day", "Left out: 2 less frequent categories.", ">2021<"):
        assert text in page


def test_no_dependences_on_constants_and_text(frame):
    columns = frame[["city", "same"]].assign(note=[f"a long note on {k % 97} and {k}" for k in range(len(frame))])
    encoder = pm.TableEncoder().fit(columns, frame["price"])
    axes = encoded_axes(encoder, encoder.transform(columns), columns, ["note", "same", "city"])
    assert [axis.name for axis in axes] == ["city"]


def test_bad_cells_are_named_by_data_rows_of_the_file(frame, fitted, phimap, tmp_path):
    text = frame.astype({"area": object})
    text.loc[350, "area"] = "many"
    text["area"] = text["area"].astype(str)
    text.to_parquet(tmp_path / "t.parquet")
    found = phimap("predict", fitted[0] / "m.phimap", tmp_path / "t.parquet", "-o", tmp_path / "p.csv")
    assert found.exit_code == 2
    assert "t.parquet: data row 351, column 'area' has 'many', where the training rows had numbers." in found.stderr
    assert not (tmp_path / "p.csv").exists()
    # Held out or not, the number is that of the file.
    for row in (7, 8, 350):
        frame.assign(area=frame["area"].where(frame.index != row, 1e200)).to_csv(tmp_path / "t.csv", index=False)
        found = phimap("fit", tmp_path / "t.csv", "--target", "price", "--kernel", "gaussian", "--features", "16")
        assert f"data row {row + 1}, column 'area' contains 1e+200, beyond 1e+150. Correct" in found.stderr
        assert found.exit_code == 2


def amounts_table(path: Path, write, n: int = 200) -> Path:
    """A table whose column ``a`` holds numbers as `write(number, row)` gives them, and whose target is half of them."""
    numbers = np.random.default_rng(0).normal(size=n).round(2) * 1000
    lines = [f'"{write(a, row)}",{row % 7},{a / 2 + row % 7}' for row, a in enumerate(numbers.tolist())]
    path.write_text("\n".join(["a,b,y", *lines]))
    return path


QUICK_FIT = ("--kernel", "gaussian", "--metric", "none", "--length-scale", 2, "--features", 64, "--trees", "none")


@pytest.mark.parametrize("sign", ["", "$"])
def test_amounts_in_parentheses_are_negative_numbers(phimap, tmp_path, sign):
    def write(a, row):
        return f"({sign}{-a:,.2f})" if a < 0 else f"{sign}{a:,.2f}"

    data = amounts_table(tmp_path / "t.csv", write)
    done = phimap("fit", data, "--target", "y", *QUICK_FIT)
    without = " without '$'" if sign else ""
    assert f"'a' (read from text{without}, with numbers in parentheses as negative)" in done.stderr
    assert float(done.stdout.split("R2 ")[1].split()[0]) > 0.9
    # As a target they are read, too; they were taken for names of rows.
    done = phimap("fit", data, "--target", "a", *QUICK_FIT)
    assert f"target 'a' read from text{without}, with numbers in parentheses as negative" in done.stderr
    assert float(done.stdout.split("R2 ")[1].split()[0]) > 0.9


@pytest.mark.filterwarnings("always::phimap.tables.encoding.MixedCurrenciesWarning")
def test_amounts_in_several_currencies_are_numbers_if_the_user_says_so(phimap, tmp_path):
    """The advice to read them as numbers led to the error that no cell is one."""
    data = amounts_table(tmp_path / "t.csv", lambda a, row: f"{'$€£'[row % 3]}{a:.2f}")
    done = phimap("fit", data, "--target", "y", *QUICK_FIT)
    said = "column 'a': amounts in several currencies ('$', '€', '£') are not read as numbers."
    assert f"{said} Convert them to one currency, or read them as they are with --types (a=number)." in done.stderr
    done = phimap("fit", data, "--target", "y", "--types", "a=number", *QUICK_FIT)
    assert "'a' (read from text without '$', '€', '£', of several currencies as if of one)" in done.stderr
    assert float(done.stdout.split("R2 ")[1].split()[0]) > 0.9
    assert_refused(phimap("fit", data, "--target", "a", "-q", *QUICK_FIT), "as amounts with --types COL=number.")
    done = phimap("fit", data, "--target", "a", "--types", "a=number", *QUICK_FIT)
    assert float(done.stdout.split("R2 ")[1].split()[0]) > 0.9


def test_names_of_rows_are_not_advised_to_be_read_as_amounts(phimap, tmp_path):
    data = amounts_table(tmp_path / "t.csv", lambda a, row: f"row {row}")
    told = "look like names of rows. Choose another --target, or group them."
    assert_refused(phimap("fit", data, "--target", "a", "-q", *QUICK_FIT), told)


def test_a_first_row_of_numbers_in_parentheses_is_no_header(phimap, tmp_path):
    data = amounts_table(tmp_path / "t.csv", lambda a, row: f"({abs(a):.0f}.{row})")
    data.write_text(data.read_text().partition("\n")[2])
    done = phimap("fit", data, "--target", "c2", *QUICK_FIT)
    assert "no header: columns are called c0, c1, ..." in done.stderr


@pytest.mark.parametrize("cell", ["(12,30)", "($1,230.00)"])
def test_halves_of_numbers_in_parentheses_are_no_row_names(phimap, tmp_path, cell):
    """Without quotes, their first halves were taken for row names, and their second halves for the column."""
    (tmp_path / "t.csv").write_text("a,b,y\n" + "".join(f"{cell},{k},{k % 7}\n" for k in range(60)))
    done = phimap("fit", tmp_path / "t.csv", "--target", "y", *QUICK_FIT)
    assert_refused(done, f"cells such as '{cell}' hold the separator. Put them in quotes.")


def test_new_dates_that_nothing_tells_month_first_draw_a_warning(rng):
    """A model of ISO dates read new dates such as 01/06/2023 month first, without a word."""
    days = pd.date_range("2023-01-01", periods=300)
    model = pm.KernelRegressor(random_state=0, n_components=32, **GAUSSIAN)
    model.fit(pd.DataFrame({"day": days, "town": rng.choice(["Ulm", "Bonn"], 300)}), np.arange(300.0))
    new = pd.DataFrame({"day": ["01/06/2023", "02/06/2023"], "town": "Ulm"})
    with pytest.warns(AmbiguousDatesWarning, match="dates such as 01/06/2023 are read as month/day/year"):
        model.predict(new)
    # One cell settles the order.
    model.predict(pd.concat([new, pd.DataFrame({"day": ["28/06/2023"], "town": "Ulm"})]))
