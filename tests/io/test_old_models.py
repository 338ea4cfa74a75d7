"""Model files of earlier versions load, and give what they gave."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

import phimap as pm
from phimap.io.legacy import current_record
from phimap.io.schema import check_record
from phimap.learn.corrections.partition import Partition
from phimap.records import Record
from tests.io.models.write import inputs, rows

ARCHIVES = sorted((Path(__file__).parent / "models").glob("*.zip"))
FILES = [
    pytest.param(archive, name.removesuffix(".phimap"), id=f"{archive.stem}-{name.removesuffix('.phimap')}")
    for archive in ARCHIVES
    for name in zipfile.ZipFile(archive).namelist()
    if name.endswith(".phimap")
]


@pytest.mark.parametrize(("archive", "name"), FILES)
def test_old_model_gives_what_it_gave(archive, name, tmp_path):
    with zipfile.ZipFile(archive) as members:
        (tmp_path / "model").write_bytes(members.read(f"{name}.phimap"))
        expected = np.load(io.BytesIO(members.read(f"{name}.npy")), allow_pickle=False)
    model = pm.load(tmp_path / "model")
    if name.startswith("classifier"):
        result = model.decision_function(inputs(name))
    else:
        result = (model.predict if name.startswith("regressor") else model.transform)(inputs(name))
    assert (result.shape, result.dtype) == (expected.shape, expected.dtype)
    # Equal to the bit on one processor; products of float32 sum in another order on another.
    tolerance = 64 * np.finfo(np.float32).eps
    np.testing.assert_allclose(result, expected, rtol=tolerance, atol=tolerance * np.abs(expected).max())


@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda archive: archive.stem)
@pytest.mark.parametrize("name", ["regressor-primal", "regressor-dual", "regressor-packed", "classifier-primal"])
def test_old_model_goes_on(archive, name, tmp_path):
    with zipfile.ZipFile(archive) as members:
        (tmp_path / "model").write_bytes(members.read(f"{name}.phimap"))
    model = pm.load(tmp_path / "model")
    X, y = rows()
    model.partial_fit(X + 0.5, model.classes_[(y > 0).astype(int)] if name.startswith("classifier") else y)
    assert model.n_samples_seen_ == 2 * len(X)
    assert model.predict(X).shape == y.shape


def test_old_corrections_have_a_single_partition(rng):
    X = rng.uniform(-1, 1, (40, 2))
    partition = Partition.of_rows(X, 4)
    regions = partition.assign(X)
    order, ends = np.argsort(regions, kind="stable"), np.cumsum(np.bincount(regions))
    coefs, none = rng.standard_normal((40, 1)), np.zeros((0, 1))
    held = {
        "partition": partition,
        "kernel": pm.kernels.Gaussian(),
        "root": None,
        "scale": 1.0,
        "rows": X[order],
        "coefs": coefs[order],
        "ends": ends,
        "keys": none[:, 0],
        "errors": none,
        "reach": 1.0,
    }
    name, values = current_record("Corrections", held)
    record = Record.registry[name](**values)
    check_record(record)
    nearby = regions[:, None] == regions
    np.testing.assert_allclose(record.outputs(X, 1), (pm.kernels.Gaussian()(X) * nearby) @ coefs)


def test_old_classifiers_have_probabilities_once_they_are_solved_anew(tmp_path):
    with zipfile.ZipFile(ARCHIVES[0]) as members:
        members.extractall(tmp_path, ["classifier.phimap", "classifier-primal.phimap"])
    solved, unsolved = (pm.load(tmp_path / f"{name}.phimap") for name in ("classifier", "classifier-primal"))
    X, _ = rows()
    with pytest.raises(ValueError, match=r"probabilities need scores of rows .* Fit it again with this version"):
        solved.predict_proba(X)
    np.testing.assert_allclose(unsolved.predict_proba(X).sum(axis=1), 1.0, atol=1e-6)
