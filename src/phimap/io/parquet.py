"""Parquet files, decoded by pyarrow row group by row group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
from pyarrow import parquet

from phimap._files import DataError, one_line
from phimap.io.column_file import TypedFile
from phimap.io.source import Source

# What a damaged file raises: Arrow's own errors, and those of the description that pandas leaves in it.
_DAMAGES = (
    pa.ArrowException,
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    OSError,
    RecursionError,
    TypeError,
    ValueError,
)
# Column chunks are read through a buffer of this size instead of whole.
_BUFFER_BYTES = 2**20


class ParquetColumns(TypedFile):
    """Columns of a Parquet file."""

    def __init__(self, source: Source) -> None:
        self._path = source.path
        with _explained(source.where), parquet.ParquetFile(source.path) as file:
            schema, n_rows = file.schema_arrow, file.metadata.num_rows
            described, names = schema.pandas_metadata or {}, schema.names
            index = [name for name in described.get("index_columns", ()) if name in names]
        super().__init__(source.where, schema, n_rows, index)

    def _read(self, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        with (
            _explained(self.where),
            parquet.ParquetFile(self._path, buffer_size=_BUFFER_BYTES, pre_buffer=False) as file,
        ):
            yield from file.iter_batches(batch_size=rows, columns=list(columns))


@contextmanager
def _explained(where: str) -> Iterator[None]:
    try:
        yield
    except _DAMAGES as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{where}: damaged or no Parquet file ({one_line(error)}). Write it again.") from None
