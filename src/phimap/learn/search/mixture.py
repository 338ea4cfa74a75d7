"""A spectral mixture kernel that is fitted to the targets of a sample."""

from __future__ import annotations

import numpy as np

from phimap.kernels import SpectralMixture
from phimap.learn.search.effort import Effort
from phimap.learn.search.families import KernelFamily, landmarks
from phimap.learn.search.log import TrialLog
from phimap.learn.search.rung import KernelCandidate, Rung
from phimap.learn.search.sample import SearchSample
from phimap.learn.search.search import TOLERANCE, SearchResult, with_random_features
from phimap.ops import to_host

#: Name of the kernel.
MIXTURE = "spectral-mixture"


def fitted_mixture(
    sample: SearchSample, effort: Effort, *, seed: int, n_jobs: int | None, log: TrialLog
) -> SearchResult:
    """Fit a spectral mixture to the targets of a sample, and choose its features.

    Parameters
    ----------
    sample : SearchSample
        Standardised dense rows in random order.
    effort : Effort
        Its first rung gives the number of rows of the fit. At its last rung landmarks are compared with random
        features.
    seed : int
    n_jobs : int or None
        Threads; the result does not depend on them.
    log : TrialLog
        Receives the trials of the features.

    Returns
    -------
    SearchResult
        The result, which has no metric because a mixture has a scale for each column.

    Notes
    -----
    **Cost.** The cost of `SpectralMixture.fitted` on the rows of the first rung, and of two trials at the last rung.
    """
    X = np.asarray(to_host(sample.X), dtype=np.float64)
    # The weights of rows and of their classes may have any scale, because only their ratios matter.
    weights = sample.weights / sample.weights.mean()
    first = slice(0, effort.n_rows[0])
    kernel = SpectralMixture.fitted(
        X[first],
        sample.Y[first],
        weights[first],
        n_steps=effort.mixture_steps,
        n_restarts=effort.mixture_starts,
        n_rows=effort.n_rows[0],
        random_state=seed,
        n_jobs=n_jobs,
    )
    rung = Rung(sample.first(effort.n_rows[-1]), effort.n_components[-1], seed, n_jobs, log)
    start = KernelCandidate.start(KernelFamily(MIXTURE, lambda _: kernel, False, (), landmarks), rung)
    of_landmarks, of_draws = rung.evaluate([start, with_random_features(start)])
    best = of_draws if of_draws.error <= TOLERANCE * of_landmarks.error else of_landmarks
    return SearchResult(kernel, best.family, None, log.record())
