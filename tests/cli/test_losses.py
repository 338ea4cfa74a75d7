"""Losses on the command line: quantiles and counts, from the fit to predictions, facts and reports."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from sklearn.metrics import d2_pinball_score, mean_poisson_deviance

import phimap as pm

FIXED = ("--kernel", "gaussian", "--metric", "none", "--length-scale", "median", "--features", 64, "--quiet")


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A file of 900 rows, with a number ``y`` and a count ``n`` that has fewer than 20 values."""
    path, rng = tmp_path_factory.mktemp("losses") / "rows.csv", np.random.default_rng(0)
    X = rng.uniform(-1, 1, (900, 2))
    mean = np.sin(3 * X[:, 0]) + X[:, 1]
    y, n = mean + (0.3 + 0.2 * X[:, 1]) * rng.standard_normal(900), np.minimum(rng.poisson(np.exp(mean)), 15)
    lines = ["a,b,y,n", *(f"{a:.6f},{b:.6f},{one:.6f},{k}" for (a, b), one, k in zip(X, y, n, strict=True))]
    path.write_text("\n".join(lines) + "\n")
    return path


def columns(path):
    with path.open() as file:
        names, *rows = csv.reader(file)
    return names, np.array(rows, dtype=float)


def test_quantiles_from_fit_to_report(phimap, table, tmp_path):
    model, page, predictions = tmp_path / "m.phimap", tmp_path / "r.html", tmp_path / "p.csv"
    quantiles = ("--loss", "quantile", "--quantile", "0.1,0.5,0.9", "--drop", "n")
    fitted = phimap("fit", table, "--target", "y", *quantiles, *FIXED, "--model", model, "--report", page, "--json")
    assert fitted.exit_code == 0, fitted.stderr
    facts = json.loads(fitted.stdout)
    assert facts["task"] == "regression"
    assert 0.3 < facts["D2"] < 1
    assert facts["pinball_loss"] < facts["pinball_loss_of_the_constant"]
    # Three standard errors of a share of 90 held-out rows, and two points.
    assert facts["share_below_0.9"] == pytest.approx(0.9, abs=0.02 + 3 * np.sqrt(0.09 / 90))
    scored = phimap("predict", model, table, "-o", predictions, "--target", "y", "--json")
    assert scored.exit_code == 0, scored.stderr
    names, found = columns(predictions)
    assert names == ["prediction_0.1", "prediction_0.5", "prediction_0.9"]
    assert (np.diff(found, axis=1) >= 0).all()
    _, rows = columns(table)
    expected = np.mean([d2_pinball_score(rows[:, 2], found[:, k], alpha=q) for k, q in enumerate((0.1, 0.5, 0.9))])
    assert json.loads(scored.stdout)["D2"] == pytest.approx(expected, abs=1e-4)
    assert "quantile, 0.1, 0.5, 0.9" in phimap("info", model).stdout
    text = page.read_text()
    for words in ("pinball loss", "band between the outer quantiles", "below each quantile", "quantile, 0.1, 0.5, 0.9"):
        assert words in text.replace("Pinball", "pinball")
    assert "RMSE" not in text


def test_one_quantile_has_one_column(phimap, table, tmp_path):
    model, predictions = tmp_path / "m.phimap", tmp_path / "p.csv"
    options = ("--target", "y", "--loss", "quantile", "--quantile", "0.9", "--drop", "n", *FIXED)
    assert phimap("fit", table, *options, "--model", model, "--report", tmp_path / "r.html").exit_code == 0
    assert phimap("predict", model, table, "-o", predictions).exit_code == 0
    names, found = columns(predictions)
    assert names == ["prediction"]
    assert np.mean(columns(table)[1][:, 2] <= found[:, 0]) == pytest.approx(0.9, abs=0.05)
    assert pm.load(model).quantile == 0.9


def test_counts_of_few_values_are_numbers(phimap, table, tmp_path):
    model, page, predictions = tmp_path / "m.phimap", tmp_path / "r.html", tmp_path / "p.csv"
    options = ("--target", "n", "--loss", "poisson", "--drop", "y", *FIXED)
    fitted = phimap("fit", table, *options, "--model", model, "--report", page, "--json")
    assert fitted.exit_code == 0, fitted.stderr
    facts = json.loads(fitted.stdout)
    assert facts["task"] == "regression"
    assert facts["deviance"] < facts["deviance_of_the_mean"]
    scored = phimap("predict", model, table, "-o", predictions, "--target", "n", "--json")
    _, found = columns(predictions)
    expected = mean_poisson_deviance(columns(table)[1][:, 3], found[:, 0])
    assert json.loads(scored.stdout)["deviance"] == pytest.approx(expected, rel=1e-3)
    text = page.read_text()
    assert "Mean true value in up to ten groups" in text
    assert "RMSE" not in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--target", "y", "--loss", "poisson"), "the target 'y' must be at least 0 for this loss, got -"),
        (("--target", "n", "--loss", "gamma"), "the target 'n' must be positive for the gamma loss, got 0 in row "),
        (("--target", "y", "--quantile", "0.5"), "--quantile applies to --loss quantile"),
        (("--target", "y", "--loss", "huber", "--power", "1.5"), "--power applies to --loss tweedie"),
        (("--target", "n", "--loss", "tweedie", "--power", "3"), "--power must lie between 1"),
        (("--target", "y", "--loss", "quantile", "--quantile", "0.9,0.1"), "--quantile must hold numbers"),
        (("--target", "y", "--loss", "quantile", "--quantile", "high"), "--quantile must be numbers such as"),
        (("--target", "n", "--loss", "poisson", "--task", "classification"), "--loss poisson is for regression"),
    ],
)
def test_what_does_not_fit_together_is_refused(phimap, table, options, message):
    found = phimap("fit", table, *options, *FIXED)
    assert found.exit_code == 2
    assert message in found.stderr


def test_such_models_have_intervals(phimap, table, tmp_path):
    model, predictions = tmp_path / "m.phimap", tmp_path / "p.csv"
    phimap("fit", table, "--target", "y", "--loss", "quantile", "--drop", "n", *FIXED, "--model", model)
    found = phimap("predict", model, table, "--interval", "0.9", "-o", predictions)
    assert found.exit_code == 0, found.stderr
    names, values = columns(predictions)
    assert list(names) == ["prediction", "lower", "upper"]
    assert (values[:, 1] < values[:, 0]).all()
    assert (values[:, 0] < values[:, 2]).all()


def test_classes_take_their_losses(phimap, table):
    found = phimap("fit", table, "--target", "n", "--loss", "logistic", "--drop", "y", *FIXED, "--json")
    assert found.exit_code == 0, found.stderr
    assert json.loads(found.stdout)["task"] == "classification"


@pytest.mark.parametrize(("target", "scoring"), [("big", "roc_auc"), ("y", "neg_mean_absolute_error")])
def test_scorers_of_both_tasks(phimap, table, tmp_path, target, scoring):
    """The learner that summarises the rows before the task is known refused scorers of classes."""
    lines = table.read_text().splitlines()
    big = ["yes" if float(line.split(",")[2]) > 0 else "no" for line in lines[1:]]
    data, model = tmp_path / "t.csv", tmp_path / "m.phimap"
    data.write_text("\n".join([f"{lines[0]},big", *map(",".join, zip(lines[1:], big, strict=True))]) + "\n")
    words = ("--target", target, "--columns", "a,b", "--scoring", scoring)
    done = phimap("fit", data, *words, *FIXED, "--model", model)
    assert done.exit_code == 0, done.stderr
    assert pm.load(model).scoring == scoring
    done = phimap("fit", data, *words[:-1], "accuracy_of_all", *FIXED)
    assert "scikit-learn scorer of" in done.stderr
