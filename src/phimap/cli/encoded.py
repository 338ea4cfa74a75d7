"""What an encoder has made of the columns of a table, in words."""

from __future__ import annotations

from phimap.tables import TableEncoder

#: Titles of the columns of `columns_of`.
HEAD = ("column", "kind", "numbers", "missing", "note")


def columns_of(encoder: TableEncoder) -> list[tuple[str, str, str, str, str]]:
    """A row for each column of the table: name, kind, columns of numbers that it became, missing cells, note."""
    return [
        (column.name, column.kind, str(column.n_columns), f"{column.n_missing:,}", column.note)
        for column in encoder.summary_
    ]


def column_texts(encoder: TableEncoder) -> list[tuple[str, str]]:
    """Name and fate of each column, for a list of names and values."""
    found = []
    for name, kind, n_columns, n_missing, note in columns_of(encoder):
        parts = [kind, note] if kind == "left out" else [kind, note, f"{n_columns} column{'s' * (n_columns != '1')}"]
        parts += [f"{n_missing} missing"] if n_missing != "0" else []
        found.append((name, ", ".join(part for part in parts if part)))
    return found
