"""Solutions down a sequence of regularisations, each begun where the last ones point."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from phimap.learn.losses.base import Loss
from phimap.learn.losses.preconditioner import GramPreconditioner
from phimap.learn.losses.quasi_newton import QuasiNewton
from phimap.learn.losses.steps import Steps
from phimap.learn.solver import LinearSolution, Stream, solve

# At this tolerance held-out losses are within a percent of those at the minimum, and mostly within a thousandth.
_TOLERANCE, _MOST_PASSES = 1e-2, 60

#: Coefficients (m, t) and intercept (t,).
Model = tuple[np.ndarray, np.ndarray]


@dataclass
class Path:
    """Solutions on some rows for one alpha after the other.

    Small alphas on classes that can be told apart nearly without error make the coefficients grow like log(1 / alpha).
    So the line through the last two solutions, over log alpha, ends near the next one. From there a fifth of the passes
    suffices that the last solution alone would need.

    Attributes
    ----------
    loss : Loss
    rows : iterable of (FeatureBlock, signs, weights)
        In memory.
    preconditioner : Preconditioner
        Of these rows.
    mean : ndarray of shape (m,)
    t : int
        Scores.
    eps : float
    n_jobs : int or None
    steps : Steps
        Those taken so far, which paths on similar rows may share.
    start : tuple of ndarrays (m, t) and (t,) or None
        Where the first solution begins; None is at zero.
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
        """The solution at the next alpha, which is smaller than the last."""
        solver = QuasiNewton(
            self.loss,
            alpha,
            self.preconditioner,
            self.mean,
            start=self._ahead(alpha),
            steps=self.steps,
            tolerance=_TOLERANCE,
            passes=_MOST_PASSES,
            n_jobs=self.n_jobs,
        )
        solution = solve(solver, self.rows, self.mean.shape[0], self.t, self.eps)
        self._last = [*self._last[-1:], solution]
        return solution

    def _ahead(self, alpha: float) -> Model | None:
        """Where the line through the last two solutions is at `alpha`."""
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


def path_memory(m: int, t: int) -> int:
    """Bytes of the solutions that a path keeps, and of the one that is being found."""
    return 3 * 8 * m * t
