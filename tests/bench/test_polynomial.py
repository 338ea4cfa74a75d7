"""The experiment on sketches of the polynomial kernel, on the set that ships with scikit-learn and on made-up files."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from phimap.bench import datasets, polynomial
from phimap.bench.datasets import unit_rows
from phimap.bench.polynomial import METHODS, OURS, PEER, run
from phimap.cli.commands import app
from phimap.kernels import Polynomial
from tests.support.rows import rows


@pytest.fixture(scope="module")
def digits() -> datasets.Dataset:
    return datasets.load("digits", None)


def made_up(method: str, error: float, seconds: float, *, seed: int = 0, width: int = 8192) -> dict:
    facts = {"dataset": "set", "method": method, "degree": 3, "coef0": 1, "width": width, "seed": seed}
    return facts | {"error": error, "fit_seconds": 1.0, "seconds": seconds}


@pytest.mark.parametrize("coef0", [0, 1])
@pytest.mark.parametrize("method", METHODS)
def test_every_method_estimates_the_kernel_of_its_row(method, coef0, digits):
    rows = unit_rows(digits.X[:100])
    exact = Polynomial(2, gamma=1.0, coef0=coef0)(rows)
    # The mean of independent draws: an estimate of another kernel, say without the constant, keeps an error above 0.4.
    estimate = np.zeros_like(exact)
    for seed in range(4):
        Z = METHODS[method](2, coef0, 512, seed).fit(rows).transform(rows)
        assert Z.shape == (100, 512)
        estimate += Z @ Z.T / 4
    assert np.linalg.norm(estimate - exact) < 0.15 * np.linalg.norm(exact)


def test_rows_name_what_was_measured(digits):
    options = {"degrees": (2, 3), "coef0": (1,), "widths": (128, 512), "n_rows": 50, "draws": range(2)}
    found = rows(run("digits", digits.X, [OURS, PEER], **options))
    assert len(found) == len(set(found)) == 2 * 2 * 2 * 2
    keys = {(row.method, row.degree, row.width, row.seed) for row in found}
    assert keys == {(m, p, w, s) for m in (OURS, PEER) for p in (2, 3) for w in (128, 512) for s in (0, 1)}
    again = rows(run("digits", digits.X, [OURS, PEER], **options))
    assert [row.error for row in again] == [row.error for row in found]


def test_ours_errs_less_than_half_of_scikit_learn(digits):
    options = {"degrees": (3,), "widths": (1024,), "n_rows": 100, "draws": range(2)}
    found = rows(run("digits", digits.X, [OURS, PEER], **options))
    for coef0 in (0, 1):
        errors = {
            method: np.mean([row.error for row in found if (row.method, row.coef0) == (method, coef0)])
            for method in (OURS, PEER)
        }
        assert errors[OURS] < 0.5 * errors[PEER]


def test_pieces_of_rows_change_no_error(digits, monkeypatch):
    options = {"degrees": (3,), "coef0": (0,), "widths": (64,), "n_rows": 20, "draws": range(1)}
    whole = [row.error for row in rows(run("digits", digits.X, [OURS, PEER], **options))]
    monkeypatch.setattr(polynomial, "_PIECE", 3 * 64 * 7)
    pieces = [row.error for row in rows(run("digits", digits.X, [OURS, PEER], **options))]
    np.testing.assert_allclose(pieces, whole, rtol=1e-4)


def test_tables_hold_mean_errors_and_least_seconds():
    measurements = [
        *(made_up(OURS, 0.1, 0.5), made_up(OURS, 0.3, 0.2, seed=1), made_up(OURS, 9.0, 0.1, width=512)),
        *(made_up(PEER, 0.8, 2.0), made_up(PEER, 0.8, 4.0, seed=1), made_up(PEER, 9.0, 0.1, width=512)),
    ]
    table = polynomial._table(pd.DataFrame(measurements), "set", 1, 3)
    assert table.title == "set, (1 + <x, y>)^3: relative error, seconds"
    assert table.lines[0] == (OURS, "9", "0.2 ± 0.1", "0.1", "0.2", "1")
    comparison = polynomial._comparison(pd.DataFrame(measurements))
    assert comparison.lines == [("set", "(1 + <x, y>)^p", "0.25, 0.1")]
    assert comparison.title.endswith("m = 8,192")


def test_command_reads_a_regression_set_and_writes_results_and_figures(tmp_path, monkeypatch):
    monkeypatch.setattr(polynomial, "DEGREES", (2, 3))
    table = np.random.default_rng(0).uniform(0, 9, (60, 4)) * [1, 10, 1000, 0]
    with gzip.open(tmp_path / "protein.csv.gz", "wt") as file:
        file.write("rmsd,a,b,c\n")
        np.savetxt(file, table, delimiter=",")
    arguments = ["bench", "polynomial", "--data", str(tmp_path), "--sets", "protein", "--repeats", "1"]
    arguments += ["--rows", "20", "--features", "64,32", "--methods", f"{PEER},{OURS}", "--quiet"]
    result = CliRunner().invoke(app, [*arguments, "--output", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    # Titles are wrapped to the width of their tables.
    printed = " ".join(result.output.split())
    assert "protein, <x, y>^2: relative error" in printed
    assert "protein, (1 + <x, y>)^3: relative error" in printed
    assert "over those of PolynomialCountSketch, m = 64" in printed
    written = json.loads((tmp_path / "out" / "polynomial.json").read_text())["rows"]
    assert len(written) == 2 * 2 * 2 * 2
    assert all(row["error"] < 1 for row in written if row["method"] == OURS)
    for name in ("protein_0", "protein_1"):
        assert (tmp_path / "out" / f"polynomial_{name}.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--methods", "nothing"], "--methods must be among polysketch"),
        (["--sets", "nothing"], "--sets must be among ijcnn1"),
        (["--repeats", "0"], "--repeats must be at least 1"),
    ],
)
def test_bad_requests_are_one_line(arguments, message):
    result = CliRunner().invoke(app, ["bench", "polynomial", *arguments])
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
