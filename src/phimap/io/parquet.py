"""Parquet files, decoded by pyarrow row group by row group."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from phimap._files import DataError, one_line
from phimap.io.arrow import check_types, to_arrays
from phimap.io.columns import select_columns
from phimap.io.source import Source
from phimap.io.table import Table

# Column chunks are read through a buffer of this size instead of whole, and decoded a few rows at a time.
_BUFFER_BYTES = 2**20
_DECODED_ROWS = 2**14
_DECODED_BYTES = 2**24


class ParquetTable(Table):
    """Rows of a Parquet file."""

    def __init__(self, source: Source) -> None:
        where = source.where
        with _explained(where), parquet.ParquetFile(source.path) as file:
            schema = file.schema_arrow
            n_rows = file.metadata.num_rows
        index = [name for name in (schema.pandas_metadata or {}).get("index_columns", ()) if isinstance(name, str)]
        selection = select_columns(where, schema.names, source.target, source.columns, source.drop, hidden=index)
        check_types(where, schema, selection)
        if n_rows == 0:
            raise DataError(f"{where}: there are no rows. Check the file.")
        self._selection = selection
        super().__init__(source, selection.features, selection.target_name, n_rows=n_rows)

    def _blocks(self, rows: int) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
        chosen = [*self._selection.features, *self._selection.targets]
        n_decoded = max(1, min(rows, _DECODED_ROWS, _DECODED_BYTES // (8 * len(chosen))))
        with (
            _explained(self._where),
            parquet.ParquetFile(self._source.path, buffer_size=_BUFFER_BYTES, pre_buffer=False) as file,
        ):
            for block in file.iter_batches(batch_size=n_decoded, columns=chosen):
                yield to_arrays(block, self._selection)


@contextmanager
def _explained(where: str) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{where}: damaged or no Parquet file ({one_line(error)}). Write it again.") from None
