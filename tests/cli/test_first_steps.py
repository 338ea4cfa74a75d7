"""What a newcomer meets: cells with units, files of many kinds, mistakes and the sentences that answer them."""

from __future__ import annotations

import bz2
import gzip
import json
import shutil
import subprocess
import sys
import zipfile
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from sklearn.datasets import dump_svmlight_file

import phimap as pm

SMALL = ("--features", "32", "--kernel", "gaussian", "--metric", "none", "--length-scale", "median", "-q")


def fit(phimap, path, *options):
    return phimap("fit", path, "--target", "y", *SMALL, *options)


@pytest.fixture
def prices(tmp_path):
    """Numbers with a currency, a unit and written-out dates, on which the target depends."""
    rng = np.random.default_rng(0)
    price, carat = rng.uniform(500, 9000, 200), rng.uniform(0.2, 3, 200)
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, 200), unit="D")
    frame = pd.DataFrame(
        {
            "price": [f"${value:,.2f}" for value in price],
            "carat": [f"{value:.2f} ct" for value in carat],
            "sold": days.strftime("%b %d, %Y"),
            "y": price / 1000 + carat,
        }
    )
    frame.to_csv(tmp_path / "prices.csv", index=False)
    return tmp_path / "prices.csv"


def test_currencies_units_and_written_dates_are_read_and_told(phimap, prices, tmp_path):
    model = tmp_path / "m.phimap"
    done = phimap("fit", prices, "--target", "y", *SMALL[:-1], "--model", model)
    assert (
        "taken for numbers: 'price' (read from text without '$'), 'carat' (read from text without 'ct')" in done.stderr
    )
    kinds = {column.name: column.kind for column in pm.load(model).encoder_.columns_}
    assert kinds == {"price": "number", "carat": "number", "sold": "date"}
    score = phimap("predict", model, prices, "--target", "y", "-o", tmp_path / "p.csv")
    assert float(score.stdout.split("\n")[0].split()[1]) > 0.9


def test_far_rows_are_told_in_the_units_of_the_table(phimap, prices, tmp_path):
    model = tmp_path / "m.phimap"
    fit(phimap, prices, "--model", model)
    far = pd.read_csv(prices).assign(price="$90,000.00")
    far.to_csv(tmp_path / "far.csv", index=False)
    told = phimap("predict", model, tmp_path / "far.csv", "-o", tmp_path / "p.csv").stderr
    assert "for example with 9e+04 in column 'price', which was " in told


PLANNED = ("-q", "--features", "32", "--machine", "reference")


def test_packed_files_are_read_by_fit_and_by_plan(phimap, tables, tmp_path):
    """Packed texts, workbooks, libsvm files, folders of parts and patterns: all that `phimap fit` reads of columns."""
    plain, frame = (tables / "numbers.csv").read_bytes(), pd.read_csv(tables / "numbers.csv")
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(plain))
    (tmp_path / "t.csv.bz2").write_bytes(bz2.compress(plain))
    with zipfile.ZipFile(tmp_path / "t.zip", "w") as archive:
        archive.writestr("t.csv", plain)
    frame.to_excel(tmp_path / "t.xlsx", index=False)
    frame.to_json(tmp_path / "t.json", orient="records", double_precision=15)
    dump_svmlight_file(frame.iloc[:, :3], frame["y"], str(tmp_path / "t.libsvm"), zero_based=False)
    for name, write in (("csv", "to_csv"), ("parquet", "to_parquet")):
        (tmp_path / name).mkdir()
        for part, rows in enumerate((frame[:100], frame[100:])):
            getattr(rows, write)(tmp_path / name / f"{part}.{name}", index=False)
    expected = fit(phimap, tables / "numbers.csv").stdout.splitlines()[:4]
    whole = phimap("plan", tables / "numbers.csv", "--target", "y", *PLANNED).stdout
    for name in ("t.csv.gz", "t.csv.bz2", "t.zip", "t.xlsx", "t.json", "t.libsvm", "csv", "csv/*.csv", "parquet"):
        target = "label" if name == "t.libsvm" else "y"
        done = phimap("fit", tmp_path / name, "--target", target, *SMALL)
        assert done.stdout.splitlines()[:4] == expected, name
        done = phimap("plan", tmp_path / name, "--target", target, *PLANNED)
        assert done.exit_code == 0, done.stderr
        # Parquet is read faster, so the times differ.
        end = ":" if name == "parquet" else None
        assert done.stdout.split(end)[0] == whole.split(end)[0], name


@pytest.mark.parametrize("ending", ["csv", "csv.gz"])
def test_plan_estimates_the_rows_of_a_long_folder(phimap, tmp_path, monkeypatch, ending):
    monkeypatch.setattr("phimap.cli.table_size._HEAD_BYTES", 2**12)
    rng, ends = np.random.default_rng(0), [0, 10, 6_000, 20_000]
    table = pd.DataFrame({"a": rng.normal(size=ends[-1]), "y": rng.integers(0, 3, ends[-1])})
    for part, (start, stop) in enumerate(pairwise(ends)):
        folder = tmp_path / "t" / f"day={part}"
        folder.mkdir(parents=True)
        table[start:stop].to_csv(folder / f"t.{ending}", index=False)
    done = phimap("plan", tmp_path / "t", "--target", "y", *PLANNED, "--json")
    found = json.loads(done.stdout)
    assert found["rows_estimated"] is True
    assert found["workload"]["n_rows"] == pytest.approx(ends[-1], rel=0.03)
    # The folders add a column.
    assert (found["workload"]["n_columns"], found["workload"]["n_targets"]) == (2, 3)


def test_plan_refuses_to_read_long_files_whole(phimap, tables, tmp_path, monkeypatch):
    frame = pd.read_csv(tables / "numbers.csv")
    frame.to_excel(tmp_path / "t.xlsx", index=False)
    dump_svmlight_file(frame.iloc[:, :3], frame["y"], str(tmp_path / "t.svm"))
    frame.to_json(tmp_path / "t.json", orient="records")
    monkeypatch.setattr("phimap.cli.table_size._HEAD_BYTES", 2**12)
    monkeypatch.setattr("phimap.cli.table_size._SHEET_BYTES", 2**12)
    (tmp_path / "images").mkdir()
    Image.new("L", (4, 4)).save(tmp_path / "images" / "a.png")
    for name in ("t.xlsx", "t.svm", "t.json", "images"):
        done = phimap("plan", tmp_path / name, *PLANNED)
        assert done.exit_code == 2
        assert done.stderr.startswith(f"error: {tmp_path / name}: ")
        assert done.stderr.endswith("Give --rows and --columns in its place.\n")
        assert len(done.stderr.splitlines()) == 1


def test_plan_estimates_the_rows_of_a_long_packed_file(phimap, tmp_path, monkeypatch):
    monkeypatch.setattr("phimap.cli.table_size._HEAD_BYTES", 2**12)
    rows = "\n".join(f"{k % 100},{k % 7}.5" for k in range(20_000))
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(f"a,y\n{rows}\n".encode()))
    told = phimap("plan", tmp_path / "t.csv.gz", "--target", "y", *PLANNED)
    found = float(told.stdout.split(" rows x ")[0].split()[-1].replace(",", ""))
    assert found == pytest.approx(20_000, rel=0.02)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--effort", "slow"), "Invalid value for '--effort': 'slow' is not one of"),
        (("--device", "tpu"), "--device must be auto, cpu or cuda, got 'tpu'."),
    ],
)
def test_bad_options_are_told_before_the_work(phimap, tables, options, message):
    done = phimap("fit", tables / "numbers.csv", "--target", "y", *options)
    assert done.exit_code == 2
    assert done.stderr.startswith(f"error: {message}")
    assert "Value error" not in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_text_file_is_no_model(phimap, tables):
    done = phimap("predict", tables / "numbers.csv", tables / "numbers.csv")
    assert done.exit_code == 2
    assert "numbers.csv` is a text file and no phimap model. Give a file written by phimap fit --model." in done.stderr


def test_regression_on_text_says_so(phimap, tables):
    done = phimap("fit", tables / "labels.csv", "--target", "kind", "--task", "regression", "-q")
    assert "the target 'kind' must hold numbers for regression, got '" in done.stderr
    assert "in data row 1. Use --task classification, or --types kind=number if its cells are amounts." in done.stderr


def test_one_row_is_refused_for_a_fit_and_predicted(phimap, tables, tmp_path):
    lines = (tables / "numbers.csv").read_text().splitlines()
    (tmp_path / "one.csv").write_text("\n".join(lines[:2]) + "\n")
    assert "1 of 1 rows are left to train on, a fit needs at least 2" in fit(phimap, tmp_path / "one.csv").stderr
    fit(phimap, tables / "numbers.csv", "--model", tmp_path / "m.phimap")
    assert len(phimap("predict", tmp_path / "m.phimap", tmp_path / "one.csv").stdout.splitlines()) == 2


def test_names_of_unused_columns_may_repeat(phimap, tmp_path):
    rows = "\n".join(f"{k},1,2,{k % 9}.5" for k in range(40))
    (tmp_path / "t.csv").write_text(f"a,x,x,y\n{rows}\n")
    for unused in (("--columns", "a"), ("--drop", "x")):
        assert fit(phimap, tmp_path / "t.csv", *unused).exit_code == 0
    refused = fit(phimap, tmp_path / "t.csv")
    assert "column name 'x' occurs more than once. Rename the columns, or leave them out with --drop" in refused.stderr


def test_the_solver_is_told_with_verbose(phimap, tables):
    words = ("fit", tables / "numbers.csv", "--target", "y", *SMALL[:-1])
    plain, told, both = (phimap(*words, *more) for more in ((), ("--verbose",), ("--verbose", "-q")))
    assert "solver: cholesky" not in plain.stderr
    assert "solver: cholesky" in told.stderr
    assert "solver_choice" not in plain.stdout
    for done in (told, both):
        assert "\nsolver_choice about " in done.stdout


def test_memory_errors_name_options():
    from phimap.cli.errors import _message

    text = "this fit needs 9 GB, and 1 GB are free. Free memory, use fewer components, or give `memory='500MB'`."
    told = _message(MemoryError(text))
    assert told.endswith("Free memory, use fewer --features, or give --memory 500MB.")


@pytest.fixture(scope="module")
def model(phimap, tables, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "m.phimap"
    fit(phimap, tables / "numbers.csv", "--model", path)
    return path


def test_a_file_that_is_not_ours_is_kept(phimap, tables, model, tmp_path):
    for name in ("notes.csv", "data.parquet"):
        path = tmp_path / name
        shutil.copy(tables / "numbers.csv", path)
        refused = phimap("predict", model, tables / "numbers.csv", "-o", path)
        assert refused.exit_code == 2
        assert f"--output {path}: holds something that is no table of predictions" in refused.stderr
        assert path.read_bytes() == (tables / "numbers.csv").read_bytes()
        for more in (("--force",), ()):
            # The second run replaces predictions, which are ours.
            assert phimap("predict", model, tables / "numbers.csv", "-o", path, *more).exit_code == 0


def test_parquet_is_written_for_its_ending(phimap, tables, model, tmp_path):
    for name in ("p.csv", "p.parquet"):
        assert phimap("predict", model, tables / "numbers.csv", "-o", tmp_path / name).exit_code == 0
    table = pd.read_parquet(tmp_path / "p.parquet")
    assert table.columns.tolist() == ["prediction"]
    np.testing.assert_allclose(table["prediction"], pd.read_csv(tmp_path / "p.csv")["prediction"], rtol=1e-5)


@pytest.mark.parametrize("name", ["p.xlsx", "p.feather", "p.json"])
def test_other_endings_are_refused(phimap, tables, model, tmp_path, name):
    done = phimap("predict", model, tables / "numbers.csv", "-o", tmp_path / name)
    assert "--output must end in .csv or .parquet" in done.stderr
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_predicted_quantiles_are_replaced_by_a_second_run(phimap, tables, tmp_path, ending):
    path, output = tmp_path / "q.phimap", tmp_path / f"q.{ending}"
    fit(phimap, tables / "numbers.csv", "--model", path, "--loss", "quantile", "--quantile", "0.05,0.95")
    for _ in range(2):
        assert phimap("predict", path, tables / "numbers.csv", "-o", output).exit_code == 0


def test_a_model_of_the_command_does_not_print_in_python(model, capsys):
    loaded = pm.load(model)
    assert not loaded.verbose


def test_the_package_runs_as_the_command():
    done = subprocess.run([sys.executable, "-m", "phimap", "--help"], capture_output=True, text=True)
    assert done.returncode == 0
    assert "fit" in done.stdout


@pytest.mark.parametrize("columns", ["carat", "carat,sold"])
def test_a_target_with_a_currency_is_read_as_amounts(phimap, prices, tmp_path, columns):
    frame, model = pd.read_csv(prices), tmp_path / "m.phimap"
    frame["carat"] = frame["carat"].str[:-3]
    frame.to_csv(prices, index=False)
    words = ("--target", "price", "--columns", columns, *SMALL[:-1])
    done = phimap("fit", prices, *words, "--model", model, "--json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["task"] == "regression"
    assert "target 'price' read from text without '$' ('$" in done.stderr
    # The model scores the same table, and a table of few rows.
    few = tmp_path / "few.csv"
    few.write_text("\n".join(prices.read_text().splitlines()[:4]) + "\n")
    for table in (prices, few):
        done = phimap("predict", model, table, "--target", "price", "-o", tmp_path / "p.csv")
        assert done.exit_code == 0, done.stderr
        assert "RMSE" in done.stdout
    done = phimap("compare", prices, *words[:4], "--models", "linear", "--splits", "1", "--json", "-q")
    assert json.loads(done.stdout)["task"] == "regression"


@pytest.mark.parametrize("options", [("--task", "regression"), ("--loss", "huber")])
@pytest.mark.parametrize("is_text", [False, True])
def test_regression_of_labels_is_refused_with_the_cell(phimap, prices, options, is_text):
    columns = "carat,sold" if is_text else "carat"
    frame = pd.read_csv(prices).assign(carat=range(200), kind=np.where(np.arange(200) % 3, "<=50K", ">50K"))
    frame.to_csv(prices, index=False)
    done = phimap("fit", prices, "--target", "kind", "--columns", columns, *options, *SMALL)
    told = "the target 'kind' must hold numbers for regression, got '>50K' in data row 1. Use --task classification"
    assert done.exit_code == 2
    assert told in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_comparison_by_regression_of_labels_is_refused_with_the_cell(phimap, prices):
    pd.read_csv(prices).assign(kind="a", carat=range(200)).to_csv(prices, index=False)
    words = ("--target", "sold", "--columns", "carat", "--task", "regression", "--models", "linear", "-q")
    done = phimap("compare", prices, *words)
    assert done.exit_code == 2
    assert done.stderr.startswith("error: `y` must hold numbers, got '")


@pytest.mark.parametrize("options", [(), ("--types", "rooms=number")])
def test_cells_with_any_common_unit_are_numbers(phimap, tmp_path, options):
    rng = np.random.default_rng(0)
    rooms = rng.integers(1, 900, 200)
    texts = [f"{n:,} room{'' if n == 1 else 's'}" for n in rooms]
    frame = pd.DataFrame({"rooms": texts, "code": [f"A{n}" for n in rooms]})
    frame.assign(y=rooms / 100).to_csv(tmp_path / "t.csv", index=False)
    model = tmp_path / "m.phimap"
    done = fit(phimap, tmp_path / "t.csv", *options, "--model", model)
    assert done.exit_code == 0, done.stderr
    kinds = {column.name: column.kind for column in pm.load(model).encoder_.columns_}
    assert kinds["rooms"] == "number"
    assert kinds["code"] != "number"
    (tmp_path / "new.csv").write_text('rooms,code\n"880 rooms",A880\n1 room,A1\n')
    done = phimap("predict", model, tmp_path / "new.csv")
    assert done.exit_code == 0, done.stderr
    np.testing.assert_allclose([float(line) for line in done.stdout.split()[1:]], [8.8, 0.01], atol=0.5)
    # The model knows the unit: too few cells of this table have it to be recognised there.
    (tmp_path / "new.csv").write_text("rooms,code\n880 rooms,A880\n400,A400\n300,A300\n")
    done = phimap("predict", model, tmp_path / "new.csv")
    assert "counts as missing" not in done.stderr
    np.testing.assert_allclose([float(line) for line in done.stdout.split()[1:]], [8.8, 4, 3], atol=0.5)
