"""Held-out rows of a stream, chosen without knowing its length."""

from __future__ import annotations

from typing import Any

import numpy as np

from phimap._random import hashed_uniforms, row_uniforms

# Up to this number of classes, the same share of each class is held out. All further classes count as one class.
# A stream with any number of distinct targets then needs a bounded number of counts.
_MOST_CLASSES = 1000
# The random numbers of class c have the indices c * 2**40, c * 2**40 + 1, ... No class has more than 2**40 rows, so the
# indices of different classes do not overlap.
_CLASS_STEP = np.uint64(2**40)


def holdout_mask(n_rows_start: int, n: int, fraction: float, seed: int = 0) -> np.ndarray:
    """Return the mask of held-out rows among rows ``n_rows_start, ..., n_rows_start + n - 1`` of a stream.

    Whether a row is held out depends only on its index in the file, on `seed` and on `fraction`. The split is the same
    for any batch size, order of batches and number of passes.

    Parameters
    ----------
    n_rows_start : int
        Index of the first row, from 0.
    n : int
        Number of rows.
    fraction : float
        Probability that a row is held out, in [0, 1]. A larger fraction holds out the same rows and further rows.
    seed : int, optional
        Non-negative seed; different seeds give independent splits.

    Returns
    -------
    ndarray of shape (n,), bool
        True where the row is held out.

    Raises
    ------
    ValueError
        If `fraction` is outside [0, 1] or an integer is negative.

    Notes
    -----
    **Error** The number held out is binomial with parameters ``n, fraction``, as far as SplitMix64 is random.
    **Cost** A few integer operations and 16 bytes per row. **Differs from the source** The generator's state is hashed
    with the seed; otherwise seeds 1 and 2 would give one stream, shifted by a row.

    References
    ----------
    Steele, Lea and Flood 2014, Fast splittable pseudorandom number generators, Figures 13 and 17.

    Examples
    --------
    >>> whole = holdout_mask(0, 1000, 0.25, seed=1)
    >>> bool((holdout_mask(600, 400, 0.25, seed=1) == whole[600:]).all())
    True
    """
    for name, value in (("n_rows_start", n_rows_start), ("n", n), ("seed", seed)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 0:
            raise ValueError(f"`{name}` must be a non-negative integer, got {value!r}. Use for example 0.")
    if not 0 <= fraction <= 1:
        raise ValueError(f"`fraction` must be between 0 and 1, got {fraction!r}. Use for example 0.1.")
    return row_uniforms(n_rows_start, n, int(seed)) < fraction


class ProportionalHoldout:
    """Held-out rows of a stream of labels: every class is held out in proportion.

    Parameters
    ----------
    fraction : float
        Share of the rows that is held out, in [0, 1].
    seed : int, default=0
        Non-negative seed.
    classes : bool, default=True
        Whether whole numbers, booleans and text are classes. If False, all rows are held out as by `holdout_mask`.

    Raises
    ------
    ValueError
        If `fraction` is outside [0, 1], or `seed` is negative.

    Notes
    -----
    The rows of a class are numbered k = 0, 1, ... in the order of the stream. With f the fraction, row k covers the
    interval ``[k f, (k + 1) f)``. Each interval ``[j, j + 1)`` has one random point, and a row is held out if its
    interval contains a point. If f is at most one half, the interval of a row may contain two points. The interval of
    the next row then contains none, and the second point counts for it. For a larger fraction, the rows that are not
    held out, a share of ``1 - f``, are chosen in the same way.

    So of the first k rows of a class, at least ``floor(k f) - 1`` and at most ``floor(k f) + 1`` are held out, and each
    run of ``1 / f`` rows has its held-out row at a random place. The way in which the stream is cut into batches has no
    effect. Targets that are numbers with fractions are held out as by `holdout_mask`.

    **Error** For each class, the number of held-out rows deviates from the share by at most one row; it is not
    binomial. **Cost** Sorting the labels of a batch. **Differs from the source** Every interval has its own random
    point; the source has one random start for all intervals. So rows that repeat with a period are neither all held out
    nor all kept.

    References
    ----------
    Madow and Madow 1944, On the theory of systematic sampling.

    Examples
    --------
    >>> labels = np.array(["common"] * 980 + ["rare"] * 20)
    >>> int(ProportionalHoldout(0.1).mask(labels)[-20:].sum())
    2
    """

    def __init__(self, fraction: float, seed: int = 0, *, classes: bool = True) -> None:
        holdout_mask(0, 0, fraction, seed)
        self._fraction, self._seed, self._classes = fraction, int(seed), classes
        self._codes: dict[Any, int] = {}
        self._counts = np.zeros(_MOST_CLASSES + 1, np.int64)
        self._n_seen = 0

    def mask(self, y: np.ndarray) -> np.ndarray:
        """Return the mask (n,) of held-out rows among the next rows of the stream, whose labels are `y` (n,)."""
        held_out = holdout_mask(self._n_seen, len(y), self._fraction, self._seed)
        self._n_seen += len(y)
        if self._classes:
            y = y.astype(str) if y.dtype.kind == "O" else y
            labelled = np.ones(len(y), dtype=bool) if y.dtype.kind != "f" else y == np.rint(y)
            held_out[labelled] = self._of_classes(self._codes_of(y[labelled]))
        return held_out

    def _codes_of(self, labels: np.ndarray) -> np.ndarray:
        """Return the numbers (r,) of the classes of `labels`, in the order in which classes first occur."""
        distinct, first, index = np.unique(labels, return_index=True, return_inverse=True)
        codes = np.empty(len(distinct), np.int64)
        for place in np.argsort(first):
            label = distinct[place].item()
            if label not in self._codes and len(self._codes) < _MOST_CLASSES:
                self._codes[label] = len(self._codes)
            codes[place] = self._codes.get(label, _MOST_CLASSES)
        return codes[index.reshape(-1)]

    def _of_classes(self, codes: np.ndarray) -> np.ndarray:
        """Return the mask (r,) of held-out rows with the classes `codes`."""
        order = np.argsort(codes, kind="stable")
        each = np.bincount(codes, minlength=self._counts.size)
        starts = np.cumsum(each) - each
        rows = np.empty(len(codes), np.int64)
        rows[order] = np.arange(len(codes)) - starts[codes[order]]
        rows += self._counts[codes]
        self._counts += each
        share = min(self._fraction, 1 - self._fraction)
        chosen = self._n_chosen(codes, rows + 1, share) > self._n_chosen(codes, rows, share)
        return chosen if self._fraction <= 0.5 else ~chosen

    def _n_chosen(self, codes: np.ndarray, rows: np.ndarray, share: float) -> np.ndarray:
        """Return how many of the first `rows` (r,) rows of classes `codes` (r,) are chosen, at a share up to 1/2."""
        points = self._n_points(codes, rows * share)
        # The second point in the interval of the last row counts for the next row.
        return points - (points - self._n_points(codes, np.maximum(rows - 1, 0) * share) == 2)

    def _n_points(self, codes: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """Return the numbers (r,) of random points of the classes `codes` below `ends`, both (r,)."""
        whole = np.floor(ends).astype(np.int64)
        index = codes.astype(np.uint64) * _CLASS_STEP + whole.astype(np.uint64)
        return whole + (hashed_uniforms(index, self._seed) < ends - whole)
