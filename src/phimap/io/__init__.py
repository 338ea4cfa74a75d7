"""Readers of data files, out of core, and the format of model files."""

from __future__ import annotations

from phimap._files import DataError
from phimap.io.columns import MixedTable
from phimap.io.readers import open_frame, open_table
from phimap.io.rows import Rows
from phimap.io.skipped import BadRows
from phimap.io.split import holdout_mask
from phimap.io.table import Table

__all__ = ["BadRows", "DataError", "MixedTable", "Rows", "Table", "holdout_mask", "open_frame", "open_table"]
