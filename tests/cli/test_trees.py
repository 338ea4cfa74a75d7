"""What a fit tells of boosted trees: that they alone predict, that they gained nothing, that there was no time."""

from __future__ import annotations

import re

import numpy as np
import pytest

from phimap.learn import average

pytestmark = pytest.mark.usefixtures("brief_search")

OPTIONS = ("--effort", "fast", "--features", "64", "--metric", "diagonal")
ALONE = "which alone predict: the kernel model is not used"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A table whose target jumps along three of six columns."""
    rng = np.random.default_rng(5)
    X = rng.uniform(-1, 1, (1300, 6))
    y = np.sign(X[:, 0] - 0.3) + np.sign(X[:, 1] + 0.1) * np.sign(X[:, 2]) + 0.1 * rng.standard_normal(1300)
    file = tmp_path_factory.mktemp("trees") / "t.csv"
    np.savetxt(file, np.column_stack([X, y]), fmt="%.5f", delimiter=",", header="a,b,c,d,e,f,y", comments="")
    return file


def told(text: str, name: str) -> str:
    """The line of a summary that begins with a name."""
    return " ".join(re.findall(rf"^{name} +(.*?) *$", text, re.M))


def test_trees_that_alone_predict_are_called_so(phimap, data, tmp_path, monkeypatch):
    """Mutant: a page that ranks columns by the metric of a kernel model that no prediction uses."""
    monkeypatch.setattr(average, "_least_squares_share", lambda *_: 1.0)
    model, page = tmp_path / "m.phimap", tmp_path / "r.html"
    fitted = phimap("fit", data, "--target", "y", *OPTIONS, "--model", model, "--report", page)
    assert fitted.exit_code == 0, fitted.stderr
    for text in (fitted.stderr, phimap("info", model).stdout):
        assert ALONE in " ".join(text.split()), text
        assert "relevances" not in text
    html = page.read_text()
    lead = html.partition('<p class="lead">')[2].partition("</p>")[0]
    assert "Boosted trees alone predict: the kernel model has no share in the predictions" in lead
    assert "rise of the error" in html
    assert "share of the metric" not in html.lower()
    # Advice on the width of a kernel model that no prediction uses.
    assert "--features" not in html.partition("<h2>Reproducibility")[0].partition("<pre>")[0]
    assert "against the number of features" not in html


def test_trees_with_a_part_of_the_output_leave_the_metric(phimap, data, tmp_path, monkeypatch):
    monkeypatch.setattr(average, "_least_squares_share", lambda *_: 0.75)
    page = tmp_path / "r.html"
    fitted = phimap("fit", data, "--target", "y", *OPTIONS, "--report", page)
    assert "with 75 % of the output" in told(fitted.stderr, "trees")
    html = page.read_text()
    assert "alone predict" not in html
    assert "share of the metric" in html


def test_trees_without_a_gain_are_told(phimap, data, monkeypatch):
    monkeypatch.setattr(average, "_chosen", lambda *_: None)
    fitted = phimap("fit", data, "--target", "y", *OPTIONS)
    assert "tried, no gain" in told(fitted.stderr, "trees")


def test_parts_that_the_time_limit_leaves_out_are_told(phimap, data, tmp_path, monkeypatch):
    model, page = tmp_path / "m.phimap", tmp_path / "r.html"
    options = (*OPTIONS, "--time-limit", "0.01s", "--model", model, "--report", page)
    fitted = phimap("fit", data, "--target", "y", *options)
    assert fitted.exit_code == 0, fitted.stderr
    assert told(fitted.stderr, "trees") == "not tried: time limit"
    assert "ended by the time limit" in told(fitted.stderr, "search")
    assert '<th scope="row">trees</th><td>not tried: time limit</td>' in page.read_text()
    assert told(phimap("info", model).stdout, "trees") == "not tried: time limit"
