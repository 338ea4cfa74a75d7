"""Data-dependent features side by side."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from phimap.bench import data_dependent
from phimap.bench.data_dependent import MAPS, METRIC
from phimap.cli.commands import app
from tests.support.rows import rows


def measurement(method: str, width: int, score: float) -> dict:
    return {"method": method, "scale": 1.0, "n_components": width, "score": score}


def test_every_method_is_measured_in_error_score_and_time():
    task = data_dependent.load("diabetes", None, most_rows=150)
    found = rows(data_dependent.run(task, [*MAPS, METRIC], widths=[16], draws=range(1)))
    assert len(found) == 2 * len(MAPS) + 1
    # Methods with targets make another kernel, whose error is none.
    another = {one.method for one in found if np.isnan(one.error)}
    assert another == {"kitchen-sinks", "polarization", "alignment", METRIC}
    assert all(one.seconds > 0 and np.isfinite(one.score) for one in found)
    best = {one.method: one.score for one in found if one.scale == 1.0}
    assert best["kitchen-sinks"] > 30


def test_shares_are_those_of_the_curves():
    plain = [measurement("gaussian", width, score) for width, score in ((64, 50.0), (128, 60.0), (256, 70.0))]
    twice = [measurement("twice", width, score) for width, score in ((64, 60.0), (128, 70.0), (256, 80.0))]
    worse = [measurement("worse", width, score) for width, score in ((64, 10.0), (128, 20.0), (256, 65.0))]
    table = data_dependent.equal_accuracy("set", pd.DataFrame([*plain, *twice, *worse]))
    lines = {line[0]: line[1:] for line in table.lines}
    assert lines["1 twice"] == ("< 0.5", "0.50")
    # Half of the way from 20 to 65 is where it has 42.5; 60 is 8/9 of the way in logarithms.
    assert lines["1 worse"] == (f"{2 ** (8 / 9):.2f}", "> 1")


@pytest.mark.filterwarnings("ignore:.*far outside of the training rows")
def test_the_command_writes_results_and_figures(tmp_path, monkeypatch):
    monkeypatch.delenv("PHIMAP_DATA", raising=False)
    options = "--methods gaussian,polarization --features 8,16 --rows 100 --repeats 1 --quiet"
    done = CliRunner().invoke(app, ["bench", "data-dependent", *options.split(), "--output", str(tmp_path)])
    assert done.exit_code == 0, done.output
    found = json.loads((tmp_path / "data-dependent.json").read_text())["rows"]
    assert {row["dataset"] for row in found} == {"digits", "diabetes"}
    assert len(found) == 2 * 2 * 2 * 2
    assert (tmp_path / "data-dependent_digits_0.25.png").stat().st_size > 1000
    assert "0.25 polarization" in done.output
