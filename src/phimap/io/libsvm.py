"""Text in the format of libsvm, ``label index:value index:value ...``. Ranges of bytes are read as dense columns."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
from scipy import sparse
from sklearn.datasets import load_svmlight_file

from phimap._files import OverBudgetError
from phimap.config import memory_budget, size_text
from phimap.io.archive import explained_damage
from phimap.io.column_file import TypedFile
from phimap.io.columns import check_row
from phimap.io.source import TableSource

# Bytes of text that are parsed at a time, and ratio of the bytes of memory to the bytes of text.
_RANGE = 2**22
_EXPANSION = 8
_MOST_COLUMNS = 2**31 - 1
_LABEL = "label"
_NAME = re.compile(r"f(0|[1-9]\d{0,9})")


class LibsvmColumns(TypedFile):
    """Columns ``label`` and ``f1, f2, ...``, with ``f0`` if an index is 0; cells that a row omits are 0.

    The user may select columns above the largest index of the file, for example all columns of a model. They contain 0.
    """

    kind = "libsvm"

    def __init__(self, source: TableSource) -> None:
        self._path, self._where = source.path, source.where
        _check_lines(source)
        low, high, n_rows, whole = 1, 0, 0, True
        with explained_damage(source.where, self.kind):
            for X, y in self._ranges():
                n_rows += len(y)
                whole &= bool((y == np.rint(y)).all())
                if X.nnz:
                    low, high = min(low, int(X.indices.min())), max(high, X.shape[1] - 1)
        asked = [int(found[1]) for name in source.columns or () if (found := _NAME.fullmatch(str(name)))]
        low, high = min([low, *asked]), max([high, *asked])
        check_row(source.where, high - low + 1, 8, "renumber the columns")
        fields = [(_LABEL, pa.int64() if whole else pa.float64())]
        fields += [(f"f{j}", pa.float64()) for j in range(low, high + 1)]
        super().__init__(source.where, pa.schema(fields), n_rows, (_LABEL,))

    def _read(self, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        schema = pa.schema([self.schema.field(name) for name in columns])
        places = np.array([int(name[1:]) for name in columns if name != _LABEL], dtype=np.intp)
        for X, y in self._ranges():
            for start in range(0, len(y), rows):
                dense = iter(_columns(X[start : start + rows], places))
                labels = y[start : start + rows]
                cells = (pa.array(labels if name == _LABEL else next(dense)) for name in columns)
                yield pa.record_batch(
                    [one.cast(field.type) for one, field in zip(cells, schema, strict=True)], schema=schema
                )

    def _ranges(self) -> Iterator[tuple[Any, np.ndarray]]:
        """Yield the rows (CSR) and labels of each range of the file; columns are counted from 0."""
        size = self._path.stat().st_size
        with open(self._path, "rb") as stream:
            for start in range(0, size, _RANGE):
                X, y = _parsed(stream, start)
                if len(y):
                    yield X, y


def _parsed(stream: BinaryIO, start: int) -> tuple[Any, np.ndarray]:
    """Return the rows (CSR) and labels of the lines that begin in the range at byte `start`."""
    given: dict[str, Any] = {"zero_based": True, "n_features": _MOST_COLUMNS, "offset": start, "length": _RANGE}
    X, y = load_svmlight_file(stream, dtype=np.float64, **given)
    width = int(X.indices.max()) + 1 if X.nnz else 0
    return sparse.csr_matrix((X.data, X.indices, X.indptr), shape=(len(y), width)), y


def _columns(X: Any, places: np.ndarray) -> np.ndarray:
    """The columns `places` (k,) of `X` (r, d), as the rows of an array (k, r); columns beyond d are 0."""
    out = np.zeros((places.size, X.shape[0]))
    there = places < X.shape[1]
    out[there] = X[:, places[there]].T.toarray()
    return out


def _check_lines(source: TableSource) -> None:
    """Raise if a line is too long for the byte budget, before the whole line is read."""
    limit = memory_budget() // _EXPANSION
    length = 0
    with open(source.path, "rb") as stream:
        while block := stream.read(_RANGE):
            first, last = block.find(b"\n"), block.rfind(b"\n")
            # Lines that lie within one block are short enough.
            if length + (len(block) if first < 0 else first) > limit:
                raise OverBudgetError(
                    f"{source.where}: has a line of more than {size_text(limit)}. Check the file, or raise "
                    "phimap.config(memory=...)."
                )
            length = length + len(block) if first < 0 else len(block) - 1 - last
