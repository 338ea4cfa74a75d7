"""``phimap predict``: models of the library, classes that no model has seen, columns by name and by place."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import phimap as pm
from tests.cli.test_bad_input import assert_refused
from tests.cli.test_fit import SMALL, values


@pytest.fixture(scope="module")
def labelled(tables: Path) -> pd.DataFrame:
    return pd.read_csv(tables / "labels.csv")


@pytest.fixture(scope="module")
def model(tables: Path, labelled, tmp_path_factory) -> Path:
    """A classifier fitted on a data frame."""
    file = tmp_path_factory.mktemp("predict") / "m.phimap"
    pm.save(learned(pm.KernelClassifier, labelled[["a", "b", "c"]], labelled["kind"]), file)
    return file


def learned(kind, X, y):
    return kind("gaussian", 32, metric=None, length_scale="median", random_state=0).fit(X, y)


def test_classes_that_the_model_has_not_seen_are_told(phimap, model, labelled, tmp_path):
    data, out = tmp_path / "data.csv", tmp_path / "p.csv"
    labelled.to_csv(data, index=False)
    score = phimap("predict", model, data, "--target", "kind", "-o", out)
    assert score.stderr == ""
    right = labelled["kind"].to_numpy() == pd.read_csv(out)["prediction"].to_numpy()
    labelled.assign(kind=["hot", "hot", "icy", *labelled["kind"][3:]]).to_csv(data, index=False)
    other = phimap("predict", model, data, "--target", "kind", "-o", out)
    assert float(values(other.stdout)["accuracy"]) == pytest.approx(right[3:].sum() / 600, abs=1e-4)
    lines = other.stderr.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith(f"warning: {data}: 3 of 600 rows have a class that the model was not trained on")
    assert "count as mistakes: 'hot' (2), 'icy' (1)." in lines[0]


def test_held_out_classes_without_training_rows_are_told(phimap, labelled, tmp_path):
    kind = labelled["kind"].to_numpy(dtype=object)
    kind[:30] = [f"rare {k}" for k in range(30)]
    held_out = pm.io.ProportionalHoldout(0.1).mask(kind)
    (first, *_), n_unseen = np.flatnonzero(held_out), int(held_out[:30].sum())
    assert n_unseen > 0
    labelled.assign(kind=kind).to_csv(tmp_path / "data.csv", index=False)
    result = phimap("fit", tmp_path / "data.csv", "--target", "kind", *SMALL)
    assert f"held out, {n_unseen} of {held_out.sum()} rows have a class" in result.stderr
    assert f"'rare {first}' (1)" in result.stderr


def test_models_of_data_frames_serve_files(phimap, model, labelled, tables, tmp_path):
    out = tmp_path / "p.csv"
    labelled[["kind", "c", "b", "a"]].to_csv(tmp_path / "data.csv", index=False)
    score = phimap("predict", model, tmp_path / "data.csv", "--target", "kind", "-o", out)
    assert float(values(score.stdout)["accuracy"]) > 0.8
    np.testing.assert_array_equal(
        pd.read_csv(out)["prediction"], pm.load(model).predict(labelled[["a", "b", "c"]].astype(np.float32))
    )


def test_models_without_names_take_columns_by_place(phimap, labelled, tables, tmp_path):
    file, out = tmp_path / "m.phimap", tmp_path / "p.csv"
    X = labelled[["a", "b", "c"]].to_numpy(dtype=np.float32)
    pm.save(learned(pm.KernelClassifier, X, labelled["kind"]), file)
    phimap("predict", file, tables / "labels.csv", "--target", "kind", "-o", out)
    np.testing.assert_array_equal(pd.read_csv(out)["prediction"], pm.load(file).predict(X))
    labelled[["a", "b", "kind"]].to_csv(tmp_path / "narrow.csv", index=False)
    narrow = phimap("predict", file, tmp_path / "narrow.csv", "--target", "kind", "-o", out)
    assert_refused(narrow, "2 feature columns", "trained on 3")


def test_several_targets_are_refused_and_one_in_a_column_is_not(phimap, labelled, tmp_path):
    X = labelled[["a", "b", "c"]].to_numpy()
    np.savez(tmp_path / "data.npz", X=X, y=X[:, :2], one=X[:, 0])
    data, out, file = tmp_path / "data.npz", tmp_path / "p.csv", tmp_path / "m.phimap"
    assert_refused(phimap("fit", data, "--target", "y", *SMALL), "'y'", "2 columns")
    pm.save(learned(pm.KernelRegressor, X, X[:, :1]), file)
    assert float(values(phimap("predict", file, data, "--target", "one", "-o", out).stdout)["R2"]) > 0.9
    assert_refused(phimap("predict", file, data, "--target", "y", "-o", out), "'y'", "2 columns")
    pm.save(learned(pm.KernelRegressor, X, X[:, :2]), file)
    assert_refused(phimap("predict", file, data, "-o", out), "predicts 2 targets")


def test_predictions_go_through_pipes(phimap, model, tables, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    # Open for both, so that neither end waits for the other.
    end = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    try:
        assert phimap("predict", model, tables / "labels.csv", "-o", pipe).exit_code == 0
        received = os.read(end, 2**16).decode()
    finally:
        os.close(end)
    assert received == phimap("predict", model, tables / "labels.csv").stdout
    assert pipe.is_fifo()


def test_far_rows_of_all_batches_are_told_at_once(phimap, labelled, tmp_path, monkeypatch):
    """Issue 18, item 7. Mutant: batch by batch, by which six lines were written, and six more for deviations."""
    monkeypatch.setattr("phimap.cli.predict.feature_rows", lambda *sizes: 100)
    file, data = tmp_path / "m.phimap", tmp_path / "data.csv"
    rows = labelled[["a", "b", "c"]]
    pm.save(learned(pm.KernelRegressor, rows, rows["a"]), file, statistics=True)
    rows.assign(a=rows["a"].where(np.arange(600) % 10 > 0, 1e6)).to_csv(data, index=False)
    lines = phimap("predict", file, data, "--std", "-o", tmp_path / "p.csv").stderr.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith(f"warning: {data}: 10 % of the rows (60 of 600) lie far outside of the training rows")
    assert "with 1e+06 in column 'a'" in lines[0]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_formulas_are_escaped_on_request(phimap, tmp_path, ending):
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.standard_normal(90), "b": rng.standard_normal(90)})
    y = np.array(["=cmd|'x'!A1", "-1", "@sum"], dtype=object)[np.arange(90) % 3]
    pm.save(learned(pm.KernelClassifier, X, y), tmp_path / "m")
    X.assign(key=["+1+2", "-3.5e2", "plain", *["\tx"] * 87]).to_csv(tmp_path / "new.csv", index=False)
    command = ("predict", tmp_path / "m", tmp_path / "new.csv", "--id", "key", "--probabilities", "-o")
    read = pd.read_csv if ending == "csv" else pd.read_parquet
    found = []
    for options in ((), ("--escape-formulas",)):
        out = tmp_path / f"{len(options)}.{ending}"
        assert phimap(*command, out, *options).exit_code == 0
        found.append(read(out, dtype=str) if ending == "csv" else read(out).astype(str))
    plain, escaped = found
    assert set(plain["prediction"]) == {"=cmd|'x'!A1", "-1", "@sum"}
    escapes = {"=cmd|'x'!A1": "'=cmd|'x'!A1", "@sum": "'@sum"}
    assert escaped["prediction"].tolist() == plain["prediction"].replace(escapes).tolist()
    assert escaped["key"].tolist()[:3] == ["'+1+2", "-3.5e2", "plain"]
    assert escaped.columns.tolist() == plain.columns.tolist()


def test_workers_change_no_bit(phimap, model, tables, tmp_path):
    found = []
    for option, count in (("--workers", 1), ("--workers", 3), ("--n-jobs", 2)):
        phimap("predict", model, tables / "labels.csv", option, count, "-o", tmp_path / "p.csv", "--force")
        found.append((tmp_path / "p.csv").read_bytes())
    assert len(set(found)) == 1
    assert_refused(phimap("predict", model, tables / "labels.csv", "--workers", 0), "--n-jobs")


def test_missing_columns_are_named_with_the_remedy(phimap, model, labelled, tmp_path):
    labelled[["a"]].to_csv(tmp_path / "data.csv", index=False)
    done = phimap("predict", model, tmp_path / "data.csv")
    assert_refused(done, "lacks 'b', 'c', which the model was trained with. Add them, with empty cells")
    assert "The file has 'a'." in done.stderr
    assert_refused(
        phimap("predict", model, tmp_path / "data.csv", "--target", "z"), "no target column 'z'. Choose from 'a'"
    )


@pytest.mark.parametrize("kind", ["u", 0])
def test_a_cell_that_is_neither_true_nor_false_counts_as_missing(phimap, tmp_path, kind):
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"b": rng.random(90) < 0.5, "x": rng.standard_normal(90), "kind": kind})
    table.loc[::2, "kind"] = "v" if kind else 1
    data, new, model, out = (tmp_path / name for name in ("t.csv", "new.csv", "m.phimap", "p.csv"))
    table.assign(y=3.0 * table["b"] + table["x"]).to_csv(data, index=False)
    fixed = ("--kernel", "gaussian", "--features", 64, "--length-scale", 1, "-q", "--model", model)
    assert phimap("fit", data, "--target", "y", *fixed).exit_code == 0
    found = []
    for cell in (True, "no", ""):
        table.astype({"b": object}).replace({"b": {True: "TRUE", False: "False"}}).to_csv(new, index=False)
        frame = pd.read_csv(new, dtype=str)
        if cell is not True:
            frame.loc[3, "b"] = cell
        frame.to_csv(new, index=False)
        done = phimap("predict", model, new, "-o", out, "--force")
        assert done.exit_code == 0, done.stderr
        assert ("what is no number in column 'b', such as 'no', counts as missing" in done.stderr) == (cell == "no")
        found.append(pd.read_csv(out)["prediction"].to_numpy())
    whole, bad, empty = found
    np.testing.assert_allclose(bad, empty, atol=1e-6)
    others = np.arange(90) != 3
    np.testing.assert_allclose(bad[others], whole[others], atol=1e-6)


def test_new_categories_and_missing_cells_are_noted_once_a_column(phimap, labelled, tmp_path):
    rng = np.random.default_rng(0)
    towns, many = rng.choice(["Bern", "Zug"], 600), [f"street-{k}" for k in rng.integers(0, 250, 600)]
    table = labelled[["a"]].assign(town=towns, street=many, colour="red")
    table.loc[:99, "colour"] = "blue"
    table.loc[0, "colour"] = "grey"
    pm.save(learned(pm.KernelRegressor, table, labelled["b"]), tmp_path / "m.phimap")
    table[1:].to_csv(tmp_path / "same.csv", index=False)
    assert phimap("predict", tmp_path / "m.phimap", tmp_path / "same.csv").stderr == ""
    table["a"] = None
    table.loc[3, "town"] = None
    table.loc[5:6, "town"] = ["Basel", "Genf"]
    table.loc[9, "street"] = "street-1000"
    table.to_csv(tmp_path / "new.csv", index=False)
    notes = phimap("predict", tmp_path / "m.phimap", tmp_path / "new.csv").stderr.splitlines()
    start, end = f"note: {tmp_path / 'new.csv'}: column", "Fit again with such rows if they are frequent."
    assert notes == [
        f"{start} 'a': all 600 cells are missing, 0 of 600 in training.",
        f"{start} 'town': 1 cell is missing, 0 of 600 in training.",
        f"{start} 'town': 2 cells have categories new for the model, such as 'Basel'. {end}",
        f"{start} 'street': 1 cell has a category new for the model, such as 'street-1000'. {end}",
        f"{start} 'colour': 1 cell has a category new or too rare for the model, such as 'grey'. {end}",
    ]
    assert phimap("predict", tmp_path / "m.phimap", tmp_path / "new.csv", "--quiet").stderr == ""


@pytest.mark.parametrize("sign", ["%", ""])
@pytest.mark.parametrize("word", ["", "ab"])
def test_targets_that_are_no_numbers_are_not_scored(phimap, tmp_path, rng, sign, word):
    size = rng.normal(size=80)
    share = [f"{value:.1f}{sign}" for value in 30 + 8 * size]
    share[3], share[4] = "pending", ""
    file, model, out = (tmp_path / name for name in ("t.csv", "m.phimap", "p.csv"))
    data = pd.DataFrame({"size": size, "floor": [f"{word}{k % 3}" for k in range(80)], "share": share})
    data.to_csv(file, index=False)
    phimap("fit", file, "--target", "share", "--types", "share=number", *SMALL, "--model", model)
    done = phimap("predict", model, file, "--target", "share", "--output", out)
    assert "what is no number in" in done.stderr
    assert "'share', such as 'pending', counts as missing" in done.stderr
    assert values(done.stdout)["rows"] == "78"
    assert pd.read_csv(out)["prediction"].notna().all()
    data.assign(share="soon").to_csv(file, index=False)
    assert_refused(phimap("predict", model, file, "--target", "share"), "target 'share' holds text, such as 'soon'")
