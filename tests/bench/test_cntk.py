"""The convolutional experiments on a small set of images."""

from io import BytesIO

import numpy as np
import pytest

from phimap._progress import Stages
from phimap.bench import cntk, images, network
from phimap.bench.options import BenchOptions
from phimap.io import DataError
from tests.support.rows import rows


@pytest.fixture
def folder(tmp_path):
    """Bars across or down images of bytes: what windows tell and pixels do not."""
    rng = np.random.default_rng(0)
    parts = {}
    for part, n in (("train", 80), ("test", 40)):
        X, y = rng.integers(0, 60, size=(n, 8, 8)).astype(np.uint8), rng.integers(2, size=n)
        for image, label, place in zip(X, y, rng.integers(8, size=n), strict=True):
            image[(place, slice(None)) if label else (slice(None), place)] += 150
        parts |= {f"X_{part}": X, f"y_{part}": y}
    np.savez(tmp_path / "mnist.npz", **parts)
    return tmp_path


def test_every_method_is_fitted_and_tabled(folder):
    options = BenchOptions(
        "cntk-mnist", data=folder, widths=[256], rows=80, methods=["sketch", "gradient", "exact"], quiet=True
    )
    found = cntk.report(options, Stages())
    accuracies = {row.method: row.accuracy for row in rows(found.measurements)}
    assert set(accuracies) == {"sketch", "gradient", "exact"}
    assert accuracies["sketch"] > 80
    assert accuracies["exact"] > 80
    (table,) = found.tables
    assert [line[0] for line in table.lines] == ["exact", "sketch", "gradient"]
    assert table.columns[-1] == "unlike exact (%)"
    apart = {row.method: row.disagreement for row in rows(found.measurements)}
    assert np.isnan(apart["exact"])
    # Labels that differ are at least as many as those that one of both misses more.
    assert accuracies["exact"] - apart["sketch"] <= accuracies["sketch"] <= accuracies["exact"] + apart["sketch"]


def test_gradient_features_are_about_as_many():
    for width in (1024, 4096, 16384):
        assert abs(cntk.feature_map("gradient", 3, width, 0).output_width(0) / width - 1) < 0.15


def jpeg_file(path, *, n):
    """Images of one colour a class as JPEG, sorted by class as the real file is."""
    from PIL import Image

    parts, labels, split = [], np.repeat([0, 1], n), np.tile([0] * (n - 2) + [1] * 2, 2)
    for label in labels:
        stream = BytesIO()
        Image.new("RGB", (8, 8), (250, 5, 5) if label else (5, 5, 250)).save(stream, format="JPEG")
        parts.append(np.frombuffer(stream.getvalue(), np.uint8))
    offsets = np.cumsum([0, *map(len, parts)])
    arrays = {"jpeg": np.concatenate(parts), "offsets": offsets, "label": labels, "split": split}
    np.savez(path, **arrays)


def test_cifar10_is_read_from_the_best_file_that_is_there(tmp_path):
    with pytest.raises(DataError, match=r"cifar10_full\.npz or cifar10_jpeg\.npz or cifar10\.npz"):
        images.load_cifar10(tmp_path, 4, 4)
    jpeg_file(tmp_path / "cifar10_jpeg.npz", n=8)
    lossy = images.load_cifar10(tmp_path, 8, 4)
    assert lossy.origin == "CIFAR-10 as lossy JPEG"
    assert lossy.X.shape == (8, 8, 8, 3)
    # Rows of both classes, and red where the label says so.
    assert set(lossy.y) == {0, 1}
    assert ((lossy.X[:, 0, 0, 0] > lossy.X[:, 0, 0, 2]) == (lossy.y == 1)).all()
    assert len(lossy.X_test) == 4
    X = np.random.default_rng(0).integers(0, 256, size=(6, 4, 4, 3)).astype(np.uint8)
    np.savez(tmp_path / "cifar10_full.npz", X_train=X, y_train=np.arange(6), X_test=X, y_test=np.arange(6))
    full = images.load_cifar10(tmp_path, 5, 6)
    assert full.origin == "CIFAR-10, lossless"
    np.testing.assert_array_equal(full.y, np.arange(5))
    np.testing.assert_allclose(full.X.mean(axis=(0, 1, 2)), 0, atol=1e-5)


def test_cifar10_stands_beside_the_table(tmp_path):
    rng = np.random.default_rng(0)
    arrays = {f"X_{part}": rng.integers(0, 256, size=(20, 4, 4, 3)).astype(np.uint8) for part in ("train", "test")}
    arrays |= {f"y_{part}": rng.integers(2, size=20) for part in ("train", "test")}
    np.savez(tmp_path / "cifar10_full.npz", **arrays)
    options = BenchOptions("cntk-cifar10", data=tmp_path, widths=[64], quiet=True)
    found = cntk.report(options, Stages())
    sketch, gradient = found.findings
    assert sketch.place == "Table 1 and Figure 2b, CNTKSketch, m = 64"
    assert sketch.published == "-"
    assert gradient.published == "62.49, 300 (9,328 features)"
    assert sketch.size == "20 training and 20 test images, CIFAR-10, lossless"
    assert sketch.published_size == "50,000 training and 10,000 test images"
    found.figures["cntk-cifar10.png"](tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")


def test_the_network_learns_what_windows_tell(folder):
    pytest.importorskip("torch")
    data = images.load_images(folder / "mnist.npz", 80, 40)
    asked = {"depth": 2, "filter_size": 3, "seed": 0, "channels": 16}
    labels = network.network_labels(data.X, data.y, data.X_test, **asked)
    assert (labels == data.y_test).mean() > 0.8
    np.testing.assert_array_equal(labels, network.network_labels(data.X, data.y, data.X_test, **asked))


def test_the_network_asks_for_torch(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    X = np.zeros((2, 4, 4, 1), np.float32)
    with pytest.raises(ImportError, match=r"method cnn needs PyTorch.*pip install torch"):
        network.network_labels(X, np.arange(2), X, depth=2, filter_size=3, seed=0)
