"""The converter of data files, on small files in the layouts of their authors."""

from __future__ import annotations

import hashlib
import io
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest

from phimap.bench import uci


@pytest.fixture
def data_files(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    import data_files

    return data_files


def archive(path: Path, images: dict[str, np.ndarray], labels: dict[str, np.ndarray]) -> str:
    """An archive in the layout of the binary version; its MD5."""
    with tarfile.open(path, "w:gz") as files:
        for name, X in images.items():
            planes = np.moveaxis(X, -1, 1).reshape(len(X), -1)
            content = np.column_stack([labels[name], planes]).astype(np.uint8).tobytes()
            member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            member.size = len(content)
            files.addfile(member, io.BytesIO(content))
    return hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()


def test_the_official_archive_becomes_images(data_files, tmp_path, rng):
    names = [*data_files.CIFAR10_FILES["train"], *data_files.CIFAR10_FILES["test"]]
    images = {name: rng.integers(0, 256, size=(2, 32, 32, 3)) for name in names}
    labels = {name: rng.integers(10, size=2) for name in names}
    md5 = archive(tmp_path / "a.tar.gz", images, labels)
    found = data_files.from_cifar10(tmp_path / "a.tar.gz", md5)
    np.testing.assert_array_equal(found["X_train"], np.concatenate([images[name] for name in names[:5]]))
    np.testing.assert_array_equal(found["y_test"], labels["test_batch.bin"])
    assert found["X_test"].dtype == np.uint8
    with pytest.raises(ValueError, match="must be the official binary version, of MD5 c32a1d4"):
        data_files.from_cifar10(tmp_path / "a.tar.gz")


def test_an_archive_given_by_its_address_is_downloaded(data_files, tmp_path):
    (tmp_path / "there").mkdir()
    there, here = tmp_path / "there" / "a.tar.gz", tmp_path
    there.write_bytes(b"bytes")
    assert data_files.local(str(there), here) == there
    assert data_files.local(there.as_uri(), here) == here / "a.tar.gz"
    assert (here / "a.tar.gz").read_bytes() == b"bytes"


def test_a_large_set_is_made_as_the_papers_have_it(data_files, tmp_path, monkeypatch):
    (tmp_path / "table.csv").write_text("id,a,b,avg\n1,9,3,4.5\n2,9,3,4.5\n3,5,6,7.5\n4,5,,7.5\n")
    words = f"WorkLoads {tmp_path}/uci_large.npz --table {tmp_path}/table.csv --target avg --leave-out 0 --distinct"
    monkeypatch.setattr(sys, "argv", ["data_files.py", *words.split()])
    data_files.main()
    X, y = uci.load_regression("WorkLoads", tmp_path)
    assert X.shape == (2, 2)
    np.testing.assert_array_equal(y, [7.5, 4.5])
