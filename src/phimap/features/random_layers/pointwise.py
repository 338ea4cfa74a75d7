"""Base of the records of maps that apply a nonlinearity to each projection."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from phimap.features.projected import ProjectedRecord
from phimap.ops import Array, Ops


class PointwiseRecord(ProjectedRecord):
    """A map that applies a function of the subclass, `_respond`, to each projection ``g = Wx``.

    Attributes
    ----------
    stretch : ndarray of shape (n_components,) or None
        Factors of the projections; None is 1.
    """

    stretch: np.ndarray | None = None

    @abstractmethod
    def _respond(self, ops: Ops, projected: Array, columns: slice, out: Array, first: int) -> None:
        """Write the features of projections (r, k) into columns `first` onwards of `out`.

        `columns` are the indices of the k directions.
        """

    @property
    def n_components(self) -> int:
        return self.projection.n_directions

    @property
    def signature(self) -> np.ndarray | None:
        return self.projection.weight_signs

    def apply(self, ops: Ops, X: Array, out: Array, first: int = 0) -> None:
        for columns, projected in self.projection.blocks(ops, X):
            if self.stretch is not None:
                projected = projected * self.stretch[columns]
            self._respond(ops, projected, columns, out, first + columns.start)

    def truncated(self, n_components: int) -> tuple[np.ndarray, float] | None:
        if self.projection.weights is not None:
            # Quadrature weights are valid only for all nodes of the rule together.
            return None
        return np.arange(n_components), (self.n_components / n_components) ** 0.5
