"""The test error peaks where features are as many as rows; the kernel's error does not."""

from __future__ import annotations

import json

import numpy as np
from typer.testing import CliRunner

from phimap.bench import datasets
from phimap.bench.double_descent import run
from phimap.cli.commands import app


def test_test_error_peaks_at_the_threshold():
    points = list(run(datasets.load("digits", None), ratios=(0.2, 1.0, 5.0), draws=range(5)))
    assert len(points) == 15

    def median(name: str, ratio: float) -> float:
        return float(np.median([getattr(point, name) for point in points if point.ratio == ratio]))

    assert median("test", 1.0) > 3 * max(median("test", 0.2), median("test", 5.0))
    assert median("train", 5.0) < 1e-6 < median("train", 0.2)
    assert median("approximation", 0.2) > median("approximation", 1.0) > median("approximation", 5.0)


def test_command_writes_results_and_figures(tmp_path):
    arguments = ["bench", "double-descent", "--sets", "digits", "--repeats", "2", "--output", str(tmp_path), "--quiet"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert len(json.loads((tmp_path / "double-descent.json").read_text())["rows"]) == 28
    assert (tmp_path / "double-descent_digits.png").read_bytes().startswith(b"\x89PNG")
