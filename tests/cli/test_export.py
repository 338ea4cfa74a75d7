"""``phimap export``: both formats, sizes, and refusals."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

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
