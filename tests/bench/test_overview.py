"""The figure of the front page: its sentence and its table of `RBFSampler` follow the files of fits."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pandas as pd
import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "results" / "tabular.md").read_text(encoding="utf-8")


@pytest.fixture
def script(monkeypatch) -> Iterator[ModuleType]:
    """The module that draws the figure."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import overview_figure

    yield overview_figure
    sys.modules.pop("overview_figure")


@pytest.fixture
def found(script):
    pairs = script.pairs_of(PAGE)
    script.with_sampler(pairs, PAGE)
    return pairs


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_the_sentence_is_the_one_that_the_script_prints(script, found, page):
    text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
    assert script.caption(found, PAGE) in text, "run: python benchmarks/overview_figure.py"
    assert "results/learning.md" in text


def test_the_counts_are_those_of_the_file_of_fits(script, found):
    """Counted a second way, from the lines of the file and the cells of the page."""
    splits = set(map(int, re.search(r"; splits ([\d, ]+)\.", PAGE)[1].split(", ")))
    fits = pd.read_json(script.FITS, lines=True)
    errors = fits[fits["split"].isin(splits)].groupby("dataset")["error"].mean()
    ours = {name: float(error) for name, error in re.findall(r"^\| (\S+) \| [\d,]+ \| \d+ \| \**([\d.]+)", PAGE, re.M)}
    assert set(errors.index) == set(script.SAMPLED) <= set(ours)
    counts = f"{sum(error < ours[name] for name, error in errors.items())} of {len(errors)}"
    assert f"RBFSampler with ridge regression on {counts}." in script.caption(found, PAGE)


def test_the_page_shows_the_table_of_today(script, found):
    text = (ROOT / "docs" / "results" / "learning.md").read_text(encoding="utf-8")
    table = "\n".join(script.sampler_table(found, PAGE))
    assert table in text, "run: python benchmarks/results.py --data DIR --only overview_figure --again overview_figure"
    assert table.count("\n") == 3 + len(script.SAMPLED)


@pytest.mark.parametrize("splits", [[0], [1, 2], [0, 1, 2]])
def test_only_fits_of_the_splits_of_the_page_count(script, splits):
    page = re.sub(r"; splits [\d, ]+\.", f"; splits {', '.join(map(str, splits))}.", PAGE)
    assert script.measured(page)[1] == set(splits)
    assert len(script.fits_of_sampler(page)) == len(splits) * len(script.SAMPLED)
