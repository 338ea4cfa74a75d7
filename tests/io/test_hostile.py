"""Files from strangers: each is refused in one line, before it is allocated or computed with."""

from __future__ import annotations

import copy
import gzip
import os
import struct
import zipfile
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from safetensors.numpy import save as serialise

import phimap as pm
from phimap._files import DataError, write_whole
from phimap.cli import _stop
from phimap.io import csv_file, open_frame, open_table
from phimap.io.tensors import checksum
from tests.fuzz.samples import Sample
from tests.io.models.write import rows
from tests.support.learners import GAUSSIAN


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    """A saved learner, taken apart."""
    X, y = rows()
    path = tmp_path_factory.mktemp("model") / "m"
    pm.save(pm.KernelRegressor(n_components=16, alpha=0.1, random_state=0, **GAUSSIAN).fit(X, y), path)
    return Sample.read("learner", path)


@pytest.fixture
def copied(sample):
    """A copy to be changed."""
    return Sample("mutant", copy.deepcopy(sample.tree), dict(sample.arrays))


def fitted(model: Sample) -> dict[str, Any]:
    """The fields of the fitted model in a file."""
    return model.tree["state"]["_fitted"]["fields"]


def refused(model: Sample, folder: Any, match: str) -> None:
    model.write(folder / "m")
    with pytest.raises(DataError, match=match) as caught:
        pm.load(folder / "m")
    assert "\n" not in str(caught.value)


def test_what_is_no_model_is_not_loaded(copied, tmp_path):
    record = fitted(copied)["map"]["fields"]["scaling"]
    for tree in (None, {"kind": "list", "items": []}, record, {"kind": "estimator", "name": "kernels.Gaussian"}):
        refused(Sample("", tree, copied.arrays), tmp_path, "no model|cannot be read|named twice|params")


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_coefficients_are_finite(value, copied, tmp_path):
    key = fitted(copied)["solution"]["fields"]["coef"]["key"]
    copied.arrays[key] = copied.arrays[key].copy()
    copied.arrays[key][3] = value
    refused(copied, tmp_path, "LinearSolution.coef must be finite")


def test_coefficients_are_those_of_the_features(copied, tmp_path):
    key = fitted(copied)["solution"]["fields"]["coef"]["key"]
    copied.arrays[key] = copied.arrays[key][:-1].copy()
    refused(copied, tmp_path, "Fitted must have a coefficient for each feature")


@pytest.mark.parametrize("name", ["predict", "__class__", "__dict__", "coef_", "n_jobs", "unheard_of_"])
def test_attributes_are_those_that_are_fitted(name, copied, tmp_path):
    copied.tree["state"][name] = 1
    refused(copied, tmp_path, f"KernelRegressor.{name} is nothing that is fitted")


def test_an_array_has_one_place(copied, tmp_path):
    scaling = fitted(copied)["map"]["fields"]["scaling"]["fields"]
    scaling["factor"] = scaling["shift"]
    refused(copied, tmp_path, "is missing, or named twice")


@pytest.mark.parametrize("dtype", ["<U2000000", "V8", "f8", "<U99999999999"])
def test_texts_are_no_wider_than_they_need(dtype, copied, tmp_path):
    copied.tree["state"]["feature_names_in_"] = {"kind": "texts", "items": ["a"] * 5, "shape": [5], "dtype": dtype}
    refused(copied, tmp_path, "no texts of a model|cannot be read")


def test_a_deep_tree_is_refused(copied, tmp_path):
    node: Any = None
    for _ in range(150):
        node = {"kind": "tuple", "items": [node]}
    copied.tree["params"]["alpha"] = node
    refused(copied, tmp_path, "nested more than 100 deep")
    text = '{"kind": "list", "items": [' * 10**5
    metadata = {"format": "phimap-model-1", "version": "0", "model": text, "sha256": checksum(text, {})}
    (tmp_path / "m").write_bytes(serialise({}, metadata))
    with pytest.raises(DataError, match="cannot be read"):
        pm.load(tmp_path / "m")


def test_a_kernel_of_a_million_layers_is_refused(tmp_path):
    X, _ = rows()
    pm.save(pm.NystroemFeatures(pm.kernels.NTK(depth=2), 8, random_state=0).fit(X), tmp_path / "m")
    model = Sample.read("ntk", tmp_path / "m")
    model.tree["state"]["record_"]["fields"]["kernel"]["params"]["depth"] = 10**6
    refused(model, tmp_path, "NTK.depth must be at most 10000")


def test_a_map_over_the_budget_is_refused(tmp_path):
    X, _ = rows()
    pm.save(pm.NystroemFeatures(n_components=8, random_state=0).fit(X), tmp_path / "m")
    model = Sample.read("wide", tmp_path / "m")
    model.tree["state"]["record_"]["fields"]["n_components"] = 10**11
    refused(model, tmp_path, "a row takes 745 GB.* over the budget")


def test_a_model_file_over_the_budget_is_refused(sample, tmp_path):
    sample.write(tmp_path / "m")
    with pm.config(memory=1000), pytest.raises(DataError, match=r"takes .* over the budget of 1000 bytes|1 kB"):
        pm.load(tmp_path / "m")


def test_equal_fits_are_equal_files(tmp_path):
    X, y = rows()
    for name in "ab":
        pm.save(pm.KernelRegressor(n_components=16, random_state=0, **GAUSSIAN).fit(X, y), tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def npy_header(text: str) -> bytes:
    header = text.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header


@pytest.mark.parametrize(
    ("header", "match"),
    [
        ("{'descr': '<f8', 'fortran_order': False, 'shape': (3, 100000000)}", "too few for float64"),
        ("{'descr': '<f8', 'fortran_order': True, 'shape': (3, 100000000)}", "too few for float64"),
        ("{'descr': '<f8', 'fortran_order': False, 'shape': (-3, -5)}", "too few for float64"),
        ("{'descr': '<f8', 'fortran_order': False, 'shape': (3, 5", "damaged or no NumPy file"),
        ("{'descr': '<f8', 'fortran_order': False, 'shape': '''", "damaged or no NumPy file"),
    ],
)
@pytest.mark.parametrize("suffix", ["npy", "npz"])
def test_npy_headers(header, match, suffix, tmp_path):
    path, content = tmp_path / f"t.{suffix}", npy_header(header) + bytes(64)
    if suffix == "npy":
        path.write_bytes(content)
    else:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("X.npy", content)
    with pytest.raises(DataError, match=match) as caught:
        open_table(path)
    assert "\n" not in str(caught.value)


def test_a_row_over_the_budget_is_refused(tmp_path):
    np.save(tmp_path / "t.npy", np.zeros((2, 10**5)))
    with pm.config(memory="1MB"), pytest.raises(DataError, match="a row of 100000 numbers is over the budget"):
        open_table(tmp_path / "t.npy")


def test_damaged_lzma(tmp_path):
    path = tmp_path / "t.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("X.npy", npy_header("{'descr': '<f8', 'fortran_order': False, 'shape': (8, 1)}") + bytes(64))
    content = bytearray(path.read_bytes())
    content[30 + len("X.npy") + 4 : 30 + len("X.npy") + 9] = b"\xff" * 5
    path.write_bytes(bytes(content))
    with pytest.raises(DataError, match="damaged or no NumPy file"):
        open_table(path)


def test_a_compressed_text_without_ends_of_lines(tmp_path):
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"1," * 10**7))
    with pm.config(memory="32MB"), pytest.raises(DataError, match=r"a row is longer than 2\.00 MB"):
        open_frame(tmp_path / "t.csv.gz")


def test_blocks_of_wide_rows_are_counted_in_32_bits(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_file, "_BLOCK_ROWS", 2**40)
    (tmp_path / "t.csv").write_text("a,b\n1,2\n3,4\n")
    assert [columns.num_rows for columns, _ in open_frame(tmp_path / "t.csv")] == [2]


def test_memory_that_runs_out_is_no_fault_of_the_text(tmp_path, monkeypatch):
    (tmp_path / "t.csv").write_text("a,b\n1,2\n3,4\n")

    def fail(*args, **kwargs):
        raise pa.ArrowMemoryError("malloc of size 99 failed")

    monkeypatch.setattr(csv_file.arrow_csv, "open_csv", fail)
    with pytest.raises(DataError, match="take more memory than there is"):
        open_frame(tmp_path / "t.csv")


@pytest.mark.parametrize("content", [b"\xf2", b"[", b"[[[[", b'{"index_columns": 3}'])
def test_a_damaged_description_in_a_parquet_file(content, tmp_path):
    table = pa.table({"a": [1.0, 2.0]}).replace_schema_metadata({b"pandas": content})
    parquet.write_table(table, tmp_path / "t.parquet")
    with pytest.raises(DataError, match="damaged or no Parquet file"):
        open_frame(tmp_path / "t.parquet")


def test_deep_json(tmp_path):
    (tmp_path / "t.json").write_text('[{"a": ' + "[" * 10**5)
    with pytest.raises(DataError, match="nested too deep"):
        open_frame(tmp_path / "t.json")


@pytest.mark.parametrize("suffix", ["csv", "parquet", "npy", "json"])
def test_a_pipe_is_no_file(suffix, tmp_path):
    os.mkfifo(tmp_path / f"x.{suffix}")
    with pytest.raises(DataError, match="is a pipe or a device"):
        open_table(tmp_path / f"x.{suffix}")


def test_nothing_is_left_where_a_process_is_terminated(tmp_path, capsys):
    with pytest.raises(SystemExit) as caught:
        write_whole(tmp_path / "m", lambda file: _stop(15, None))
    assert caught.value.code == 143
    assert list(tmp_path.iterdir()) == []
    assert capsys.readouterr().err == "error: terminated. No half-written file is left.\n"
