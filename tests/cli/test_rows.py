"""Rows that cannot be used, rows from pipes, and predictions in step with the rows of the file."""

from __future__ import annotations

import io
import os
import threading
import types
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

SMALL = ("--kernel", "gaussian", "--metric", "none", "--length-scale", "median", "--features", "32", "-q")


@pytest.fixture(scope="module")
def fitted(tmp_path_factory) -> dict[str, Path]:
    """Models of a table of numbers and of one with a category, by the names ``numbers`` and ``mixed``."""
    from typer.testing import CliRunner

    from phimap.cli.commands import app

    folder = tmp_path_factory.mktemp("fitted")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=200), "b": rng.normal(size=200)})
    frame["y"] = frame["a"] + 0.1 * rng.normal(size=200)
    frame.to_csv(folder / "numbers.csv", index=False)
    frame["b"] = np.where(frame["b"] > 0, "up", "down")
    frame.to_csv(folder / "mixed.csv", index=False)
    for name in ("numbers", "mixed"):
        words = ["fit", str(folder / f"{name}.csv"), "--target", "y", "--model", str(folder / f"{name}.phimap"), *SMALL]
        assert CliRunner().invoke(app, words).exit_code == 0
    return {name: folder / f"{name}.phimap" for name in ("numbers", "mixed")}


def predicted(phimap, model, data, *options) -> tuple[pd.DataFrame, str]:
    out = Path(data).with_suffix(".out") if str(data) != "-" else model.with_suffix(".out")
    done = phimap("predict", model, data, "-o", out, *options)
    assert done.exit_code == 0, done.stderr
    return pd.read_csv(out), done.stderr


def test_rows_without_a_feature_are_filled_and_others_have_an_empty_prediction(phimap, fitted, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1,2\n,2\n1,2\n1,?\n1\n1,inf\n1,2\n1,2,3\n")
    found, told = predicted(phimap, fitted["numbers"], path)
    empty = [False, False, False, False, True, True, False, True]
    assert found["prediction"].isna().tolist() == empty
    # Equal rows may differ in the last bit, since products take rows by fours on some processors.
    assert np.ptp(found["prediction"][[0, 2, 6]]) < 1e-6
    assert found["prediction"][1] != found["prediction"][0] != found["prediction"][3]
    assert "2 rows have missing cells, which are filled with the medians of the training rows." in told
    assert "1 row left out for an infinite feature." in told
    assert "2 rows left out for another number of values than columns: data rows 5, 8." in told
    refused = phimap("predict", fitted["numbers"], path, "--strict")
    assert refused.exit_code == 2
    assert "data row 5 has 1 values, 2 expected" in refused.stderr
    assert refused.stdout == ""


@pytest.mark.parametrize("n_before", [3, 200_000])
def test_text_among_numbers_counts_as_missing(phimap, fitted, tmp_path, n_before):
    path = tmp_path / "t.csv"
    path.write_text("a,b\n" + "1,2\n" * n_before + "1,oops\n1,2\n")
    found, told = predicted(phimap, fitted["numbers"], path)
    assert found["prediction"].notna().all()
    # Equal rows may differ in the last bit, since products take rows by fours on some processors.
    assert np.ptp(found["prediction"].drop(n_before)) < 1e-6
    assert len(found) == n_before + 2
    assert "1 rows have missing cells" in told


def test_an_encoder_takes_what_is_missing(phimap, fitted, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("b,extra,a\nup,x,1\n,x,1\nsideways,x,1\nup,x,\ndown,x,many\nup\n")
    found, told = predicted(phimap, fitted["mixed"], path)
    assert found["prediction"].isna().tolist() == [False] * 5 + [True]
    assert "column 'a', such as 'many', counts as missing" in told
    strict = phimap("predict", fitted["mixed"], path, "--strict")
    assert strict.exit_code == 2
    (tmp_path / "narrow.csv").write_text("a\n1\n")
    narrow = phimap("predict", fitted["mixed"], tmp_path / "narrow.csv")
    assert narrow.exit_code == 2
    assert "lacks 'b', " in narrow.stderr


@pytest.mark.parametrize("name", ["numbers", "mixed"])
@pytest.mark.parametrize("infinite", ["inf", "-Infinity", "+INF"])
def test_infinite_cells_beside_text_have_no_prediction(phimap, fitted, tmp_path, name, infinite):
    """A text in the column made the infinite cell count as missing."""
    path, b = tmp_path / "t.csv", "up" if name == "mixed" else "2"
    path.write_text(f"a,b\n1,{b}\n{infinite},{b}\nmany,{b}\n")
    found, told = predicted(phimap, fitted[name], path)
    assert found["prediction"].isna().tolist() == [False, True, False]
    assert "1 row left out for an infinite feature" in told
    assert "column 'a', such as 'many', counts as missing" in told


@pytest.mark.parametrize("name", ["numbers", "mixed"])
def test_predictions_do_not_depend_on_the_rows_left_out(phimap, fitted, tmp_path, name):
    data = fitted[name].with_suffix(".csv")
    whole, _ = predicted(phimap, fitted[name], data)
    lines = data.read_text().splitlines()
    lines[60:60] = ["1,2"]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    gaps, _ = predicted(phimap, fitted[name], tmp_path / "t.csv")
    assert np.flatnonzero(gaps["prediction"].isna()).tolist() == [59]
    np.testing.assert_array_equal(gaps["prediction"].dropna(), whole["prediction"])


@pytest.mark.parametrize("name", ["numbers", "mixed"])
def test_a_column_of_ids_stands_beside(phimap, fitted, tmp_path, name):
    frame = pd.read_csv(fitted[name].with_suffix(".csv"))
    frame.insert(1, "key", [f"{i:04d}" for i in range(len(frame))])
    frame.to_csv(tmp_path / "t.csv", index=False)
    with (tmp_path / "t.csv").open("a") as file:
        file.write("7\n")
    done = phimap("predict", fitted[name], tmp_path / "t.csv", "--id", "key", "-o", tmp_path / "p.csv")
    assert done.exit_code == 0, done.stderr
    found = pd.read_csv(tmp_path / "p.csv", dtype={"key": str})
    assert found["key"].tolist()[:-1] == frame["key"].tolist()
    assert found.iloc[-1].isna().all()
    done = phimap("predict", fitted[name], tmp_path / "t.csv", "--id", "none")
    assert done.exit_code == 2
    assert "error: --id: no column 'none'. Choose from " in done.stderr


def test_rows_without_a_truth_are_predicted_but_not_scored(phimap, fitted, tmp_path):
    lines = fitted["mixed"].with_suffix(".csv").read_text().splitlines()
    lines[3] = lines[3].rpartition(",")[0] + ","
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    done = phimap("predict", fitted["mixed"], tmp_path / "t.csv", "--target", "y", "-o", tmp_path / "p.csv")
    assert done.exit_code == 0
    assert "R2" in done.stdout
    assert "nan" not in done.stdout
    assert pd.read_csv(tmp_path / "p.csv")["prediction"].notna().all()
    assert phimap("predict", fitted["mixed"], tmp_path / "t.csv", "--target", "y", "--strict").exit_code == 2


def test_nothing_to_predict(phimap, fitted, tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n,1\n,2\n")
    refused = phimap("predict", fitted["numbers"], tmp_path / "t.csv", "-o", tmp_path / "p.csv", "--strict")
    assert refused.exit_code == 2
    (tmp_path / "t.csv").write_text("a,b\n1,inf\n2,-inf\n")
    done = phimap("predict", fitted["numbers"], tmp_path / "t.csv", "-o", tmp_path / "p.csv")
    assert done.exit_code == 2
    assert "no row can be predicted" in done.stderr
    assert not (tmp_path / "p.csv").exists()


@pytest.fixture
def piped(monkeypatch):
    """Make these bytes the standard input."""
    return lambda content: monkeypatch.setattr(
        "phimap.cli.standard_input.sys",
        types.SimpleNamespace(stdin=types.SimpleNamespace(buffer=io.BytesIO(content), isatty=lambda: content == b"")),
    )


@pytest.mark.parametrize("suffix", ["csv", "parquet", "feather", "json"])
def test_standard_input(phimap, fitted, piped, tmp_path, suffix):
    frame = pd.read_csv(fitted["mixed"].with_suffix(".csv"))
    path = tmp_path / f"t.{suffix}"
    {"csv": lambda: frame.to_csv(path, index=False), "json": lambda: frame.to_json(path, orient="records")}.get(
        suffix, lambda: getattr(frame, f"to_{suffix}")(path)
    )()
    piped(path.read_bytes())
    by_pipe = phimap("predict", fitted["mixed"], "-")
    by_file = phimap("predict", fitted["mixed"], path)
    assert by_pipe.exit_code == 0, by_pipe.stderr
    assert by_pipe.stdout == by_file.stdout
    piped(path.read_bytes())
    assert phimap("fit", "-", "--target", "y", *SMALL).exit_code == 0


def test_standard_input_that_is_none(phimap, fitted, piped):
    piped(b"")
    done = phimap("predict", fitted["mixed"], "-")
    assert done.exit_code == 2
    assert "standard input is a terminal" in done.stderr
    piped(b"a,b\n")
    done = phimap("predict", fitted["mixed"], "-")
    assert done.stderr == "error: standard input: has a header but no rows. Check the file.\n"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with names are for POSIX systems")
def test_a_pipe_with_a_name(phimap, fitted, tmp_path):
    pipe, content = tmp_path / "pipe", fitted["mixed"].with_suffix(".csv").read_bytes()
    os.mkfifo(pipe)
    feed = threading.Thread(target=lambda: pipe.write_bytes(content))
    feed.start()
    done = phimap("predict", fitted["mixed"], pipe)
    feed.join()
    assert done.exit_code == 0, done.stderr
    assert len(done.stdout.splitlines()) == 201


def test_kinds_that_the_user_tells(phimap, tmp_path):
    lines = ["zip,y", *(f"0{i % 4}115,{i % 4 + 0.01 * (i % 7)}" for i in range(120))]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    words = ("fit", tmp_path / "t.csv", "--target", "y", "--model", tmp_path / "m.phimap", *SMALL)
    assert phimap(*words, "--types", "zip=category").exit_code == 0
    found, _ = predicted(phimap, tmp_path / "m.phimap", tmp_path / "t.csv")
    assert np.abs(found["prediction"] - pd.read_csv(tmp_path / "t.csv")["y"]).max() < 0.2
    import phimap as pm

    assert [column.kind for column in pm.load(tmp_path / "m.phimap").encoder_.summary_] == ["category"]
