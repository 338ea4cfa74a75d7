"""``phimap fit`` on good input: results, options, determinism."""

from __future__ import annotations

import csv
import re

import numpy as np
import pandas as pd
import pytest

import phimap as pm
from phimap.cli import held_out
from phimap.cli.rows import SplitRows
from phimap.io import holdout_mask, open_table
from phimap.learn.rows.batches import batch_rows
from tests.cli.test_bad_input import FIXED

SMALL = ("--features", "64", *FIXED, "--quiet")


def values(text: str) -> dict[str, str]:
    """The lines ``name value`` of an output."""
    return dict(line.split(" ", 1) for line in text.splitlines())


def test_regression_prints_scores_and_facts(phimap, tables):
    result = phimap("fit", tables / "numbers.csv", "--target", "y", *SMALL)
    assert result.exit_code == 0
    assert re.search(r"^R2 0\.\d{4}$", result.stdout, re.M)
    found = values(result.stdout)
    assert float(found["R2"]) > 0.8
    assert float(found["RMSE"]) < 0.6
    assert int(found["rows_trained"]) + int(found["rows_held_out"]) == 600
    assert {"alpha", "length_scale", "seconds", "peak_memory_mb"} <= set(found)
    assert result.stderr == ""


def test_score_is_that_of_the_library_on_the_same_split(phimap, tables):
    arguments = ("--target", "y", "--dtype", "float64", "--seed", "3", "--holdout", "0.25", *SMALL)
    printed = float(values(phimap("fit", tables / "numbers.csv", *arguments).stdout)["R2"])
    X, y = next(open_table(tables / "numbers.csv", "y", dtype="float64").batches(600))
    kept = holdout_mask(0, 600, 0.25, 3)
    model = pm.KernelRegressor("gaussian", 64, metric=None, length_scale="median", random_state=3).fit(
        X[~kept], y[~kept]
    )
    # Printed to four decimals.
    assert abs(printed - model.score(X[kept], y[kept])) <= 0.5e-4 + 1e-9


def test_summary_goes_to_standard_error_and_names_the_task(phimap, tables):
    result = phimap("fit", tables / "labels.csv", "--target", "kind", "--features", "64", *FIXED)
    assert result.exit_code == 0
    assert re.search(r"^target +kind \(", result.stderr, re.M)
    assert values(result.stdout)["task"] == "classification"
    assert float(values(result.stdout)["accuracy"]) > 0.8


@pytest.mark.parametrize(
    ("column", "asked", "task"),
    [
        (["0", "1", "2"] * 20, "auto", "classification"),
        (["0", "1", "2"] * 20, "regression", "regression"),
        (["0.5", "1", "2"] * 20, "auto", "regression"),
        ([str(i) for i in range(60)], "auto", "regression"),
        (["1.0", "2.0", "3.0"] * 20, "auto", "classification"),
        (["true", "false", "true"] * 20, "auto", "classification"),
        (["x", "y", "z"] * 20, "auto", "classification"),
        ([str(i % 25) for i in range(60)], "classification", "classification"),
    ],
)
def test_task_follows_the_rule_unless_asked(phimap, tmp_path, rng, column, asked, task):
    X = rng.standard_normal((60, 2))
    rows = [f"{a:.4f},{b:.4f},{value}" for (a, b), value in zip(X, column, strict=True)]
    (tmp_path / "t.csv").write_text("a,b,y\n" + "\n".join(rows))
    result = phimap("fit", tmp_path / "t.csv", "--target", "y", "--task", asked, "--features", "16", "-q", *FIXED)
    assert result.exit_code == 0, result.stderr
    assert values(result.stdout)["task"] == task


def test_columns_and_drop_select_the_same(phimap, tables, tmp_path):
    one = phimap("fit", tables / "numbers.csv", "--target", "y", "--columns", "a,b", *SMALL)
    other = phimap("fit", tables / "numbers.csv", "--target", "y", "--drop", "c", *SMALL)
    assert values(one.stdout)["R2"] == values(other.stdout)["R2"]


def test_columns_that_lose_their_digits_are_told(phimap, tmp_path):
    lines = "\n".join(f"{1_600_000_000 + 20 * i},{i % 7},{i % 9 * 0.5}" for i in range(200))
    (tmp_path / "times.csv").write_text(f"time,a,y\n{lines}\n")
    result = phimap("fit", tmp_path / "times.csv", "--target", "y", *SMALL)
    assert result.exit_code == 0
    assert re.fullmatch(
        r"warning: .*column 'time' lies between .* 31 steps of float32.*--dtype float64.*\n", result.stderr
    )
    assert phimap("fit", tmp_path / "times.csv", "--target", "y", "--dtype", "float64", *SMALL).stderr == ""


def test_columns_that_are_no_numbers_can_be_dropped(phimap, tables, tmp_path):
    lines = (tables / "numbers.csv").read_text().splitlines()
    noted = [f",note,{lines[0]}", *(f"{i},good,{line}" for i, line in enumerate(lines[1:]))]
    (tmp_path / "noted.csv").write_text("\n".join(noted) + "\n")
    one = phimap("fit", tmp_path / "noted.csv", "--target", "y", "--drop", "0,note", *SMALL)
    other = phimap("fit", tables / "numbers.csv", "--target", "y", *SMALL)
    assert values(one.stdout)["R2"] == values(other.stdout)["R2"]


@pytest.mark.parametrize("kernel", ["laplacian", "matern", "polynomial"])
def test_kernels_by_name(phimap, tables, kernel):
    result = phimap(
        "fit", tables / "numbers.csv", "--target", "y", *SMALL, "--length-scale", "auto", "--kernel", kernel
    )
    assert result.exit_code == 0, result.stderr
    assert float(values(result.stdout)["R2"]) > 0.5


@pytest.mark.parametrize("kernel", ["ntk", "nngp"])
def test_deep_kernels_take_a_depth(phimap, tables, tmp_path, kernel):
    model = tmp_path / "deep.phimap"
    arguments = ("--kernel", kernel, "--depth", "2", "--model", model, "--features", "64", "-q")
    result = phimap("fit", tables / "numbers.csv", "--target", "y", *arguments)
    assert result.exit_code == 0, result.stderr
    assert "depth=2" in phimap("info", model).stdout


def test_a_batch_may_be_held_out_whole(phimap, tmp_path):
    # The last of the batches has one row, which is held out.
    rows = batch_rows(64, 4, 2**30, kept=0)
    start = next(k for k in range(rows, 9 * rows, rows) if holdout_mask(k, 1, 0.5)[0])
    lines = "\n".join(f"{i % 17},{i % 5},{i % 17 * 0.5}" for i in range(start + 1))
    (tmp_path / "data.csv").write_text(f"a,b,y\n{lines}\n")
    assert phimap("fit", tmp_path / "data.csv", "--target", "y", "--holdout", "0.5", *SMALL).exit_code == 0


@pytest.mark.parametrize("table", ["numbers.csv", "mixed.csv"])
def test_scores_do_not_depend_on_whether_held_out_rows_are_kept(phimap, tables, tmp_path, monkeypatch, table):
    (tmp_path / "mixed.csv").write_text(
        "a,b,y\n" + "".join(f"{i % 17},{'xyz'[i % 3]},{i % 17 + i % 3}\n" for i in range(300))
    )
    path = (tables if table == "numbers.csv" else tmp_path) / table
    found, seen = [], []
    score = held_out.score
    monkeypatch.setattr(
        "phimap.cli.fit.score",
        lambda *given: seen.append(given[2]) or score(*given),
    )
    for share in (4, 10**12):
        monkeypatch.setattr("phimap.cli.fit._SHARE_KEPT", share)
        result = phimap("fit", path, "--target", "y", *SMALL)
        assert result.exit_code == 0, result.stderr
        found.append({name: value for name, value in values(result.stdout).items() if "seconds" not in name})
    found[1]["peak_memory_mb"] = found[0]["peak_memory_mb"]
    assert found[0] == found[1]
    assert [rows.kept is None for rows in seen] == [False, True]


def test_without_holdout_there_is_no_score(phimap, tables, tmp_path):
    report = tmp_path / "r.html"
    result = phimap("fit", tables / "numbers.csv", "--target", "y", "--holdout", "0", "--report", report, *SMALL)
    assert result.exit_code == 0
    assert "R2" not in values(result.stdout)
    assert "Nothing was held out" in report.read_text()


def test_images_are_scaled_by_one_factor(phimap, tables, tmp_path):
    model = tmp_path / "m.phimap"
    result = phimap("fit", tables / "images.npz", "--target", "y", "--model", model, *SMALL)
    assert result.exit_code == 0, result.stderr
    assert np.ptp(pm.load(model).scaling_.factor) == 0
    assert "5 x 5 x 1" in phimap("info", model).stdout


def test_same_seed_same_file_and_predictions_survive_it(phimap, tables, tmp_path):
    files = [tmp_path / name for name in ("one.phimap", "two.phimap", "other.phimap")]
    for file, seed, jobs in zip(files, "112", "122", strict=True):
        extra = ("--seed", seed, "--n-jobs", jobs, "--model", file)
        assert phimap("fit", tables / "numbers.csv", "--target", "y", *extra, *SMALL).exit_code == 0
    one, two, other = (pm.load(file) for file in files)
    X = pd.DataFrame(np.load(tables / "rows.npy").astype(np.float32), columns=one.feature_names_in_)
    assert np.array_equal(one.predict(X), two.predict(X))
    assert not np.array_equal(one.predict(X), other.predict(X))


@pytest.mark.parametrize("batch", [7, 64, 1000])
@pytest.mark.parametrize("held_out", [True, False])
def test_split_rows_partition_the_table(tables, batch, held_out):
    table = open_table(tables / "numbers.csv", "y")
    X, y = next(table.batches(600))
    wanted = holdout_mask(0, 600, 0.3, 5) == held_out
    rows = SplitRows(table, 0.3, 5, False, batch, held_out)
    parts = list(rows)
    assert [len(part) for part, _ in parts[:-1]] == [batch] * (len(parts) - 1)
    assert np.array_equal(np.concatenate([part for part, _ in parts]), X[wanted])
    assert np.array_equal(np.concatenate([part for _, part in rows]), y[wanted])


def test_predictions_as_csv(phimap, tables, tmp_path):
    model, out = tmp_path / "m.phimap", tmp_path / "p.csv"
    phimap("fit", tables / "labels.csv", "--target", "kind", "--model", model, *SMALL)
    result = phimap("predict", model, tables / "labels.csv", "-o", out, "--target", "kind")
    assert result.exit_code == 0, result.stderr
    assert float(values(result.stdout)["accuracy"]) > 0.8
    with out.open(newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["prediction"]
    assert len(rows) == 601
    assert {row[0] for row in rows[1:]} == {"warm, dry", "cold", "mild"}
    assert phimap("predict", model, tables / "labels.csv").stdout == out.read_text()


def test_predict_takes_columns_by_name_and_bare_arrays_by_place(phimap, tables, tmp_path):
    model = tmp_path / "m.phimap"
    phimap("fit", tables / "numbers.csv", "--target", "y", "--model", model, *SMALL)
    with (tables / "numbers.csv").open() as file:
        rows = list(csv.reader(file))
    with (tmp_path / "shuffled.csv").open("w", newline="") as file:
        csv.writer(file).writerows([row[2], row[0], row[1]] for row in rows)
    np.save(tmp_path / "bare.npy", np.array(rows[1:], dtype=np.float64)[:, :3])
    expected = phimap("predict", model, tables / "numbers.csv").stdout
    assert phimap("predict", model, tmp_path / "shuffled.csv").stdout == expected
    assert phimap("predict", model, tmp_path / "bare.npy").stdout == expected


def test_statistics_are_kept_on_request(phimap, tables, tmp_path):
    model = tmp_path / "m.phimap"
    phimap("fit", tables / "numbers.csv", "--target", "y", "--model", model, "--statistics", *SMALL)
    assert "training can go on" in phimap("info", model).stdout


def test_info_describes_a_model(phimap, tables, tmp_path):
    model = tmp_path / "m.phimap"
    phimap("fit", tables / "labels.csv", "--target", "kind", "--model", model, *SMALL)
    text = phimap("info", model).stdout
    for fact in ("checksum OK", "Gaussian", "64 features", "kind", "cold, mild, warm, dry", "a, b, c"):
        assert fact in text


@pytest.mark.parametrize(("size", "offset"), [(72.0, 1.7e9), (1e37, 0.0), (1e60, 0.0)])
def test_digits_of_the_target_come_back(phimap, tmp_path, size, offset):
    X = np.random.default_rng(0).uniform(-2, 2, (400, 2))
    y = offset + size * (np.sin(X[:, 0]) + X[:, 1])
    lines = [f"{a!r},{b!r},{t!r}" for a, b, t in zip(X[:, 0].tolist(), X[:, 1].tolist(), y.tolist(), strict=True)]
    (tmp_path / "t.csv").write_text("\n".join(["a,b,t", *lines]) + "\n")
    model, predictions, report = (str(tmp_path / name) for name in ("m.phimap", "p.csv", "r.html"))
    found = phimap("fit", tmp_path / "t.csv", "--target", "t", "--model", model, "--report", report, *SMALL)
    assert found.exit_code == 0
    assert float(values(found.stdout)["R2"]) > 0.995
    assert phimap("predict", model, tmp_path / "t.csv", "-o", predictions).exit_code == 0
    predicted = np.loadtxt(predictions, skiprows=1)
    assert np.unique(predicted).size == 400
    assert np.abs(predicted - y).max() < 0.2 * size


def test_targets_without_squares_are_refused_in_one_line(phimap, tmp_path):
    lines = [f"{a},{a}e200" for a in range(60)]
    (tmp_path / "t.csv").write_text("\n".join(["a,t", *lines]) + "\n")
    found = phimap("fit", tmp_path / "t.csv", "--target", "t", *SMALL)
    assert found.exit_code != 0
    assert "`y` must lie within 1e+150 of 0" in found.stderr
    assert len(found.stderr.splitlines()) == 1


def test_copies_of_training_rows_are_told(phimap, tmp_path, rng):
    """Copies on both sides of the split make the error too small."""
    frame = pd.DataFrame({"a": rng.standard_normal(300), "town": rng.choice(["x", "y", None], 300)})
    frame["y"], words = frame["a"] + 0.1, ("--target", "y", "--features", 32, *FIXED, "-q")
    levels = frame.assign(a=np.round(frame["a"]), y=np.round(frame["y"]))
    for table, is_told in ((pd.concat([frame, frame[:200]]), True), (frame, False), (levels, False)):
        table.to_csv(tmp_path / "t.csv", index=False)
        done = phimap("fit", tmp_path / "t.csv", *words)
        assert ("held-out rows are exact copies of training rows, so the error" in done.stderr) == is_told, done.stderr
