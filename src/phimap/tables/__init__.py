"""What stands between a real table and numbers: columns of data frames, encoded for kernels.

- ``frames``, ``cells``, ``parsing``: data frames of any library as Arrow columns; the last two alone need pyarrow.
- ``targets``, ``tallies``, ``tally``: what one pass over a column keeps of it, in bounded memory.
- ``bad_cell``: the error that names the cell.
- ``encoding``, and a file for each form of it: ``numbers``, ``levels``, ``dates``, ``text``.
- ``kinds``: what a column is, by what was kept of it.
- ``table_pass``, ``encoder``: the pass over all columns, and the transformer.
"""

from phimap.tables.columns import ColumnSummary
from phimap.tables.encoder import TableEncoder
from phimap.tables.encoding import EncodedColumn

__all__ = ["ColumnSummary", "EncodedColumn", "TableEncoder"]
