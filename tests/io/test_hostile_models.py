"""Model files that take more than they should, or whose numbers are of no use: each is refused in one line."""

from __future__ import annotations

import copy
import json
import struct
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import phimap as pm
from phimap._files import DataError
from phimap.io.checkpoint_files import DamagedError, read_states
from phimap.packed import PackedArray
from tests.fuzz.samples import Sample, corrected
from tests.io.models.write import rows
from tests.support.learners import GAUSSIAN


def taken_apart(model: Any, folder: Any) -> Sample:
    pm.save(model, folder / "whole", statistics=True)
    return Sample.read("mutant", folder / "whole")


def classifier() -> pm.KernelClassifier:
    X, y = rows()
    return pm.KernelClassifier(n_components=16, alpha=0.1, random_state=0, **GAUSSIAN).fit(X, y > 0)


def fields(model: Sample) -> dict[str, Any]:
    return model.tree["state"]["_fitted"]["fields"]


def refused(model: Sample, folder: Any, match: str) -> None:
    model.write(folder / "m")
    with pytest.raises(DataError, match=match) as caught:
        pm.load(folder / "m")
    assert "\n" not in str(caught.value)


def test_text_arrays_share_one_limit(tmp_path):
    """Each of them was within the limit, and all together took gigabytes: the square of the size of the file."""
    model = taken_apart(classifier(), tmp_path)
    texts = {"kind": "texts", "items": ["a"], "shape": [1], "dtype": "<U200000"}
    model.tree["params"]["alpha"] = {"kind": "list", "items": [copy.deepcopy(texts) for _ in range(20)]}
    refused(model, tmp_path, "no texts of a model")


def test_a_description_counts_as_the_objects_it_makes(tmp_path):
    model = taken_apart(classifier(), tmp_path)
    model.tree["params"]["alpha"] = [[]] * 10**5
    model.write(tmp_path / "m")
    with pm.config(memory="8MB"), pytest.raises(DataError, match=r"its parts take .* over the budget of 8.00 MB"):
        pm.load(tmp_path / "m")


@pytest.mark.parametrize("dtype", ["F8_E4M3", "F8_E5M2", "F4", "BF16"])
def test_dtypes_that_numpy_lacks(dtype, tmp_path):
    for name, metadata in (("m", {"format": "phimap-model-1", "model": "{}"}), ("states", {}), ("planes", {})):
        key = "planes" if name == "planes" else "a"
        header = {"__metadata__": metadata, key: {"dtype": dtype, "shape": [8], "data_offsets": [0, 8]}}
        header[key]["data_offsets"][1] = {"F4": 4, "BF16": 16}.get(dtype, 8)
        text = json.dumps(header).encode()
        (tmp_path / name).write_bytes(struct.pack("<Q", len(text)) + text + bytes(header[key]["data_offsets"][1]))
    with pytest.raises(DataError, match=f"the array 'a' has the dtype {dtype}, which no file of phimap has"):
        pm.load(tmp_path / "m")
    with pytest.raises(DamagedError):
        read_states(tmp_path / "states")
    with pytest.raises(DataError, match="no packed array"):
        PackedArray.load(tmp_path / "planes")


@pytest.mark.parametrize("shape", [(4, 1), (0,), (1, 4)])
def test_arrays_of_a_scaler_have_one_entry_a_column(shape, tmp_path):
    """A mean (n, 1) was broadcast with a row (1, n) to n^2 numbers."""
    X, y = rows()
    pipeline = make_pipeline(StandardScaler(), pm.KernelRegressor(n_components=16, random_state=0, **GAUSSIAN))
    model = taken_apart(pipeline.fit(X, y), tmp_path)
    key = model.tree["steps"][0][1]["state"]["mean_"]["key"]
    model.arrays[key] = np.zeros(shape)
    refused(model, tmp_path, r"StandardScaler.mean_ has the shape \(")


@pytest.mark.parametrize("shape", [(0,), (4, 1), (1, 4)])
def test_metrics_are_of_the_columns(shape, tmp_path):
    model = taken_apart(classifier(), tmp_path)
    model.arrays[fields(model)["map"]["fields"]["metric"]["key"]] = np.ones(shape)
    refused(model, tmp_path, "ScaledMap must have a metric of its columns")


def test_metrics_are_not_zero(tmp_path):
    model = taken_apart(classifier(), tmp_path)
    key = fields(model)["map"]["fields"]["metric"]["key"]
    model.arrays[key] = 0 * model.arrays[key]
    refused(model, tmp_path, "ScaledMap must have a metric of its columns")


def test_kernels_of_any_smoothness_take_few_steps(tmp_path):
    """A smoothness of 1e300 took as many steps. NumPy's integers were not counted as integers."""
    X, _ = rows()
    with pytest.raises(ValueError, match="`nu` must be at most 10000 or infinite, got 1e"):
        pm.kernels.Matern(nu=1e300)(X)
    model = taken_apart(pm.FourierFeatures(pm.kernels.Matern(1.5), 8, random_state=0).fit(X), tmp_path)
    model.tree["params"]["kernel"]["params"]["nu"] = 1e300
    refused(model, tmp_path, "Matern.nu must be at most 10000")
    model = taken_apart(pm.NystroemFeatures(pm.kernels.NTK(2), 8, random_state=0).fit(X), tmp_path)
    model.arrays["deep"] = np.array(10**6)
    depth = {"kind": "array", "key": "deep", "dtype": "<i8", "scalar": True}
    model.tree["state"]["record_"]["fields"]["kernel"]["params"]["depth"] = depth
    refused(model, tmp_path, "NTK.depth must be at most 10000")


def test_kernels_of_maps_have_parameters_of_a_fit(tmp_path):
    """Only deviations use the kernel of a map, so that a wrong one ended in a traceback there."""
    X, y = rows()
    kernel = pm.kernels.Matern(1.5)
    learner = pm.KernelRegressor(kernel, 8, alpha=0.1, metric=None, random_state=0).fit(X, y)
    model = taken_apart(learner, tmp_path)
    feature_map = fields(model)["map"]["fields"]["feature_map"]
    feature_map["state"]["kernel_"]["params"]["nu"] = {"kind": "tuple", "items": [np.inf]}
    refused(model, tmp_path, "`nu` must be a number, got")


def test_sums_need_a_map_with_features(tmp_path):
    """A mutant predicted, but `return_std` ended in a traceback: the file of its landmarks had no whitening."""
    X, y = rows()
    kernel = pm.NystroemFeatures(pm.kernels.Gaussian(), 16, random_state=0)
    model = taken_apart(pm.KernelRegressor(kernel, alpha=0.1, metric=None, random_state=0).fit(X, y), tmp_path)
    record = fields(model)["map"]["fields"]["feature_map"]["state"]["record_"]["fields"]
    assert record["whitening"] is not None
    record["whitening"] = None
    refused(model, tmp_path, "features of landmarks need their whitening")


@pytest.mark.parametrize("values", [{"power": 1e308, "width": 1e-3}, {"width": 1e-320}], ids=str)
def test_probabilities_are_finite(values, tmp_path):
    model = taken_apart(classifier(), tmp_path)
    fields(model)["calibration"]["fields"] |= values
    refused(model, tmp_path, "probabilities overflow|not finite")


def test_deviations_are_finite():
    X, y = rows()
    model = pm.KernelRegressor(n_components=16, alpha=0.1, random_state=0, **GAUSSIAN).fit(X, y)
    model.predict(X, return_std=True)
    noise = replace(model._deviations.predictive.noise, variance=np.array([np.inf]))
    model._deviations = replace(model._deviations, predictive=replace(model._deviations.predictive, noise=noise))
    with pytest.raises(ValueError, match="standard deviations overflow float64"):
        model.predict(X, return_std=True)


def test_doubly_stochastic_outputs_are_finite(tmp_path):
    X, y = rows()
    model = taken_apart(pm.DoublyStochasticRegressor(n_components=16, n_epochs=1, random_state=0).fit(X, y), tmp_path)
    key = fields(model)["coef"]["key"]
    model.arrays[key] = np.full_like(model.arrays[key], 1e300)
    model.write(tmp_path / "m")
    loaded = pm.load(tmp_path / "m")
    with pytest.raises(ValueError, match="predictions overflow float32"):
        loaded.predict(X.astype(np.float32))


def test_a_model_is_tried_at_the_ends_of_its_ranges(tmp_path):
    """The features of a row of zeros vanish here, and those of other rows do not."""
    X, y = rows()
    kernel = pm.kernels.ArcCosine(order=1)
    model = pm.KernelRegressor(kernel, 16, alpha=0.1, standardize=None, metric=None, random_state=0).fit(X, y)
    mutant = taken_apart(model, tmp_path)
    record = fields(mutant)["map"]["fields"]["feature_map"]["state"]["record_"]["fields"]
    scale = record["scale"]["key"]
    mutant.arrays[scale] = np.full_like(mutant.arrays[scale], 1e308)
    refused(mutant, tmp_path, "overflow|not finite")


@pytest.mark.parametrize(("name", "value"), [("effort", "../x"), ("alpha", -1.0), ("length_scale", "long")])
def test_parameters_are_those_of_a_fit(name, value, tmp_path):
    """A model that gives standard deviations looked at them only when it predicted."""
    model = taken_apart(classifier(), tmp_path)
    model.tree["params"][name] = value
    refused(model, tmp_path, f"`{name}`")


def test_corrections_are_of_the_scaled_rows(tmp_path):
    model = taken_apart(corrected(), tmp_path)
    root = fields(model)["corrections"]["fields"]["root"]
    model.arrays[root["key"]] = np.ones((model.arrays[root["key"]].shape[0] + 1, 4))
    refused(model, tmp_path, "corrections of its scaled rows|overflow|fit each other|a root")
