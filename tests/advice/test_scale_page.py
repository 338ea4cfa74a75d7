"""The page of the guide that extrapolates: its figures are those that the script writes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def cost_page(monkeypatch):
    """The script's module."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import cost_page

    yield cost_page
    sys.modules.pop("cost_page")


def test_page_is_the_one_that_the_script_writes(cost_page):
    written = (ROOT / "docs" / "results" / "scale.md").read_text(encoding="utf-8")
    assert cost_page.page() == written, "run: python benchmarks/cost.py --page docs/results/scale.md"
    assert "<<" not in written


def test_page_follows_the_constants(cost_page, monkeypatch):
    from dataclasses import replace

    before = cost_page.page()
    monkeypatch.setattr(cost_page, "REFERENCE", replace(cost_page.REFERENCE, csv=1e-6))
    assert "and 4 MB/s of CSV" in cost_page.page() != before
