"""The page of the papers: written by its script from recorded runs, and its index names what exists."""

from __future__ import annotations

import json
import re
import shlex
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


@pytest.fixture
def papers(monkeypatch):
    """The script's module."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import papers

    yield papers
    sys.modules.pop("papers")


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
        "ours": "a|b",
        "published": "-",
    }
    run = {"command": "spectra --rows 3", "date": "2026-01-01", "version": "0", "machine": "M", "seconds": 1234}
    page = papers.page([run | {"findings": [finding]}])
    assert "| Table 9 | error | 3 rows | a\\|b | - |" in page
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
