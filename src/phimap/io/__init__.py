"""Readers of data files, out of core, and the format of model files."""

from __future__ import annotations

from phimap._files import DataError
from phimap.io.split import holdout_mask
from phimap.io.table import Table, open_table

__all__ = ["DataError", "Table", "holdout_mask", "open_table"]
