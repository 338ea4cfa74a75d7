"""The README's Python and its commands run as they stand."""

from __future__ import annotations

import re
import runpy
from contextlib import nullcontext
from functools import partial
from importlib import import_module
from importlib.util import find_spec

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.metrics import root_mean_squared_error
from typer.testing import CliRunner

from phimap.cli.commands import app
from phimap.io import ProportionalHoldout
from tests.support.learners import brief_searches
from tests.support.pages import ROOT, Block, blocks, commands

TEXT = (ROOT / "README.md").read_text(encoding="utf-8")


def block(language: str, opening: str = "") -> Block:
    """The one block of code in `language` that opens so."""
    (found,) = (
        block for block in blocks(ROOT / "README.md") if block.language == language and block.text.startswith(opening)
    )
    return found


def test_python_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    exec(compile(block("python").text, "README.md", "exec"), names)
    assert names["Z"].shape == (1000, 2048)
    rows = names["X_test"], names["y_test"]
    line = LinearRegression().fit(names["X_train"], names["y_train"]).score(*rows)
    # The block tells both figures.
    assert (round(names["model"].score(*rows), 2), round(line, 2)) == (0.96, 0.74)
    assert (tmp_path / "friedman.phimap").exists()


@pytest.mark.slow
def test_shell_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # Where CatBoost is installed, `compare` fits it, and its thousand trees took half of this test.
    if find_spec("catboost"):
        monkeypatch.setattr("catboost.CatBoostRegressor", partial(import_module("catboost").CatBoostRegressor, 20))
    # `info` measures the speed of small products.
    monkeypatch.setattr("phimap.advice.speed._ORDER", 64)
    runpy.run_path(str(ROOT / "examples" / "demo_data.py"))["main"](tmp_path / "demo")
    said = []
    for program, *arguments in commands(block("sh", "phimap fit demo")):
        assert program == "phimap"
        # In this process: a new one for each line would spend most of its time on loading libraries. The first model
        # is the one that a user gets, because its error is looked at; the searches of the others are brief.
        with brief_searches() if said else nullcontext():
            done = CliRunner().invoke(app, arguments)
        assert done.exit_code == 0, f"{arguments}\n{done.stderr}"
        said.append(done.stdout)
    # The first model errs at most half as much as a straight line on the same held-out rows.
    first = dict(line.split(" ", 1) for line in said[0].splitlines())
    table = np.genfromtxt(tmp_path / "demo" / "cancer.csv", delimiter=",", names=True)
    y = table["area_error"]
    X = np.column_stack([table[name] for name in table.dtype.names if name != "area_error"])
    out = ProportionalHoldout(0.1).mask(y)
    assert int(first["rows_held_out"]) == out.sum()
    line = root_mean_squared_error(y[out], LinearRegression().fit(X[~out], y[~out]).predict(X[out]))
    assert float(first["RMSE"]) < 0.5 * line
    assert (tmp_path / "predictions.csv").read_text(encoding="utf-8").count("\n") == 1798
    assert (tmp_path / "cancer.html").exists()


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_the_summary_tells_the_times_of_the_table(page):
    """Geometric means of the ratios of seconds, of regression and classification."""
    rows = re.findall(r"^\| (\w+) \| (\w+) \|.* ([\d.]+) \|$", TEXT, re.MULTILINE)
    ratios = {(task, peer): ratio for task, peer, ratio in rows}
    text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
    for peer, name in (("lightgbm", "LightGBM"), ("hgb", "HistGradientBoosting")):
        both = " and ".join(ratios[task, peer] for task in ("regression", "classification"))
        assert f"{both} times as long as one of {name}" in text


def test_the_overview_has_the_figures_of_the_page_of_tables():
    page = (ROOT / "docs/results/tabular.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| (regression|classification) \| (\w+) \| (\d+) of (\d+) \| (\d+) \| (.+) \|$", TEXT, re.MULTILINE
    )
    assert len(rows) == 6
    for task, peer, smaller, tables, larger, ratios in rows:
        section = page.partition(f"## {task.capitalize()}\n")[2].partition("\n## ")[0]
        line = rf"^\| {peer} \| {tables} \| {smaller} \| {larger} \| [\d.]+ \| {re.escape(ratios)} \|$"
        assert re.search(line, section, re.MULTILINE), f"{task} beside {peer}"


def test_every_named_file_and_target_exists():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"make ([a-z]+)", TEXT):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    for path in re.findall(r"(?:docs|benchmarks|examples)/[\w/.]+\.(?:md|py)", TEXT):
        assert (ROOT / path).exists(), path
