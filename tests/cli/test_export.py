"""``phimap export``: both formats, sizes, and refusals."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import phimap as pm
from tests.cli.test_bad_input import assert_refused
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
