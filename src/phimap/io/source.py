"""What is asked of a reader: the file, and which part of it in which form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from phimap._files import DataError
from phimap.io.skipped import BadRows

#: Kinds that a column may be said to be.
KINDS = ("number", "category", "date", "text", "drop")
#: Those whose values are words, whatever they look like.
LABELS = ("category", "text")


@dataclass(frozen=True)
class TableSource:
    """What was asked for: the arguments of `open_table`, checked."""

    path: Path
    member: str | None
    target: Any
    columns: Sequence[str | int] | None
    drop: Sequence[str | int] | None
    dtype: np.dtype | None = None
    batch_rows: int | None = None
    size: tuple[int, int] | None = None
    channels: int | None = None
    bad_rows: BadRows = field(default_factory=BadRows)
    types: Mapping[str, str] = field(default_factory=dict)
    #: Whether the file is one of several that are a table.
    is_part: bool = False

    @property
    def where(self) -> str:
        """The path as the user wrote it, for messages."""
        return f"{self.path}:{self.member}" if self.member else str(self.path)


def check_file(file: Path) -> None:
    """Raise unless `file` is an existing file."""
    if not file.exists():
        raise FileNotFoundError(f"{file}: no such file. Check the path.")
    if file.is_dir():
        raise DataError(f"{file}: is a directory. Give the path of a file in it.")
    if not file.is_file():
        raise DataError(f"{file}: is a pipe or a device, and files are read more than once. Save it to a file first.")


def positive_integer(name: str, value: Any) -> int:
    """`value` of the argument `name`, refused unless it is a positive integer."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"`{name}` must be a positive integer, got {value!r}. Use for example 4096.")
    return int(value)
