"""The page of the papers: written by its script from recorded runs, and its index names what exists."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import phimap
from phimap.bench import EXPERIMENTS
from phimap.cli.commands import app

ROOT = Path(__file__).parents[2]
#: Experiments of our own, which stand beside no figure of the papers.
OURS = {"cntk-mnist", "polynomial", "tabular"}
#: Numbers of items in the texts of the papers, by the first author in the headings of the page.
ITEMS = {
    "Zandieh": "Definition 3, Lemma 15, Theorem 7, Corollary 1, Claim 2, Remark 1, Algorithm 3, Figure 3, Table 2",
    "Han": "Lemma 6, Theorem 5, Claim 4, Algorithm 2, Figure 4, Table 3",
    "Liu": "Definition 1, Assumption 10, Theorem 3, Proposition 1, Figure 5, Table 8",
    "Ali": "Definition 1, Assumption 6, Lemma 1, Theorem 1, Corollary 1, Remark 4, Algorithm 1, Figure 15, Table 1",
}


def counts_of(author):
    return {kind: int(count) for kind, count in (one.split() for one in ITEMS[author].split(", "))}


def items(text):
    """Pairs of kind and number that a row of the index names, as in "Lemmas 4 and 5" or "Figures 10 to 12 and 14"."""
    text = re.sub(r"(\d)[ab]\b", r"\1", text.replace("Lemmas", "Lemma"))
    for kind, numbers in re.findall(r"\b([A-Z][a-z]+?)s? (\d+(?:(?:, | and | to )\d+)*)", text):
        for part in re.split(", | and ", numbers):
            first, _, last = part.partition(" to ")
            yield from ((kind, number) for number in range(int(first), int(last or first) + 1))


@pytest.fixture
def papers(monkeypatch):
    """The script's module."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import papers

    yield papers
    for module in ("papers", "paper_not_run", "paper_remarks", "recorded"):
        sys.modules.pop(module, None)


@pytest.fixture
def remarks(papers):
    """The module of the remarks."""
    return sys.modules["paper_remarks"]


@pytest.fixture
def runs(papers):
    """The recorded runs by command."""
    return {one["command"]: one for one in json.loads(papers.RUNS.read_text(encoding="utf-8"))}


def test_page_is_the_one_that_the_script_writes(papers):
    written = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
    assert papers.page() == written, "run: python benchmarks/papers.py"
    assert "<<" not in written


def test_page_follows_the_runs(papers):
    finding = {
        "paper": "Han et al. (2021)",
        "place": "Table 9",
        "quantity": "error",
        "size": "3 rows",
        "published_size": "4 rows",
        "ours": "a|b",
        "published": "-",
    }
    run = {"command": "spectra --rows 3", "date": "2026-01-01", "version": "0", "machine": "M", "seconds": 1234}
    page = papers.page([run | {"findings": [finding]}])
    assert "| Table 9 | error | 3 rows | 4 rows | a\\|b | - |" in page
    assert page.index("Han, Avron") < page.index("phimap bench spectra --data DIR --rows 3") < page.index("Liu, Huang")
    assert "1,234 s" in page


def test_index_names_what_exists(papers):
    names = set(re.findall(r"\{py:obj\}`phimap\.([\w.]+)`", papers.TEMPLATE.read_text(encoding="utf-8")))
    assert len(names) > 40
    for name in names:
        found = phimap
        for part in name.split("."):
            found = getattr(found, part)


def test_bounds_of_the_index_exist(papers):
    known = {bound.name for bound in phimap.theory.bounds()}
    rows = [line for line in papers.TEMPLATE.read_text(encoding="utf-8").splitlines() if "bound" in line]
    named = {name for row in rows for name in re.findall(r"`([a-z0-9]+(?:-[a-z0-9*]+)+|polysketch|srht)`", row)}
    assert len(named) > 15
    for name in named:
        assert name in known or (name.endswith("*") and any(one.startswith(name[:-1]) for one in known)), name


def test_every_experiment_of_the_papers_was_run(papers):
    run = {shlex.split(one["command"])[0] for one in json.loads(papers.RUNS.read_text(encoding="utf-8"))}
    assert set(EXPERIMENTS) - OURS == run


def test_commands_parse(papers, monkeypatch):
    began = []
    monkeypatch.setattr("phimap.cli.bench.run", began.append)
    for command in papers.COMMANDS:
        done = CliRunner().invoke(app, ["bench", *shlex.split(command)])
        assert done.exit_code == 0, f"{command}: {done.output}"
    assert len(began) == len(papers.COMMANDS)


def test_index_names_every_item_of_the_papers(papers):
    sections = re.split("^## ", papers.TEMPLATE.read_text(encoding="utf-8"), flags=re.M)[1:]
    for author, section in zip(ITEMS, sections, strict=True):
        assert section.startswith(author)
        counts = counts_of(author)
        rows = "\n".join(line.split("|")[1] for line in section.splitlines() if line.startswith("| "))
        named = set(items(rows))
        wanted = {(kind, number) for kind, count in counts.items() for number in range(1, count + 1)}
        assert wanted <= named, sorted(wanted - named)
        assert {one for one in named if one[0] in counts} <= wanted


def test_places_of_findings_are_in_the_papers(remarks, runs):
    for run in runs.values():
        seen = set()
        for one in map(remarks.shown, run["findings"]):
            counts = counts_of(one["paper"].split()[0])
            for kind, number in re.findall(r"\b([A-Z][a-z]+?)s? (\d+)", one["place"]):
                assert int(number) <= counts.get(kind, 102), one["place"]
            if one["place"].startswith("like "):
                assert (one["published_size"] == "-") == (one["published"] == "-"), one["place"]
            assert one["size"], one["place"]
            key = one["paper"], one["place"], one["quantity"]
            assert key not in seen, f"{key} stands there twice"
            seen.add(key)


def test_runs_are_those_of_the_experiments(papers, runs):
    changed = "\n".join(command for command, run in runs.items() if papers.changed(run))
    assert not changed, f"run: python benchmarks/papers.py --data DIR --again changed\n{changed}"


def test_runs_of_other_experiments_are_marked(papers, runs):
    mark, run = "The experiment has changed since this run.", next(iter(runs.values()))
    assert f"{mark}\n" not in papers.page([run])
    assert f" s. {mark}\n" in papers.page([run | {"source": "another"}])


def test_source_is_the_code_that_an_experiment_runs(papers, tmp_path, monkeypatch):
    shutil.copytree(Path(phimap.bench.__file__).parent, tmp_path / "bench")
    monkeypatch.setattr(papers.bench, "__file__", str(tmp_path / "bench" / "__init__.py"))
    names = ("ntk-error", "ntk-function", "ntk-mnist")
    before = {name: papers.source(name) for name in names}

    def edited(file, old, new):
        path = tmp_path / "bench" / file
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new), encoding="utf-8")
        return {name for name in names if papers.source(name) != before[name]}

    assert edited("ntk/error.py", '"""Error of every', '"""Errors of each') == set()
    assert edited("ntk/error.py", "\n# Maximum number of rows", "\n# The largest number of rows") == set()
    assert edited("figures.py", "import numpy as np", "import numpy as np\n\nUNUSED = 1") == set()
    assert edited("ntk/error.py", "DEPTHS = (1, 2, 4)", "DEPTHS = (1, 2, 5)") == {"ntk-error"}
    # The maps of both experiments are in a module that both import.
    assert edited("ntk/methods.py", '"projection": "gaussian"', '"projection": "orthogonal"') == {
        "ntk-error",
        "ntk-mnist",
    }


def test_every_table_with_published_results_says_where_they_agree(papers, remarks, runs):
    page, said = papers.page(), 0
    for command, run in runs.items():
        for paper in papers.PAPERS:
            lines = [remarks.shown(one) for one in run["findings"] if one["paper"] == paper]
            if remarks.published(lines):
                sentence = remarks.agreement(command.split()[0], paper, lines)
                assert sentence.endswith("."), sentence
                assert sentence in page
                said += 1
    assert said >= len(remarks.AGREEMENT)


def changed_cells(lines, **cells):
    """Findings with `ours` replaced where the key is in the place."""
    return [
        one | {"ours": next((new for key, new in cells.items() if key in one["place"]), one["ours"])} for one in lines
    ]


def test_sentences_follow_the_figures(remarks, runs):
    def lines(start, paper):
        [run] = [one for command, one in runs.items() if command.startswith(start)]
        return [one for one in run["findings"] if one["paper"] == paper]

    footprint = lines("footprint --sets 'a8a", remarks.ALI)
    best = [one | {"ours": one["ours"].replace("trf ", "trf 1")} for one in footprint]
    assert "best in 9 of 9 rows. " in remarks.agreement("footprint", remarks.ALI, best)
    alike = lines("classification --sets EEG", remarks.LIU)
    assert "holds to within one point" in remarks.agreement("classification", remarks.LIU, alike)
    apart = changed_cells(alike, **{"EEG, ridge": "80.0 (leverage) to 82.0 (ssf)"})
    assert "does not hold to within one point on EEG, ridge." in remarks.agreement("classification", remarks.LIU, apart)
    greedy = lines("active-learning", remarks.HAN)
    assert "at all 7" in remarks.agreement("active-learning", remarks.HAN, greedy)
    assert "not at 20 labels (40, 41)" in remarks.agreement(
        "active-learning", remarks.HAN, changed_cells(greedy, **{" 20 labels": "40.0; 41.0"})
    )
    mnist = changed_cells(lines("ntk-mnist", remarks.ZANDIEH), **{"NTKRF": "98.00"})
    assert remarks.agreement("ntk-mnist", remarks.ZANDIEH, mnist).endswith("This is the published order.")
    won = changed_cells(lines("approximation --sets ijcnn1", remarks.LIU), EEG="orthogonal (0.5); of all ssf (0.4)")
    assert "EEG, s = 2d, 4d (orthogonal here)" in remarks.agreement("approximation", remarks.LIU, won)
    path = changed_cells(lines("footprint-path", remarks.ALI), **{"Figure 3,": "0.1; 0.1; 0.1 to 0.1"})
    assert "Figure 3 +0% to +0%" in remarks.agreement("footprint-path", remarks.ALI, path)
    peaks = changed_cells(lines("double-descent", remarks.LIU), sonar="1, 2, 3")
    assert "but not on sonar" in remarks.agreement("double-descent", remarks.LIU, peaks)


def test_accuracies_by_bytes_stand_beside_the_figure_of_their_model(remarks, runs):
    [run] = [one for command, one in runs.items() if command.startswith("footprint --sets 'a8a")]
    for one in map(remarks.shown, run["findings"]):
        figure, rows = {"ridge": ("Figure 4", "16,000"), "logistic": ("Figure 1", "418,000"), "svm": ("-", "-")}[
            one["place"].rpartition(", ")[2]
        ]
        assert one["published"].startswith(figure)
        assert one["published_size"].startswith(rows)
    other = next(iter(runs.values()))["findings"][0]
    assert remarks.shown(other) == other


def test_a_plot_without_numbers_is_shown_as_an_order(remarks, runs):
    [run] = [one for command, one in runs.items() if command.startswith("ntk-mnist")]
    cells = {one["place"]: one["published"] for one in map(remarks.shown, run["findings"])}
    assert cells["Figure 2a, NTKRF"] == "best of the three (a plot)"
    assert not any(character.isdigit() for cell in cells.values() for character in cell)


def test_what_was_not_run_is_listed_with_reasons(papers):
    for paper in papers.PAPERS:
        rows = list(papers.not_run(paper))
        assert rows
        assert all(all(cells) for cells in rows)
        for command in re.findall("`phimap bench ([^`]+)`", " ".join(why for *_, why in rows)):
            name, *options = shlex.split(command)
            assert name in EXPERIMENTS
            if options:
                assert CliRunner().invoke(app, ["bench", "list", *options]).exit_code == 0, command
