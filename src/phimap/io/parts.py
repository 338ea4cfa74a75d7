"""Several files of columns, read one after the other as one table."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
from pyarrow import dataset

from phimap._files import DataError, NoRowsError
from phimap.io.arrow import in_words, is_numeric, is_text, value_type
from phimap.io.column_file import ColumnFile
from phimap.io.skipped import Skipped


class Parts(ColumnFile):
    """Joins the columns of several files of one format to one table.

    The files have the same columns, in any order. Different numeric types are converted to a common type. A column that
    is text in one file and numeric in another becomes text in formats without stored types, and raises an error in
    other formats. Folders called ``key=value`` add a column. Files without rows are skipped.

    Parameters
    ----------
    where : str
    folder : Path
        Folder to which names of files are relative.
    files : sequence of Path
        Files in the order of the rows.
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
        self._partition = _partition_columns(where, self._names, self._parts[0].schema.names)
        self._types: dict[str, pa.DataType] = {}
        # For each part that a pass has reached, the number of rows before the part.
        self._first: list[int] = []
        counts = [part.n_rows for part in self._parts]
        schema = self._with_partition(self._joint([part.schema for part in self._parts]))
        n_rows = sum(n for n in counts if n is not None) if None not in counts else None
        super().__init__(where, schema, n_rows, self._parts[0].hidden)
        self.types_by_look, self.decimal = self._parts[0].types_by_look, self._parts[0].decimal

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

    def settle(self, columns: Sequence[str], target: str | None) -> pa.Schema:
        inner = [name for name in columns if name not in self._partition]
        schemas = [part.settle(inner, target) for part in self._parts]
        joint = self._joint(schemas)
        for part, schema in zip(self._parts, schemas, strict=True):
            part.read_as({field.name: field.type for field, own in zip(joint, schema, strict=True) if field != own})
        every = self._with_partition(joint)
        self._types = {name: every.field(name).type for name in columns}
        return pa.schema([*self._types.items()])

    def read_as(self, types: Mapping[str, pa.DataType]) -> None:
        self._types = dict(types)
        for part in self._parts:
            part.read_as({name: kind for name, kind in types.items() if name not in self._partition})

    def blocks(self, columns: Sequence[str], rows: int, skipped: Skipped) -> Iterator[pa.RecordBatch]:
        inner = [name for name in columns if name not in self._partition]
        types = {name: self._types.get(name) or self.schema.field(name).type for name in columns}
        first = 0
        for place, part in enumerate(self._parts):
            if place == len(self._first):
                self._first.append(first)
            log = _PartSkipped(skipped, first)
            # If the folders give all chosen columns, one column of the file is read to count its rows.
            for block in part.blocks(inner or part.schema.names[:1], rows, log):
                first += block.num_rows
                cells = {name: pa.repeat(values[place], len(block)) for name, values in self._partition.items()}
                cells |= {name: block.column(name) for name in inner}
                yield pa.RecordBatch.from_pydict({name: _as_type(cells[name], kind) for name, kind in types.items()})
            first += log.n_ragged

    def _with_partition(self, schema: pa.Schema) -> pa.Schema:
        return pa.schema([*schema, *((name, values.type) for name, values in self._partition.items())])

    def _joint(self, schemas: Sequence[pa.Schema]) -> pa.Schema:
        """Return one schema for all files; raise unless their `schemas` have the same columns with compatible types."""
        names, types = schemas[0].names, dict(zip(schemas[0].names, schemas[0].types, strict=True))
        # For each column, the file that determined its type.
        sources = dict.fromkeys(names, self._parts[0].where)
        for part, schema in zip(self._parts[1:], schemas[1:], strict=True):
            if schema == schemas[0]:
                continue
            own, first = set(schema.names), self._parts[0].where
            remedy = "Write all files with the same columns, or name those that belong together by a pattern."
            if (name := next((name for name in names if name not in own), None)) is not None:
                raise DataError(f"{part.where}: lacks the column {name!r} of {first}. {remedy}")
            if (name := next((name for name in schema.names if name not in types), None)) is not None:
                raise DataError(f"{part.where}: has a column {name!r}, which {first} lacks. {remedy}")
            for name, kind in zip(schema.names, schema.types, strict=True):
                joint = _joint_type(types[name], kind, looked_at=part.types_by_look)
                if joint is None:
                    raise DataError(
                        f"{part.where}: column {name!r} holds {in_words(kind)} ({kind}), in {sources[name]} "
                        f"{in_words(types[name])} ({types[name]}). Write the column with one type."
                    )
                if pa.types.is_null(types[name]) and not pa.types.is_null(joint):
                    sources[name] = part.where
                types[name] = joint
        # `select_columns` raises an error for duplicate names.
        return pa.schema([(name, types[name]) for name in names])


class _PartSkipped(Skipped):
    """Records the rows that are left out of a part, and reports them with their numbers in the whole table."""

    def __init__(self, whole: Skipped, first: int) -> None:
        super().__init__()
        self._whole, self._first_row = whole, first

    @property
    def n_ragged(self) -> int:
        return len(self._ragged)

    def ragged(self, number: int) -> None:
        super().ragged(number)
        self._whole.ragged(self._first_row + number)


def _partition_columns(where: str, names: Sequence[str], columns: Sequence[str]) -> dict[str, pa.Array]:
    """Make columns of one cell per file from folders called ``key=value``; columns of the files take precedence."""
    keys = [[part.partition("=")[0] for part in name.split("/")[:-1] if part.find("=") > 0] for name in names]
    for name, own in zip(names, keys, strict=True):
        if {*own} != {*keys[0]}:
            raise DataError(
                f"{where}: {name} lies in folders that tell {sorted(own) or 'no column'}, {names[0]} in such that "
                f"tell {sorted(keys[0]) or 'no column'}. Give all files the same levels of folders."
            )
    hive = dataset.partitioning(pa.schema([(key, pa.string()) for key in keys[0]]), flavor="hive")
    cells = [dataset.get_partition_keys(hive.parse(name)) for name in names]
    return {
        key: _whole_or_text(pa.array([one.get(key) for one in cells], pa.string()))
        for key in keys[0]
        if key not in columns
    }


def _whole_or_text(texts: pa.Array) -> pa.Array:
    try:
        return texts.cast(pa.int64())
    except pa.ArrowInvalid:
        return texts


def _joint_type(one: pa.DataType, other: pa.DataType, *, looked_at: bool) -> pa.DataType | None:
    """A type that can hold cells of both types; None if there is no such type.

    If types are inferred from the cells (`looked_at`), every cell can be held as text.
    """
    types = pa.types
    if one == other or types.is_null(other):
        return one
    if types.is_null(one):
        return other
    plain = [value_type(one), value_type(other)]
    if types.is_dictionary(one) or types.is_dictionary(other):
        values = _joint_type(*plain, looked_at=looked_at)
        return None if values is None else pa.dictionary(pa.int32(), values)
    if all(is_text(kind) for kind in plain):
        return pa.string()
    if all(is_numeric(kind) and not types.is_boolean(kind) for kind in plain):
        if all(types.is_integer(kind) for kind in plain) and not any(types.is_uint64(kind) for kind in plain):
            return pa.int64()
        return pa.float64()
    return pa.string() if looked_at else None


def _as_type(cells: pa.Array, kind: pa.DataType) -> pa.Array:
    """Convert `cells` to the type `kind`, which can hold them."""
    if cells.type == kind:
        return cells
    if not pa.types.is_dictionary(kind):
        return cells.cast(kind, safe=False)
    plain = cells.dictionary_decode() if pa.types.is_dictionary(cells.type) else cells
    return plain.cast(kind.value_type, safe=False).dictionary_encode()
