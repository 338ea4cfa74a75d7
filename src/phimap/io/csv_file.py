"""Text tables, plain or compressed, which pyarrow parses block by block. Each column has one type in all blocks."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute
from pyarrow import csv as arrow_csv

from phimap._files import DataError, NoRowsError, OverBudgetError, one_line
from phimap._missing import MISSING_AMONG_NUMBERS
from phimap._number_text import reads_as_number
from phimap.config import memory_budget, size_text
from phimap.io.archive import for_arrow, uncompressed
from phimap.io.arrow import is_numeric
from phimap.io.column_file import ColumnFile
from phimap.io.columns import MissingColumnError, SchemaError, resolve_column
from phimap.io.dialect import Dialect, recognise
from phimap.io.skipped import Skipped
from phimap.io.source import LABELS, TableSource
from phimap.io.squeezed import SqueezedText
from phimap.io.windows_1252 import WINDOWS_1252

# The type is Any because the functions are created at import, so type checkers cannot see them.
pc: Any = pyarrow.compute
# Words of truth values and of infinity, and their numbers; 1e999 is too large to be finite.
_WORDS = {"true": "1", "false": "0"} | {
    sign + word: f"{sign}1e999" for sign in ("", "+", "-") for word in ("inf", "infinity")
}
_MISSING = pa.array(MISSING_AMONG_NUMBERS)
# Arrow needs whole rows within a block. A block is therefore at least 16 times as long as the longest of the first
# rows, and at least as long as Arrow's default of 1 MB.
_BLOCK_BYTES = 2**20
_BLOCK_ROWS = 16
_HEAD_BYTES = 2**16
# Largest number of bytes of a row among the first lines, and largest number of bytes of a block. Arrow counts bytes in
# 32 bits.
_LONGEST_ROW, _LARGEST_BLOCK = 2**28, 2**30
# Bytes of memory for each column. They hold its builders and buffers in blocks that are parsed and in blocks that wait.
# Tables of 5,000 to 50,000 columns and three rows took 11 to 29 kB for each column.
_COLUMN_BYTES = 29 * 2**10
# Bytes of memory for each byte of a row while it is parsed.
_ROW_EXPANSION = 16
_TAIL_BYTES = 256
# The options of the last readers. They contain Python functions that skip rows. A thread of Arrow releases its
# reference to them slightly later than the reader. If this were the last reference while the interpreter ends, the
# thread would abort the process.
_LAST_OPTIONS: deque[Any] = deque(maxlen=16)

_RAGGED = re.compile(r"Row #(\d+): Expected (\d+) columns, got (\d+)")
_UNREADABLE = re.compile(r"column #(\d+): (?:Row #(\d+): )?CSV conversion error to ([^:]+): invalid value '(.*)'", re.S)
# Several digits, the first of them a zero, as `TableEncoder` recognises codes.
_CODE = r"^\s*0\d+\s*$"


class CellError(SchemaError):
    """A cell cannot be read in the type of its column.

    Attributes
    ----------
    column, value : str
        Name of the column, and text of the cell that cannot be read.
    """

    def __init__(self, message: str, column: str, value: str) -> None:
        super().__init__(message)
        self.column = column
        self.value = value


class CharacterError(SchemaError):
    """The text is not in the encoding of the first rows of the file."""


class CsvFile:
    """A text table on disk. Its encoding is detected unless it is given.

    Attributes
    ----------
    where : str
    dialect : Dialect
    """

    def __init__(self, source: TableSource, encoding: str | None = None) -> None:
        self.where: str = source.where
        self._path = source.path
        self._open_row: int | None = None
        with self._explained():
            head, whole = self._read_head()
        self.dialect: Dialect = recognise(self.where, head, whole=whole, encoding=encoding)
        _check_width(self.where, len(self.dialect.names))
        self._read = arrow_csv.ReadOptions(
            block_size=min(max(_BLOCK_BYTES, _BLOCK_ROWS * max(map(len, head.splitlines()))), _LARGEST_BLOCK),
            # With a single thread, messages can state row numbers. A single thread is as fast, because parsing is
            # serial anyway.
            use_threads=False,
            column_names=list(self.dialect.names),
            skip_rows=self.dialect.lines_before,
            encoding="utf8" if self.dialect.encoding == "utf-8" else self.dialect.encoding,
        )

    def blocks(
        self, columns: Sequence[str], types: Mapping[str, pa.DataType], skipped: Skipped | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield blocks of the chosen `columns`, or of all columns if `columns` is empty.

        Types that `types` does not give are inferred. Rows with too few or too many cells are recorded in `skipped`; if
        `skipped` is None, they are an error.
        """
        parsing = arrow_csv.ParseOptions(
            delimiter=self.dialect.separator,
            quote_char=self.dialect.quote,
            newlines_in_values=True,
            invalid_row_handler=self._handler(skipped),
        )
        _LAST_OPTIONS.append(parsing)
        with (
            self._explained(),
            self._stream() as stream,
            arrow_csv.open_csv(
                stream,
                read_options=self._read,
                parse_options=parsing,
                convert_options=arrow_csv.ConvertOptions(
                    include_columns=list(columns),
                    column_types=dict(types),
                    decimal_point=self.dialect.decimal,
                    null_values=MISSING_AMONG_NUMBERS,
                ),
            ) as reader,
        ):
            block = None
            for block in reader:
                yield block
            if block is not None:
                self._check_end(block)

    def _check_end(self, block: pa.RecordBatch) -> None:
        """Raise an error if the last cell contains the rest of the file because its quote is not closed."""
        name, packed = self.dialect.names[-1], self._path.suffix.lower() in (".gz", ".bz2", ".zip")
        cell = block.column(name)[-1].as_py() if name in block.schema.names and block.num_rows else None
        if packed or not isinstance(cell, str):
            return
        width = len(self.dialect.names)
        if not any(line.count(self.dialect.separator) == width - 1 for line in cell.splitlines()[1:]):
            return
        with self._path.open("rb") as stream:
            stream.seek(-min(_TAIL_BYTES, self._path.stat().st_size), 2)
            tail = stream.read().replace(b"\0", b"").rstrip()
        if not tail.endswith(str(self.dialect.quote).encode()):
            raise DataError(
                self._open_quote(f"the cell that begins {one_line(cell.splitlines()[0])!r} in the last row")
            )

    def _open_quote(self, row: str) -> str:
        return (
            f"{self.where}: {row} opens a quote that is not closed, and holds all rows below it. Close the quote or "
            "remove it."
        )

    def _handler(self, skipped: Skipped | None) -> Callable[[Any], str]:
        """Return a function that the parser calls for rows with too few or too many cells; it skips comments."""
        n_comments = 0

        def handle(row: Any) -> str:
            nonlocal n_comments
            if row.text.lstrip().startswith("#"):
                n_comments += 1
                return "skip"
            number = row.number - self.dialect.lines_before - n_comments
            if "\n" in row.text and row.text.count(str(self.dialect.quote)) % 2:
                # The parser raises its own error, for which `_explain` writes the message.
                self._open_row = number
                return "error"
            if skipped is None:
                return "error"
            skipped.ragged(number)
            return "skip"

        return handle

    @contextmanager
    def _stream(self) -> Iterator[Any]:
        """Open the table as bytes for the parser; if blanks separate columns, repeated blanks are merged."""
        with uncompressed(self._path) as raw:
            if not self.dialect.squeezed:
                yield raw
                return
            with for_arrow(SqueezedText(raw, _BLOCK_BYTES)) as stream:
                yield stream

    def _read_head(self) -> tuple[bytes, bool]:
        """Return the first lines, at least two if the file has them, and whether they are the whole file."""
        with uncompressed(self._path) as stream:
            head = stream.read(_HEAD_BYTES)
            longest = min(_LONGEST_ROW, memory_budget() // _ROW_EXPANSION)
            # The head must contain two lines, which may be very long.
            while head.count(b"\n") < 2 and (more := stream.read(max(len(head), 1))):
                head += more
                if len(head) > 2 * longest:
                    raise DataError(
                        f"{self.where}: a row is longer than {size_text(longest)}. Check its ends of lines, or store "
                        "wide rows as .npy or .parquet."
                    )
            return head, not stream.read(1)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn exceptions of the parser into one-line errors that state the place and the remedy."""
        try:
            yield
        except (pa.ArrowException, UnicodeError, OSError, MemoryError, OverflowError) as error:
            self._explain(error)

    def _explain(self, error: Exception) -> NoReturn:
        where, text = self.where, str(error)
        if self._open_row is not None:
            raise DataError(self._open_quote(f"data row {self._open_row}")) from None
        if match := _RAGGED.search(text):
            raise DataError(
                f"{where}: data row {self._row(match[1])} has {match[3]} values, {match[2]} expected. Correct the row."
            ) from None
        if match := _UNREADABLE.search(text):
            name, value = self.dialect.names[int(match[1])], one_line(match[4])
            kind = "a number" if match[3] == "double" else f"of type {match[3]} like the rows above"
            raise CellError(
                f"{where}: data row {self._row(match[2])}, column {name!r} holds {value!r}, not {kind}. "
                "Correct it, drop the row, or leave the column out with drop=...",
                name,
                match[4],
            ) from None
        if isinstance(error, MemoryError | OverflowError):
            raise DataError(
                f"{where}: its rows take more memory than there is ({one_line(text)}). Store wide rows as .npy or "
                ".parquet, or use a machine with more memory."
            ) from None
        if "Empty CSV" in text or "Could not skip initial" in text:
            _refuse_header_only(where)
        if "straddling" in text:
            raise DataError(
                f"{where}: a row is longer than {self._read.block_size} bytes (an open quote?). "
                "Correct it, or store wide rows as .npy or .parquet."
            ) from None
        if isinstance(error, UnicodeError) or "UTF8" in text:
            raise CharacterError(f"{where}: is not UTF-8 text throughout. Save it as a UTF-8 CSV file.") from None
        if isinstance(error, OSError) and self._path.name.lower().endswith((".gz", ".bz2")):
            raise DataError(
                f"{where}: damaged or truncated gzip file ({one_line(error)}). Fetch or compress it again."
            ) from None
        raise DataError(f"{where}: cannot be read as CSV ({one_line(text)}). Check the file.") from None

    def _row(self, number: str | None) -> int | str:
        """The number of a data row, from the number of its line in the file."""
        return int(number) - self.dialect.lines_before if number else "unknown"


class TextColumns(ColumnFile):
    """Columns of a text table.

    Types are inferred from the first block, until `settle` determines types that fit all rows. In columns that the user
    declares numeric, non-numeric cells count as missing, unless bad rows are an error. If the source keeps text, a
    feature with such cells becomes a column of text instead.
    """

    types_by_look = True

    def __init__(self, source: TableSource) -> None:
        self._source = source
        self._skips = source.bad_rows.ragged == "skip"
        self._file = CsvFile(source)
        self._types: dict[str, pa.DataType] = {}
        self._target: str | None = None
        # For columns that the user declares numeric but that are parsed as text: how they are read, also in words, and
        # their first cells that are not numbers.
        self._readings: dict[str, str | None] = {}
        self._how: dict[str, str] = {}
        self._unread: dict[str, str] = {}
        # Columns that are text because of digits that begin with a zero, and the first of them.
        self._codes: dict[str, str] = {}
        super().__init__(source.where, self._with_codes(self._top()), None)
        self.decimal = self._file.dialect.decimal

    @property
    def notes(self) -> list[str]:
        read = [f"{name!r} read from text{how}" for name, how in self._how.items() if how]
        unread = [
            f"what is no number in column {name!r}, such as {one_line(value)!r}, counts as missing"
            for name, value in self._unread.items()
        ]
        codes = [
            f"{name!r} read as text, for digits that begin with a zero ({one_line(value)!r}); if they are numbers, use "
            f"types=... ({name}=number)"
            for name, value in self._codes.items()
            if name not in self._source.types and name in self._types
        ]
        return [*self._file.dialect.notes, *read, *codes, *unread]

    def settle(self, columns: Sequence[str], target: str | None) -> pa.Schema:
        """Read the file to determine types of `columns` that fit every row, and return these types.

        Columns that the user declares as categories or texts are read as written. A numeric column becomes text if a
        later row has text in it; `TableEncoder` then parses it. The `target` keeps the type inferred from the first
        block, so that a wrong cell is reported; a `TextTarget` parses targets that are text.
        """
        self._target = target
        self._types = {name: self._first_guess(name, is_target=name == target) for name in columns}
        while True:
            try:
                for _ in self._file.blocks(columns, self._types, Skipped() if self._skips else None):
                    pass
                break
            except CellError as error:
                if not self._count_as_missing(error):
                    self._types[error.column] = self._wider(error, target)
            except CharacterError:
                self._file = CsvFile(self._source, encoding=WINDOWS_1252)
        types = {name: pa.float64() if name in self._readings else kind for name, kind in self._types.items()}
        return pa.schema(types.items())

    def read_as(self, types: Mapping[str, pa.DataType]) -> None:
        self._types |= types

    def blocks(self, columns: Sequence[str], rows: int, skipped: Skipped) -> Iterator[pa.RecordBatch]:
        log, n_given = skipped if self._skips else None, 0
        while True:
            # A column without a settled type has the type of its first block.
            types = {name: self._types[name] for name in columns if name in self._types}
            n_read = 0
            try:
                for block in self._file.blocks(columns, types, log):
                    n_read += block.num_rows
                    if (n_new := n_read - n_given) > 0:
                        n_given = n_read
                        yield self._with_numbers(block.slice(max(0, block.num_rows - n_new)))
                return
            except SchemaError as error:
                # The parser starts again with other types. Rows that were already yielded are not yielded again.
                if isinstance(error, CellError):
                    if not self._count_as_missing(error):
                        raise
                elif not self._skips or "number" not in self._source.types.values():
                    raise
                else:
                    self._file = CsvFile(self._source, encoding=WINDOWS_1252)

    def _count_as_missing(self, error: CellError) -> bool:
        """Return whether a non-numeric cell may count as missing because the user declares its column numeric.

        From then on the column is parsed as text. If bad rows are not skipped, the error is raised.
        """
        if self._source.types.get(error.column) != "number":
            return False
        if not self._skips:
            raise error
        if self._source.keeps_text and error.column != self._target:
            return False
        self._readings[error.column] = None
        self._types[error.column] = pa.string()
        return True

    def _with_numbers(self, block: pa.RecordBatch) -> pa.RecordBatch:
        """Convert the columns that were parsed as text to numbers; a cell that is not a number is missing."""
        if not self._readings:
            return block
        cells = {name: block.column(name) for name in block.schema.names}
        for name in self._readings.keys() & cells.keys():
            cells[name] = pa.array(self._numbers(name, cells[name]), from_pandas=True)
        return pa.RecordBatch.from_pydict(cells)

    def _numbers(self, name: str, column: pa.Array) -> np.ndarray:
        """Return the texts (r,) of a column as numbers (r,). The first block decides on a mark, currencies and a unit.

        The words true and false are 1 and 0, and inf is infinite, as in columns that hold no other text.
        """
        # This is imported here because `phimap.tables` loads scikit-learn, which most readers do not need.
        from phimap.tables.amounts import how_read, negatives_in, numbers_in, readings_of

        texts = pc.utf8_trim_whitespace(column)
        for word, number in _WORDS.items():
            texts = pc.if_else(pc.equal(pc.utf8_lower(texts), word), number, texts)
        distinct = pc.unique(texts.filter(pc.invert(pc.is_in(texts, value_set=_MISSING)))).drop_null()
        if self._readings[name] is None and len(distinct):
            readings = readings_of(distinct.to_pylist(), self.decimal, any_currency=True)
            best = max(readings, key=lambda one: np.isfinite(numbers_in(distinct, one)).sum())
            pairs = zip(distinct.to_pylist(), numbers_in(distinct, best), strict=True)
            changed = ((text, number) for text, number in pairs if number == number and not reads_as_number(text))
            like = next((f" ({one_line(text)!r} as {number:.15g})" for text, number in changed), "")
            self._readings[name], self._how[name] = best, how_read(best, negatives=negatives_in(distinct)) + like
        reading = self._readings[name] or self.decimal
        if name not in self._unread and (unread := np.isnan(numbers_in(distinct, reading))).any():
            self._unread[name] = distinct[int(unread.argmax())].as_py()
        return numbers_in(texts, reading)

    def _top(self) -> pa.Schema:
        """Return the types inferred from the first block."""
        top = next(self._file.blocks((), {}, Skipped() if self._skips else None), None)
        if top is None or not top.num_rows:
            _refuse_header_only(self._source.where)
        if any(pa.types.is_binary(field.type) for field in top.schema):
            self._file = CsvFile(self._source, encoding=WINDOWS_1252)
            return self._top()
        return top.schema

    def _with_codes(self, schema: pa.Schema) -> pa.Schema:
        """Return a schema in which features with digits that begin with a zero, in the first block, are text."""
        names = [field.name for field in schema if is_numeric(field.type) and not pa.types.is_boolean(field.type)]
        names = [name for name in names if self._source.types.get(name) != "number"]
        if not (self._source.keeps_codes and names) or len(set(schema.names)) < len(schema):
            return schema
        log = Skipped() if self._skips else None
        block = next(self._file.blocks(names, dict.fromkeys(names, pa.string()), log))
        targets = self._targets(schema.names)
        for name in names:
            codes = block.column(name).filter(pc.match_substring_regex(block.column(name), _CODE))
            if len(codes) and name not in targets:
                self._codes[name] = codes[0].as_py().strip()
                schema = schema.set(schema.get_field_index(name), pa.field(name, pa.string()))
        return schema

    def _targets(self, names: Sequence[str]) -> set[str]:
        """The targets among the columns `names`; a target that is missing is refused later."""
        target, found = self._source.target, set[str]()
        for one in [] if target is None else [target] if isinstance(target, str | int) else target:
            with suppress(MissingColumnError):
                found.add(resolve_column(self._source.where, names, set(names), one, "target column"))
        return found

    def _first_guess(self, name: str, *, is_target: bool) -> pa.DataType:
        """The type in which a column is read at first."""
        kind, inferred = self._source.types.get(name), self.schema.field(name).type
        if kind in LABELS:
            return pa.string()
        return pa.float64() if kind == "number" and not (is_target or is_numeric(inferred)) else inferred

    def _wider(self, error: CellError, target: str | None) -> pa.DataType:
        """Return a wider type for a column that has a cell of another type; text in a numeric `target` is an error."""
        kind = self._types[error.column]
        is_whole = pa.types.is_integer(kind) or pa.types.is_null(kind)
        if is_whole and reads_as_number(error.value.replace(",", ".")):
            return pa.float64()
        if error.column == target and not pa.types.is_null(kind):
            raise error
        return pa.string()


def _check_width(where: str, n_columns: int) -> None:
    """Raise if the parser would need more memory for the columns than the byte budget, even for few rows."""
    needed, budget = n_columns * _COLUMN_BYTES, memory_budget()
    if needed > budget:
        raise OverBudgetError(
            f"{where}: a text of {n_columns:,} columns takes about {size_text(needed)} while it is parsed, over the "
            f"budget of {size_text(budget)}. Store it as .npy or .npz, or raise phimap.config(memory=...)."
        )


def _refuse_header_only(where: str) -> NoReturn:
    """Raise the error for a table without rows."""
    raise NoRowsError(f"{where}: has a header but no rows. Check the file.") from None
