"""Labels of a greedy design teach more than those of random rows; the command writes what it found."""

from __future__ import annotations

import json

import numpy as np
from typer.testing import CliRunner

from phimap.bench import datasets
from phimap.bench.active_learning import run
from phimap.cli.commands import app
from tests.support.rows import rows


def test_greedy_designs_beat_random_ones():
    found = rows(run(datasets.load("digits", None), width=256, n_rows=400, sizes=(20, 40, 80, 1000), draws=(0, 1)))
    assert len(found) == 12

    def mean(design: str, size: int) -> float:
        return float(np.mean([one.accuracy for one in found if (one.design, one.n_labels) == (design, size)]))

    for size in (20, 40, 80):
        assert mean("greedy", size) > mean("random", size) + 1
    assert mean("greedy", 80) > mean("greedy", 20)


def test_command_writes_results_and_figures(tmp_path):
    arguments = ["bench", "active-learning", "--sets", "digits", "--features", "128", "--rows", "200", "--repeats", "2"]
    result = CliRunner().invoke(app, [*arguments, "--output", str(tmp_path), "--quiet"])
    assert result.exit_code == 0, result.output
    rows = json.loads((tmp_path / "active-learning.json").read_text())["rows"]
    # Five sizes up to 200 rows, two designs, two draws.
    assert len(rows) == 20
    assert {row["n_rows"] for row in rows} == {200}
    assert (tmp_path / "active-learning_digits.png").read_bytes().startswith(b"\x89PNG")
    assert "greedy design takes" in result.output
