"""The draft of the paper: its citations, its figure, and the figures in its text."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "paper" / "paper.md").read_text(encoding="utf-8")
BIBLIOGRAPHY = (ROOT / "paper" / "paper.bib").read_text(encoding="utf-8")


def test_citations_and_entries_are_the_same():
    cited = re.findall(r"@([a-z]+\d{4})", TEXT)
    assert set(cited) == set(re.findall(r"^@\w+\{(\w+),$", BIBLIOGRAPHY, re.MULTILINE))


def test_figures_are_there_and_the_text_is_short():
    for name in re.findall(r"!\[.*?\]\((\S+)\)", TEXT):
        assert (ROOT / "paper" / name).is_file()
    body = TEXT.split("---", 2)[2]
    assert len(body.split()) < 1100, "two pages"


def test_counts_are_those_of_the_page_of_tables():
    rows = re.findall(
        r"^\| lightgbm \| (\d+) \| (\d+) \| (\d+) \|", (ROOT / "docs/results/tabular.md").read_text("utf-8"), re.M
    )
    tables, less, more = (sum(int(row[i]) for row in rows) for i in range(3))
    said = " ".join(TEXT.split())
    assert f"on {tables} tables" in said
    assert f"LightGBM [@ke2017] on {less} of them and more on {more}." in said
