"""Readers of data files, which hold only a bounded part of a file in memory, and the format of model files.

`open_table` gives batches of numbers, `open_frame` gives columns as stored, and `open_rows` chooses between them by the
schema. Each format has its own module and a line in `formats.py`. Model files hold arrays and descriptions, but no
code: start with `model.py`.
"""

from __future__ import annotations

from phimap._files import DataError
from phimap.io.readers import open_frame, open_rows, open_table, read_through
from phimap.io.rows import Rows, Table
from phimap.io.skipped import BadRows
from phimap.io.split import ProportionalHoldout, holdout_mask

__all__ = [
    "BadRows",
    "DataError",
    "ProportionalHoldout",
    "Rows",
    "Table",
    "holdout_mask",
    "open_frame",
    "open_rows",
    "open_table",
    "read_through",
]
