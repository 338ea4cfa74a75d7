"""Model files: what was saved comes back, and nothing else does any harm."""

from __future__ import annotations

import errno
import json
import os
import resource

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file
from sklearn.base import clone
from sklearn.preprocessing import StandardScaler

import phimap as pm
from phimap._files import DataError
from phimap.io import model as model_files
from phimap.io.decoding import Decoder
from phimap.io.encoding import Encoder
from tests.support.learners import FIXED, GAUSSIAN


@pytest.fixture
def saved(tmp_path, rng):
    """A saved map, its file, and rows."""
    X = rng.standard_normal((30, 4))
    phi = pm.FourierFeatures(n_components=32, random_state=0).fit(X)
    path = tmp_path / "map.phimap"
    pm.save(phi, path)
    return phi, path, X


def forge(path, *, metadata=None, edit=lambda text: text):
    """Rewrite a model file with other metadata or another text, under a checksum that is right."""
    with safe_open(path, framework="numpy") as file:
        old = file.metadata()
        arrays = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    text = edit(old["model"])
    assert metadata or text != old["model"]
    new = old | {"model": text, "sha256": model_files.checksum(text, arrays)} | (metadata or {})
    save_file(arrays, path, new)


def fit_classifier(labels):
    X = np.random.default_rng(0).standard_normal((60, 3))
    y = labels[(X[:, 0] > 0).astype(int) + (X[:, 1] > 0.5)]
    return pm.KernelClassifier(n_components=16, alpha=0.1, random_state=0, **GAUSSIAN).fit(X, y), X


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["no", "yes", "peut-être"]),
        np.array(["no", "yes", "maybe"], dtype=object),
        np.array([3, -1, 2**40]),
        np.array([1, 2, 3], dtype=np.uint8),
        np.array([False, True, True]),
    ],
    ids=["text", "object", "int64", "uint8", "bool"],
)
def test_labels_come_back_in_their_dtype(labels, tmp_path):
    classifier, X = fit_classifier(labels)
    pm.save(classifier, tmp_path / "m")
    loaded = pm.load(tmp_path / "m")
    assert loaded.classes_.dtype == classifier.classes_.dtype
    np.testing.assert_array_equal(loaded.classes_, classifier.classes_)
    assert loaded.predict(X).dtype == classifier.predict(X).dtype
    np.testing.assert_array_equal(loaded.predict(X), classifier.predict(X))
    np.testing.assert_array_equal(loaded.decision_function(X), classifier.decision_function(X))


def test_statistics_are_kept_on_request(tmp_path, monkeypatch):
    monkeypatch.setattr("phimap.learn.ridge.solver.LEAVE_ONE_OUT_ROWS", 0)
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((300, 3)), rng.standard_normal(300)
    whole = pm.KernelRegressor(n_components=16, alpha=0.1, random_state=0, **GAUSSIAN)
    whole.partial_fit(X[:200], y[:200])
    pm.save(whole, tmp_path / "with", statistics=True)
    pm.save(whole, tmp_path / "without")
    assert (tmp_path / "with").stat().st_size > (tmp_path / "without").stat().st_size
    loaded = pm.load(tmp_path / "with")
    for model in (whole, loaded):
        model.partial_fit(X[200:], y[200:])
    np.testing.assert_array_equal(loaded.predict(X), whole.predict(X))


def test_packed_rows_are_kept_on_request(tmp_path, rng):
    X, y = rng.standard_normal((60, 3)), rng.standard_normal(60)
    whole = pm.KernelRegressor(pm.TernaryFeatures(n_components=70, packed=True), alpha=0.1, random_state=0, **FIXED)
    whole.fit(X[:40], y[:40])
    pm.save(whole, tmp_path / "m", statistics=True)
    loaded = pm.load(tmp_path / "m")
    for model in (whole, loaded):
        model.partial_fit(X[40:], y[40:])
    np.testing.assert_array_equal(loaded.predict(X), whole.predict(X))


def landmark_model(n_targets):
    """A model of landmarks with a scale of the errors, and rows; its targets have units."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, 4)).astype(np.float32)
    y = 3e5 * np.column_stack([np.sin(X[:, k]) for k in range(n_targets)]) + 1e4 * rng.standard_normal((500, n_targets))
    features = pm.NystroemFeatures(pm.kernels.Gaussian(3.0), 200)
    return pm.KernelRegressor(features, random_state=0, standardize=False).fit(X, y.squeeze()), X


@pytest.mark.parametrize("n_targets", [1, 2])
def test_a_file_holds_no_whitening_unless_asked(n_targets, tmp_path):
    model, X = landmark_model(n_targets)
    # Fewer landmarks than features are kept, so that the last coefficients belong to zeros.
    assert len(model.feature_map_.record_.whitening) < model.feature_map_.n_components
    pm.save(model, tmp_path / "small")
    pm.save(model, tmp_path / "whole", statistics=True)
    small, whole = pm.load(tmp_path / "small"), pm.load(tmp_path / "whole")
    assert (tmp_path / "small").stat().st_size < 50_000
    for loaded in (small, whole):
        for rows in (X[:50], X[:50].astype(np.float64)):
            np.testing.assert_array_equal(loaded.predict(rows), model.predict(rows))
            np.testing.assert_array_equal(loaded.predict_interval(rows), model.predict_interval(rows))
    np.testing.assert_array_equal(whole.feature_map_.transform(X), model.feature_map_.transform(X))
    np.testing.assert_array_equal(whole.coef_, model.coef_)
    with pytest.raises(ValueError, match=r"need their whitening, which the model file leaves out .*statistics=True"):
        small.feature_map_.transform(X)
    pm.save(small, tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "small").read_bytes()


def test_a_model_without_whitening_is_explained_exported_and_compressed(tmp_path):
    model, X = landmark_model(1)
    pm.save(model, tmp_path / "m")
    loaded = pm.load(tmp_path / "m")
    expected, found = (pm.explain.shapley_values(one, X[:4], background=X[:20]) for one in (model, loaded))
    assert expected.exact
    assert found.exact
    scale = np.abs(expected.values).max()
    np.testing.assert_allclose(found.values, expected.values, atol=1e-9 * scale)
    small, other = (pm.compress(one, 0.05, X=X, verbose=False) for one in (model, loaded))
    assert len(other.feature_map_.record_.landmarks) == len(small.feature_map_.record_.landmarks) < 200
    np.testing.assert_allclose(other.predict(X), small.predict(X), atol=1e-6 * np.abs(small.predict(X)).max())
    pm.export(loaded, tmp_path / "folder", format="numpy")


@pytest.mark.parametrize(
    ("numbers", "dtype"),
    [
        (np.arange(70_000, dtype=np.float32).astype(np.float64) / 3, np.float64),
        (np.append(np.ones(70_000), 1 / 3), np.float64),
        (np.float32([1 / 3, -0.0, 1e-45]).astype(np.float64), np.float32),
        (np.array([1e300]), np.float64),
        (np.array(0.5), np.float32),
    ],
    ids=["digits", "last", "exact", "large", "number"],
)
def test_numbers_that_float32_holds_are_stored_in_float32(numbers, dtype):
    arrays = {}
    tree = Encoder(arrays, ()).encode(numbers, "x")
    assert arrays["x"].dtype == dtype
    found = Decoder(arrays, 0).decode(tree)
    assert found.dtype == np.float64
    assert found.tobytes() == numbers.tobytes()


def test_numpy_scalars_stay_scalars(tmp_path, rng):
    X = rng.standard_normal((20, 3))
    model = pm.KernelRegressor(n_components=8, alpha=np.float32(0.5), random_state=np.int64(7), **GAUSSIAN).fit(
        X, X[:, 0]
    )
    pm.save(model, tmp_path / "m")
    loaded = pm.load(tmp_path / "m")
    assert (np.ndim(loaded.alpha), np.ndim(loaded.random_state)) == (0, 0)
    np.testing.assert_array_equal(clone(loaded).fit(X, X[:, 0]).predict(X), model.predict(X))


@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState])
def test_generators_are_stored_as_none(make, tmp_path, rng):
    X = rng.standard_normal((10, 3))
    phi = pm.FourierFeatures(n_components=8, random_state=make(3)).fit(X)
    pm.save(phi, tmp_path / "m")
    loaded = pm.load(tmp_path / "m")
    assert loaded.random_state is None
    np.testing.assert_array_equal(loaded.transform(X), phi.transform(X))


def test_seed_sequences_come_back(tmp_path):
    seed = np.random.SeedSequence(7, spawn_key=(2,))
    phi = pm.FourierFeatures(n_components=8, random_state=seed).fit(np.eye(3))
    pm.save(phi, tmp_path / "m")
    loaded = pm.load(tmp_path / "m")
    np.testing.assert_array_equal(loaded.fit(np.eye(3)).transform(np.eye(3)), phi.transform(np.eye(3)))


def test_no_pickle_in_the_bytes(saved):
    _, path, _ = saved
    content = path.read_bytes()
    # Every pickle since protocol 2 starts with 0x80 and its protocol, and names modules by one of these opcodes.
    assert b"pickle" not in content
    assert b"numpy.core" not in content
    assert b"numpy._core" not in content
    assert b"phimap.features" not in content
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    assert header["__metadata__"]["format"] == "phimap-model-1"
    stored = sum(entry["data_offsets"][1] - entry["data_offsets"][0] for k, entry in header.items() if k[0] != "_")
    assert 8 + length + stored == len(content)


@pytest.mark.parametrize("share", [0.0, 0.001, 0.1, 0.5, 0.9, 0.999])
def test_truncated_files_are_refused(saved, share):
    _, path, _ = saved
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(DataError, match=r"not a phimap model, or it is truncated.*Give a file written by save"):
        pm.load(path)


@pytest.mark.parametrize("where", [0.5, 0.7, 0.9, 1.0])
def test_flipped_bytes_are_found(saved, where):
    _, path, _ = saved
    content = bytearray(path.read_bytes())
    start = 8 + int.from_bytes(content[:8], "little")
    content[min(int(start + where * (len(content) - start)), len(content) - 1)] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(DataError, match=r"is damaged: its checksum does not match.*Save the model again"):
        pm.load(path)


def test_a_header_without_its_description_is_refused(saved):
    _, path, _ = saved
    path.write_bytes(path.read_bytes().replace(b'"model":', b'"modem":'))
    with pytest.raises(DataError, match=r"is damaged: it describes no model"):
        pm.load(path)


def test_flipped_bytes_anywhere_are_data_errors(saved, rng):
    """A flip in the header may break its syntax, its offsets or its meaning: never anything but a DataError."""
    phi, path, X = saved
    content = path.read_bytes()
    for position in rng.integers(len(content), size=150):
        broken = bytearray(content)
        broken[position] ^= 1 << int(rng.integers(8))
        path.write_bytes(bytes(broken))
        try:
            loaded = pm.load(path)
        except DataError:
            continue
        # What the checksum does not cover does not matter: the version in the metadata, spaces that pad the header.
        np.testing.assert_array_equal(loaded.transform(X), phi.transform(X))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a phimap model, or it is truncated"),
        (b"a,b\n1,2\n", "is a text file and no phimap model"),
        (b"\x80\x04K\x01." * 20, "not a phimap model, or it is truncated"),
    ],
    ids=["empty", "text", "pickle"],
)
def test_other_files_are_refused(tmp_path, content, message):
    path = tmp_path / "m"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        pm.load(path)


@pytest.mark.parametrize("metadata", [None, {"format": "pt"}])
def test_other_safetensors_files_are_refused(tmp_path, metadata):
    save_file({"weights": np.ones(3)}, tmp_path / "m", metadata)
    with pytest.raises(DataError, match="is a safetensors file but no phimap model"):
        pm.load(tmp_path / "m")


def test_newer_formats_are_refused(saved):
    forge(saved[1], metadata={"format": "phimap-model-2"})
    with pytest.raises(DataError, match=r"has format phimap-model-2, newer than this phimap\. Update phimap"):
        pm.load(saved[1])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"features.FourierFeatures"', '"features.BoostedFeatures"'),
        ('"features.FourierFeatures"', '"os.system"'),
        ('"features.FourierFeatures"', '"features.FeatureMap"'),
        ('"FourierRecord"', '"Popen"'),
        ('"n_components":', '"n_parts":'),
        ('"kind":"record"', '"kind":"call"'),
        ('"kind":"record"', '"nokind":"record"'),
        ('"shift"', '"shifts"'),
    ],
)
def test_unknown_names_are_refused_in_one_line(saved, old, new):
    _, path, _ = saved
    forge(path, edit=lambda text: text.replace(old, new))
    with pytest.raises(
        DataError, match=r"was written by phimap .* and cannot be read by .*Save the model again"
    ) as got:
        pm.load(path)
    assert "\n" not in str(got.value)


def test_forging_alone_changes_nothing(saved):
    # The control of the test above: the same road with a harmless change.
    phi, path, X = saved
    forge(path, edit=lambda text: text.replace(",", ", "))
    np.testing.assert_array_equal(pm.load(path).transform(X), phi.transform(X))


def test_missing_files_and_folders(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is no file .*nothing.phimap"):
        pm.load(tmp_path / "nothing.phimap")
    with pytest.raises(DataError, match=r"is a folder\. Give a model file"):
        pm.load(tmp_path)


def test_places_that_cannot_be_written(saved, tmp_path):
    phi, _, _ = saved
    with pytest.raises(IsADirectoryError, match=r"is a folder\. Give the name of a file"):
        pm.save(phi, tmp_path)
    with pytest.raises(FileNotFoundError, match=r"the folder .*absent` does not exist"):
        pm.save(phi, tmp_path / "absent" / "m")
    assert os.listdir(tmp_path) == ["map.phimap"]


def test_what_cannot_be_saved(tmp_path, rng):
    X = rng.standard_normal((10, 3))
    with pytest.raises(Exception, match="not fitted"):
        pm.save(pm.FourierFeatures(), tmp_path / "m")

    class Own(pm.kernels.Gaussian):
        pass

    with pytest.raises(TypeError, match=r"`model` must be a learner, a feature map or a sketch.*got StandardScaler"):
        pm.save(StandardScaler().fit(X), tmp_path / "m")
    phi = pm.FourierFeatures(Own(), 8, random_state=0).fit(X)
    with pytest.raises(TypeError, match=r"a model file cannot hold model.kernel=.*of type Own"):
        pm.save(phi, tmp_path / "m")
    assert not os.listdir(tmp_path)


def failing(monkeypatch, step, error):
    """Make one step of the writing fail."""

    def fail(*_):
        raise error

    monkeypatch.setattr(model_files.os, step, fail)


@pytest.mark.parametrize("step", ["fsync", "replace", "chmod"])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(saved, step, monkeypatch):
    phi, path, X = saved
    before = path.read_bytes()
    failing(monkeypatch, step, OSError(errno.ENOSPC, "No space left on device"))
    with pytest.raises(OSError, match=r"could not write .*No space left on device.*Nothing was changed there"):
        pm.save(phi.set_params(n_components=64).fit(X), path)
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_an_interrupt_leaves_the_old_file_and_nothing_else(saved, step, monkeypatch):
    phi, path, _ = saved
    before = path.read_bytes()
    failing(monkeypatch, step, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        pm.save(phi, path)
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


def test_a_full_disk_is_felt_while_writing(saved):
    _, path, X = saved
    before = path.read_bytes()
    large = pm.FourierFeatures(n_components=20_000, random_state=0).fit(X)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with pytest.raises(OSError, match=r"could not write .*Nothing was changed there"):
            pm.save(large, path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


def test_pipes_stay_pipes(saved, tmp_path):
    phi, path, X = saved
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    # Open for both, so that neither end waits for the other.
    end = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    try:
        pm.save(phi, pipe)
        path.write_bytes(os.read(end, 2**16))
    finally:
        os.close(end)
    np.testing.assert_array_equal(pm.load(path).transform(X), phi.transform(X))
    assert pipe.is_fifo()


def test_links_are_followed(saved, tmp_path):
    phi, path, _ = saved
    path.write_bytes(b"")
    (tmp_path / "link").symlink_to(path.name)
    pm.save(phi, tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert pm.load(path).n_components == phi.n_components


def test_names_may_be_as_long_as_the_system_takes(saved, tmp_path):
    pm.save(saved[0], tmp_path / ("x" * 255))
    assert (tmp_path / ("x" * 255)).is_file()


def test_saving_over_a_file_keeps_its_mode(saved):
    phi, path, _ = saved
    path.chmod(0o640)
    pm.save(phi, path)
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_new_file_has_the_mode_of_a_plainly_opened_one(saved, tmp_path):
    (tmp_path / "plain").write_bytes(b"")
    assert saved[1].stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_what_was_loaded_is_saved_with_the_same_checksum(saved, tmp_path):
    _, path, _ = saved
    pm.save(pm.load(path), tmp_path / "again")
    checksums = []
    for name in (path, tmp_path / "again"):
        with safe_open(name, framework="numpy") as file:
            checksums.append(file.metadata()["sha256"])
    assert checksums[0] == checksums[1]
