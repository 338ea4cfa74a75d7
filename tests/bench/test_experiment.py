"""What the experiments share: the loop under a bar, the table of a frame, wide frames, and their words."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from phimap._progress import Stages
from phimap.bench.experiment import Finding, Report, ResultTable, mean_and_standard_deviation, measured, spread
from phimap.cli.commands import app

FOUND = [
    {"method": "b", "width": 2, "error": 0.5},
    {"method": "a", "width": 2, "error": 0.25},
    {"method": "b", "width": 1, "error": 1.0},
    {"method": "b", "width": 2, "error": 1.5},
]


class Counted(Stages):
    """Stages that keep the steps of their bars."""

    @contextmanager
    def stage(self, name: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
        self.steps: list[int] = []
        with super().stage(f"{name} of {total}"):
            yield self.steps.append


def test_every_measurement_moves_the_bar_when_it_is_made():
    stages = Counted()
    seen = []

    def run() -> Iterator[dict]:
        for one in FOUND:
            seen.append(len(stages.steps))
            yield one

    assert measured(stages, "set", run(), 4).to_dict("records") == FOUND
    assert seen == [0, 1, 2, 3]
    assert stages.steps == [1, 1, 1, 1]
    assert [stage.name for stage in stages.finished] == ["set of 4"]


def test_wide_frames_keep_the_order_of_groups_and_sort_columns():
    wide = spread(pd.DataFrame(FOUND), "method", "width", "error", head="m = {}")
    assert list(wide.columns) == ["method", "m = 1", "m = 2"]
    assert ResultTable("", wide, {"m = 2": ".2f"}).lines == [("b", "1.0", "1.00"), ("a", "-", "0.25")]
    counts = spread(pd.DataFrame(FOUND), ["method"], "width", "error", "size")
    assert counts["2"].tolist() == [2, 1]


def test_reports_show_their_findings_and_are_written_as_json():
    found = Report(pd.DataFrame([{"a": 1, "b": np.nan}]), [], findings=[Finding("P", "T", "q", "s", "1", "2", "t")])
    (table,) = found.shown()
    assert table.columns == ["place", "quantity", "size run", "ours", "published", "size published"]
    assert table.lines == [("P, T", "q", "s", "1", "2", "t")]
    told = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert told["rows"] == [{"a": 1, "b": None}]
    assert told["findings"][0]["place"] == "T"


@pytest.mark.parametrize(
    ("numbers", "text"), [([0.5], "0.5"), ([1.0, 3.0], "2 ± 1"), (np.array([0.1, 0.3]), "0.2 ± 0.1")]
)
def test_the_standard_deviation_of_one_stands_beside_the_mean(numbers, text):
    assert mean_and_standard_deviation(numbers) == text


def test_the_command_asks_for_pandas_in_one_line(monkeypatch):
    monkeypatch.setattr("phimap.cli.bench.find_spec", lambda name: None)
    done = CliRunner().invoke(app, ["bench", "ntk-function"])
    assert done.exit_code == 2
    assert "phimap bench needs pandas. Install it: pip install pandas." in done.stderr
    assert done.stderr.count("\n") == 1
    assert CliRunner().invoke(app, ["bench", "list"]).exit_code == 0
