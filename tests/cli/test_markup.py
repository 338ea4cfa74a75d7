"""Names that look like markup are shown as they are, by every command."""

from __future__ import annotations

import json

import pytest

from tests.cli.test_fit import SMALL

NAMES = ("[/y]", "[bold]", "[red]x[/red]")


@pytest.fixture
def table(tmp_path):
    """A file in a folder whose columns, labels and folder are all named so."""
    folder = tmp_path / "[blue]"
    folder.mkdir()
    a, b, target = NAMES
    rows = [f"{i % 13},{i % 7},{('[/a]', '[b]')[i % 13 > 6]}" for i in range(300)]
    (folder / "t.csv").write_text("\n".join([f"{a},{b},{target}", *rows]) + "\n")
    return folder / "t.csv"


def test_names_like_markup_are_shown_as_they_are(phimap, table, tmp_path):
    a, b, target = NAMES
    model = table.with_suffix(".phimap")
    loud = [word for word in SMALL if word != "--quiet"]
    shown = {
        "fit": phimap("fit", table, "--target", target, "--model", model, "--report", tmp_path / "r.html", *loud),
        "info": phimap("info", model),
        "predict": phimap("predict", model, table, "-o", tmp_path / "p.csv"),
        "compare": phimap("compare", table, "--target", target, "--models", "linear", "--splits", "2"),
        "plan": phimap("plan", table, "--target", target, "--features", "64", "--machine", "reference"),
    }
    texts = {command: result.stdout + result.stderr for command, result in shown.items()}
    assert {command: result.exit_code for command, result in shown.items()} == dict.fromkeys(shown, 0), texts
    assert f" {target} (" in texts["fit"]
    assert target in texts["info"]
    page = (tmp_path / "r.html").read_text()
    assert [name for name in (a, b, target, "[/a]") if name not in page] == []
    assert "[/a]" in (tmp_path / "p.csv").read_text()


def test_errors_name_columns_as_they_are(phimap, table):
    told = phimap("fit", table, "--target", "[/z]", *SMALL)
    assert told.exit_code == 2
    assert "[/z]" in told.stderr
    assert all(name in told.stderr for name in NAMES)


def test_terminals_do_not_obey_names_and_labels(phimap, tmp_path):
    """Names and labels came through as they are, with the characters that set a terminal's title or clear it."""
    evil = "\x1b]0;owned\x07\x1b[2J"
    rows = [f"{i % 13},{i % 7},{(f'a{evil}', 'b')[i % 13 > 6]}" for i in range(300)]
    (tmp_path / "t.csv").write_text("\n".join([f"a,b{evil},kind{evil}", *rows]) + "\n")
    model, target = tmp_path / "m", f"kind{evil}"
    loud = [word for word in SMALL if word != "--quiet"]
    shown = {
        "fit": phimap("fit", tmp_path / "t.csv", "--target", target, "--model", model, *loud),
        "fit --json": phimap("fit", tmp_path / "t.csv", "--target", target, "--json", *SMALL),
        "info": phimap("info", model),
        "info --json": phimap("info", model, "--json"),
        "compare": phimap("compare", tmp_path / "t.csv", "--target", target, "--models", "linear", "--splits", "2"),
        "error": phimap("fit", tmp_path / "t.csv", "--target", f"c{evil}", *SMALL),
    }
    obeyed = [command for command, found in shown.items() if {"\x1b", "\x07"} & set(found.stdout + found.stderr)]
    assert obeyed == []
    assert "a\\u001b]0;owned" in shown["info"].stdout
    assert f"a{evil}" in json.loads(shown["info --json"].stdout)["classes"]
