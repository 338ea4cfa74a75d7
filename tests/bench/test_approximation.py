"""The survey's experiment on the set that ships with scikit-learn, and its statistics on made-up rows."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from typer.testing import CliRunner

from phimap.bench import approximation, datasets
from phimap.bench.approximation import FAMILIES, MULTIPLES, best, run
from phimap.cli.commands import app
from phimap.io import DataError
from tests.support.rows import rows


@pytest.fixture(scope="module")
def digits() -> datasets.Dataset:
    return datasets.load("digits", None)


def made_up(projection: str, errors: list[float], width: int = 2) -> pd.DataFrame:
    facts = {"projection": projection, "n_directions": width, "seed": range(len(errors)), "error": errors}
    return pd.DataFrame(facts)


def test_sets_are_split_and_scaled(digits, tmp_path):
    assert digits.X.shape == (899, 64)
    assert digits.X_test.shape == (898, 64)
    assert digits.X.dtype == np.float32
    assert (digits.X.min(), digits.X.max()) == (0, 1)
    rng = np.random.default_rng(0)
    X, y = rng.normal(5, 3, (40, 2)), rng.integers(2, size=40)
    X[7, 1] = 1e9
    np.savez(tmp_path / "medium_classification.npz", eeg_eye_X=X, eeg_eye_y=y)
    standardised = datasets.load("EEG", tmp_path)
    np.testing.assert_allclose(standardised.X.mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(standardised.X.std(axis=0), 1, atol=1e-6)


def test_sparse_parts_have_the_same_columns(tmp_path):
    X = np.eye(5, dtype=np.float32)
    arrays = {"a8a_ytr": np.arange(5) % 2, "a8a_yte": np.arange(2)}
    # Nothing in the last column of the test rows: their indices alone tell of four columns.
    for part, dense in (("Xtr", X), ("Xte", X[:2])):
        matrix = sparse.csr_array(dense)
        arrays |= {f"a8a_{part}_{name}": getattr(matrix, name) for name in ("data", "indices", "indptr")}
    np.savez(tmp_path / "medium_classification.npz", **arrays)
    loaded = datasets.load("a8a", tmp_path)
    np.testing.assert_array_equal(loaded.X, X)
    np.testing.assert_array_equal(loaded.X_test, X[:2])


def test_missing_sets_say_where_to_put_them(tmp_path, monkeypatch):
    monkeypatch.delenv("PHIMAP_DATA", raising=False)
    with pytest.raises(DataError, match=r"mnist\.npz.*--data or PHIMAP_DATA"):
        datasets.load("MNIST", None)
    with pytest.raises(DataError, match=r"no file .*mnist\.npz"):
        datasets.load("MNIST", tmp_path)
    with pytest.raises(ValueError, match=r"must be one of ijcnn1"):
        datasets.load("nothing", tmp_path)


def test_errors_fall_and_orthogonal_directions_err_less(digits):
    found = pd.DataFrame(run(digits, ["gaussian", "orthogonal"], widths=(128, 512), draws=range(3)))
    assert len(found) == 12
    table = found.groupby(["projection", "n_directions"])["error"].mean()
    assert table["gaussian", 512] < table["gaussian", 128]
    assert table["orthogonal", 128] < 0.7 * table["gaussian", 128]
    assert best(found, (128,)) == ["orthogonal"]
    assert found["ridge"].isna().all()


def test_classifiers_learn(digits):
    (row,) = rows(run(digits, ["orthogonal"], widths=(192,), draws=range(1), classify=True))
    assert row.ridge > 95
    assert row.liblinear > 95


def test_best_keeps_ties_and_gives_up_where_most_tie():
    clear = pd.concat(made_up(*one) for one in (("a", [1.0, 1.1, 0.9]), ("b", [5.0, 5.1, 4.9]), ("c", [5.0, 5.2, 5.1])))
    assert best(clear, (2,)) == ["a"]
    tied = pd.concat([clear, made_up("d", [1.0, 1.2, 0.9])])
    assert best(tied, (2,)) == ["a", "d"]
    assert best(pd.concat([made_up("a", [1.0, 1.1]), made_up("b", [1.0, 1.2])]), (2,)) == []
    # A method without one of the widths is not compared.
    assert best(pd.concat([clear, made_up("e", [0.1, 0.1, 0.1], width=4)]), (2,)) == ["a"]
    assert best(pd.DataFrame(), (2,)) == []


def test_command_writes_results_and_figures(tmp_path):
    arguments = ["bench", "approximation", "--sets", "digits", "--projections", "gaussian,sorf", "--repeats", "2"]
    result = CliRunner().invoke(app, [*arguments, "--output", str(tmp_path / "out"), "--quiet"])
    assert result.exit_code == 0, result.output
    assert "s = 32d" in result.output
    written = json.loads((tmp_path / "out" / "approximation.json").read_text())
    assert len(written["rows"]) == 2 * 2 * len(MULTIPLES)
    assert written["rows"][0]["ridge"] is None
    assert (tmp_path / "out" / "approximation_digits_gaussian.png").read_bytes().startswith(b"\x89PNG")


def test_widths_and_rows_can_be_chosen():
    arguments = ["bench", "classification", "--sets", "digits", "--projections", "gaussian,orthogonal,leverage"]
    result = CliRunner().invoke(
        app,
        [*arguments, "--repeats", "2", "--features", "128,100,128", "--rows", "120", "--quiet"],
        env={"COLUMNS": "200"},
    )
    assert result.exit_code == 0, result.output
    assert "s = 50" in result.output
    assert "s = 1d" in result.output
    # A long title is broken in two lines.
    said = " ".join(result.output.split())
    assert "leverage" in said
    for measure in ("relative error", "test accuracy, ridge (%)", "test accuracy, liblinear (%)"):
        assert f"digits, gaussian: {measure}" in said


@pytest.mark.parametrize(("first", "published"), [(2, "ssf"), (3, "")])
def test_published_methods_stand_beside_the_same_widths_only(monkeypatch, first, published):
    monkeypatch.setitem(approximation.PUBLISHED, "set", (["ssf"], ["orthogonal", "qmc"]))
    X, y = np.zeros((5, 3), np.float32), np.zeros(5)
    widths = [3 * multiple for multiple in (first, 4, 16, 32)]
    found = pd.concat(made_up("gaussian", [1.0, 1.1], width) for width in widths)
    table = approximation._best_table([(datasets.Dataset("set", X, y, X, y), found)], "gaussian")
    assert [line[2] for line in table.lines] == [published, "orthogonal, qmc"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "NAME must be list or one of"),
        (["approximation", "--projections", "nothing"], "--projections must be among"),
        (["approximation", "--repeats", "1"], "--repeats must be at least 2"),
        (["approximation", "--sets", "nothing"], "must be one of"),
    ],
)
def test_bad_requests_are_one_line(arguments, message):
    result = CliRunner().invoke(app, ["bench", *arguments])
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("family", FAMILIES)
def test_every_kernel_has_methods_whose_errors_fall(digits, family):
    methods = FAMILIES[family].methods[-2:]
    found = pd.DataFrame(run(digits, methods, widths=(64, 512), draws=range(2), family=family))
    assert set(found["kernel"]) == {family}
    errors = found.groupby(["projection", "n_directions"])["error"].mean()
    for method in methods:
        assert errors[method, 512] < 0.7 * errors[method, 64]


def test_findings_stand_beside_table_7(digits, tmp_path):
    arguments = ["bench", "approximation", "--sets", "digits", "--repeats", "2", "--features", "128,256", "--quiet"]
    arguments += ["--kernels", "gaussian,polynomial", "--projections", "gaussian"]
    refused = CliRunner().invoke(app, arguments)
    assert refused.exit_code != 0
    assert "--projections must be among" in refused.stderr
    done = CliRunner().invoke(app, [*arguments[:-2], "--output", str(tmp_path)])
    assert done.exit_code == 0, done.stderr
    found = json.loads((tmp_path / "approximation.json").read_text(encoding="utf-8"))["findings"]
    assert {"like Table 7, digits", "Section 6.1, polynomial, digits"} == {
        one["place"].rpartition(", s = ")[0] for one in found
    }
    assert all(one["published"] == "-" and one["ours"] for one in found)


def test_few_widths_are_one_row_and_many_are_two():
    def measured(widths):
        return pd.DataFrame({"n_directions": widths})

    def named(name, d):
        return datasets.Dataset(name, np.zeros((5, d)), np.zeros(5), np.zeros((5, d)), np.zeros(5))

    data, letter = named("MNIST", 784), named("letter", 16)
    assert list(approximation._regimes(measured([1000, 5000, 10_000]), data, "gaussian")) == [
        ([1000, 5000, 10_000], ["orthogonal", "ssf"])
    ]
    assert list(approximation._regimes(measured([32, 64, 128, 256, 512]), letter, "gaussian")) == [
        ([32, 64], ["ssf"]),
        ([256, 512], ["ssf", "orthogonal"]),
    ]
    # Other widths and other kernels have no published winners.
    assert {known for _, known in approximation._regimes(measured([1, 2, 3, 4]), letter, "gaussian")} == {None}
    assert [known for _, known in approximation._regimes(measured([1000]), data, "arccosine0")] == [None]
