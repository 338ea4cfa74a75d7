"""The checked arguments of a reader."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from phimap._files import DataError, check_data_exists
from phimap.io.skipped import BadRows

#: Kinds that a user may give to a column.
KINDS = ("number", "category", "date", "text", "drop")
#: Kinds of columns whose cells are read as text.
LABELS = ("category", "text")


@dataclass(frozen=True)
class TableSource:
    """The checked arguments of `open_table` or `open_frame`."""

    path: Path
    member: str | None
    target: Any
    columns: Sequence[str | int] | None = None
    drop: Sequence[str | int] | None = None
    dtype: np.dtype | None = None
    batch_rows: int | None = None
    size: tuple[int, int] | None = None
    channels: int | None = None
    bad_rows: BadRows = field(default_factory=BadRows)
    types: Mapping[str, str] = field(default_factory=dict)
    #: Whether text in features that `types` calls numbers stays text. An encoder then parses it, and stores how.
    keeps_text: bool = False
    #: Whether columns of text files with digits that begin with a zero, such as zip codes, are text.
    keeps_codes: bool = False
    #: Whether the file is one of the parts of a table.
    is_part: bool = False

    @property
    def where(self) -> str:
        """The path as the user wrote it, for messages."""
        return f"{self.path}:{self.member}" if self.member else str(self.path)


def check_file(file: Path) -> None:
    """Raise unless `file` is an existing file."""
    check_data_exists(file)
    if file.is_dir():
        raise DataError(f"{file}: is a directory. Give the path of a file in it.")
    if not file.is_file():
        raise DataError(f"{file}: is a pipe or a device, and files are read more than once. Save it to a file first.")


def positive_integer(name: str, value: Any) -> int:
    """Return `value`; raise unless it is a positive integer. `name` is the name of the argument."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"`{name}` must be a positive integer, got {value!r}. Use for example 4096.")
    return int(value)
