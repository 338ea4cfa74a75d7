"""Real tables as numbers: columns of data frames, encoded for kernels.

- ``frames``, ``cells``, ``parsing``: data frames of any library become Arrow columns. The last two alone need pyarrow.
- ``targets``, ``tallies``, ``tally``: one pass over a column keeps these of it, in bounded memory.
- ``bad_cell``: the error that names a cell.
- ``encoding``: what an encoding is. ``numbers``, ``levels``, ``dates`` and ``text`` hold one each.
- ``kinds``: which kind a column is, by what was kept of it.
- ``table_pass``, ``encoder``: the pass over all columns, and the transformer. Start with the latter.
"""

from phimap.tables.columns import ColumnSummary
from phimap.tables.encoder import TableEncoder
from phimap.tables.encoding import EncodedColumn

__all__ = ["ColumnSummary", "EncodedColumn", "TableEncoder"]
