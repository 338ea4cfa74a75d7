"""``phimap plan``: sizes of tables, the solver, errors."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import phimap as pm
from phimap.cli import table_size as table_size_module
from phimap.cli.table_size import table_size

REFERENCE = ("--machine", "reference", "--quiet")


@pytest.fixture
def planned(phimap):
    """What a plan for the reference machine says as JSON."""

    def plan(*words) -> dict:
        result = phimap("plan", *words, *REFERENCE, "--json")
        assert result.exit_code == 0, result.stderr
        return json.loads(result.stdout)

    return plan


def test_plan_of_sizes_is_the_cost_of_theory(planned):
    words = "--rows 1000000 --columns 28 --features 1024 --kernel gaussian --format csv --memory 4GB --n-jobs 1"
    found = planned(*words.split())
    wanted = pm.theory.cost(10**6, 28, 1024, file_format="csv", holdout=0.1, memory="4GB")
    assert found["seconds"] == pytest.approx(wanted.seconds)
    assert found["worker_memory"] == pytest.approx(wanted.worker_memory)
    assert found["fits"] is True
    assert found["rows_estimated"] is False


def test_plan_of_a_table_takes_its_sizes(planned, tables):
    found = planned(tables / "numbers.csv", "--target", "y", "--features", "64")
    assert (found["workload"]["n_rows"], found["workload"]["n_columns"]) == (600, 3)
    assert found["workload"]["file_format"] == "csv"
    found = planned(tables / "labels.csv", "--target", "kind", "--features", "64")
    assert found["workload"]["n_targets"] == 3
    found = planned(tables / "rows.npy", "--features", "64", "--columns", "2", "--targets", "7")
    work = found["workload"]
    assert (work["n_rows"], work["n_columns"], work["n_targets"], work["file_format"]) == (600, 2, 7, "npy")
    assert any("taken for the target" in note for note in found["notes"])


def test_whole_numbers_with_a_point_are_classes_as_in_fit(planned, tmp_path):
    file = tmp_path / "codes.csv"
    file.write_text("a,code\n" + "".join(f"{row},{row % 3}.0\n" for row in range(60)))
    assert planned(file, "--target", "code", "--features", "8")["workload"]["n_targets"] == 3


def test_rows_of_long_texts_are_estimated(planned, tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    lines = ["a,b,y", *(",".join(f"{v:.5f}" for v in row) for row in rng.standard_normal((5000, 3)))]
    file = tmp_path / "long.csv"
    file.write_text("\n".join(lines) + "\n")
    monkeypatch.setattr(table_size_module, "_HEAD_BYTES", 20_000)
    found = planned(file, "--target", "y", "--features", "64")
    assert found["rows_estimated"] is True
    # Lines differ by the signs of three numbers: a sample of 700 knows their mean length to a thousandth.
    assert found["workload"]["n_rows"] == pytest.approx(5000, rel=0.01)
    assert any("estimate" in note for note in found["notes"])
    # A mutant: a share of bytes of the whole buffer in place of that of whole lines, of a text of long lines.
    monkeypatch.setattr(table_size_module, "_HEAD_BYTES", 60)
    assert table_size(str(file), "y", "auto").n_rows == pytest.approx(5000, rel=0.2)


def test_rows_of_parquet_files_are_not_estimated(planned, tmp_path):
    table = pa.table({"a": np.arange(100.0), "city": ["Bern", "Rome"] * 50, "y": np.arange(100.0)})
    parquet.write_table(table, tmp_path / "t.parquet")
    found = planned(tmp_path / "t.parquet", "--target", "y", "--features", "64")
    assert (found["workload"]["n_rows"], found["workload"]["n_columns"]) == (100, 2)
    assert found["rows_estimated"] is False
    assert any("more columns" in note for note in found["notes"])


def test_solver_is_the_one_that_fits(planned):
    sizes = ("--rows", 10**6, "--columns", 28, "--features", 20_000)
    assert planned(*sizes, "--memory", "16GB", "--solver", "cholesky")["fits"] is True
    small = planned(*sizes, "--memory", "4GB")
    assert small["solver"] == "cg"
    assert planned(*sizes, "--memory", "4GB", "--solver", "cholesky")["fits"] is False


def test_workers_send_and_schedule(planned):
    found = planned("--rows", 10**9, "--columns", 28, "--workers", 10, "--kernel", "gaussian")
    assert found["bytes_sent"] > 0
    assert found["workload"]["threads"] == 1
    assert found["n_tasks"] > 10


def test_plan_is_shown_as_a_table(phimap):
    result = phimap("plan", "--rows", 10**7, "--columns", 28, "--workers", 4, *REFERENCE)
    assert result.exit_code == 0
    for text in (
        "features and Gram matrix",
        "Solver cholesky",
        "rows/s",
        "between workers",
        "Rates of",
        "for an idle machine",
    ):
        assert text in result.stdout
    narrow = phimap("plan", "--rows", 10**7, "--columns", 28, "--solver", "cholesky", "--memory", "100MB", *REFERENCE)
    assert "does not fit the budget" in narrow.stdout


def test_this_machine_is_measured_by_default(phimap, monkeypatch):
    monkeypatch.setattr("phimap.cli.plan.measure_machine", lambda: pm.theory.REFERENCE)
    result = phimap("plan", "--rows", 1000, "--columns", 3)
    assert result.exit_code == 0
    assert "measuring this machine" in result.stderr


@pytest.mark.parametrize(("rows", "expected"), [(1000, 900), (20_000, 2048), (10**6, 256)])
def test_features_are_the_most_that_a_fit_takes(planned, rows, expected):
    found = planned("--rows", rows, "--columns", 8)
    assert found["workload"]["n_components"] == expected


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "a plan needs a table, or both --rows and --columns"),
        (("--rows", 1000), "a plan needs a table, or both --rows and --columns"),
        (("--rows", 1, "--columns", 3), "--rows must be at least 2, got 1"),
        (("--rows", 1000, "--columns", 0), "--columns must be at least 1, got 0"),
        (("--rows", 1000, "--columns", 3, "--features", 1), "--features must be at least 2, got 1"),
        (("--rows", 1000, "--columns", 3, "--workers", 0), "--workers must be at least 1, got 0"),
        (("--rows", 1000, "--columns", 3, "--kernel", "tree"), "--kernel must be"),
        (("--rows", 1000, "--columns", 3, "--holdout", 1), "--holdout must be below 1"),
        (("-",), "standard input has no size before it is read"),
        (("nowhere.csv",), "no such file"),
    ],
)
def test_errors_are_one_line(phimap, words, message):
    result = phimap("plan", *words, *REFERENCE)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_mixed_folders_and_damaged_texts_are_refused(phimap, tables, tmp_path):
    assert "Name those of one format by a pattern" in phimap("plan", tables, *REFERENCE).stderr
    packed = tmp_path / "t.csv.gz"
    packed.write_bytes(b"\x1f\x8b")
    assert "t.csv.gz: damaged or no text file" in phimap("plan", packed, *REFERENCE).stderr
