"""Solutions along a descending sequence of alphas; each one begins at an extrapolation of the last two."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from phimap.learn.losses.base import Loss
from phimap.learn.losses.preparation import LossPreparation
from phimap.learn.losses.quasi_newton import Model
from phimap.learn.solver import LinearSolution, Stream

# With this tolerance held-out losses are within a percent of those at the minimum, mostly within a thousandth.
_TOLERANCE, _MOST_PASSES = 1e-2, 60


@dataclass
class Path:
    """Solutions on rows for one alpha after another.

    If classes are nearly separable, the coefficients grow like log(1 / alpha) as alpha falls. So the next solution lies
    near the line through the last two, over log alpha. A start on this line needs a fifth of the passes that a start at
    the last solution needs.

    Attributes
    ----------
    loss : Loss
    prepared : LossPreparation
    rows : iterable of (FeatureBlock, targets, weights)
        Rows in memory.
    share : float
        Share of these rows in all rows of the problem.
    start : tuple of ndarrays (m, t) and (t,) or None
        Where the first solution begins; None starts at zero.
    """

    loss: Loss
    prepared: LossPreparation
    rows: Stream
    share: float
    start: Model | None = None
    _last: list[LinearSolution] = field(default_factory=list)

    def solve(self, alpha: float) -> LinearSolution:
        """The solution at the next alpha, which is smaller than the last alpha."""
        start = self._extrapolated(alpha)
        solution = self.prepared.solve(self.loss, alpha, self.rows, start, _TOLERANCE, self.share, _MOST_PASSES)
        self._last = [*self._last[-1:], solution]
        return solution

    def _extrapolated(self, alpha: float) -> Model | None:
        """The extrapolation of the last two solutions to `alpha`."""
        if not self._last:
            return self.start
        before, last = self._last[0], self._last[-1]
        if before is last:
            return last.coef, last.intercept
        share = float(np.log(alpha / last.alpha) / np.log(last.alpha / before.alpha))
        return (
            last.coef + share * (last.coef - before.coef),
            last.intercept + share * (last.intercept - before.intercept),
        )
