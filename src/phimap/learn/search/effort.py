"""Number and size of the trials of a search, by effort."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from phimap.config import thread_count

#: Largest number of rows of a trial that compares widths.
TRIAL_ROWS = 8000
# Numbers of features that the maps of a rung may have, and largest number that `trial_bytes` counts for the maps of
# three folds, which are used only if there are few rows.
_WIDTHS, _WIDEST_OF_FEW = (256, 512, 1024, 2048), 1024


def trial_bytes(width: int) -> int:
    """Return the bytes that a trial with maps of `width` features takes.

    A trial of many rows stores the features in float32. A trial of few rows stores a Gram matrix and a map for each of
    three folds. The larger of these two numbers counts. A map, a Gram matrix, a copy that is factorised, and partial
    sums are added.
    """
    return max(4 * TRIAL_ROWS * width, 48 * min(width, _WIDEST_OF_FEW) ** 2) + 28 * width**2


@dataclass(frozen=True)
class Effort:
    """Number and size of the trials of a search.

    Attributes
    ----------
    n_components, n_rows : tuple of int
        For each rung, the width of the maps and the number of rows; there are one to three rungs.
    survivors : int
        Number of candidates of each kind of metric that reach the second rung.
    least_stages, stages, steps : int
        Number of first stages in the learning of a metric whose gain is not tested, maximum number of stages, and
        number of steps of a stage.
    rounds : int
        Maximum number of rounds in which a learned metric is refined by the gradients of the fits.
    widest : int
        Largest number of features with which a metric is refined after the last rung.
    least_fall : float
        The third rung follows only if the least error has fallen by this share between the first two rungs.
    most_products : float
        Largest product of the number of training rows and the squared number of features, if the search chooses the
        number of features.
    combines : bool
        Whether sums and products of kernels are tried.
    mixture_steps, mixture_starts : int
        Maximum number of steps, and number of starts, of the fit of a spectral mixture.
    """

    n_components: tuple[int, ...]
    n_rows: tuple[int, ...]
    survivors: int
    least_stages: int
    stages: int
    steps: int
    rounds: int
    widest: int
    least_fall: float
    most_products: float
    combines: bool = False
    mixture_steps: int = 100
    mixture_starts: int = 4

    def threads(self, budget: int, n_jobs: int | None) -> int:
        """Return how many of `n_jobs` threads may run trials at the same time within `budget` bytes, at least one."""
        return max(1, min(thread_count(n_jobs), budget // trial_bytes(max(self.n_components))))

    def within(self, budget: int) -> Effort:
        """Return this effort with narrower maps at rungs whose trials would not fit `budget` bytes.

        In addition to a trial, a rung holds the maps of the candidates that it compares.
        """
        most = max(width for width in _WIDTHS if width == _WIDTHS[0] or trial_bytes(width) + 40 * width**2 <= budget)
        narrower = tuple(min(width, most) for width in self.n_components)
        return replace(self, n_components=narrower, widest=min(self.widest, most))


EFFORTS = {
    "fast": Effort((256, 512), (2500, 5000), 1, 4, 14, 6, 4, 512, np.inf, 6e10, mixture_steps=30, mixture_starts=2),
    "normal": Effort((256, 512, 1024), (2500, 5000, 8000), 1, 7, 14, 6, 10, 2048, 0.1, 1.8e11),
    "thorough": Effort((512, 1024, 2048), (5000, 8000, 16_000), 2, 7, 24, 6, 16, 2048, -np.inf, np.inf, True, 200, 8),
}
