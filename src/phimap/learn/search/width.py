"""The choice of the number of features by held-out errors, within a byte budget."""

from __future__ import annotations

from phimap.learn.ridge.solve import LEAVE_ONE_OUT_ROWS
from phimap.learn.ridge.solver import RidgeSolver
from phimap.learn.rows.batches import smallest_batch
from phimap.learn.search.families import landmarks
from phimap.learn.search.sample import SearchSample
from phimap.learn.search.search import SearchResult
from phimap.learn.search.trial import run_trial

#: Maximum number of features that is chosen automatically.
MOST_COMPONENTS = 8192
_LEAST_COMPONENTS = 256
# Largest width that is tried. The gain of a larger width is predicted from that of the last doubling.
_MOST_TRIED = 2048
_MOST_ROWS = 8000
# Share by which a doubling must lower the mean squared error. A width above
# `_MOST_TRIED` is taken without a trial only if the doubling before it gained twice this share.
_GAIN = 0.02
# Least number of rows for each feature after a doubling that is not tried.
_ROWS_A_FEATURE = 3


def most_components(budget: int) -> int:
    """The largest power of two of features with which ridge regression on any number of rows fits `budget` bytes."""
    width = MOST_COMPONENTS
    while width > _LEAST_COMPONENTS:
        # The second batch is for arrays that are computed from the first.
        if RidgeSolver.memory(None, width) + 2 * smallest_batch(width, 8) <= budget:
            break
        width //= 2
    return width


def choose_width(found: SearchResult, sample: SearchSample, n_rows: int | None, most: int) -> int:
    """Return the width from which on a further doubling hardly lowers the held-out error.

    Parameters
    ----------
    found : SearchResult
        The kernel. Its metric is ignored, because the rows of `sample` are multiplied by its root already.
    sample : SearchSample
    n_rows : int or None
        Number of rows of the whole training set; None if they are not counted yet.
    most : int
        Largest width.

    Returns
    -------
    int

    Notes
    -----
    If the rows are few and the features are landmarks, every row is a landmark, which reproduces the kernel exactly.
    """
    if n_rows is not None and n_rows <= min(LEAVE_ONE_OUT_ROWS, most) and found.family.features is landmarks:
        return n_rows
    small = sample.first(_MOST_ROWS)

    def error(width: int) -> float:
        components, roots = min(width, small.n_learned), (None,) * len(small.folds())
        return run_trial(lambda: found.family.features(found.kernel, components, 0, None), roots, small).error

    best, least, width, gain = _LEAST_COMPONENTS, error(_LEAST_COMPONENTS), 2 * _LEAST_COMPONENTS, 1.0
    while width <= min(most, _MOST_TRIED):
        wider = error(width)
        gain = 1 - wider / least if least > 0 else 0.0
        if gain >= _GAIN:
            best, least = width, wider
        elif width >= 4 * best:
            # The error varies between draws by as much as one doubling gains, so two doublings must fail to gain.
            return best
        width *= 2
    width = best
    n_rows = sample.n_rows if n_rows is None else n_rows
    while 2 * width <= most and gain > 2 * _GAIN and n_rows >= 2 * width * _ROWS_A_FEATURE:
        # Each doubling gains about a third less than the one before.
        width, gain = 2 * width, gain * 2 / 3
    return width
