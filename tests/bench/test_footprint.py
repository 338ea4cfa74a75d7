"""Accuracy against bytes, and spectra against their limits."""

from __future__ import annotations

import gzip
import json
import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import phimap as pm
from phimap.bench import datasets, spectra
from phimap.bench.footprint import accuracy, regularisation
from phimap.cli.commands import app
from tests.support.rows import rows

ROOT = Path(__file__).parents[2]


def test_two_bits_do_what_thirty_two_do_at_a_sixteenth_of_the_bytes():
    data = datasets.load("digits", None)
    fits = accuracy.run(data, ["trf", "rff"], widths=[512], draws=range(2), models=["ridge"])
    found = accuracy.summary(pd.DataFrame(fits)).set_index("method").T
    assert found["rff"]["bytes"] == 16 * found["trf"]["bytes"]
    assert abs(found["rff"]["accuracy"] - found["trf"]["accuracy"]) < 2.0
    assert found["trf"]["accuracy"] > 95.0


def test_models_by_gradients_do_what_ridge_does():
    data = datasets.load("digits", None)
    found = rows(accuracy.run(data, ["trf"], widths=[256], draws=range(1)))
    assert [row.model for row in found] == ["ridge", "logistic", "svm"]
    assert min(row.accuracy for row in found) > 93.0


def test_path_of_a_mixture_is_that_of_fourier_features_once_regularised():
    """Degrees beyond the third act as regularisation, which is seen where there is little other."""
    data = datasets.load("digits", None)
    two = regularisation.of_classes("digits", data.X, data.y, 7, 9)
    found = pd.DataFrame(regularisation.run(two, [10_000], draws=range(1)))
    assert len(found) == regularisation.STEPS
    errors = regularisation.means(found)
    at = errors[2.0]
    assert at["trf-mixture 0.5"] < 1.1 * at["rff"]
    # At this width Fourier features are as good as their kernel.
    assert at["rff"] == pytest.approx(at["kernel"], rel=0.1)
    assert set(errors.index) == {
        "kernel",
        "rff",
        "trf-mixture 0.5",
        *(f"trf {eps}" for eps in (0.1, 0.3, 0.5, 0.7, 0.9)),
    }
    assert (errors[10.0] > at).all()
    assert set(found[found["method"] != "kernel"]["bytes"]) == {4 * 10_000, 10_000 // 64 * 16 + 16}
    assert (found["seconds"] > 0).all()


def test_features_reach_the_kernel_of_the_mixture_as_they_become_more(monkeypatch):
    monkeypatch.setattr(regularisation, "_ROWS", 300)
    found = pd.DataFrame(regularisation.run(regularisation.mixture(), [256, 4096], draws=range(1)))
    least = {width: regularisation.means(part).min(axis=1) for width, part in found.groupby("n_components")}
    assert least[256]["kernel"] == least[4096]["kernel"]
    for method in ("rff", "trf 0.9"):
        assert least[4096]["kernel"] < least[4096][method] < 0.8 * least[256][method]


def test_half_precision_changes_next_to_nothing():
    data = datasets.load("digits", None)
    (fit,) = rows(accuracy.run(data, ["nystroem-16"], widths=[200], draws=range(1), models=["ridge"]))
    assert fit.bytes == 400
    assert fit.accuracy > 96.0
    X = data.X[:300]
    wide, half = (accuracy.METHODS[name][1](pm.kernels.Gaussian(3.0), 64, 0) for name in ("nystroem", "nystroem-16"))
    np.testing.assert_allclose(half.fit_transform(X), wide.fit_transform(X), atol=1e-3)


def test_sets_of_users_are_read_and_missing_ones_said(tmp_path):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "covtype.npz", covtype_X=rng.standard_normal((80, 5)), covtype_y=rng.integers(3, size=80))
    options = [
        "--methods",
        "trf,rff,orf,ssf,lp-rff-8",
        "--features",
        "8,32",
        "--repeats",
        "1",
        "--quiet",
        "--data",
        str(tmp_path),
    ]
    options += ["--output", str(tmp_path)]
    done = CliRunner().invoke(app, ["bench", "footprint", "--sets", "Cov-Type", *options])
    assert done.exit_code == 0, done.output
    findings = json.loads((tmp_path / "footprint.json").read_text(encoding="utf-8"))["findings"]
    by_number = [one for one in findings if "log(m / p)" in one["place"]]
    assert {one["place"]: one["published_size"] != "-" for one in findings if one not in by_number} == {
        "Figure 1, Cov-Type, logistic": True,
        "like Figures 1 and 4, Cov-Type, ridge": False,
        "like Figures 1 and 4, Cov-Type, svm": False,
    }
    assert [one["place"] for one in by_number] == [
        f"Figure 12, Cov-Type, m = {m}, log(m / p) = {np.log(m / 5):.2f}" for m in (8, 32)
    ]
    assert all(re.fullmatch(r"trf [\d.]+; rff [\d.]+; orf [\d.]+; ssf [\d.]+", one["ours"]) for one in by_number)
    assert all(one["size"].startswith("40 training and 40 test rows") for one in findings)
    refused = CliRunner().invoke(app, ["bench", "footprint", "--sets", "Census", *options])
    assert refused.exit_code != 0
    assert "census.npz" in refused.stderr


def test_converter_reads_idx_files(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import data_files

    rng = np.random.default_rng(0)
    written = {}
    for part, prefix in data_files.IDX_FILES.items():
        for key, kind, shape in (("X", "images-idx3", (4, 3, 2)), ("y", "labels-idx1", (4,))):
            array = rng.integers(256, size=shape).astype(np.uint8)
            head = bytes([0, 0, 8, len(shape)]) + np.array(shape, ">i4").tobytes()
            (tmp_path / f"{prefix}-{kind}-ubyte.gz").write_bytes(gzip.compress(head + array.tobytes()))
            written[f"{key}_{part}"] = array
    found = data_files.from_idx(tmp_path)
    assert found.keys() == written.keys()
    for key, array in written.items():
        np.testing.assert_array_equal(found[key], array)
    with pytest.raises(ValueError, match="must hold train-images"):
        data_files.from_idx(tmp_path / "none")
    sys.modules.pop("data_files")


def test_spectrum_is_that_of_the_equivalent():
    row, exact, equivalent = spectra.run("relu", n=400, p=200)
    assert row["gap"] < 0.1
    assert row["overlap"] > 0.95
    assert exact.values.shape == equivalent.leading.shape == (400,)
    # The sign of an eigenvector is free, that of two side by side is not.
    assert exact.leading @ equivalent.leading == pytest.approx(row["overlap"])


def test_the_law_of_directions_makes_no_difference():
    gaussian, student = (spectra.run(f"relu-{law}-draws", n=300, p=150)[0] for law in ("gaussian", "student"))
    assert student["overlap"] > 0.95
    # What is left is the chance of 9,600 draws, by which the two differ by a tenth.
    assert 0.7 < student["gap"] / gaussian["gap"] < 1.4


@pytest.mark.parametrize(
    ("name", "options", "count"),
    [
        ("footprint", "--sets digits --methods trf,lp-rff-1 --features 16,32 --rows 120 --repeats 1", 12),
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
