"""Bad input: one line that says what and what to do, exit code 2, nothing left behind."""

from __future__ import annotations

import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from phimap.cli.errors import one_line_errors
from phimap.cli.output import Fact

GOOD = "a,b,y\n" + "".join(f"{i % 7}.5,{i % 11},{i * 0.37:.2f}\n" for i in range(40))


def csv(text: str) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        (folder / "data.csv").write_text(text)
        return folder / "data.csv"

    return write


def npy(array: np.ndarray) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        np.save(folder / "data.npy", array, allow_pickle=True)
        return folder / "data.npy"

    return write


def edited(row: int, line: str) -> Callable[[Path], Path]:
    """The good table with one line replaced."""
    lines = GOOD.splitlines()
    lines[row] = line
    return csv("\n".join(lines) + "\n")


#: Nothing is searched: most tests are not about the choice of the kernel.
FIXED = ("--kernel", "gaussian", "--metric", "none", "--length-scale", "median")


def assert_refused(result, *words: str, code: int = 2) -> None:
    assert result.exit_code == code, (result.stdout, result.stderr)
    assert result.stdout == ""
    lines = [line for line in result.stderr.splitlines() if line.strip()]
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("error: ")
    for word in words:
        assert word in lines[0]


@pytest.mark.parametrize(
    ("write", "options", "words"),
    [
        (edited(4, "inf,1,2"), ("--strict",), ("row 4", "'a'", "infinite")),
        (edited(4, "inf,x,2"), ("--strict",), ("row 4", "'a'", "infinite")),
        (edited(4, "1,2,nan"), ("--strict",), ("row 4", "'y'")),
        (edited(4, "1,2,high"), (), ("'y'", "'high' in data row 4", "--types", "y=category")),
        (edited(4, "x,1,2"), ("--strict", "--types", "a=number"), ("row 4", "'a'", "--drop")),
        (edited(4, "1,2"), ("--strict",), ("row 4", "2 values")),
        (csv(GOOD), ("--types", "a"), ("--types", "zip=category", "'a'")),
        (csv(GOOD), ("--types", "a=words"), ("--types", "category", "'a'", "'words'")),
        (csv(GOOD), ("--types", "q=text"), ("--types", "'q'")),
        (csv(""), (), ("empty",)),
        (csv("a,b,y\n"), (), ("no rows",)),
        (csv("a,b,y\n1,2,3\n"), ("--holdout", "0"), ("1 of 1 rows", "at least 2")),
        (csv("a,b,y\n1,p,3\n"), (), ("a fit needs at least 2 rows, got 1 sample. Give more rows.",)),
        (
            csv("a,b,y\n" + "1,p,3\n2,q,4\n" * 40),
            ("--holdout", "0.99"),
            ("rows are left to train on", "smaller --holdout"),
        ),
        (csv("a,y\n" + "".join(f"{i % 9},n{i % 140}\n" for i in range(150))), (), ("distinct labels", "names of rows")),
        (csv("a,y\n" + "".join(f"{i},{i % 28 + 1}.12.2022\n" for i in range(50))), (), ("dates, such as '1.12.2022'",)),
        (csv("a,b,y\n" + "1e170,p,1e200\n2,q,4\n" * 9), (), ("'a' contains 1e+170",)),
        (csv(GOOD), ("--columns", "a,y"), ("both target and feature. Leave it out of --columns.",)),
        (csv(GOOD), ("--target", "z"), ("'z'", "'y'")),
        (csv(GOOD), ("--drop", "q"), ("'q'", "'a'")),
        (csv(GOOD), ("--drop", "y,a"), ("'y'", "target")),
        (csv(GOOD), ("--columns", "a,q"), ("'q'",)),
        (csv("a,b,y\n" + "1,2,3\n1,2,4\n1,2,9.5\n" * 5), (), ("every feature column is constant",)),
        (csv("a,b,y\n" + "1,2,3\n2,5,3\n" * 9), (), ("target is constant (3)",)),
        (csv(GOOD), ("--task", "classification"), ("fractions", "--task regression")),
        (csv("a,y\n" + "1,p\n2,q\n" * 9), ("--task", "regression"), ("must hold numbers", "--task classification")),
        (csv("a,y\n" + "".join(f"{i % 9},n{i}\n" for i in range(1500))), (), ("1000 distinct labels",)),
        (npy(np.ones((9, 3), dtype=complex)), ("--target", "2"), ("complex",)),
        (npy(np.array([[1, "a"], [2, "b"]], dtype=object)), ("--target", "1"), ("object",)),
        (csv(GOOD), ("--loss", "logistic"), ("fractions", "Choose another --loss, such as squared")),
        (
            csv("a,y\n" + "".join(f"{i % 9},{i}\n" for i in range(150))),
            ("--loss", "logistic"),
            ("132 distinct values in 132 training rows", "too many for classes", "Choose another --loss"),
        ),
        (csv(GOOD), ("--kernel", "magic"), ("--kernel", "'gaussian' (also 'rbf', ", "'magic'")),
        (csv(GOOD), ("--kernel", "laplacain"), ("--kernel", "Did you mean 'laplacian'?")),
        (csv(GOOD), ("--features", "0"), ("--features", "at least 2")),
        (csv(GOOD), ("--features", "many"), ("--features", "integer or auto")),
        (csv(GOOD), ("--metric", "round"), ("--metric", "round")),
        (csv(GOOD), ("--effort", "heroic"), ("--effort", "heroic")),
        (csv(GOOD), ("--length-scale", "wide"), ("--length-scale", "auto or median", "'wide'")),
        (csv(GOOD), ("--memory", "10KB"), ("Use fewer --features, or raise --memory.",)),
        (csv(GOOD), ("--memory", "lots"), ("--memory", "'lots'")),
        (csv(GOOD), ("--depth", "2"), ("--depth", "ntk")),
        (csv(GOOD), ("--alpha", "-1"), ("--alpha", "-1")),
        (csv(GOOD), ("--alpha", "some"), ("--alpha", "'some'")),
        (csv(GOOD), ("--holdout", "1"), ("--holdout",)),
        (csv(GOOD), ("--n-jobs", "0"), ("--n-jobs",)),
        (csv(GOOD), ("--device", "abacus"), ("abacus",)),
        (csv(GOOD), ("--task", "guess"), ("--task", "guess")),
        (csv(GOOD), ("--speed", "high"), ("--speed",)),
        (csv(GOOD), ("--model", "no/such/folder/m.phimap"), ("--model", "no/such/folder")),
        (csv(GOOD), ("--report", "."), ("--report", "folder")),
    ],
)
def test_fit_refuses(phimap, tmp_path, write, options, words):
    data = write(tmp_path)
    before = sorted(tmp_path.iterdir())
    target = () if "--target" in options else ("--target", "y")
    outputs = [
        word
        for option, file in (("--model", "m.phimap"), ("--report", "r.html"))
        if option not in options
        for word in (option, tmp_path / file)
    ]
    assert_refused(phimap("fit", data, "-q", "--features", "32", *FIXED, *target, *outputs, *options), *words)
    assert sorted(tmp_path.iterdir()) == before


def imported_little(*words: str, cwd: Path) -> str:
    """The last line of a refused command, which imports none of the packages that take a second."""
    command = [sys.executable, "-X", "importtime", "-m", "phimap", *words]
    run = subprocess.run(command, capture_output=True, text=True, cwd=cwd)
    *imports, message = run.stderr.strip().splitlines()
    assert run.returncode == 2
    assert not [line for line in imports if line.split()[-1] in ("numba", "sklearn", "pyarrow")]
    return message


@pytest.mark.parametrize(
    "words",
    [
        ("fit", "none.csv"),
        ("compare", "none.npz:X"),
        ("plan", "none.parquet"),
        ("predict", "none.phimap", "none.csv"),
        ("info", "none.phimap"),
        ("export", "none.phimap", "none.onnx"),
        ("explain", "none.phimap", "none.csv", "--output", "none.parquet"),
    ],
)
def test_missing_files_are_told_before_the_work_is_imported(words, tmp_path):
    message = imported_little(*words, cwd=tmp_path)
    assert re.search(r"no such file\. Check the path\.|there is no file `none.phimap`\. Give", message)


@pytest.mark.parametrize("command", ["fit", "compare"])
def test_a_missing_target_is_told_before_the_work_is_imported(command, tmp_path):
    (tmp_path / "t.csv").write_text("id;price\n1;2\n2;3\n")
    message = imported_little(command, "t.csv", "--target", "prise", cwd=tmp_path)
    assert message == "error: t.csv: no target column 'prise'. Choose from 'price', 'id'."


def test_fit_refuses_files_that_are_none(phimap, tmp_path):
    assert_refused(phimap("fit", tmp_path / "none.csv", "--target", "y"), "none.csv", "no such file")
    (tmp_path / "data.ods").write_text("1,2\n")
    assert_refused(phimap("fit", tmp_path / "data.ods", "--target", "y"), "data.ods", ".csv")
    (tmp_path / "data.csv").write_text(GOOD)
    assert_refused(phimap("fit", tmp_path / "data.csv"), "--target")
    (tmp_path / "text.csv").write_text("a,y\n1,warm\n2,cold\n")
    assert_refused(phimap("fit", tmp_path / "text.csv"), "--target")
    same = ("--model", tmp_path / "x", "--report", tmp_path / "x")
    assert_refused(phimap("fit", tmp_path / "data.csv", "--target", "y", *same), "--model", "--report")
    onto = ("--model", tmp_path / "data.csv")
    assert_refused(phimap("fit", tmp_path / "data.csv", "--target", "y", *onto), "input file")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from typer.testing import CliRunner

    from phimap.cli.commands import app

    folder = tmp_path_factory.mktemp("model")
    data = csv(GOOD)(folder)
    file = folder / "m.phimap"
    words = ["fit", str(data), "--target", "y", *FIXED, "--features", "32", "--model", str(file), "-q"]
    assert CliRunner().invoke(app, words).exit_code == 0
    return file


def test_predict_refuses_other_tables(phimap, model, tmp_path):
    out = tmp_path / "p.csv"
    (tmp_path / "narrow.csv").write_text("a,c\n1,2\n")
    assert_refused(phimap("predict", model, tmp_path / "narrow.csv", "-o", out), "'b'")
    np.save(tmp_path / "wide.npy", np.ones((4, 5)))
    assert_refused(phimap("predict", model, tmp_path / "wide.npy", "-o", out), "5 feature columns", "trained on 2")
    (tmp_path / "late.csv").write_text("a,b\n" + "1,2\n" * 30 + "1,inf\n")
    assert_refused(phimap("predict", model, tmp_path / "late.csv", "-o", out, "--strict"), "row 31", "'b'")
    (tmp_path / "labels.csv").write_text("a,b,y\n1,2,high\n")
    assert_refused(phimap("predict", model, tmp_path / "labels.csv", "-o", out, "--target", "y"), "'y'")
    feature = phimap("predict", model, tmp_path / "late.csv", "-o", out, "--target", "b")
    assert_refused(feature, "--target 'b' is a feature of the model", "predicts, 'y'")
    missing = tmp_path / "no" / "p.csv"
    assert_refused(phimap("predict", model, tmp_path / "narrow.csv", "-o", missing), "--output", "folder")
    assert not out.exists()
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("command", ["predict", "info"])
@pytest.mark.parametrize(
    "spoil",
    [
        lambda whole: whole[: len(whole) // 2],
        lambda whole: whole[:4],
        lambda whole: b"",
        lambda whole: whole[:-40] + bytes(40),
        lambda whole: b"a,b\n1,2\n" * 40,
    ],
    ids=["half", "head", "nothing", "corrupt", "csv"],
)
def test_damaged_models_are_refused(phimap, model, tmp_path, command, spoil):
    bad = tmp_path / "bad.phimap"
    bad.write_bytes(spoil(model.read_bytes()))
    words = (tmp_path / "x.csv", "-o", tmp_path / "p.csv") if command == "predict" else ()
    csv("a,b\n1,2\n")(tmp_path).rename(tmp_path / "x.csv")
    assert_refused(phimap(command, bad, *words), "bad.phimap")
    assert not (tmp_path / "p.csv").exists()


def test_missing_model_is_refused(phimap, tmp_path):
    assert_refused(phimap("info", tmp_path / "none.phimap"), "none.phimap")


def test_faults_of_the_program_keep_their_traceback(phimap, tables, monkeypatch):
    def fault(*_: object, **named: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("phimap.cli.fit.first_pass", fault)
    result = phimap("fit", tables / "numbers.csv", "--target", "y", "-q")
    assert isinstance(result.exception, ZeroDivisionError)


def test_ids_do_not_hide_predictions(phimap, tmp_path):
    rng = np.random.default_rng(0)
    rows = [f"{a:.4f},{a + b:.4f},{i}" for i, (a, b) in enumerate(rng.normal(size=(40, 2)))]
    data = tmp_path / "t.csv"
    data.write_text("\n".join(["a,y,prediction", *rows]) + "\n")
    words = ["--kernel", "gaussian", "--features", "16", "--metric", "none", "--drop", "prediction"]
    assert phimap("fit", data, "--target", "y", "--model", tmp_path / "m.phimap", *words).exit_code == 0
    found = phimap("predict", tmp_path / "m.phimap", data, "--id", "prediction", "-o", tmp_path / "p.csv")
    assert found.exit_code == 2
    assert "--id 'prediction' has the name of a column of predictions. Rename" in found.stderr
    assert not (tmp_path / "p.csv").exists()


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("t.json", '{"a": [1, 2], "y": [3, 4]}', "holds one object of whole columns. Save a list of records"),
        ("t.csv", "a,,y\n1,2,3\n4,5,x\n", "no target column 'z'. Choose from 'a', position 1 (without a name), 'y'."),
        ("t.csv", ",,\n1,2,x\n4,5,y\n", "no target column 'z'. Choose from position 0 (without a name)"),
    ],
)
def test_tables_that_need_a_hand(phimap, tmp_path, name, content, words):
    (tmp_path / name).write_text(content)
    found = phimap("fit", tmp_path / name, "--target", "z")
    assert found.exit_code == 2
    assert words in found.stderr


def test_a_warning_is_shown_once(capsys):
    with one_line_errors():
        warnings.simplefilter("always")
        for text in ("seldom", "seldom", "often", "seldom"):
            warnings.warn(text, stacklevel=1)
    assert capsys.readouterr().err.splitlines() == ["warning: seldom", "warning: often"]


def test_lines_for_programs_have_no_powers_of_ten_and_no_marks():
    assert Fact("RMSE", 12345.6, ".4g").text == "12350"
    assert Fact("RMSE", 0.00123456, ".4g").text == "0.001235"
