"""What cannot be exported is named, and nothing is written then."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError

import phimap as pm
from phimap.exports import ExportError
from tests.exports.conftest import numbers

FORMATS = ("onnx", "numpy")
FIXED: Any = {"random_state": 0, "metric": None, "length_scale": 2.0}


def assert_refused(model: Any, folder: Path, match: str, formats: tuple[str, ...] = FORMATS) -> None:
    for format in formats:  # noqa: A001
        with pytest.raises(ExportError, match=match):
            pm.export(model, folder / "out.onnx", format=format)
    assert not list(folder.iterdir())


def test_other_objects(tmp_path: Path) -> None:
    with pytest.raises(NotFittedError):
        pm.export(pm.KernelRegressor(), tmp_path / "m.onnx")
    with pytest.raises(TypeError, match="must be a KernelRegressor or a KernelClassifier, got FourierFeatures"):
        pm.export(pm.FourierFeatures(), tmp_path / "m.onnx")
    with pytest.raises(ValueError, match="`format` must be"):
        pm.export(pm.KernelRegressor(), tmp_path / "m.onnx", format="pmml")


def test_maps_without_a_form(tmp_path: Path) -> None:
    X, y = numbers()
    model = pm.KernelRegressor(pm.QuantizedFeatures(pm.FourierFeatures(n_components=64), 8), random_state=0).fit(X, y)
    assert_refused(model, tmp_path, "the feature map 'Quantized' has no exported form")


def test_kernels_without_a_form(tmp_path: Path) -> None:
    X, y = numbers()
    kernel = pm.kernels.Matern(nu=1.2, length_scale=2.0)
    model = pm.KernelRegressor(pm.NystroemFeatures(kernel, 32), random_state=0).fit(X, y)
    assert_refused(model, tmp_path, "the feature map 'Nystroem' has no exported form: the kernel Matern.*`kve`")


def test_sparse_rows(tmp_path: Path) -> None:
    X, y = numbers()
    model = pm.KernelRegressor("gaussian", 32, **FIXED).fit(sparse.csr_matrix(X), y)
    assert_refused(model, tmp_path, "CSR rows")


def test_free_text(tmp_path: Path) -> None:
    rng, (X, y) = np.random.default_rng(0), numbers()
    words = rng.choice(["red", "green", "tall", "house", "near", "river", "old", "bright"], (len(y), 6))
    table = pd.DataFrame({"a": X[:, 0], "story": [" ".join(row) for row in words]})
    model = pm.KernelRegressor("gaussian", 32, **FIXED).fit(table, y)
    assert_refused(model, tmp_path, r"column 'story' \(text\)")


def test_names_that_onnx_needs(tmp_path: Path) -> None:
    X, y = numbers()
    table = pd.DataFrame({"variable": X[:, 0], "b": np.where(X[:, 1] > 0, "x", "y")})
    model = pm.KernelRegressor("gaussian", 32, **FIXED).fit(table, y)
    assert_refused(model, tmp_path, "column 'variable' has a name", ("onnx",))
    pm.export(model, tmp_path / "folder", format="numpy")


def test_long_sources(tmp_path: Path) -> None:
    X, y = numbers()
    features = pm.NTKSketch(3, 64, method="layered", random_state=0)
    model = pm.KernelRegressor(features, random_state=0).fit(X, y)
    assert_refused(model, tmp_path, r"take \d+ lines of NumPy, and a readable source has at most 150", ("numpy",))
    pm.export(model, tmp_path / "m.onnx")


def test_the_lines_that_read_a_frame_do_not_count(tmp_path: Path) -> None:
    X, y = numbers()
    table = pd.DataFrame({"lag": X[:, 0], "temp": X[:, 1], "promo": X[:, 0] > X[:, 1]})
    table.loc[:6, "lag"] = None
    model = pm.KernelRegressor("ntk", 256, metric=None, random_state=0).fit(table, y)
    pm.export(model, tmp_path / "folder", format="numpy")
    assert (tmp_path / "folder" / "predict.py").exists()


def test_a_wrong_export_is_not_written(plain: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from phimap.exports import exporting as module

    kept = module.program
    scaled = replace(plain._fitted.solution, coef=1.001 * plain._fitted.solution.coef)
    monkeypatch.setattr(module, "program", lambda fitted, loss: kept(replace(fitted, solution=scaled), loss))
    assert_refused(plain, tmp_path, "differs from the model by")


def test_an_old_file_stays(plain: Any, tmp_path: Path) -> None:
    X, y = numbers()
    (tmp_path / "m.onnx").write_text("old")
    sparse_model = pm.KernelRegressor("gaussian", 32, **FIXED).fit(sparse.csr_matrix(X), y)
    with pytest.raises(ExportError):
        pm.export(sparse_model, tmp_path / "m.onnx")
    assert (tmp_path / "m.onnx").read_text() == "old"
    pm.export(plain, tmp_path / "m.onnx", X=X[:10])
    assert (tmp_path / "m.onnx").read_bytes() != b"old"
