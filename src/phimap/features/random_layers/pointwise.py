"""Maps that apply one nonlinearity to each projection."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from phimap.ops import Array, Ops
from phimap.projections.base import ProjectionRecord
from phimap.random_map import MapRecord


class PointwiseRecord(MapRecord):
    """``scale * f(Wx)`` for a nonlinearity f, which a subclass gives.

    Attributes
    ----------
    projection : ProjectionRecord
    scale : ndarray of shape (n_components,)
    """

    projection: ProjectionRecord
    scale: np.ndarray

    @abstractmethod
    def _respond(self, ops: Ops, projected: Array, scale: Array, out: Array, first: int) -> None:
        """Write ``scale * f(projected)`` (r, k) into the columns of `out` from `first`."""

    @property
    def n_features(self) -> int:
        return self.projection.n_features

    @property
    def n_components(self) -> int:
        return self.projection.n_directions

    @property
    def signature(self) -> np.ndarray | None:
        """Signs of the components, int8 (n_components,), or None where no weight is negative."""
        return self.projection.weight_signs

    @property
    def scratch_width(self) -> int:
        return self.n_features + self.projection.scratch_width

    def apply(self, ops: Ops, X: Array, out: Array, first: int = 0) -> None:
        for columns, projected in self.projection.blocks(ops, X):
            self._respond(ops, projected, self.scale[columns], out, first + columns.start)

    def leading(self, n_components: int) -> tuple[np.ndarray, float] | None:
        if self.projection.weights is not None:
            # The weights belong to the whole rule; a part of it is no rule.
            return None
        return np.arange(n_components), (self.n_components / n_components) ** 0.5
