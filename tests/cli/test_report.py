"""The HTML report: what it shows and that it stands alone."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from types import SimpleNamespace

import numpy as np
import pytest

import phimap as pm
from phimap.cli.reporting import _dependences
from phimap.report import Permutations
from tests.cli.test_bad_input import FIXED

VOID = {"meta", "link", "br", "hr", "img", "input"}


class Tags(HTMLParser):
    """Checks that tags nest, and collects ids and links."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag, attrs):
        if tag not in VOID:
            self.open.append(tag)
        self._note(attrs)

    def handle_startendtag(self, tag, attrs):
        self._note(attrs)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def _note(self, attrs):
        for name, value in attrs:
            if name == "id":
                self.ids.append(value)
            if name in ("href", "src", "xlink:href"):
                self.links.append(value)


def report_of(phimap, tmp_path, data, target, *options) -> str:
    page = tmp_path / "r.html"
    result = phimap("fit", data, "--target", target, "--features", "64", "-q", *FIXED, "--report", page, *options)
    assert result.exit_code == 0, result.stderr
    assert "report_seconds" in result.stdout
    return page.read_text()


@pytest.mark.parametrize(
    ("data", "target", "alts"),
    [
        (
            "numbers.csv",
            "y",
            ["Predicted y against true y", "Histogram of residuals", "Band of y", "The share of true"],
        ),
        (
            "labels.csv",
            "kind",
            ["Confusion matrix of 3 classes", "Share of each class", "The share of the predictions that are right"],
        ),
    ],
)
def test_page_is_whole_and_stands_alone(phimap, tables, tmp_path, data, target, alts):
    page = report_of(phimap, tmp_path, tables / data, target)
    tags = Tags()
    tags.feed(page)
    assert tags.open == []
    assert len(set(tags.ids)) == len(tags.ids)
    assert all(link.startswith(("#", "data:")) for link in tags.links)
    assert all(link[1:] in tags.ids for link in tags.links if link.startswith("#"))
    common = ["Error against regularisation", "Held-out error against the number of features", "Time and memory"]
    for alt in [*alts, *common]:
        assert f'aria-label="{alt}' in page
    assert "url(http" not in page
    assert "<script" not in page
    # Every colour of a figure is one of the page's variables.
    assert "#a100" not in page
    # Files are named without their folders.
    assert str(tables) not in page
    assert data in page


def test_two_classes_have_a_curve_of_precision(phimap, tmp_path, rng):
    rows = "\n".join(f"{a:.3f},{'rare' if a > 0.8 else 'common'}" for a in rng.standard_normal(300))
    (tmp_path / "data.csv").write_text("a,kind\n" + rows)
    page = report_of(phimap, tmp_path, tmp_path / "data.csv", "kind", "--holdout", "0.3")
    assert "Precision against recall of rare" in page
    assert "The share of rare against the probability of rare" in page
    # A tile explains the number that it shows.
    assert "chance that a row of rare ranks above another; 0.5 is guessing" in page.partition("<dt>AUC</dt>")[2]


def test_the_map_over_two_columns_says_where_it_extrapolates(phimap, tmp_path, rng):
    rows = "\n".join(f"{a:.3f},{b:.3f},{a + b:.3f}" for a, b in rng.standard_normal((400, 2)))
    (tmp_path / "data.csv").write_text("a_long_name,b,y\n" + rows)
    page = report_of(phimap, tmp_path, tmp_path / "data.csv", "y")
    assert "Pairs of values that no row has are coloured, too: there the prediction is an extrapolation." in page
    # Names may break after underscores, and nowhere else while words fit.
    assert '<th scope="row">a_<wbr>long_<wbr>name</th>' in page


def test_the_command_keeps_all_but_folders(phimap, tables, tmp_path, monkeypatch, rng):
    data = tmp_path / "speeds.csv"
    data.write_text("a,km/h\n" + "\n".join(f"{a:.3f},{b:.3f}" for a, b in rng.standard_normal((60, 2))))
    words = ["fit", str(data), "--target", "km/h", f"--report={tmp_path / 'r.html'}", "--features", "16", "-q", *FIXED]
    monkeypatch.setattr("sys.argv", ["phimap", *words])
    assert phimap(*words).exit_code == 0
    command = f"phimap fit speeds.csv --target km/h --report=r.html --features 16 -q {' '.join(FIXED)}"
    assert f"<pre>{command}</pre>" in (tmp_path / "r.html").read_text()


def test_names_are_escaped(phimap, tmp_path, rng):
    rows = "\n".join(f"{a:.3f},{b:.3f}" for a, b in rng.standard_normal((60, 2)))
    (tmp_path / "odd.csv").write_text("<b>,y&<i>\n" + rows)
    page = report_of(phimap, tmp_path, tmp_path / "odd.csv", "y&<i>")
    assert "<b>" not in page
    assert "<i>" not in page


def test_dollar_signs_enclose_no_formulas(phimap, tmp_path, rng):
    rows = "\n".join(f"{a:.3f},{'$a_$' if a > 0 else '$x^{$'}" for a in rng.standard_normal(60))
    (tmp_path / "odd.csv").write_text("a,kind\n" + rows)
    page = report_of(phimap, tmp_path, tmp_path / "odd.csv", "kind", "--holdout", "0.3")
    assert ">$a_$</text>" in page
    assert ">$x^{$</text>" in page


def test_the_error_of_the_mean_is_one_number(phimap, tables, tmp_path):
    """That on the held-out rows, in the sentence and in the tile; the deviation of the training rows is another."""
    page = report_of(phimap, tmp_path, tables / "numbers.csv", "y")
    by_mean = re.search(r"always predicting the mean would err by ([\d.]+)", " ".join(page.split()))
    tile = re.search(r"<dt>Baseline</dt><dd>([\d.]+)</dd>", page)
    assert by_mean[1].rstrip(".") == tile[1]


def test_equal_held_out_values_have_no_variance_to_explain(phimap, tmp_path):
    held_out = pm.io.holdout_mask(0, 60, 0.1)
    rows = "\n".join(f"{i},{1.5 if held_out[i] else (i + 0.5) / 7}" for i in range(60))
    (tmp_path / "data.csv").write_text("a,y\n" + rows)
    page = report_of(phimap, tmp_path, tmp_path / "data.csv", "y")
    assert "which all have the same y" in page
    assert "nan" not in page


def test_unseen_classes_are_told(phimap, tmp_path):
    rows = "\n".join(f"{i % 7},{f'rare {i}' if i % 5 == 0 else i % 2}" for i in range(60))
    (tmp_path / "data.csv").write_text("a,y\n" + rows)
    page = report_of(phimap, tmp_path, tmp_path / "data.csv", "y", "--holdout", "0.3")
    assert "rows have a class that the model was not trained on" in page


def test_the_model_is_safe_before_the_report_is_made(phimap, tables, tmp_path, monkeypatch):
    def fail(result):
        raise ValueError("no report today.")

    monkeypatch.setattr("phimap.cli.reporting.page", fail)
    outputs = ("--model", tmp_path / "m.phimap", "--report", tmp_path / "r.html")
    result = phimap("fit", tables / "numbers.csv", "--target", "y", "--features", "16", "-q", *FIXED, *outputs)
    assert result.exit_code == 2
    assert [file.name for file in tmp_path.iterdir()] == ["m.phimap"]


def test_predictions_are_drawn_along_the_columns_that_matter_most(rng):
    """Those whose shuffling raises the error most. Mutant: those with the largest shares of the metric."""
    X = rng.standard_normal((300, 4))
    model = pm.KernelRegressor("gaussian", 32, metric="diagonal", effort="fast", random_state=0)
    model.fit(X, np.sin(2 * X[:, 0]) + X[:, 1])
    rows = SimpleNamespace(first=lambda count: (X[:count], None, None))
    overview = SimpleNamespace(summary=SimpleNamespace(sample=rows))
    result = SimpleNamespace(model=model, task="regression", overview=overview, table=SimpleNamespace(is_image=False))
    by_metric = [one.names[0] for one in _dependences(result, None).singles]
    assert set(by_metric[:2]) == {"column 0", "column 1"}
    rises = np.array([0.0, 0.1, 0.5, 0.9])
    found = _dependences(result, Permutations(1.0, rises, 100))
    assert [one.names[0] for one in found.singles] == ["column 3", "column 2", "column 1"]
    assert found.pair.names == ("column 3", "column 2")


def test_given_alpha_is_called_so(phimap, tables, tmp_path):
    assert "given: 0.1" in report_of(phimap, tmp_path, tables / "numbers.csv", "y", "--alpha", "0.1")


def test_maps_without_narrower_forms_have_no_curve(phimap, tables, tmp_path, monkeypatch):
    monkeypatch.setattr("phimap.features.fourier.FourierRecord.truncated", lambda record, width: None)
    page = report_of(phimap, tmp_path, tables / "numbers.csv", "y")
    assert "number of features" not in page
    assert "Error against regularisation" in page
