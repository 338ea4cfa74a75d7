"""Manners of the commands: JSON, baselines, uncertainty, files that are kept, plain lines in a pipe, completion."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, precision_score, recall_score, roc_auc_score
from typer.testing import CliRunner

import phimap as pm
from phimap._progress import Stages
from phimap.cli.commands import app
from phimap.cli.held_out import outcomes, score
from phimap.io import holdout_mask
from phimap.learn.rows.samples import Reservoir
from tests.cli.test_bad_input import FIXED, assert_refused

SMALL = ("--features", "64", *FIXED, "--quiet")


@pytest.fixture(scope="module")
def fitted(phimap, tables, tmp_path_factory):
    """Models of the numbers and of the labels, with their sums."""
    folder = tmp_path_factory.mktemp("fitted")
    for name, target in (("numbers", "y"), ("labels", "kind")):
        words = ("--target", target, "--statistics", "--model", folder / f"{name}.phimap")
        assert phimap("fit", tables / f"{name}.csv", *words, *SMALL).exit_code == 0
    return folder


def columns(text: str) -> dict[str, list[str]]:
    """A CSV file by its columns."""
    head, *rows = csv.reader(io.StringIO(text))
    return {name: [row[k] for row in rows] for k, name in enumerate(head)}


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("report", "No such command 'report'. Reports are the option --report of fit, compare and explain. See "),
        ("fitt", "No such command 'fitt'. Did you mean 'fit'? See "),
    ],
)
def test_unknown_commands_are_told_in_sentences(phimap, command, told):
    assert_refused(phimap(command, "x"), told)


@pytest.mark.parametrize(("name", "target"), [("numbers.csv", "y"), ("labels.csv", "kind")])
def test_json_is_one_object_with_the_values_of_the_lines(phimap, tables, name, target):
    # The choice of the solver is always in JSON, and a line with --verbose.
    plain = phimap("fit", tables / name, "--target", target, "--verbose", *SMALL).stdout
    found = json.loads(phimap("fit", tables / name, "--target", target, "--json", *SMALL).stdout)
    lines = dict(line.split(" ", 1) for line in plain.splitlines())
    assert list(found) == list(lines)
    for key in set(found) - {"seconds", "peak_memory_mb"}:
        same = (
            found[key] == lines[key]
            if isinstance(found[key], str)
            else float(lines[key]) == pytest.approx(found[key], rel=1e-3, abs=1e-4)
        )
        assert same, key


def test_what_is_not_defined_is_null(phimap, tmp_path):
    held_out = holdout_mask(0, 60, 0.1)
    rows = "\n".join(f"{i},{1.5 if held_out[i] else (i + 0.5) / 7}" for i in range(60))
    (tmp_path / "data.csv").write_text("a,y\n" + rows)
    found = json.loads(phimap("fit", tmp_path / "data.csv", "--target", "y", "--json", *SMALL).stdout)
    assert found["R2"] is None


def test_three_rows_say_why_there_is_no_score(phimap, tmp_path):
    (tmp_path / "data.csv").write_text("a,y\n1,2.5\n2,3.5\n3,5.5\n")
    result = phimap("fit", tmp_path / "data.csv", "--target", "y", *SMALL)
    assert result.exit_code == 0
    assert "no row was held out of 3, so there is no score. Give more rows" in result.stderr
    assert "no row was held out" not in phimap("fit", tmp_path / "data.csv", "--target", "y", "--holdout", "0").stderr
    seed = next(seed for seed in range(99) if holdout_mask(0, 3, 0.3, seed).sum() == 1)
    one = phimap("fit", tmp_path / "data.csv", "--target", "y", "--holdout", "0.3", "--seed", str(seed), *SMALL)
    assert "one row was held out of 3, so R2 is not defined" in one.stderr


def test_few_training_rows_are_counted(phimap, tables):
    words = ("fit", tables / "numbers.csv", "--target", "y", *SMALL, "--holdout")
    few = phimap(*words, "0.99").stderr
    n_train = int((~holdout_mask(0, 600, 0.99)).sum())
    assert f"only {n_train} of 600 rows are left to train on, since --holdout is 0.99. Give a smaller one" in few
    assert "left to train on" not in phimap(*words, "0.8").stderr


def test_rare_classes_are_held_out_in_proportion_and_named(phimap, tmp_path):
    """Twenty positives among 2,020 rows: two are held out, and the score says that these are few."""
    rows = [f"{i % 97},{'yes' if i % 101 == 7 else 'no'}" for i in range(2020)]
    (tmp_path / "data.csv").write_text("a,y\n" + "\n".join(rows))
    result = phimap("fit", tmp_path / "data.csv", "--target", "y", *SMALL)
    assert "the score says little about classes with fewer than 5 rows: 'yes' (2)" in result.stderr
    assert "rarer_class yes" in result.stdout
    assert "rows_held_out 202\n" in result.stdout


def test_predict_tells_its_score_as_json(phimap, tables, fitted, tmp_path):
    words = ("predict", fitted / "numbers.phimap", tables / "numbers.csv", "--target", "y", "--json")
    found = json.loads(phimap(*words, "-o", tmp_path / "p.csv").stdout)
    assert found["rows"] == 600
    assert found["RMSE"] < found["RMSE_of_the_mean"]
    assert_refused(phimap(*words), "--json", "--output")


def test_info_as_json(phimap, fitted, monkeypatch):
    # The speed of small products, which no line below looks at.
    monkeypatch.setattr("phimap.advice.speed._ORDER", 64)
    found = json.loads(phimap("info", fitted / "labels.phimap", "--json").stdout)
    assert (found["columns"], found["width"], found["statistics"]) == (["a", "b", "c"], 64, True)
    assert found["classes"] == ["cold", "mild", "warm, dry"]
    assert json.loads(phimap("info", "--json").stdout)["threads"] >= 1


def rare(n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, 3))
    return X, np.where(X[:, 0] + X[:, 1] + rng.standard_normal(n_rows) > 3.2, "a fraud", "fine")


def test_scores_of_a_rare_class_are_those_of_scikit_learn():
    X, y = rare(4000)
    model = pm.KernelClassifier("gaussian", 64, length_scale="median", metric=None, random_state=0)
    model.fit(X[:2000], y[:2000])
    held_out = [(X[2000:3000], y[2000:3000]), (X[3000:], y[3000:])]
    sample = Reservoir(0, 0)
    sample.update(X[:2000], y[:2000], None)
    scores = score(model, "classification", held_out, lambda rows: None, sample=sample)
    found = {fact.name: fact.value for fact in scores.facts()}
    true, predicted = y[2000:], model.predict(X[2000:])
    assert found["rarer_class"] == "a fraud"
    assert found["share"] == pytest.approx((true == "a fraud").mean())
    assert found["accuracy_of_the_commonest_class"] == pytest.approx((true == "fine").mean())
    assert found["recall"] == pytest.approx(recall_score(true, predicted, pos_label="a fraud"))
    assert found["precision"] == pytest.approx(precision_score(true, predicted, pos_label="a fraud"))
    assert found["balanced_accuracy"] == pytest.approx(balanced_accuracy_score(true, predicted))
    # "a fraud" is the first of both classes, so that its scores are the negative ones.
    assert found["AUC"] == pytest.approx(roc_auc_score(true == "a fraud", -model.decision_function(X[2000:])))
    assert found["AUC"] > 0.9
    linear = LogisticRegression().fit(X[:2000], y[:2000])
    assert found["accuracy_of_a_linear_model"] == pytest.approx(linear.score(X[2000:], true), abs=0.005)


def test_outcomes_are_predictions():
    X, y = rare(300)
    for labels in (y, np.digitize(X[:, 0], [-0.5, 0.5]), X[:, 0]):
        kind = pm.KernelRegressor if labels.dtype.kind == "f" else pm.KernelClassifier
        model = kind("gaussian", 32, length_scale="median", metric=None, random_state=0).fit(X, labels)
        np.testing.assert_array_equal(outcomes(model, X)[0], model.predict(X))


def test_probabilities_are_columns_of_the_classes(phimap, tables, fitted):
    found = columns(phimap("predict", fitted / "labels.phimap", tables / "labels.csv", "--probabilities").stdout)
    names = [f"probability_{label}" for label in ("cold", "mild", "warm, dry")]
    assert list(found) == ["prediction", *names]
    shares = np.array([found[name] for name in names], dtype=float)
    np.testing.assert_allclose(shares.sum(axis=0), 1, atol=1e-5)
    labels = np.array(names)[shares.argmax(axis=0)]
    assert [f"probability_{label}" for label in found["prediction"]] == labels.tolist()


def test_intervals_hold_their_share_and_surround_the_prediction(phimap, tables, fitted):
    words = ("predict", fitted / "numbers.phimap", tables / "numbers.csv", "--std", "--interval", "0.9")
    found = {name: np.array(values, dtype=float) for name, values in columns(phimap(*words).stdout).items()}
    assert list(found) == ["prediction", "std", "lower", "upper"]
    # The bounds are those of the library, not 1.645 standard deviations.
    model = pm.load(fitted / "numbers.phimap")
    X = np.loadtxt(tables / "numbers.csv", delimiter=",", skiprows=1)[:, :3].astype(np.float32)
    bounds = model.predict_interval(pd.DataFrame(X, columns=model.feature_names_in_), 0.9)
    np.testing.assert_allclose(np.stack([found["lower"], found["upper"]], axis=1), bounds, rtol=1e-4)
    np.testing.assert_allclose(found["upper"] - found["prediction"], found["prediction"] - found["lower"], rtol=1e-3)
    truth = np.loadtxt(tables / "numbers.csv", delimiter=",", skiprows=1)[:, 3]
    assert 0.85 < ((found["lower"] <= truth) & (truth <= found["upper"])).mean() < 0.97


def test_known_targets_give_the_share_inside_the_intervals(phimap, tables, fitted, tmp_path):
    words = ("--interval", "0.9", "-o", tmp_path / "p.csv", "--target", "y")
    found = phimap("predict", fitted / "numbers.phimap", tables / "numbers.csv", *words).stdout
    bounds, truth = pd.read_csv(tmp_path / "p.csv"), pd.read_csv(tables / "numbers.csv")["y"]
    share = ((bounds["lower"] <= truth) & (truth <= bounds["upper"])).mean()
    assert f"\ninside_intervals {share:.4f}\n" in found


def test_a_coverage_that_no_row_can_give_is_noted_once(phimap, tables, fitted):
    """540 training rows, all of them conformal. Mutant: infinite bounds without a word."""
    found = phimap("predict", fitted / "numbers.phimap", tables / "numbers.csv", "--interval", "0.999")
    assert set(columns(found.stdout)["lower"]) == {"-inf"}
    assert found.stderr.count("note: ") == 1
    assert "--interval 0.999 needs more conformal rows than" in found.stderr
    assert "The largest coverage that it gives is 0.9981." in found.stderr
    quiet = phimap("predict", fitted / "numbers.phimap", tables / "numbers.csv", "--interval", "0.9981")
    assert quiet.stderr == ""
    assert np.isfinite(np.array(columns(quiet.stdout)["lower"], dtype=float)).all()


@pytest.mark.parametrize(
    ("name", "words", "told"),
    [
        ("numbers", ("--probabilities",), ("--probabilities", "predicts numbers", "--interval")),
        ("labels", ("--std",), ("--std", "predicts classes", "--probabilities")),
        ("labels", ("--interval", "0.9"), ("--interval", "predicts classes")),
        ("numbers", ("--interval", "90"), ("--interval", "between 0 and 1", "90", "0.9")),
    ],
)
def test_what_a_model_cannot_tell_is_refused(phimap, tables, fitted, name, words, told):
    assert_refused(phimap("predict", fitted / f"{name}.phimap", tables / f"{name}.csv", *words), *told)


def test_standard_deviations_need_the_sums_and_intervals_do_not(phimap, tables, tmp_path):
    file = tmp_path / "m.phimap"
    assert phimap("fit", tables / "numbers.csv", "--target", "y", "--model", file, *SMALL).exit_code == 0
    assert_refused(phimap("predict", file, tables / "numbers.csv", "--std"), "--std", "--statistics")
    found = columns(phimap("predict", file, tables / "numbers.csv", "--interval", "0.8").stdout)
    assert list(found) == ["prediction", "lower", "upper"]
    model = pm.load(file)
    model._fitted = replace(model._fitted, conformal=None)
    pm.save(model, file)
    refused = phimap("predict", file, tables / "numbers.csv", "--interval", "0.8")
    assert_refused(refused, "--interval", "Fit it again")


@pytest.mark.parametrize("option", ["--model", "--report"])
def test_other_files_are_kept_unless_forced(phimap, tables, tmp_path, option):
    file = tmp_path / "precious.csv"
    words = ("fit", tables / "numbers.csv", "--target", "y", option, file, *SMALL)
    for text in ("a,b\n1,2\n", "<!DOCTYPE html>\n<title>Mine</title>"):
        file.write_text(text)
        assert_refused(phimap(*words), option, "precious.csv", "--force")
        assert file.read_text() == text
    assert phimap(*words, "--force").exit_code == 0
    # Its own files are replaced as ever, and so are empty ones.
    assert phimap(*words).exit_code == 0
    file.write_text("")
    assert phimap(*words).exit_code == 0


@pytest.mark.filterwarnings("always:.length_scale.=2.0 is ignored:UserWarning")
def test_a_length_scale_that_nothing_takes_is_told(phimap, tables):
    words = ("--kernel", "ntk", "--length-scale", "2", "--metric", "none", "--features", "16", "-q")
    result = phimap("fit", tables / "numbers.csv", "--target", "y", *words)
    assert result.exit_code == 0
    assert result.stderr.startswith("warning: --length-scale=2.0 is ignored")
    assert len(result.stderr.splitlines()) == 1


def test_a_kernel_has_its_other_name(phimap, tables):
    words = ("--target", "y", "--features", "16", "--metric", "none", "--length-scale", "median", "-q", "--json")
    one, other = (
        json.loads(phimap("fit", tables / "numbers.csv", "--kernel", name, *words).stdout)["R2"]
        for name in ("rbf", "gaussian")
    )
    assert one == other


def test_experiments_are_listed(phimap):
    result = phimap("bench", "list")
    assert result.exit_code == 0
    assert "tabular" in [line.split()[0] for line in result.stdout.splitlines()]


@pytest.mark.parametrize(("typed", "offered"), [("phimap pre", "predict"), ("phimap fit --kernel ga", "gaussian")])
def test_shells_complete_names(typed, offered):
    asked = {"_PHIMAP_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(len(typed.split()) - 1)}
    assert CliRunner().invoke(app, [], prog_name="phimap", env=asked).stdout.split() == [offered]


def test_progress_in_a_pipe_is_plain_lines(capsys, monkeypatch):
    monkeypatch.setattr("phimap._progress._SECONDS_BETWEEN_LINES", 0.0)
    with Stages(verbose=True).stage("features", 3000) as advance:
        advance(1000)
    first, last = capsys.readouterr().err.splitlines()
    assert first.startswith("features: 1,000 of 3,000 after ")
    assert "/s" not in first + last
    assert last.startswith("features: 0.")
    assert last.endswith(" s")


def test_one_extreme_target_is_told_by_its_row_in_the_file(phimap, tables, tmp_path):
    lines = (tables / "numbers.csv").read_text().splitlines()
    held_out = holdout_mask(0, 600, 0.1)
    for row in (int(np.flatnonzero(held_out)[3]), int(np.flatnonzero(~held_out)[300])):
        changed = [*lines[: row + 1], lines[row + 1].rpartition(",")[0] + ",1e9", *lines[row + 2 :]]
        (tmp_path / "data.csv").write_text("\n".join(changed) + "\n")
        result = phimap("fit", tmp_path / "data.csv", "--target", "y", *SMALL)
        assert result.exit_code == 0, result.stderr
        (line,) = result.stderr.splitlines()
        assert line.startswith("warning: ")
        assert f"the target 'y' is 1e+09 in row {row + 1}, which alone makes" in line
