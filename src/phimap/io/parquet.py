"""Parquet files, decoded by pyarrow row group by row group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
from pyarrow import parquet

from phimap._files import DataError, one_line
from phimap.io.column_file import TypedFile
from phimap.io.source import Source

# Column chunks are read through buffers instead of whole: of this size together, but none is larger or smaller than.
_BUFFERS_BYTES, _LARGEST_BUFFER, _SMALLEST_BUFFER = 2**25, 2**20, 2**13


class ParquetColumns(TypedFile):
    """Columns of a Parquet file."""

    def __init__(self, source: Source) -> None:
        self._path = source.path
        with _explained(source.where), parquet.ParquetFile(source.path) as file:
            schema, n_rows = file.schema_arrow, file.metadata.num_rows
        index = [name for name in (schema.pandas_metadata or {}).get("index_columns", ()) if isinstance(name, str)]
        super().__init__(source.where, schema, n_rows, index)

    def _read(self, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        buffer = min(_LARGEST_BUFFER, max(_SMALLEST_BUFFER, _BUFFERS_BYTES // len(columns)))
        with _explained(self.where), parquet.ParquetFile(self._path, buffer_size=buffer, pre_buffer=False) as file:
            # Arrow's own threads would take half as much time again of the cores that the solver works on.
            yield from file.iter_batches(batch_size=rows, columns=list(columns), use_threads=False)


@contextmanager
def _explained(where: str) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{where}: damaged or no Parquet file ({one_line(error)}). Write it again.") from None
