"""``phimap export``: both formats, sizes, and refusals."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from safetensors.numpy import save_file

import phimap as pm
from tests.cli.test_bad_input import FIXED, assert_refused
from tests.cli.test_fit import values


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> Path:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, 3))
    model = pm.KernelRegressor("gaussian", 32, metric=None, length_scale=2.0, alpha=0.1, random_state=0).fit(X, X[:, 0])
    path = tmp_path_factory.mktemp("export") / "m.phimap"
    pm.save(model, path)
    return path


def test_onnx(phimap, file, tmp_path):
    done = phimap("export", file, tmp_path / "m.onnx")
    assert int(values(done.stdout)["m.onnx"]) == (tmp_path / "m.onnx").stat().st_size
    phimap("export", file, tmp_path / "m.onnx")


def test_folder(phimap, file, tmp_path):
    done = phimap("export", file, tmp_path / "folder", "--numpy", "--json")
    facts = json.loads(done.stdout)
    assert facts["model.safetensors"] == (tmp_path / "folder" / "model.safetensors").stat().st_size
    assert facts["model bytes"] == file.stat().st_size
    phimap("export", file, tmp_path / "folder", "--numpy")


def test_refusals(phimap, file, tmp_path):
    own = tmp_path / "own.onnx"
    own.write_text("notes")
    (tmp_path / "predict.py").write_text("print(1)")
    assert_refused(phimap("export", file, tmp_path / "m.pt"), "OUT must end in .onnx")
    assert_refused(phimap("export", file, own), "no ONNX model")
    assert_refused(phimap("export", file, tmp_path, "--numpy"), "no exported model")
    assert_refused(phimap("export", file, own, "--numpy"), "is a file")
    assert_refused(phimap("export", file, tmp_path / "none" / "m.onnx"), "no folder")
    assert (own.read_text(), (tmp_path / "predict.py").read_text()) == ("notes", "print(1)")
    phimap("export", file, own, "--force")


@pytest.mark.parametrize("name", ["model.safetensors", "predict.py"])
def test_files_of_a_folder_that_are_not_ours_are_kept(phimap, file, tmp_path, name):
    """A model.safetensors of another program was replaced."""
    words = ("export", file, tmp_path, "--numpy")
    save_file({"weight": np.ones(3)}, tmp_path / name, {"format": "pt"})
    theirs = (tmp_path / name).read_bytes()
    assert_refused(phimap(*words), f"OUT {tmp_path / name}: holds something that is no exported model", "--force")
    assert [one.name for one in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_bytes() == theirs
    assert phimap(*words, "--force").exit_code == 0
    # The second run replaces an export, which is ours, and an empty file.
    (tmp_path / name).write_bytes(b"")
    for _ in range(2):
        assert phimap(*words).exit_code == 0


def test_an_export_keeps_the_model_that_it_reads(phimap, file, tmp_path):
    model = shutil.copy(file, tmp_path / "model.safetensors")
    refused = phimap("export", model, tmp_path, "--numpy", "--force")
    assert_refused(refused, "is the input file, which is never overwritten")
    assert model.read_bytes() == file.read_bytes()


@pytest.mark.parametrize(
    ("name", "target", "words"),
    [
        ("numbers", "y", ()),
        ("labels", "kind", ()),
        ("numbers", "y", ("--loss", "quantile", "--quantile", "0.1,0.9", "--alpha", "1")),
    ],
)
def test_an_exported_program_writes_what_predict_writes(phimap, tables, tmp_path, name, target, words):
    data, model, folder = tables / f"{name}.csv", tmp_path / "m.phimap", tmp_path / "folder"
    fixed = ("--features", "64", *FIXED, "-q", "--length-scale", "2", *words)
    assert phimap("fit", data, "--target", target, "--model", model, *fixed).exit_code == 0
    assert phimap("export", model, folder, "--numpy").exit_code == 0
    assert phimap("predict", model, data, "-o", tmp_path / "ours.csv").exit_code == 0
    run = (sys.executable, folder / "predict.py", folder, data, tmp_path / "theirs.csv")
    subprocess.run(run, check=True, timeout=60)
    ours, theirs = (pd.read_csv(tmp_path / f"{one}.csv") for one in ("ours", "theirs"))
    pd.testing.assert_frame_equal(theirs, ours, check_dtype=False, atol=1e-5)


@pytest.mark.parametrize(("no", "yes", "labels"), [("FALSE", "TRUE", ["false", "true"]), ("0.0", "1.0", ["0", "1"])])
def test_labels_have_one_spelling(phimap, tmp_path, rng, no, yes, labels):
    data, model, folder = tmp_path / "t.csv", tmp_path / "m.phimap", tmp_path / "folder"
    x = rng.normal(size=100)
    pd.DataFrame({"x": x, "won": np.where(x > 0.5, yes, no)}).to_csv(data, index=False)
    fixed = ("--features", "64", *FIXED, "-q", "--length-scale", "2", "--task", "classification")
    fitted = phimap("fit", data, "--target", "won", "--model", model, *fixed)
    assert f"rarer_class {labels[1]}\n" in fitted.stdout
    assert phimap("predict", model, data, "--probabilities", "-o", tmp_path / "ours.csv").exit_code == 0
    ours = pd.read_csv(tmp_path / "ours.csv", dtype=str)
    assert ours.columns.tolist() == ["prediction", *(f"probability_{label}" for label in labels)]
    assert sorted(set(ours["prediction"])) == labels
    phimap("predict", model, data, "--probabilities", "-o", tmp_path / "ours.parquet")
    assert pd.read_parquet(tmp_path / "ours.parquet").columns.tolist() == ours.columns.tolist()
    phimap("export", model, folder, "--numpy")
    run = (sys.executable, folder / "predict.py", folder, data, tmp_path / "theirs.csv")
    subprocess.run(run, check=True, timeout=60)
    assert pd.read_csv(tmp_path / "theirs.csv", dtype=str)["prediction"].tolist() == ours["prediction"].tolist()


DAYS = pd.Timestamp("2021-03-01") + pd.to_timedelta(np.arange(200) * 5, unit="D")
HOURS = DAYS + pd.to_timedelta(np.arange(200), unit="h")


@pytest.mark.filterwarnings("ignore::phimap.tables.encoding.UnreadCellsWarning")
@pytest.mark.parametrize(
    ("trained", "given", "n_unread"),
    [
        (DAYS.strftime("%d.%m.%Y"), DAYS.strftime("%Y-%m-%d"), 0),
        (DAYS.strftime("%d.%m.%Y"), HOURS.strftime("%Y-%m-%dT%H:%M:%S.5"), 0),
        (DAYS.strftime("%d.%m.%Y"), DAYS.strftime("%Y/%m/%d"), 200),
        (DAYS.strftime("%d.%m.%Y"), np.where(np.arange(200) % 2, DAYS.strftime("%d.%m.%Y"), "2022-01-01"), 100),
        (HOURS.strftime("%Y-%m-%d %H:%M"), DAYS.strftime("%d.%m.%Y"), 0),
        (HOURS.strftime("%Y-%m-%d %H:%M"), np.where(np.arange(200) % 2, DAYS.strftime("%d %b %Y"), "none"), 0),
        (DAYS.strftime("%d/%m/%y"), DAYS.strftime("%d/%m/%y"), 0),
        (DAYS.strftime("%d/%m/%y"), np.where(np.arange(200) % 2, DAYS.strftime("%d/%m/%y"), "9/1/7"), 100),
        (DAYS.strftime("%d/%m/%y"), DAYS.strftime("%Y-%m-%d"), 0),
        (HOURS.strftime("%Y-%m-%d %H:%M"), DAYS.strftime("%d-%m-%y"), 0),
        (HOURS.strftime("%Y-%m-%dT%H:%M:%SZ"), HOURS.strftime("%Y-%m-%dT%H:%M:%S+05:30"), 0),
        (HOURS.strftime("%H:%M"), np.where(np.arange(200) % 2, HOURS.strftime("%H:%M"), "7:05"), 0),
        (np.where(np.arange(200) % 2, HOURS.strftime("%H:%M"), "7:05"), HOURS.strftime("%H:%M:%S"), 0),
        (HOURS.strftime("%m/%d/%Y %I:%M %p"), HOURS.strftime("%Y-%m-%d %H:%M"), 0),
        (HOURS.strftime("%d/%m/%Y %H:%M:%S+0200"), HOURS.strftime("%d/%m/%Y %H:%M:%S.25Z"), 0),
    ],
)
def test_an_exported_program_reads_dates_as_predict_does(phimap, tmp_path, trained, given, n_unread):
    """Dates in another form than in training were missing in an export, without a word."""
    rows, model, folder = tmp_path / "rows.csv", tmp_path / "m.phimap", tmp_path / "folder"
    table = pd.DataFrame({"when": trained, "x": np.arange(200) % 7})
    table.assign(y=np.sin(np.arange(200) / 30) + table["x"]).to_csv(rows, index=False)
    fixed = ("--features", 64, *FIXED, "-q", "--length-scale", 2)
    assert phimap("fit", rows, "--target", "y", "--model", model, *fixed).exit_code == 0
    table.assign(when=given).to_csv(rows, index=False)
    assert phimap("export", model, folder, "--numpy").exit_code == 0
    assert phimap("predict", model, rows, "-o", tmp_path / "ours.csv").exit_code == 0
    command = [sys.executable, folder / "predict.py", folder, rows, tmp_path / "theirs.csv"]
    theirs = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    ours, found = (pd.read_csv(tmp_path / f"{one}.csv")["prediction"].to_numpy() for one in ("ours", "theirs"))
    assert_allclose(found, ours, atol=1e-4)
    said = f"column 'when': cells that cannot be read as dates count as missing ({n_unread} of these rows, such as "
    assert (said in theirs.stderr) == (n_unread > 0)


def _fitted(phimap, folder: Path, text: str, *words: str) -> Path:
    """A model of the rows `text`, and its exported program beside it."""
    (folder / "rows.csv").write_text(text)
    model, fixed = folder / "m.phimap", ("--features", 64, *FIXED, "-q", "--length-scale", 2, "--force", *words)
    assert phimap("fit", folder / "rows.csv", "--target", "y", "--model", model, *fixed).exit_code == 0
    assert phimap("export", model, folder / "folder", "--numpy").exit_code == 0
    return model


def _program(folder: Path, rows: Path) -> subprocess.CompletedProcess:
    """A run of the exported program of `folder`."""
    command = [sys.executable, folder / "folder" / "predict.py", folder / "folder", rows]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def _predicted(text: str) -> np.ndarray:
    return np.array(text.splitlines()[1:], dtype=float)


@pytest.mark.parametrize("town", [False, True])
def test_quoted_decimal_commas_are_numbers_for_a_model_of_decimal_commas(phimap, tmp_path, rng, town):
    """They counted as missing in the command, and the exported program refused them."""
    X = rng.normal(size=(60, 3)).round(2)
    X[:, 2] = 2 * X[:, 0]
    cells = [[f"{x:.2f}".replace(".", ",") for x in row] + ["u" if row[0] > 0 else "v"] for row in X]
    names = ["a", "b", "y", "town"] if town else ["a", "b", "y"]
    lines = [names, *(row[: len(names)] for row in cells)]
    model = _fitted(phimap, tmp_path, "".join(";".join(line) + "\n" for line in lines))
    quoted, old = tmp_path / "quoted.csv", phimap("predict", model, tmp_path / "rows.csv")
    quoted.write_text("".join(",".join(f'"{cell}"' for cell in line) + "\n" for line in lines))
    new = phimap("predict", model, quoted)
    assert new.stdout == old.stdout
    assert "decimal commas" in new.stderr
    assert "missing" not in new.stderr
    assert_allclose(_predicted(_program(tmp_path, quoted).stdout), _predicted(old.stdout), atol=1e-5)
    assert np.ptp(_predicted(old.stdout)) > 1
    # Commas between thousands, and parentheses around negative numbers, are read alike, too.
    quoted.write_text('a,b,town\n"1,234.5",(2.5),u\n(3),1.5,v\n')
    ours = _predicted(phimap("predict", model, quoted).stdout)
    assert_allclose(_predicted(_program(tmp_path, quoted).stdout), ours, atol=1e-5)


def test_an_exported_program_reads_names_without_spaces_around_them(phimap, tmp_path, rng):
    lines = [",".join(f"{x:.3f}" for x in row) for row in rng.normal(size=(60, 3))]
    model = _fitted(phimap, tmp_path, "\n".join(["a,b,y", *lines]))
    (tmp_path / "new.csv").write_text(" a , b,y\n1,2,3\n")
    ours = phimap("predict", model, tmp_path / "new.csv").stdout
    assert_allclose(_predicted(_program(tmp_path, tmp_path / "new.csv").stdout), _predicted(ours), atol=1e-5)


@pytest.mark.parametrize("labels", [False, True])
@pytest.mark.parametrize("town", [False, True])
def test_tables_without_rows_are_one_sentence(phimap, tmp_path, rng, labels, town):
    """For a classifier, too, in the command and in the exported program, which called an empty file a header."""
    X = rng.normal(size=(60, 2)).round(3)
    lines = [f"{a},{b},{'u' if a > 0 else 'v'},{('p' if a > b else 'q') if labels else a + b}" for a, b in X.tolist()]
    words = () if town else ("--drop", "town")
    model = _fitted(phimap, tmp_path, "\n".join(["a,b,town,y", *lines]), *words)
    new = tmp_path / "new.csv"
    for text, told in (
        ("a,b,town\n", "has a header but no rows. Check the file."),
        ("", "the file is empty. Check the path."),
        (" \n\n", "the file is empty. Check the path."),
    ):
        new.write_text(text)
        assert_refused(phimap("predict", model, new), told)
        assert _program(tmp_path, new).stderr == f"error: {new}: {told}\n"
    new.write_text("a,b,town\n1,2,u\n")
    assert len(_program(tmp_path, new).stdout.splitlines()) == 2
    scope: dict = {"__name__": "program"}
    exec((tmp_path / "folder" / "predict.py").read_text(), scope)
    none = {"a": [], "b": [], "town": []} if town else np.zeros((0, 2))
    assert scope["load"](tmp_path / "folder").predict(none).shape == (0,)
