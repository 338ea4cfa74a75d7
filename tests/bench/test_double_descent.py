"""The test error peaks where features are as many as rows, as high as predicted; the kernel's error does not."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from phimap.bench.double_descent import run, task
from phimap.cli.commands import app
from tests.support.rows import rows
from tests.support.statistics import is_at_most


def test_test_error_peaks_at_the_threshold():
    points = rows(run(task("digits", None), ratios=(0.2, 1.0, 5.0), draws=range(5)))
    assert len(points) == 15

    def median(name: str, ratio: float) -> float:
        return float(np.median([getattr(point, name) for point in points if point.ratio == ratio]))

    assert median("test", 1.0) > 3 * max(median("test", 0.2), median("test", 5.0))
    assert median("train", 5.0) < 1e-6 < median("train", 0.2)
    assert median("approximation", 0.2) > median("approximation", 1.0) > median("approximation", 5.0)


@pytest.mark.parametrize("ratio", [0.4, 1.0, 3.0])
def test_prediction_meets_the_mean_on_gaussian_rows(ratio):
    """False-alarm rate 1e-6 a ratio, beyond the 5 % that the prediction may be wrong."""
    points = rows(run(task("gaussian", None, seed=1), ratios=(ratio,), draws=range(16)))
    errors, predicted = np.array([point.test for point in points]), points[0].predicted_test
    assert is_at_most(errors, 1.05 * predicted)
    assert is_at_most(-errors, -0.95 * predicted)
    # Mutants: half and twice as much.
    assert not is_at_most(errors, predicted / 2)
    assert not is_at_most(-errors, -2 * predicted)


def test_command_writes_results_and_figures(tmp_path):
    arguments = ["bench", "double-descent", "--sets", "digits", "--repeats", "2", "--output", str(tmp_path), "--quiet"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    rows = json.loads((tmp_path / "double-descent.json").read_text())["rows"]
    assert len(rows) == 28
    assert all(row["predicted_test"] > 0 for row in rows)
    assert "predicted / mean" in result.output
    assert (tmp_path / "double-descent_digits.png").read_bytes().startswith(b"\x89PNG")
