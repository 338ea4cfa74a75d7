"""The dialect of a text table, detected from its first lines: encoding, separator, decimal mark, quotes, header."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import dropwhile, takewhile
from typing import NamedTuple

from phimap._files import DataError, NoRowsError, one_line
from phimap._number_text import reads_as_number
from phimap.io.columns import numbered_names
from phimap.io.windows_1252 import WINDOWS_1252

#: Number of rows that are parsed to detect the dialect.
ROWS = 200
# Separators. If several fit equally well, the first is chosen, because commas and spaces also occur within cells.
_SEPARATORS = {"\t": "tabs", ";": "semicolons", "|": "vertical bars", ",": "commas", " ": "spaces"}
# A separator fits if the share of rows with the same number of cells is larger than this.
_ALIKE = 0.5
# Lines of one cell above a table count as its title if the table has at least this number of columns.
_LEAST_BELOW_TITLES = 3
_ENCODINGS = {
    "utf-8": "UTF-8",
    **dict.fromkeys(("utf-16", "utf-16-le", "utf-16-be"), "UTF-16"),
    WINDOWS_1252: "Windows-1252",
}
_COMMA_NUMBER = re.compile(r"[-+]?\d*,\d+(?:[eE][-+]?\d+)?")
_POINT_NUMBER = re.compile(_COMMA_NUMBER.pattern.replace(",", r"\."))


def _clear(decimal: str, thousands: str) -> re.Pattern[str]:
    """The pattern of numbers that show their decimal mark: one group of three digits after a mark may be thousands."""
    group = rf"[1-9]\d{{0,2}}(?:{thousands}\d{{3}})"
    forms = rf"\d*{decimal}\d+(?:[eE][-+]?\d+)?|{group}+{decimal}\d+|{group}{{2,}}"
    return re.compile(rf"(?![-+]?[1-9]\d{{0,2}}{decimal}\d{{3}}$)[-+]?(?:{forms})")


#: A number with a decimal comma, and a number with a decimal point, unless the mark may separate thousands.
DECIMAL_COMMA, DECIMAL_POINT = _clear(",", r"\."), _clear(r"\.", ",")
# A currency before a number, and a unit after it.
_CURRENCY = re.compile(r"^([-+]?)(?:[$€£¥₹₩₽₺]|[A-Z]{3} )[ \xa0\u202f]?")
_UNIT = re.compile(r"(?<=\d)[ \xa0\u202f]?(?:[$€£¥₹₩₽₺%‰°]|[^\W\d_])[^\s\d.,]*$")
# A negative number in parentheses, as accountants write it.
_NEGATIVE = re.compile(r"\(\s*([^()]*?)\s*\)")
# A line that begins with # is a comment, unless # is the name of a column.
_COMMENT = re.compile(r"#(?![,;\t|])|sep=.\s*$")
_SINGLE_QUOTED = re.compile(r"(?:^|[,;\t|])'[^'\n]*'(?=[,;\t|]|\s*$)", re.MULTILINE)


@dataclass(frozen=True)
class Dialect:
    """The dialect of a text table.

    Attributes
    ----------
    names : tuple of str
        Names of the columns: the header without surrounding blanks, or ``c0, c1, ...``.
    lines_before : int
        Number of lines before the data, which are comments, titles and the header.
    separator, decimal, quote, encoding : str
    has_header : bool
    squeezed : bool
        Whether runs of several blanks separate the columns.
    unclear : str
        A number such as ``5.728``, if no cell shows whether its mark is the decimal mark or separates thousands. Empty
        otherwise, and between commas, where numbers with thousands are rare.
    """

    names: tuple[str, ...]
    lines_before: int
    separator: str = ","
    decimal: str = "."
    quote: str = '"'
    encoding: str = "utf-8"
    has_header: bool = True
    squeezed: bool = False
    unclear: str = ""

    @property
    def notes(self) -> list[str]:
        """The differences from a UTF-8 table with commas, decimal points and a header, in words for users."""
        found = []
        if self.separator != ",":
            found.append(f"separated by {_SEPARATORS[self.separator]}")
        if self.unclear:
            value = self.unclear.replace(",", ".")
            found.append(f"numbers such as {self.unclear} read as {value}: remove marks that separate thousands")
        elif self.decimal == ",":
            found.append("decimal commas")
        if self.quote != '"':
            found.append("single quotes")
        if self.encoding != "utf-8":
            found.append(f"encoded in {_ENCODINGS[self.encoding]}")
        if not self.has_header:
            found.append(
                f"no header: columns are called {', '.join(self.names[:2])}{', ...' if len(self.names) > 2 else ''}"
            )
        return found


def recognise(where: str, head: bytes, *, whole: bool, encoding: str | None = None) -> Dialect:
    """Detect the dialect of a file from its `head`, which may end within a row unless it is the `whole` file.

    The encoding is also detected, unless `encoding` is given.

    Raises
    ------
    DataError
        If the file is empty or not text.
    """
    encoding = encoding or _encoding(head, whole=whole)
    # The head may end within a character.
    text = head.decode("utf-8-sig" if encoding == "utf-8" else encoding, errors="strict" if whole else "ignore")
    if not text.strip():
        raise NoRowsError(f"{where}: the file is empty. Check the path.")
    if "\0" in text:
        raise DataError(f"{where}: is not text, as its name says. Give the file the suffix of what it holds.")
    lines = list(io.StringIO(text, newline=""))
    if not whole and len(lines) > 2:
        lines.pop()
    comments = _leading_comments(lines)
    body = lines[len(comments) :]
    if not any(map(str.strip, body)):
        raise NoRowsError(f"{where}: has comments but no rows. Check the file.")
    quote = "'" if _has_single_quotes(body) else '"'
    separator = _choose_separator(body, quote)
    rows = _without_titles(_parse(body, separator, quote))
    names, has_header, in_comment = _names(where, rows, comments, separator, quote)
    data = rows if in_comment or not has_header else rows[1:]
    header_stop = rows[0].start if in_comment or not has_header else rows[0].stop
    cells = [cell for row in data for cell in row.cells]
    blanks = separator == " "
    decimal, unclear = _decimal(cells, separator)
    return Dialect(
        names=names,
        lines_before=len(comments) + header_stop,
        separator=separator,
        decimal=decimal,
        quote=quote,
        encoding=encoding,
        has_header=has_header,
        squeezed=blanks and any("  " in line or line != line.strip(" ") for line in map(_content, body)),
        unclear=unclear,
    )


class _Row(NamedTuple):
    """The cells of a row, the number of lines before the row, and the number of lines up to its end."""

    cells: list[str]
    start: int
    stop: int


def _encoding(head: bytes, *, whole: bool) -> str:
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    # Most characters are ASCII, and in UTF-16 one of the two bytes of an ASCII character is zero.
    for start, encoding in ((1, "utf-16-le"), (0, "utf-16-be")):
        if len(head) > 1 and head[start::2].count(0) > _ALIKE * len(head) / 2:
            return encoding
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head, final=whole)
    except UnicodeDecodeError:
        return WINDOWS_1252
    return "utf-8"


def _content(line: str) -> str:
    return line.rstrip("\r\n")


def _leading_comments(lines: Sequence[str]) -> list[str]:
    """The lines before the header and the data: comments, blank lines, and Excel's line ``sep=``."""
    return list(takewhile(lambda line: not line.strip() or _COMMENT.match(line), lines))


def _has_single_quotes(body: Sequence[str]) -> bool:
    text = "".join(body)
    return '"' not in text and len(_SINGLE_QUOTED.findall(text)) > 1


def _parse(body: Sequence[str], separator: str, quote: str) -> list[_Row]:
    """The first rows of the table, split at `separator`."""
    blanks = separator == " "
    lines = (line.strip(" \r\n") if blanks else line for line in body)
    reader = csv.reader(lines, delimiter=separator, quotechar=quote, skipinitialspace=blanks)
    rows, start = [], 0
    # The csv module raises an error for very long cells, but the parser of the whole file accepts them.
    with suppress(csv.Error):
        for cells in reader:
            if cells:
                rows.append(_Row(cells, start, reader.line_num))
            start = reader.line_num
            if len(rows) == ROWS:
                break
    return rows


def _without_titles(rows: list[_Row]) -> list[_Row]:
    """`rows` without one-cell lines above a table of three or more columns."""
    if _common_width(rows) < _LEAST_BELOW_TITLES:
        return rows
    return list(dropwhile(lambda row: len(row.cells) == 1, rows))


def _common_width(rows: Sequence[_Row]) -> int:
    """The most frequent number of cells in a row.

    Among equally frequent numbers, the result is the number that occurs first.
    """
    return Counter(len(row.cells) for row in rows).most_common(1)[0][0] if rows else 0


def _choose_separator(body: Sequence[str], quote: str) -> str:
    """The separator for which the most rows have the same number of cells; a comma if no separator fits."""
    best, most = ",", _ALIKE
    for separator in _SEPARATORS:
        rows = _without_titles(_parse(body, separator, quote))
        width = _common_width(rows)
        # The header may lack the cell above row names, or rows may end with a separator.
        if width < 2 or len(rows[0].cells) < 2 or abs(len(rows[0].cells) - width) > 1:
            continue
        share = sum(len(row.cells) == width for row in rows) / len(rows)
        if share > most:
            best, most = separator, share
    return best


def _names(
    where: str, rows: Sequence[_Row], comments: Sequence[str], separator: str, quote: str
) -> tuple[tuple[str, ...], bool, bool]:
    """Return the names of the columns, whether the file states them, and whether the last comment states them.

    Raises
    ------
    DataError
        If the first cells of rows, which would be row names, are halves of numbers in parentheses.
    """
    first, below = rows[0].cells, [row.cells for row in rows[1:]]
    if _is_data(first, below, separator):
        if comments and (named := _parse([comments[-1].lstrip("# ")], separator, quote)):
            names = named[0].cells
            if len(names) == len(first) and not _is_data(names, [], separator):
                return tuple(name.strip() for name in names), True, True
        return numbered_names(len(first)), False, False
    names = tuple(name.strip() for name in first)
    width = _common_width(rows)
    if width == len(names) + 1:
        # Either every row ends with a separator, or every row begins with a row name, as in tables that R writes.
        wide = [cells for cells in below if len(cells) == width]
        ended = not any(cells[-1] for cells in wide)
        cut = [cells for cells in wide if cells[0].count("(") > cells[0].count(")")]
        if cut and not ended:
            cell = one_line(separator.join(cut[0][:2]))
            raise DataError(f"{where}: cells such as {cell!r} hold the separator. Put them in quotes.")
        names = (*names, "") if ended else ("", *names)
    elif width == len(names) - 1 and not names[-1]:
        names = names[:-1]
    return names, True, False


def _is_data(first: Sequence[str], below: Sequence[Sequence[str]], separator: str) -> bool:
    """Whether the first line is data: only numbers, or numbers and a text that occurs again below in its column."""
    filled = [cell.strip() for cell in first if cell.strip()]
    numbers = [_is_number(cell, separator) for cell in filled]
    if filled and all(numbers):
        return True
    alike = [cells for cells in below if len(cells) == len(first)]
    repeated = any(
        cell.strip() and not _is_number(cell, separator) and any(cells[j] == cell for cells in alike)
        for j, cell in enumerate(first)
    )
    return any(numbers) and repeated


def _is_number(cell: str, separator: str) -> bool:
    cell = _plain(cell)
    return bool((DECIMAL_COMMA if separator == "," else _COMMA_NUMBER).fullmatch(cell)) or reads_as_number(cell)


def _plain(cell: str) -> str:
    """A cell without spaces around it, and without the parentheses of a negative number."""
    return _NEGATIVE.sub(r"\1", cell.strip())


def _decimal(cells: Sequence[str], separator: str) -> tuple[str, str]:
    """The decimal mark, and `Dialect.unclear`: a comma if more cells show a decimal comma than a decimal point.

    Numbers such as 9.110 and 9,110, whose mark may separate thousands, count only if no cell shows its mark. Between
    commas, they never count as numbers with a comma, and no number may have a point, because texts such as lists may
    have commas.
    """
    amounts = [_UNIT.sub("", _CURRENCY.sub(r"\1", _plain(cell))) for cell in cells]

    def count(form: re.Pattern[str]) -> int:
        return sum(bool(form.fullmatch(amount)) for amount in amounts)

    commas, points = count(DECIMAL_COMMA), count(DECIMAL_POINT)
    if separator == ",":
        return "," if commas and not points and not count(_POINT_NUMBER) else ".", ""
    if commas or points:
        return "," if commas > points else ".", ""
    form, mark = max((_POINT_NUMBER, "."), (_COMMA_NUMBER, ","), key=lambda one: count(one[0]))
    return mark, next((amount for amount in amounts if form.fullmatch(amount)), "")
