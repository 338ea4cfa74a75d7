"""Real tables as numbers: columns of data frames, encoded for kernels.

- ``frames``, ``cells``, ``parsing``: data frames of any library become Arrow columns. Only the last two need pyarrow.
- ``targets``, ``tallies``, ``tally``: statistics of a column from one pass in bounded memory.
- ``bad_cell``: the error that names a cell.
- ``encoding``: the interface of an encoding. ``numbers``, ``levels``, ``dates`` and ``text`` have one each.
- ``kinds``: the kind of a column, from its statistics.
- ``table_pass``, ``encoder``: the pass over all columns, and the transformer, where a reader should start.
"""

from phimap.tables.columns import ColumnSummary
from phimap.tables.encoder import TableEncoder
from phimap.tables.encoding import EncodedColumn

__all__ = ["ColumnSummary", "EncodedColumn", "TableEncoder"]
