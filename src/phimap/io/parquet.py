"""Parquet files, decoded by pyarrow row group by row group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyarrow import parquet

from phimap._files import OverBudgetError
from phimap.config import memory_budget, size_text
from phimap.io.archive import explained_damage
from phimap.io.column_file import TypedFile
from phimap.io.source import TableSource

# Column chunks are read through buffers. These are the number of bytes of all buffers together, and the largest and the
# smallest number of bytes of a buffer.
_BUFFERS_BYTES, _LARGEST_BUFFER, _SMALLEST_BUFFER = 2**25, 2**20, 2**13
# Number of bytes at which writers end a page. For each column, memory holds one compressed page, the same page decoded,
# and the dictionary of the column.
_PAGE_BYTES = 2**20
# Share of the byte budget that pages may take; the rest is for the decoded rows.
_SHARE = 0.8


class ParquetColumns(TypedFile):
    """Columns of a Parquet file."""

    kind = "Parquet"

    def __init__(self, source: TableSource) -> None:
        self._path = source.path
        with explained_damage(source.where, self.kind, pa.ArrowException), parquet.ParquetFile(source.path) as file:
            schema, n_rows = file.schema_arrow, file.metadata.num_rows
        super().__init__(source.where, schema, n_rows)

    def _read(self, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        self._require_memory(columns)
        buffer = min(_LARGEST_BUFFER, max(_SMALLEST_BUFFER, _BUFFERS_BYTES // len(columns)))
        with parquet.ParquetFile(self._path, buffer_size=buffer, pre_buffer=False) as file:
            # Arrow's own threads would compete with the solver for cores, and would increase the time by half.
            yield from file.iter_batches(batch_size=rows, columns=list(columns), use_threads=False)

    def _require_memory(self, columns: Sequence[str]) -> None:
        """Raise if the pages of `columns` exceed the byte budget. A block of rows needs a page of each column."""
        # Such a small number of pages always fits the budget, so the file is not inspected.
        if len(columns) * _PAGE_BYTES <= memory_budget() // 8:
            return
        with parquet.ParquetFile(self._path) as file:
            metadata, wanted, largest = file.metadata, set(columns), 0
            for group in map(metadata.row_group, range(metadata.num_row_groups)):
                chunks = [group.column(j) for j in range(group.num_columns)]
                chunks = [chunk for chunk in chunks if chunk.path_in_schema.partition(".")[0] in wanted]
                pages = sum(
                    min(chunk.total_uncompressed_size, 2 * _PAGE_BYTES) + min(chunk.total_compressed_size, _PAGE_BYTES)
                    for chunk in chunks
                )
                largest = max(largest, pages)
        if largest > _SHARE * memory_budget():
            raise OverBudgetError(
                f"{self.where}: pages of {len(columns)} columns take {size_text(largest)} while rows are read, too "
                f"much for the budget of {size_text(memory_budget())}. Raise it (--memory, "
                "phimap.config(memory=...)), or write smaller row groups (row_group_size=...)."
            )
