"""Tables as the output of a command: CSV on standard output, or a CSV or Parquet file that replaces only its kind."""

from __future__ import annotations

import csv
import io
import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import csv as arrow_csv
from pyarrow import parquet

from phimap._files import write_whole
from phimap.cli.outputs import check_replaceable, check_writable

# Endings of file names that are refused, because these formats are not written. The ending .parquet gives Parquet, and
# all other endings give CSV.
_NOT_WRITTEN = (
    ".feather",
    ".arrow",
    ".json",
    ".jsonl",
    ".ndjson",
    ".npy",
    ".npz",
    ".xlsx",
    ".xls",
    ".gz",
    ".bz2",
    ".zip",
)
# Largest length, in characters, of the first line of a CSV file in which names of columns are looked for.
_LONGEST_HEAD = 2**16


def check_table_output(
    path: Path | None, inputs: Sequence[str], has_our_columns: Callable[[list[str]], bool], kind: str, *, force: bool
) -> None:
    """Raise unless `write_table` can write to `path`, the value of ``--output``.

    Parameters
    ----------
    path : Path or None
        None is standard output.
    inputs : sequence of str
        Files that are never overwritten.
    has_our_columns : callable
        ``has_our_columns(names)``: whether a file with these columns is of the `kind` that is written.
    kind : str
        What is written, such as ``"table of predictions"``.
    force : bool
        Whether files of other kinds are replaced.
    """
    check_writable("--output", path, inputs)
    if path is not None and path.suffix.lower() in _NOT_WRITTEN:
        raise ValueError(f"--output must end in .csv or .parquet, got {path}. Choose another name.")
    if not force:
        check_replaceable("--output", path, lambda path: has_our_columns(_column_names(path)), kind)


def write_table(path: Path | None, batches: Iterator[pa.Table]) -> None:
    """Write the batches of a table to a file, or as CSV to standard output if `path` is None."""
    if path is None:
        _write_csv(sys.stdout.buffer, batches)
        sys.stdout.flush()
    else:
        write = _write_parquet if _is_parquet(path) else _write_csv
        write_whole(path, lambda file: write(file, batches))


def _write_csv(file: Any, batches: Iterator[pa.Table]) -> None:
    """Write tables as one CSV file."""
    for start, batch in enumerate(batches):
        if start == 0:
            head = io.StringIO()
            csv.writer(head, lineterminator="\n").writerow(batch.column_names)
            file.write(head.getvalue().encode())
        if batch.num_columns > 1 or not batch.column(0).null_count:
            file.write(_lines(batch))
            continue
        # In a table of one column, a missing value would be an empty line, which most readers skip. The value is
        # therefore quoted.
        missing = batch.column(0).is_null().to_numpy()
        for run in np.split(np.arange(len(missing)), np.flatnonzero(np.diff(missing)) + 1):
            file.write(b'""\n' * len(run) if missing[run[0]] else _lines(batch.slice(run[0], len(run))))


def _write_parquet(file: Any, batches: Iterator[pa.Table]) -> None:
    """Write tables as one Parquet file."""
    first = next(batches)
    with parquet.ParquetWriter(file, first.schema) as writer:
        for batch in itertools.chain([first], batches):
            writer.write_table(batch.cast(first.schema))


def _is_parquet(path: Path) -> bool:
    return path.suffix.lower() == ".parquet"


def _column_names(path: Path) -> list[str]:
    """Names of the columns of a file; empty unless the file is a table in a format of `write_table`."""
    try:
        if _is_parquet(path):
            return parquet.read_schema(path).names
        with path.open(encoding="utf-8", newline="") as file:
            return next(csv.reader([file.readline(_LONGEST_HEAD)]), [])
    except (OSError, ValueError, csv.Error, pa.ArrowException):
        return []


def _lines(batch: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    arrow_csv.write_csv(batch, sink, arrow_csv.WriteOptions(include_header=False, quoting_style="needed"))
    return sink.getvalue().to_pybytes()
