"""How many features a model needs."""

from __future__ import annotations

from collections.abc import Callable

from phimap.kernels import Kernel
from phimap.learn.ridge.solve import LEAVE_ONE_OUT_ROWS
from phimap.learn.ridge.solver import RidgeSolver
from phimap.learn.rows.batches import smallest_batch
from phimap.learn.search.families import landmarks
from phimap.learn.search.sample import SearchSample
from phimap.learn.search.search import SearchResult
from phimap.learn.search.trial import run_trial

#: The most features that are chosen without being asked for.
MOST_COMPONENTS = 8192
_LEAST_COMPONENTS = 256
# Widths up to this are tried; beyond, the gains of the last doubling decide.
_MOST_TRIED = 2048
_MOST_ROWS = 8000
# A doubling must lower the mean squared error by this share, and one that is not tried needs as much more of the last.
_GAIN = 0.02
# Each doubling that is not tried wants this many rows a feature.
_ROWS_A_FEATURE = 3


def most_components(budget: int) -> int:
    """The largest power of two of features for which ridge regression on any number of rows fits `budget` bytes."""
    width = MOST_COMPONENTS
    while width > _LEAST_COMPONENTS:
        # Batches of twice the least height leave room for what stands beside them.
        if RidgeSolver.memory(None, width) + 2 * smallest_batch(width, 8) <= budget:
            break
        width //= 2
    return width


def choose_width(found: SearchResult, sample: SearchSample, n_rows: int | None, most: int) -> int:
    """The width from which on a doubling hardly lowers the held-out error.

    Parameters
    ----------
    found : Found
        Kernel and metric, which `sample` is scaled by already.
    sample : SearchSample
    n_rows : int or None
        Rows of the whole training set.
    most : int
        Upper bound.

    Returns
    -------
    int

    Notes
    -----
    Few rows are landmarks all, which leave no error: their number is the width.
    """
    if n_rows is not None and n_rows <= min(LEAVE_ONE_OUT_ROWS, most) and found.family.features is landmarks:
        return n_rows
    error = _error_of(found.family.features, found.kernel, sample.first(_MOST_ROWS))
    best, least, width, gain = _LEAST_COMPONENTS, error(_LEAST_COMPONENTS), 2 * _LEAST_COMPONENTS, 1.0
    while width <= min(most, _MOST_TRIED):
        wider = error(width)
        gain = 1 - wider / least if least > 0 else 0.0
        if gain >= _GAIN:
            best, least = width, wider
        elif width >= 4 * best:
            # Draws differ by as much as a doubling may gain, so that it takes two to tell that nothing is gained.
            return best
        width *= 2
    width = best
    n_rows = sample.n_rows if n_rows is None else n_rows
    while 2 * width <= most and gain > 2 * _GAIN and n_rows >= 2 * width * _ROWS_A_FEATURE:
        # Gains fall by about a third from one doubling to the next.
        width, gain = 2 * width, gain * 2 / 3
    return width


def _error_of(features: Callable, kernel: Kernel, sample: SearchSample) -> Callable[[int], float]:
    """Held-out error by width."""
    roots = (None,) * len(sample.folds())

    def error(width: int) -> float:
        return run_trial(lambda: features(kernel, min(width, sample.n_learned), 0, None), roots, sample).error

    return error
