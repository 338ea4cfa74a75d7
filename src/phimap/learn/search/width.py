"""The choice of the number of features by held-out errors, within a byte budget."""

from __future__ import annotations

from functools import partial

import numpy as np

from phimap.learn.ridge.solve import LEAVE_ONE_OUT_ROWS
from phimap.learn.ridge.solver import RidgeSolver
from phimap.learn.rows.batches import smallest_batch
from phimap.learn.search.effort import TRIAL_ROWS, Effort, trial_bytes
from phimap.learn.search.families import landmarks
from phimap.learn.search.log import TrialLog
from phimap.learn.search.sample import SearchSample
from phimap.learn.search.search import SearchResult
from phimap.learn.search.trial import run_trial

#: Maximum number of features that is chosen automatically.
MOST_COMPONENTS = 8192
#: Least number of features to which a small byte budget or a low effort reduces the width.
LEAST_COMPONENTS = 256
# Largest width that is tried. A trial of a larger width would take as long as the final fit.
_MOST_TRIED = 1024
# A doubling must lower the mean squared error by this share, because it takes up to four times as long. A doubling is
# assumed to gain this many times what the previous doubling gained; on single tables it gained .25 to 1.3 times that.
_GAIN, _LASTING = 0.02, 2 / 3
# The number of products of the final fit is n_rows * width^2, at most `most_products`. If it exceeds this share of
# `most_products`, the required gain is proportional to it.
_QUICK = 1 / 9
# A smaller width is preferred if its error exceeds the least error by at most this share.
_LOSS = 0.01
# Widths above `_WIDE` must leave at least this many rows for each feature.
_WIDE, _ROWS_A_FEATURE = 2048, 3


def most_components(budget: int) -> int:
    """The largest number of features, a power of two, with which a fit to any number of rows fits `budget` bytes.

    The budget holds ridge regression with the whitening of landmarks, and the widest trial of a number of features.
    """
    width = MOST_COMPONENTS
    while width > LEAST_COMPONENTS:
        # Two batches are counted: the features, and arrays of the same size that are computed from them.
        solution = RidgeSolver.memory(None, width) + 8 * width**2 + 2 * smallest_batch(width, 8)
        if max(solution, trial_bytes(min(width, _MOST_TRIED))) <= budget:
            break
        width //= 2
    return width


def affordable_width(n_rows: int, most: int, effort: Effort) -> int:
    """Return the largest width for which `effort` allows a fit to `n_rows` rows: `most` divided by a power of two."""
    while most > LEAST_COMPONENTS and n_rows * most**2 > effort.most_products:
        most //= 2
    return most


def choose_width(
    found: SearchResult,
    sample: SearchSample,
    n_rows: int | None,
    most: int,
    *,
    least: int = LEAST_COMPONENTS,
    seed: int,
    effort: Effort,
    log: TrialLog,
) -> int:
    """Return the width beyond which a further doubling hardly lowers the held-out error.

    Parameters
    ----------
    found : SearchResult
        The kernel, and its error at the last rung. Its metric is ignored, because the rows of `sample` are multiplied
        by its root already.
    sample : SearchSample
    n_rows : int or None
        Number of rows of the whole training set; None if more rows may follow.
    most : int
        Largest width.
    least : int, default=256
        Least width, if `most` and the effort allow it.
    seed : int
        Seed of the maps; the search used the same seed.
    effort : Effort
        Its `most_products` is the largest product of the number of rows and the squared width.
    log : TrialLog
        No trial begins after its deadline.

    Returns
    -------
    int

    Notes
    -----
    With landmarks, and at most 2,048 and at most `most` rows, every row becomes a landmark, which reproduces the kernel
    exactly. The more a doubling costs in the final fit, the more it must gain. The gain of a width that is not tried is
    predicted from the last doubling.
    """
    if n_rows is not None and n_rows <= min(LEAVE_ONE_OUT_ROWS, most) and found.family.features is landmarks:
        return n_rows
    n_rows = sample.n_rows if n_rows is None else n_rows
    most = affordable_width(n_rows, most, effort)
    if log.is_over():
        return min(_MOST_TRIED, most)
    small = sample.first(TRIAL_ROWS)
    # The errors of the search hold if its last trial had the same rows.
    holds = bool(log.entries) and log.entries[-1].n_rows == small.n_rows
    errors = {width: error for width, error in found.errors.items() if holds and width <= most}

    def error(width: int) -> float:
        if log.is_over():
            return np.inf
        components, roots = min(width, small.n_learned), (None,) * len(small.folds())
        make = partial(found.family.trial_features, found.kernel, components, seed, None)
        return run_trial(make, roots, small, found.alpha).error

    def gain_of(width: int) -> float:
        return 1 - errors[width] / errors[width // 2] if errors[width // 2] > 0 else 0.0

    def least_gain(width: int) -> float:
        return _GAIN * max(1.0, n_rows * width**2 / (_QUICK * effort.most_products))

    width = min(_MOST_TRIED, most)
    half, quarter, least = width // 2, width // 4, min(least, width)
    if width not in errors and quarter >= least:
        # Narrower maps take less time. If a doubling gains little there, further doublings gain less.
        errors |= {size: error(size) for size in (quarter, half) if size not in errors}
        if errors[half] > (1 - _LOSS) * errors[quarter]:
            return quarter if errors[quarter] <= (1 + _LOSS) * errors[half] else half
    errors |= {size: error(size) for size in (width, half) if size not in errors}
    gain = gain_of(width)
    while 2 * width <= most and (width < _WIDE or n_rows >= 2 * width * _ROWS_A_FEATURE):
        following = gain_of(2 * width) if 2 * width in errors else gain * _LASTING
        if following < least_gain(2 * width):
            break
        width, gain = 2 * width, following
    if gain >= _GAIN:
        return width
    if errors[min(errors)] <= (1 + _LOSS) * min(errors.values()) and min(errors) > least:
        errors[min(errors) // 2] = error(min(errors) // 2)
    return max(least, min(width for width in errors if errors[width] <= (1 + _LOSS) * min(errors.values())))
