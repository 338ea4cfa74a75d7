"""Descriptions of the columns of an encoder."""

from __future__ import annotations

from phimap.tables import TableEncoder

#: Titles of the columns of `columns_of`.
HEAD = ("column", "kind", "numbers", "missing", "note")


def columns_of(encoder: TableEncoder) -> list[tuple[str, str, str, str, str]]:
    """A row for each column of the table: name, kind, number of encoded columns, number of missing cells, and note."""
    return [
        (column.name, column.kind, str(column.n_columns), f"{column.n_missing:,}", column.note)
        for column in encoder.summary_
    ]


def column_texts(encoder: TableEncoder) -> list[tuple[str, str]]:
    """The name of each column, with a description of its encoding."""
    found = []
    for name, kind, n_columns, n_missing, note in columns_of(encoder):
        parts = [kind, note] if kind == "left out" else [kind, note, f"{n_columns} column{'s' * (n_columns != '1')}"]
        parts += [f"{n_missing} missing"] if n_missing != "0" else []
        found.append((name, ", ".join(part for part in parts if part)))
    return found
