"""The rows of a model, divided into regions that have corrections of their own."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from phimap.learn.corrections.corrections import moved_rows, nearest
from phimap.learn.corrections.partition import Partition
from phimap.learn.corrections.residuals import Residuals

#: Maximum number of rows of a region. A model of so many rows takes a tenth of a second.
MOST_ROWS = 1500


def n_regions_for(n_rows: int) -> int:
    """The least number of regions, a power of two, with at most `MOST_ROWS` rows in each."""
    return 1 << max(0, int(np.ceil(np.log2(n_rows / MOST_ROWS))))


@dataclass(frozen=True)
class Regions:
    """The residuals, divided into regions after multiplication by one of the roots.

    Attributes
    ----------
    root : ndarray of shape (d,) or (d, d), or None
    residuals : Residuals
        Their rows are multiplied by the root.
    left_out : ndarray of bool, shape (n,)
        Whether a row may be left out.
    partition : Partition
    parts : list of ndarray of int
        Indices of the rows of each region.
    """

    root: np.ndarray | None
    residuals: Residuals
    left_out: np.ndarray
    partition: Partition
    parts: list[np.ndarray]

    @classmethod
    def of(cls, residuals: Residuals, root: np.ndarray | None, left_out: np.ndarray, n_jobs: int | None) -> Regions:
        """Multiply the rows by `root`, and divide them into regions."""
        moved = replace(residuals, X=moved_rows(residuals.X, root))
        partition = Partition.of_rows(moved.X, n_regions_for(len(moved.X)), n_jobs)
        return cls(root, moved, left_out, partition, _parts_of(partition, moved.X))

    def with_partition(self, partition: Partition) -> Regions:
        """Return the same rows, divided by another partition."""
        return replace(self, partition=partition, parts=_parts_of(partition, self.residuals.X))

    @property
    def are_small(self) -> bool:
        """Whether no region has too many rows.

        Planes cannot separate equal rows. Many equal rows thus form a region larger than the limit, whose kernel matrix
        may not fit into memory.
        """
        return max(map(len, self.parts)) <= 2 * MOST_ROWS

    def reach(self, scale: float) -> float:
        """Largest distance of a validation row to the nearest training row of its region.

        0 if no region contains both kinds of rows.
        """
        rows, held_out = self.residuals.X * self.residuals.X.dtype.type(scale), self.residuals.held_out
        distances = np.concatenate(
            [nearest(rows[part[held_out[part]]], rows[part[~held_out[part]]]) for part in self.parts]
        )
        return float(distances[np.isfinite(distances)].max(initial=0.0))


def _parts_of(partition: Partition, X: np.ndarray) -> list[np.ndarray]:
    """Return the indices of the rows of `X` in each region."""
    regions = partition.assign(X)
    return [np.flatnonzero(regions == one) for one in range(partition.n_regions)]
