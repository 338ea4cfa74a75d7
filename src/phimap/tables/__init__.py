"""Encodes columns of data frames as numbers for kernels.

- ``frames``, ``cells``, ``amounts``: convert data frames of any library to Arrow columns, and read texts as
  numbers. The last two need pyarrow.
- ``targets``, ``tallies``: statistics of a column, collected by one pass in bounded memory.
- ``row_numbers``: columns that number the rows.
- ``encoding``: the base class of encodings, which ``numbers``, ``levels``, ``dates`` and ``text`` implement, and
  the error for a cell that cannot be encoded.
- ``moments``: texts that state the time of a row, for rows held out in time.
- ``kinds``: the kind of a column, chosen by its statistics.
- ``table_pass``, ``encoder``: the pass over all columns, and the transformer. Start with ``encoder``.
"""

from phimap.tables.encoder import TableEncoder
from phimap.tables.encoding import ColumnSummary, EncodedColumn

__all__ = ["ColumnSummary", "EncodedColumn", "TableEncoder"]
