"""Accuracy against bytes, and spectra against their limits."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from phimap.bench import datasets, footprint, spectra
from phimap.cli.commands import app


def test_two_bits_do_what_thirty_two_do_at_a_sixteenth_of_the_bytes():
    data = datasets.load("digits", None)
    rows = list(footprint.run(data, ["trf", "rff"], widths=[1024], repeats=2))
    found = {entry["method"]: entry for entry in footprint.summary(rows)}
    assert found["rff"]["bytes"] == 16 * found["trf"]["bytes"]
    assert abs(found["rff"]["accuracy"] - found["trf"]["accuracy"]) < 2.0
    assert found["trf"]["accuracy"] > 95.0


def test_spectrum_is_that_of_the_equivalent():
    row, exact, equivalent = spectra.run("relu", n=400, p=200)
    assert row.gap < 0.1
    assert row.overlap > 0.95
    assert exact.shape == equivalent.shape == (400,)


@pytest.mark.parametrize(
    ("name", "options", "count"),
    [
        ("footprint", ["--sets", "digits", "--methods", "trf,lp-rff-1", "--features", "32,64", "--repeats", "1"], 4),
        ("spectra", ["--rows", "120", "--repeats", "1"], 2),
    ],
)
def test_command_writes_results_and_figures(name, options, count, tmp_path):
    result = CliRunner().invoke(app, ["bench", name, *options, "--output", str(tmp_path), "--quiet"])
    assert result.exit_code == 0, result.output
    assert len(json.loads((tmp_path / f"{name}.json").read_text())["rows"]) == count
    figures = list(tmp_path.glob("*.png"))
    assert figures
    assert all(figure.read_bytes().startswith(b"\x89PNG") for figure in figures)
