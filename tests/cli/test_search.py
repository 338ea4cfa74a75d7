"""The search for kernel, width and metric from the shell: options, what is told of it, the report's pictures."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import phimap as pm
from phimap.cli.commands import app
from phimap.cli.describe import leading_columns, metric_kind, search_facts
from phimap.cli.written_kernels import kernel_text
from phimap.report.bars import columns, percent
from phimap.report.kernel_figures import search
from tests.cli.test_bad_input import FIXED
from tests.cli.test_fit import values

FAST = ("--effort", "fast", "--kernel", "gaussian", "--metric", "diagonal")


@pytest.fixture(scope="module")
def searched(tmp_path_factory) -> SimpleNamespace:
    """A fit with a search on a table of which two columns of four matter, with its outputs and files."""
    folder: Path = tmp_path_factory.mktemp("searched")
    rng = np.random.default_rng(1)
    X = rng.standard_normal((160, 4))
    y = np.sin(2 * X[:, 2]) + 0.5 * X[:, 0] + 0.05 * rng.standard_normal(160)
    lines = ["a,b,[c],d,y", *(",".join(f"{value:.6f}" for value in row) for row in np.column_stack([X, y]))]
    data, model, report = folder / "t.csv", folder / "m.phimap", folder / "r.html"
    data.write_text("\n".join(lines) + "\n")
    words = ["fit", data, "--target", "y", "--features", "auto", *FAST, "--model", model, "--report", report]
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, result.stderr
    return SimpleNamespace(data=data, model=model, report=report, result=result)


def test_columns_that_are_left_out_have_no_relevance():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.standard_normal((160, 5)), columns=list("abcde")).assign(number=np.arange(160), town="Bern")
    model = pm.KernelRegressor(effort="fast", kernel="gaussian", metric="diagonal", random_state=0)
    model.fit(X, np.sin(2 * X["c"]) + 0.5 * X["a"])
    assert "more" not in dict(search_facts(model))["relevances"]


def test_result_lines_name_what_was_chosen(searched):
    found = values(searched.result.stdout)
    model = pm.load(searched.model)
    assert (found["kernel"], found["metric"]) == (kernel_text(model.kernel_), "diagonal")
    assert int(found["features"]) == model.feature_map_.record_.n_components
    assert float(found["length_scale"]) == pytest.approx(model.kernel_.length_scale, rel=1e-3)


def test_the_screen_says_each_thing_once(searched):
    stages, summary = [], []
    for line in searched.result.stderr.splitlines():
        found = re.match(r"([a-z -]+?)(: [\d.]+ s|  +)", line)
        if found is not None:
            (stages if found[2].startswith(":") else summary).append(found[1])
    assert "search" in stages
    assert "feature map" not in stages
    assert {"data", "target", "map", "relevances", "search"} <= set(summary)
    told = [*summary, *values(searched.result.stdout)]
    assert len(told) == len(set(told))
    assert set(stages) & set(told) <= {"search", "features"}


def test_summary_and_info_name_the_leading_columns(searched, phimap):
    summary = searched.result.stderr
    info = phimap("info", searched.model).stdout
    assert "diagonal" in info
    assert "Gaussian(length_scale=" in info
    model = pm.load(searched.model)
    share = 100 * model.relevances_[2]
    for text in (summary, info):
        assert f"[c] {share:.3g} %" in text
        assert text.index("[c]") < text.index(" a ")
        assert f"{model.search_.errors.size} trials of gaussian" in text


def test_texts_of_figures_are_eleven_pixels_high_on_a_phone(searched):
    """On a page of 390 pixels, a figure is 330 pixels wide."""
    figures = re.findall(r"<svg.*?</svg>", searched.report.read_text(), re.S)
    assert len(figures) > 5
    for figure in figures:
        width = float(re.search(r'viewBox="0 0 ([\d.]+) ', figure)[1])
        sizes = [float(size) for size in re.findall(r"font-size: calc\(([\d.]+)px", figure)]
        assert figure.count("<text") == len(sizes)
        assert min(sizes) * 330 / width >= 11


def test_report_shows_relevances_dependence_and_search(searched):
    page = searched.report.read_text()
    labels = [
        "What columns matter; first by mean absolute Shapley value is ",
        "Mean y against [c]",
        "Mean y against a",
        "Mean y by [c] and a",
        "Held-out error of ",
    ]
    for label in labels:
        assert f'aria-label="{label}' in page
    assert "What y depends on" in page
    assert "#a100" not in page


def test_reports_without_a_search_show_none_of_it(tables, tmp_path, phimap):
    page = tmp_path / "r.html"
    words = ("--target", "y", "--features", "32", *FIXED, "-q", "--report", page)
    assert phimap("fit", tables / "numbers.csv", *words).exit_code == 0
    for label in ("share of the metric", "trials"):
        assert label not in page.read_text()


def test_the_model_is_that_of_the_library(searched):
    saved = pm.load(searched.model)
    table = pm.io.open_table(searched.data, "y")
    X, y = next(table.batches(160))
    kept = ~pm.io.holdout_mask(0, 160, 0.1)
    options = {"metric": "diagonal", "effort": "fast", "random_state": 0}
    model = pm.KernelRegressor("gaussian", **options).fit(X[kept], y[kept])
    np.testing.assert_array_equal(model.metric_, saved.metric_)
    np.testing.assert_array_equal(model.search_.errors, saved.search_.errors)
    assert saved.effort == "fast"
    # Mutant: another seed has other maps, and with them another metric.
    other = pm.KernelRegressor("gaussian", **options | {"random_state": 1}).fit(X[kept], y[kept])
    assert not np.array_equal(other.metric_, saved.metric_)


def test_names_of_columns_are_those_of_the_metric():
    model = SimpleNamespace(
        metric_=np.array([0.5, 2.0, 0.5]),
        relevances_=np.array([1, 4, 1]) / 6,
        feature_names_in_=np.array(["x", "y", "z"]),
        trees_=None,
    )
    assert [name for name, _ in leading_columns(model, 2)] == ["y", "x"]
    model.metric_ = np.ones(3)
    assert metric_kind(model) == "none"
    assert leading_columns(model, 2) == []
    model.metric_ = np.eye(3)
    assert metric_kind(model) == "full"


def test_the_best_trial_of_the_last_rung_is_marked(searched):
    log = pm.load(searched.model).search_
    count = log.errors.size
    # The first rung has lower errors, but on fewer rows: the best trial is one of the last rung.
    errors, n_rows = np.linspace(0.5, 0.9, count), np.where(np.arange(count) < 4, 100, 300)
    errors[-1] = 0.6
    errors[-2] = np.inf
    plot = search(SimpleNamespace(**vars(log) | {"errors": errors, "n_rows": n_rows}))
    assert f"Held-out error of {count} trials; the best is gaussian with 0.6" in plot.svg
    # The note of the last rung is left out where it would run into that of the first.
    assert "100 rows" in plot.svg


def test_small_shares_are_not_told_apart():
    rows = columns([("share", [("a", 0.9995), ("b$", 0.0005)], percent)]).rows
    assert [(name, text) for name, [(text, _)] in rows] == [("a", "100 %"), ("b$", "below 0.1 %")]
