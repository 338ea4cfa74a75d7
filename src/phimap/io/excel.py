"""Excel workbooks of one sheet, whose first row names the columns. A whole file is loaded, within the byte budget."""

from __future__ import annotations

import zipfile
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from phimap._files import DataError
from phimap.config import memory_budget
from phimap.io.archive import explained_damage
from phimap.io.whole_file import WholeFile, column_of

# The Python objects in memory take `_EXPANSION` times the bytes of the unpacked file. A cell takes `_BYTES_A_CELL`
# bytes.
_EXPANSION, _BYTES_A_CELL = 12, 64
# Values of formulas that failed.
_ERRORS = {"#N/A", "#DIV/0!", "#NAME?", "#NULL!", "#NUM!", "#REF!", "#VALUE!"}


class SheetColumns(WholeFile):
    """Columns of the only sheet of a workbook.

    A formula gives the value that the file stores for it. If the formula failed or the file stores no value, the cell
    is missing. Dates and times become text in the form of ISO 8601. Rows without any value are left out.
    """

    kind = "Excel"

    @staticmethod
    def read_whole(where: str, path: Path) -> pa.Table:
        try:
            import openpyxl
        except ImportError as error:
            raise ImportError(
                f"{where}: Excel files need openpyxl. Install it (pip install openpyxl), or save the sheet as CSV."
            ) from error
        with explained_damage(where, SheetColumns.kind):
            _check_size(where, path)
            book = openpyxl.load_workbook(path, read_only=True, data_only=True)
            try:
                sheets = book.worksheets
                if len(sheets) != 1:
                    listed = ", ".join(repr(sheet.title) for sheet in sheets[:5])
                    raise DataError(f"{where}: holds {len(sheets)} sheets ({listed}), not one. Save one as a file.")
                return _columns(where, sheets[0])
            finally:
                book.close()


def _check_size(where: str, path: Path) -> None:
    """Raise if the unpacked file may not fit the byte budget."""
    with zipfile.ZipFile(path) as archive:
        size = sum(member.file_size for member in archive.infolist())
    if size * _EXPANSION > memory_budget():
        raise DataError(
            f"{where}: unpacks to {size} bytes, which take more than {memory_budget()} as cells. Save it as Parquet or "
            "CSV, or raise phimap.config(memory=...)."
        )


def _columns(where: str, sheet: Any) -> pa.Table:
    most, n_cells, rows = memory_budget() // _BYTES_A_CELL, 0, []
    for row in sheet.iter_rows(values_only=True):
        # The size includes all cells above and to the left of the last cell, because a sheet may have a single cell far
        # below and far to the right.
        n_cells += len(row) + 1
        if n_cells > most:
            raise DataError(f"{where}: has more than {most} cells. Save it as Parquet or CSV.")
        cells = [_value(cell) for cell in row]
        if any(cell is not None for cell in cells):
            rows.append(cells)
    if not rows:
        return pa.table({})
    width = max((n for row in rows for n, cell in enumerate(row, start=1) if cell is not None), default=0)
    names = ["" if name is None else str(name).strip() for name in (rows[0] + [None] * width)[:width]]
    columns = [[row[j] if j < len(row) else None for row in rows[1:]] for j in range(width)]
    return pa.table([column_of(column) for column in columns], names=names)


def _value(cell: Any) -> Any:
    """The value of a cell for a column: None if it is missing, and text for dates and times."""
    if isinstance(cell, datetime):
        return cell.date().isoformat() if cell.time() == time() else cell.isoformat(sep=" ")
    if isinstance(cell, date | time):
        return cell.isoformat()
    if isinstance(cell, timedelta):
        return str(cell)
    return None if isinstance(cell, str) and (not cell.strip() or cell in _ERRORS) else cell
