"""Base of the records of maps whose first step is a linear projection."""

from __future__ import annotations

from phimap.projections.base import ProjectionRecord
from phimap.random_map import MapRecord


class ProjectedRecord(MapRecord):
    """A map that computes projections ``g = Wx`` in blocks, from which the subclass computes its features.

    Attributes
    ----------
    projection : ProjectionRecord
        The directions W.
    """

    projection: ProjectionRecord

    @property
    def n_features(self) -> int:
        return self.projection.n_features

    @property
    def n_flops(self) -> int | None:
        return self.projection.n_flops

    @property
    def least_tile_rows(self) -> int | None:
        return self.projection.least_tile_rows

    @property
    def scratch_width(self) -> int:
        return self.n_features + self.projection.scratch_width
