"""Feather and Arrow files, read in the batches in which they were written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from phimap.io.archive import explained_damage
from phimap.io.column_file import TypedFile
from phimap.io.source import TableSource


class ArrowColumns(TypedFile):
    """Columns of a Feather file (version 2), or of an Arrow file or stream."""

    kind = "Feather (version 2) or Arrow"

    def __init__(self, source: TableSource) -> None:
        self._path = source.path
        with explained_damage(source.where, self.kind, pa.ArrowException), self._opened() as reader:
            schema = reader.schema
            counted = isinstance(reader, pa.RecordBatchFileReader)
            n_rows = sum(reader.get_batch(i).num_rows for i in range(reader.num_record_batches)) if counted else None
        super().__init__(source.where, schema, n_rows)

    def _read(self, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        with self._opened(columns) as reader:
            if isinstance(reader, pa.RecordBatchFileReader):
                batches = (reader.get_batch(i) for i in range(reader.num_record_batches))
            else:
                batches = iter(reader)
            for batch in batches:
                for start in range(0, batch.num_rows, rows):
                    yield batch.slice(start, rows).select(list(columns))

    @contextmanager
    def _opened(self, columns: Sequence[str] | None = None) -> Iterator[Any]:
        """A reader of the chosen columns of the file or stream."""
        with pa.memory_map(str(self._path)) as stored:
            try:
                reader = pa.ipc.open_file(stored)
            except pa.ArrowInvalid:
                stored.seek(0)
                reader = pa.ipc.open_stream(stored)
            if columns is not None and isinstance(reader, pa.RecordBatchFileReader):
                # Columns that were not chosen are not decompressed.
                wanted = [reader.schema.get_field_index(name) for name in columns]
                reader = pa.ipc.open_file(stored, options=pa.ipc.IpcReadOptions(included_fields=sorted(wanted)))
            yield reader
