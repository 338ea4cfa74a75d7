"""Measurements of an experiment as records: `row.error` reads better than `row["error"]`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd


def rows(measurements: Iterable[Mapping[str, Any]]) -> list[Any]:
    """The measurements, taken one by one, with their columns as attributes."""
    return list(pd.DataFrame(measurements).itertuples(index=False))
