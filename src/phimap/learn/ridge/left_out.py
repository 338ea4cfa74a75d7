"""Which rows a fit in passes leaves out, and which stand for all in its sketch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from phimap.learn.ridge.left_out_rows import LeftOutRows
from phimap.learn.ridge.sketch_rows import SAMPLED_FROM, SKETCH_ROWS
from phimap.learn.rows.reservoir import CAPACITY, Reservoir
from phimap.learn.rows.validation import ValidationRows, n_held_out

# With fewer features a factorisation is the choice wherever its triangles fit.
_LEAST_FEATURES = 8192


def rows_in_passes(loss: str, solver: str, kernel: Any, width: int) -> int:
    """Rows at random that a first pass should keep for a solution in passes, which may follow.

    The map, where `kernel` is one, has its own width in place of `width`.
    """
    m = getattr(kernel, "n_components", None) or width
    wanted = solver == "cg" or (solver == "auto" and m > _LEAST_FEATURES)
    return CAPACITY + SKETCH_ROWS if loss == "squared" and wanted else 0


@dataclass(frozen=True)
class LeftOut:
    """Gives `LeftOutRows`, to be called after a pass over the rows.

    Attributes
    ----------
    held, formed : Judges
        Whose rows have their features in memory, or form them whenever they are needed.
    n_rows : int
    others : Reservoir
        A larger sample, of which rows stand for all.
    """

    held: ValidationRows
    formed: ValidationRows
    n_rows: int
    others: Reservoir

    @property
    def sampled(self) -> bool:
        """Whether there are rows that stand for all: a sketch of fewer rows is made of all of them."""
        return self.n_rows >= SAMPLED_FROM and self.others.keys.size >= n_held_out(self.n_rows) + SKETCH_ROWS

    def __call__(self, hold: bool) -> LeftOutRows:
        judges = self.held if hold else self.formed
        held_out, outlying = judges.of(self.n_rows)
        assert held_out is not None
        wanted = self.formed.others(self.n_rows, self.others, SKETCH_ROWS) if self.sampled else None
        return LeftOutRows(held_out, outlying, None if wanted is None else self.formed.mapped(*wanted))
