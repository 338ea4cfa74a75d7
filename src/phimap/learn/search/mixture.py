"""A spectral mixture that is fitted to the targets of a sample."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from phimap.kernels import SpectralMixture
from phimap.learn.search.effort import Effort
from phimap.learn.search.families import KernelFamily, landmarks, random_features
from phimap.learn.search.log import TrialLog
from phimap.learn.search.rung import KernelCandidate, Rung
from phimap.learn.search.sample import SearchSample
from phimap.learn.search.search import TOLERANCE, SearchResult
from phimap.ops import to_host

#: The name of the kernel.
MIXTURE = "spectral-mixture"


def fitted_mixture(sample: SearchSample, effort: Effort, *, seed: int, n_jobs: int | None) -> SearchResult:
    """The spectral mixture that fits a sample, and the features that serve it.

    Parameters
    ----------
    sample : SearchSample
        Standardised dense rows in random order.
    effort : Effort
        Its first level is the rows of the fit, its last level compares landmarks with random features.
    seed : int
    n_jobs : int or None
        Changes no bit.

    Returns
    -------
    Found
        Without a metric: a mixture has scales of its own.

    Notes
    -----
    **Cost.** That of `SpectralMixture.fitted` on the rows of the first level, and two trials at the last.
    """
    X = np.asarray(to_host(sample.X), dtype=np.float64)
    # Weights of rows and of their classes may be of any size; their ratios count.
    weights = sample.weights / sample.weights.mean()
    first = slice(0, effort.n_rows[0])
    kernel = SpectralMixture.fitted(
        X[first],
        sample.Y[first],
        weights[first],
        n_steps=effort.steps,
        n_restarts=effort.starts,
        n_rows=effort.n_rows[0],
        random_state=seed,
        n_jobs=n_jobs,
    )
    family = KernelFamily(MIXTURE, lambda _: kernel, False, (), landmarks)
    level = Rung(sample.first(effort.n_rows[-1]), effort.n_components[-1], seed, n_jobs, log := TrialLog())
    start = KernelCandidate.start(family, level)
    other = replace(start, family=replace(family, features=random_features))
    of_landmarks, of_draws = level.evaluate([start, other])
    best = of_draws if of_draws.error <= TOLERANCE * of_landmarks.error else of_landmarks
    return SearchResult(kernel, best.family, None, log.record())
