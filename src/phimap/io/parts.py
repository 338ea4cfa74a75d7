"""Several files of columns as one table, one after the other."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa

from phimap._files import DataError, NoRowsError
from phimap.io.arrow import in_words, is_numeric, is_text
from phimap.io.column_file import ColumnFile
from phimap.io.skipped import Skipped

# Hive and Spark give this name to a folder of rows whose value is missing.
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
_WHOLE = re.compile(r"-?\d{1,18}")


class Parts(ColumnFile):
    """The columns of several files of one format as one table.

    The files have the same columns, in any order. Where numbers have several types the table has one that holds them
    all; a type that no other file has, such as text among numbers, is refused, but in text files, where it makes the
    column text. Folders that are named ``key=value`` are a column more. Files without rows are passed over.

    Parameters
    ----------
    where : str
    folder : Path
        What the files are named relative to.
    files : sequence of Path
        Sorted: the rows of the table are in this order.
    opened : callable
        ``opened(file)`` gives the columns of one file.
    """

    def __init__(self, where: str, folder: Path, files: Sequence[Path], opened: Callable[[Path], ColumnFile]) -> None:
        self._names: list[str] = []
        self._parts: list[ColumnFile] = []
        n_empty = 0
        for file in files:
            try:
                self._parts.append(opened(file))
            except NoRowsError:
                n_empty += 1
                continue
            self._names.append(file.relative_to(folder).as_posix())
        if not self._parts:
            raise NoRowsError(f"{where}: there are no rows in {n_empty} files. Check them.")
        self._empty = n_empty
        self._told = _told_by_folders(where, self._names, self._parts[0].schema.names)
        self._kinds: dict[str, pa.DataType] = {}
        # Rows of the table before each part, as far as passes have come.
        self._first: list[int] = []
        counts = [part.n_rows for part in self._parts]
        schema = pa.schema([*self._joint([part.schema for part in self._parts]), *self._told_schema()])
        n_rows = sum(n for n in counts if n is not None) if None not in counts else None
        super().__init__(where, schema, n_rows, self._parts[0].hidden)

    @property
    def parts(self) -> Sequence[ColumnFile]:
        return self._parts

    @property
    def notes(self) -> list[str]:
        passed = [f"{self._empty} without rows passed over"] if self._empty else []
        each = dict.fromkeys(note for part in self._parts for note in part.notes)
        return [f"{len(self._parts)} files in the order of their names", *passed, *each]

    def row_name(self, number: int) -> str:
        place = max(bisect_right(self._first, number - 1) - 1, 0)
        return f"{self._parts[place].row_name(number - self._first[place])} of {self._names[place]}"

    def settle(self, columns: Sequence[str], kinds: Mapping[str, str], target: str | None) -> pa.Schema:
        inner = [name for name in columns if name not in self._told]
        schemas = [part.settle(inner, kinds, target) for part in self._parts]
        joint = self._joint(schemas)
        for part, schema in zip(self._parts, schemas, strict=True):
            pairs = zip(inner, joint.types, schema.types, strict=True)
            part.read_as({name: kind for name, kind, own in pairs if kind != own})
        every = {field.name: field.type for field in [*joint, *self._told_schema()]}
        self._kinds = {name: every[name] for name in columns}
        return pa.schema([*self._kinds.items()])

    def read_as(self, types: Mapping[str, pa.DataType]) -> None:
        self._kinds = dict(types)
        for part in self._parts:
            part.read_as({name: kind for name, kind in types.items() if name not in self._told})

    def blocks(self, columns: Sequence[str], rows: int, skipped: Skipped) -> Iterator[pa.RecordBatch]:
        inner = [name for name in columns if name not in self._told]
        stored = dict(zip(self.schema.names, self.schema.types, strict=True)) | self._kinds
        kinds = {name: stored[name] for name in columns}
        first = 0
        for place, part in enumerate(self._parts):
            if place == len(self._first):
                self._first.append(first)
            log = _Shifted(skipped, first)
            # Where all columns are told by folders, one of the file still tells the number of rows.
            for block in part.blocks(inner or part.schema.names[:1], rows, log):
                first += block.num_rows
                yield pa.RecordBatch.from_pydict(
                    {
                        name: self._told_cells(name, place, block.num_rows).cast(kind)
                        if name in self._told
                        else _as_kind(block.column(name), kind)
                        for name, kind in kinds.items()
                    }
                )
            first += log.n_ragged

    def _joint(self, schemas: Sequence[pa.Schema]) -> pa.Schema:
        """One schema for the files, whose columns have `schemas`; they must agree."""
        names, kinds = schemas[0].names, dict(zip(schemas[0].names, schemas[0].types, strict=True))
        # The file that each type is from.
        sources = dict.fromkeys(names, self._parts[0].where)
        for part, schema in zip(self._parts[1:], schemas[1:], strict=True):
            if schema == schemas[0]:
                continue
            own, first = set(schema.names), self._parts[0].where
            remedy = "Write all files with the same columns, or name those that belong together by a pattern."
            if (name := next((name for name in names if name not in own), None)) is not None:
                raise DataError(f"{part.where}: lacks the column {name!r} of {first}. {remedy}")
            if (name := next((name for name in schema.names if name not in kinds), None)) is not None:
                raise DataError(f"{part.where}: has a column {name!r}, which {first} lacks. {remedy}")
            for name, kind in zip(schema.names, schema.types, strict=True):
                joint = _joint_kind(kinds[name], kind, looked_at=part.types_by_look)
                if joint is None:
                    raise DataError(
                        f"{part.where}: column {name!r} holds {in_words(kind)} ({kind}), in {sources[name]} "
                        f"{in_words(kinds[name])} ({kinds[name]}). Write the column with one type."
                    )
                if pa.types.is_null(kinds[name]) and not pa.types.is_null(joint):
                    sources[name] = part.where
                kinds[name] = joint
        # Names that occur twice are refused by whoever selects columns.
        return pa.schema([(name, kinds[name]) for name in names])

    def _told_schema(self) -> pa.Schema:
        """Types of the columns that folders tell: whole numbers, or text."""
        return pa.schema([(name, self._told_cells(name, 0, 0).type) for name in self._told])

    def _told_cells(self, name: str, place: int, n: int) -> pa.Array:
        values = self._told[name]
        whole = all(value is None or _WHOLE.fullmatch(value) for value in values)
        value = values[place]
        if whole:
            return pa.array([None if value is None else int(value)] * n, pa.int64())
        return pa.array([value] * n, pa.string())


class _Shifted(Skipped):
    """What a part leaves out, told to the log of the table with the numbers that the rows have there."""

    def __init__(self, whole: Skipped, first: int) -> None:
        super().__init__()
        self._whole, self._first_row = whole, first
        self.n_ragged = 0

    def ragged(self, number: int) -> None:
        self.n_ragged += 1
        self._whole.ragged(self._first_row + number)


def _told_by_folders(where: str, names: Sequence[str], columns: Sequence[str]) -> dict[str, list[str | None]]:
    """Values that folders named ``key=value`` tell of each file, by key; columns of the files come first."""
    told: dict[str, list[str | None]] = {}
    each = [dict(part.split("=", 1) for part in name.split("/")[:-1] if part.find("=") > 0) for name in names]
    for name, values in zip(names, each, strict=True):
        if values.keys() != each[0].keys():
            raise DataError(
                f"{where}: {name} lies in folders that tell {sorted(values) or 'no column'}, {names[0]} in such that "
                f"tell {sorted(each[0]) or 'no column'}. Give all files the same levels of folders."
            )
    for key in each[0]:
        if key not in columns:
            told[key] = [None if values[key] == _NO_VALUE else unquote(values[key]) for values in each]
    return told


def _joint_kind(one: pa.DataType, other: pa.DataType, *, looked_at: bool) -> pa.DataType | None:
    """A type that holds the cells of both; None where there is none.

    Of text files, whose types are `looked_at`, text holds everything.
    """
    types = pa.types
    if one == other or types.is_null(other):
        return one
    if types.is_null(one):
        return other
    plain = [kind.value_type if types.is_dictionary(kind) else kind for kind in (one, other)]
    if types.is_dictionary(one) or types.is_dictionary(other):
        values = _joint_kind(*plain, looked_at=looked_at)
        return None if values is None else pa.dictionary(pa.int32(), values)
    if all(is_text(kind) for kind in plain):
        return pa.string()
    if all(is_numeric(kind) and not types.is_boolean(kind) for kind in plain):
        if all(types.is_integer(kind) for kind in plain) and not any(types.is_uint64(kind) for kind in plain):
            return pa.int64()
        return pa.float64()
    return pa.string() if looked_at else None


def _as_kind(cells: pa.Array, kind: pa.DataType) -> pa.Array:
    """`cells` in a type that holds them."""
    if cells.type == kind:
        return cells
    if not pa.types.is_dictionary(kind):
        return cells.cast(kind, safe=False)
    plain = cells.dictionary_decode() if pa.types.is_dictionary(cells.type) else cells
    return plain.cast(kind.value_type, safe=False).dictionary_encode()
