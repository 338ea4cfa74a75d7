"""Solutions along a descending sequence of alphas; each one begins at an extrapolation of the last two."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from phimap.learn.losses.base import Loss
from phimap.learn.losses.preconditioner import GramPreconditioner
from phimap.learn.losses.quasi_newton import QuasiNewton
from phimap.learn.losses.steps import Steps
from phimap.learn.solver import LinearSolution, Stream, solve

# With this tolerance held-out losses are within a percent of those at the minimum, mostly within a thousandth.
_TOLERANCE, _MOST_PASSES = 1e-2, 60

#: Coefficients (m, t) and intercept (t,).
Model = tuple[np.ndarray, np.ndarray]


@dataclass
class Path:
    """Solutions on rows for one alpha after another.

    If classes are nearly separable, the coefficients grow like log(1 / alpha) as alpha falls. So the next solution lies
    near the line through the last two, over log alpha. A start on this line needs a fifth of the passes that a start at
    the last solution needs.

    Attributes
    ----------
    loss : Loss
    rows : iterable of (FeatureBlock, signs, weights)
        Rows in memory.
    preconditioner : GramPreconditioner
        Preconditioner of these rows.
    mean : ndarray of shape (m,)
    t : int
        Number of scores.
    eps : float
    n_jobs : int or None
    steps : Steps
        Steps taken so far, which paths on similar rows may share.
    start : tuple of ndarrays (m, t) and (t,) or None
        Where the first solution begins; None starts at zero.
    """

    loss: Loss
    rows: Stream
    preconditioner: GramPreconditioner
    mean: np.ndarray
    t: int
    eps: float
    n_jobs: int | None
    steps: Steps
    start: Model | None = None
    _last: list[LinearSolution] = field(default_factory=list)

    def solve(self, alpha: float) -> LinearSolution:
        """The solution at the next alpha, which is smaller than the last alpha."""
        solver = QuasiNewton(
            self.loss,
            alpha,
            self.preconditioner,
            self.mean,
            start=self._extrapolated(alpha),
            steps=self.steps,
            tolerance=_TOLERANCE,
            passes=_MOST_PASSES,
            n_jobs=self.n_jobs,
        )
        solution = solve(solver, self.rows, self.mean.shape[0], self.t, self.eps)
        self._last = [*self._last[-1:], solution]
        return solution

    def _extrapolated(self, alpha: float) -> Model | None:
        """The extrapolation of the last two solutions to `alpha`."""
        if not self._last:
            return self.start
        last = self._last[-1]
        if len(self._last) == 1:
            return last.coef, last.intercept
        before = self._last[0]
        share = float(np.log(alpha / last.alpha) / np.log(last.alpha / before.alpha))
        return (
            last.coef + share * (last.coef - before.coef),
            last.intercept + share * (last.intercept - before.intercept),
        )
