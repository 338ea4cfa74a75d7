"""Accuracy against bytes, and spectra against their limits."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from phimap.bench import datasets, spectra
from phimap.bench.footprint import accuracy, regularisation
from phimap.cli.commands import app


def test_two_bits_do_what_thirty_two_do_at_a_sixteenth_of_the_bytes():
    data = datasets.load("digits", None)
    rows = list(accuracy.run(data, ["trf", "rff"], widths=[1024], draws=range(2), models=["ridge"]))
    found = {entry["method"]: entry for entry in accuracy.summary(rows)}
    assert found["rff"]["bytes"] == 16 * found["trf"]["bytes"]
    assert abs(found["rff"]["accuracy"] - found["trf"]["accuracy"]) < 2.0
    assert found["trf"]["accuracy"] > 95.0


def test_models_by_gradients_do_what_ridge_does():
    data = datasets.load("digits", None)
    rows = list(accuracy.run(data, ["trf"], widths=[512], draws=range(1)))
    assert [row.model for row in rows] == ["ridge", "logistic", "svm"]
    assert min(row.accuracy for row in rows) > 93.0


def test_path_of_a_mixture_is_that_of_fourier_features_once_regularised():
    """Degrees beyond the third act as regularisation, which is seen where there is little other."""
    data = datasets.load("digits", None)
    kept, kept_test = np.isin(data.y, (7, 9)), np.isin(data.y_test, (7, 9))
    two = replace(data, X=data.X[kept], y=data.y[kept], X_test=data.X_test[kept_test], y_test=data.y_test[kept_test])
    rows = list(regularisation.run(two, n_components=10_000, draws=range(1)))
    errors = regularisation.means(rows)
    at = regularisation.REGULARISATION.index(2.0)
    assert errors["trf-mixture 0.1"][at] < 1.1 * errors["rff"][at]
    assert set(errors) == {"rff", *(f"{name} {eps}" for name in ("trf", "trf-mixture") for eps in (0.1, 0.5, 0.9))}
    assert all(path[-1] > path[at] for path in errors.values())
    assert {row.bytes for row in rows} == {4 * 10_000, 10_000 // 64 * 16 + 16}
    assert all(row.seconds > 0 for row in rows)


def test_spectrum_is_that_of_the_equivalent():
    row, exact, equivalent = spectra.run("relu", n=400, p=200)
    assert row.gap < 0.1
    assert row.overlap > 0.95
    assert exact.values.shape == equivalent.leading.shape == (400,)
    # The sign of an eigenvector is free, that of two side by side is not.
    assert exact.leading @ equivalent.leading == pytest.approx(row.overlap)


def test_the_law_of_directions_makes_no_difference():
    gaussian, student = (spectra.run(f"relu-{law}-draws", n=300, p=150)[0] for law in ("gaussian", "student"))
    assert student.overlap > 0.95
    # What is left is the chance of 9,600 draws, by which the two differ by a tenth.
    assert 0.7 < student.gap / gaussian.gap < 1.4


@pytest.mark.parametrize(
    ("name", "options", "count"),
    [
        ("footprint", "--sets digits --methods trf,lp-rff-1 --features 32,64 --rows 300 --repeats 1", 12),
        ("spectra", "--rows 120 --repeats 1", 4),
    ],
)
def test_command_writes_results_and_figures(name, options, count, tmp_path):
    result = CliRunner().invoke(app, ["bench", name, *options.split(), "--output", str(tmp_path), "--quiet"])
    assert result.exit_code == 0, result.output
    assert len(json.loads((tmp_path / f"{name}.json").read_text())["rows"]) == count
    figures = list(tmp_path.glob("*.png"))
    assert figures
    assert all(figure.read_bytes().startswith(b"\x89PNG") for figure in figures)
