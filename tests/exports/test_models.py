"""Exported models of all kinds give the predictions of the models themselves."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest
import safetensors.numpy
from numpy.testing import assert_array_equal

import phimap as pm
from phimap.exports.frames import cells_as_inputs
from phimap.exports.onnx_model import OPSET, run_onnx
from phimap.learn.extrapolation import OutsideWarning
from tests.exports.conftest import frame, model_of, rows_for


def predicted(model: Any, X: Any, method: str = "predict") -> np.ndarray:
    """The model's own answer, in float64 for arrays."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OutsideWarning)
        return getattr(model, method)(X.astype(np.float64) if isinstance(X, np.ndarray) else X)


def module_of(folder: Path) -> ModuleType:
    spec = spec_from_file_location("predict", folder / "predict.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def assert_near(found: np.ndarray, expected: np.ndarray, tolerance: float) -> None:
    assert found.reshape(expected.shape).dtype.kind == "f"
    assert np.abs(found.reshape(expected.shape) - expected).max() <= tolerance * np.ptp(expected)


def test_onnx_stores_no_unused_array(model: Any, tmp_path: Path) -> None:
    import onnx

    pm.export(model, tmp_path / "m.onnx")
    graph = onnx.load(tmp_path / "m.onnx").graph
    assert {one.name for one in graph.initializer} <= {name for node in graph.node for name in node.input}


def test_onnx(model: Any, tmp_path: Path) -> None:
    pm.export(model, tmp_path / "m.onnx")
    X = rows_for(model)
    inputs = {"X": X} if model.encoder_ is None else cells_as_inputs(model.encoder_, X)
    found = run_onnx((tmp_path / "m.onnx").read_bytes(), inputs)
    expected = predicted(model, X)
    if not hasattr(model, "classes_"):
        assert_near(found["variable"], expected, 1e-4)
        return
    labels = found["label"] if found["label"].dtype == object else found["label"].astype(expected.dtype)
    assert np.mean(labels == expected) >= 0.999
    assert_near(found["probabilities"], predicted(model, X, "predict_proba"), 1e-4)


def test_numpy(model: Any, tmp_path: Path) -> None:
    pm.export(model, tmp_path / "folder", format="numpy")
    runtime, X = module_of(tmp_path / "folder").load(tmp_path / "folder"), rows_for(model)
    expected, found = predicted(model, X), runtime.predict(X)
    if not hasattr(model, "classes_"):
        assert found.shape == expected.shape
        assert_near(found, expected, 1e-5)
        return
    assert np.mean(found == expected) >= 0.999
    assert_near(runtime.predict_proba(X), predicted(model, X, "predict_proba"), 1e-5)


def test_predict_is_readable(model: Any, tmp_path: Path) -> None:
    pm.export(model, tmp_path / "folder", format="numpy")
    lines = (tmp_path / "folder" / "predict.py").read_text().splitlines()
    assert len(lines) <= 400
    assert max(map(len, lines)) <= 120
    pm.export(model, tmp_path / "again", format="numpy")
    for name in ("predict.py", "model.safetensors"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "folder" / name).read_bytes()


def test_corrections_are_exported() -> None:
    corrections = model_of("corrected").corrections_
    assert corrections is not None
    assert corrections.n_regions > 1
    # The regions of several partitions are numbered consecutively.
    assert len(corrections.models) > 1
    # An export without the factor of the rows would be seen.
    assert corrections.scale != 1


def test_onnx_states_its_interface(plain: Any, tmp_path: Path) -> None:
    import onnx

    pm.export(plain, tmp_path / "m.onnx")
    proto = onnx.load(tmp_path / "m.onnx")
    onnx.checker.check_model(proto, full_check=True)
    assert [(one.domain, one.version) for one in proto.opset_import] == [("", OPSET)]
    assert [one.name for one in proto.graph.input] == ["X"]
    assert [one.name for one in proto.graph.output] == ["variable"]
    lengths = proto.graph.input[0].type.tensor_type.shape.dim
    assert (lengths[0].dim_param, lengths[1].dim_value) == ("n", 5)
    for n in (1, 3):
        assert run_onnx((tmp_path / "m.onnx").read_bytes(), {"X": np.ones((n, 5), np.float32)})["variable"].shape == (
            n,
            1,
        )


@pytest.fixture
def bare(tmp_path: Path) -> dict[str, str]:
    """The environment of a Python that finds NumPy and no other package."""
    packages = tmp_path / "packages"
    packages.mkdir()
    home = Path(np.__file__).parent
    for name in ("numpy", "numpy.libs"):
        if (home.parent / name).exists():
            (packages / name).symlink_to(home.parent / name)
    return {"PYTHONPATH": str(packages), "PATH": os.environ["PATH"]}


def run_bare(bare: dict[str, str], *args: object) -> str:
    done = subprocess.run(
        [sys.executable, "-S", *map(str, args)], env=bare, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_predictions_with_numpy_alone(plain: Any, tmp_path: Path, bare: dict[str, str]) -> None:
    pm.export(plain, tmp_path / "folder", format="numpy")
    X = rows_for(plain)
    np.savetxt(tmp_path / "rows.csv", X, delimiter=",", fmt="%.9g")
    missing = (
        "import importlib.util as u; print([n for n in ('scipy', 'numba', 'sklearn', 'phimap') if u.find_spec(n)])"
    )
    assert run_bare(bare, "-c", missing).strip() == "[]"
    printed = run_bare(bare, tmp_path / "folder" / "predict.py", tmp_path / "folder", tmp_path / "rows.csv")
    head, *lines = printed.splitlines()
    assert head == ("prediction" if predicted(plain, X).ndim == 1 else "prediction_0,prediction_1")
    assert_near(np.array([line.split(",") for line in lines], dtype=float), predicted(plain, X), 1e-5)


def test_cells_of_csv_with_numpy_alone(tmp_path: Path, bare: dict[str, str]) -> None:
    model, table = model_of("frame classes"), rows_for(model_of("frame classes"))
    pm.export(model, tmp_path / "folder", format="numpy")
    expected = predicted(model, table)
    shuffled = table[table.columns[::-1]].assign(more="x, y")
    shuffled.to_csv(tmp_path / "rows.csv", index=False)
    run_bare(bare, tmp_path / "folder" / "predict.py", tmp_path / "folder", tmp_path / "rows.csv", tmp_path / "out.csv")
    assert_array_equal(pd.read_csv(tmp_path / "out.csv")["prediction"], expected)


def test_amounts_and_units_are_read_as_in_fit(tmp_path: Path) -> None:
    """Cells with a currency, a unit or separators were missing in an export, without a word."""
    rng = np.random.default_rng(0)
    a, b, c, d, e = (rng.uniform(1000, 90_000, 200).round(1) for _ in range(5))
    frame = pd.DataFrame(
        {
            "dollars": [f"${x:,.2f}" for x in a],
            "francs": [f"CHF {x:,.1f}" for x in b],
            "weights": [f"{x:.1f} kg" for x in c],
            "shares": [f"{x:.1f}%" for x in d],
            "euros": [f"{x:,.1f} €".translate(str.maketrans(",.", ".,")) for x in e],
            "quoted": [f"{x:,.1f}".replace(",", "'") for x in a + b],
            "rooms": [f"{round(x) % 9 + 1} room{'s' * (round(x) % 9 > 0)}" for x in a],
        }
    )
    frame.iloc[::9, 0] = "?"
    model = pm.KernelRegressor("gaussian", 64, metric=None, random_state=0).fit(frame, a + b - c + d - e)
    pm.export(model, tmp_path, format="numpy")
    runtime = module_of(tmp_path).load(tmp_path)
    rows = frame.sample(frac=1.0, random_state=1)
    rows.iloc[::7, 2] = None
    assert_near(runtime.predict(rows), predicted(model, rows), 1e-5)
    assert_near(runtime.predict({name: rows[name].to_numpy() for name in rows}), predicted(model, rows), 1e-5)
    rows.iloc[:20, 2] = "1 lb"
    with pytest.warns(
        UserWarning, match=r"column 'weights': cells that cannot be read as numbers .*\(20 of these rows"
    ):
        runtime.predict(rows)


def test_zones_of_other_kinds_are_refused(tmp_path: Path) -> None:
    X = pd.DataFrame({"when": pd.date_range("2021-03-01", periods=200, freq="29h"), "x": np.arange(200) % 7})
    pm.export(pm.KernelRegressor("gaussian", 64, metric=None, random_state=0).fit(X, X["x"]), tmp_path, format="numpy")
    with pytest.raises(ValueError, match="column 'when' must hold times with no time zone, as in training, got '2021"):
        module_of(tmp_path).load(tmp_path).predict({"when": ["2021-03-01 00:00Z"], "x": ["1"]})


def test_runtime_refuses_bad_rows(plain: Any, tmp_path: Path) -> None:
    pm.export(plain, tmp_path, format="numpy")
    runtime = module_of(tmp_path).load(tmp_path)
    with pytest.raises(ValueError, match=r"of shape \(n, 5\), got \(2, 4\)"):
        runtime.predict(np.ones((2, 4)))
    with pytest.raises(ValueError, match="must be finite"):
        runtime.predict(np.full((2, 5), np.nan))
    assert runtime.predict(np.empty((0, 5))).shape == (0,)


def test_runtime_refuses_bad_cells(tmp_path: Path) -> None:
    pm.export(model_of("frame"), tmp_path, format="numpy")
    runtime, table = module_of(tmp_path).load(tmp_path), frame()
    name = table.columns[0]
    with pytest.raises(ValueError, match="no column 'town', which the model was trained on"):
        runtime.predict(table.drop(columns="town"))
    with pytest.raises(ValueError, match=r"data row 1, column .* is no number, got 'many'"):
        runtime.predict({one: ["many"] if one == name else [str(table[one][1])] for one in table.columns})


def test_program_refuses_bad_files_in_one_line(tmp_path: Path, bare: dict[str, str]) -> None:
    folders = {name: tmp_path / name for name in ("gaussian", "frame")}
    for name, folder in folders.items():
        pm.export(model_of(name), folder, format="numpy")
    rows, table = tmp_path / "rows.csv", frame().head(3)
    one = folders["gaussian"]

    def refused(folder: Path, *args: object) -> str:
        command = [sys.executable, "-S", folder / "predict.py", *args]
        done = subprocess.run(command, env=bare, capture_output=True, text=True, check=False, timeout=60)  # type: ignore
        assert done.returncode == 1
        assert done.stderr.count("\n") == 1, done.stderr
        return done.stderr

    assert refused(one) == "usage: python predict.py FOLDER ROWS.csv [PREDICTIONS.csv]\n"
    assert "No such file" in refused(one, one, tmp_path / "none.csv")
    rows.write_text("x0,x1,x2,x3\n1,2,3,4\n")
    assert refused(one, one, rows) == "error: no column 'x4', which the model was trained on. Add it to the file.\n"
    rows.write_text("x0,x1,x2,x3,x4\n1,2,3,4,5\n1,,3,4,5\n")
    assert refused(one, one, rows) == "error: data row 2, column 'x1' is no number, got ''. Fill it in.\n"
    rows.write_text("1,2,3,4,5\n1,2,3,4\n")
    assert "data row 2 has 4 cells, expected 5: ['x0', 'x1'" in refused(one, one, rows)
    rows.write_text("x0,x1,x2,x3,x4\n")
    assert refused(one, one, rows) == f"error: {rows}: has a header but no rows. Check the file.\n"
    rows.write_text("x0,x1,x2,x3,x4\n1,2,3,4,\xfc\n", encoding="latin-1")
    assert refused(one, one, rows) == f"error: {rows}: must be in UTF-8, got another encoding. Save it as UTF-8.\n"
    rows.write_text("x0;x1;x2;x3;x4\n1;2;3;4;5\n")
    assert "cells must be separated by commas, got ';'" in refused(one, one, rows)
    table.drop(columns="town").to_csv(rows, index=False)
    assert "no column 'town', which the model was trained on" in refused(folders["frame"], folders["frame"], rows)


def test_program_ends_quietly_after_its_reader(tmp_path: Path, bare: dict[str, str]) -> None:
    """A reader such as head ends early. The program said: error: [Errno 32] Broken pipe."""
    pm.export(model_of("gaussian"), tmp_path / "folder", format="numpy")
    rows = tmp_path / "rows.csv"
    rows.write_text("1,2,3,4,5\n" * 20_000)
    command = [sys.executable, "-S", tmp_path / "folder" / "predict.py", tmp_path / "folder", rows]
    pipe: Any = subprocess.PIPE
    with subprocess.Popen(command, env=bare, stdout=pipe, stderr=pipe, text=True) as program:
        assert program.stdout.readline() == "prediction\n"  # type: ignore
        program.stdout.close()  # type: ignore
        assert (program.stderr.read(), program.wait(60)) == ("", 0)  # type: ignore


def test_names_stay_out_of_the_source(tmp_path: Path) -> None:
    pm.export(model_of("frame"), tmp_path, format="numpy")
    assert "size" not in (tmp_path / "predict.py").read_text().replace("size = int", "").replace("8 + size", "")
    assert safetensors.numpy.load_file(tmp_path / "model.safetensors")
