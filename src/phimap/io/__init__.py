"""Readers of data files, out of core, and the format of model files."""

from __future__ import annotations

from phimap._files import DataError
from phimap.io.readers import open_table
from phimap.io.split import holdout_mask
from phimap.io.table import Table

__all__ = ["DataError", "Table", "holdout_mask", "open_table"]
