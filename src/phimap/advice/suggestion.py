"""Advice on a map: the cheapest map that reaches a given error for a kernel."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_array

from phimap._random import RandomState, named_streams
from phimap._validation import check_real
from phimap.advice.candidate import WIDE, Candidate, measure, variant
from phimap.config import memory_budget, size_text, thread_count
from phimap.features import NystroemFeatures
from phimap.kernels import Kernel
from phimap.learn.rows.scaling import ColumnMoments
from phimap.learn.search.kernel import choose_map
from phimap.metrics.matrices import subset_rows
from phimap.ops import ops_for, to_host
from phimap.random_map import RandomMap
from phimap.tables import TableEncoder
from phimap.tables.frames import check_frame, is_frame, is_numbers

# Number of rows of the sample. Maps are fitted on one half of it and measured on the other half, so that errors are
# measured on new rows.
_SAMPLE_ROWS = 1000
_DRAWS = 3
# Columns count as having different units if the largest standard deviation is more than this multiple of the smallest.
_UNITS = 10.0


@dataclass(frozen=True)
class Suggestion:
    """The result of `suggest`.

    Attributes
    ----------
    chosen : Candidate
        The advised map.
    others : tuple of Candidate
        The maps that were measured but not chosen.
    error : float
        The requested relative error.
    memory : int
        Byte budget of the features of all rows. Ignored by ``==`` because the default depends on the free memory.
    n_rows, n_features : int
        Shape of the data.
    reached : bool
        Whether the chosen map is predicted to reach `error` within `memory`.
    standardized : Candidate or None
        The map for columns of mean 0 and variance 1, which learners make by default. It is measured if the largest
        standard deviation of a dense column is over ten times the smallest; else None.
    """

    chosen: Candidate
    others: tuple[Candidate, ...]
    error: float
    memory: int = field(compare=False)
    n_rows: int
    n_features: int
    reached: bool
    standardized: Candidate | None = None

    @property
    def feature_map(self) -> RandomMap:
        """The chosen map with the advised width, not fitted."""
        return self.chosen.feature_map

    @property
    def n_components(self) -> int:
        """The advised width of the chosen map."""
        return self.chosen.n_components

    @property
    def predicted_error(self) -> float:
        """Relative error predicted for the chosen map at the advised width."""
        return self.chosen.predicted_error

    def __str__(self) -> str:
        size = f"{self.n_rows:,} rows x {self.n_features:,} columns"
        lines = [
            f"For {size}, relative error {self.error:g}, features within {size_text(self.memory)}:",
            f"  {self.chosen}",
        ]
        if not self.reached:
            lines.append("  The budget or the number of rows ends before the error is reached.")
        if self.standardized is not None:
            lines.append("  The columns have different units. Learners standardise them by default, which needs")
            lines.append(f"  {self.standardized}")
        lines += [f"  instead of {other}" for other in self.others]
        lines.append(
            f"Errors are means of {_DRAWS} draws on held-out rows; beyond the measured widths they fall by 1/sqrt(m), "
            "or more slowly where Nystroem features did."
        )
        return "\n".join(lines)


def suggest(
    X: Any,
    kernel: str | Kernel | RandomMap = "gaussian",
    *,
    error: float = 0.05,
    memory: int | str | None = None,
    length_scale: float | str = "auto",
    random_state: RandomState = 0,
    n_jobs: int | None = None,
) -> Suggestion:
    """Advise a feature map and its width for a kernel on given data.

    The kernel's random features and Nystroem features are measured at two small widths on a sample of the rows. Among
    the maps that reach the error, the one with the fewest operations for features and Gram matrix is chosen.

    Parameters
    ----------
    X : array-like, data frame, CSR matrix or torch.Tensor of shape (n_samples, n_features)
        The data as they will be passed to the map. Learners standardise dense columns by default: if columns have
        different units, the advice for standardised columns is given as well. Frames with text, categories, dates or
        missing cells are encoded by `TableEncoder` without a target, and the advice is for the encoded rows.
    kernel : str, Kernel or RandomMap, default="gaussian"
        As in `KernelRegressor`. If a map is given, only that map is measured, at other widths.
    error : float, default=0.05
        Relative Frobenius error of the kernel matrix that the map must reach.
    memory : int or str, optional
        Byte budget of the features of all rows, such as ``"2GB"``; by default the configured one. Learners process
        batches and need far less.
    length_scale : float, "auto" or "median", default="auto"
        Length scale of stationary kernels given by name. ``"auto"`` and ``"median"`` both use the median distance
        between rows, in the metric of the kernel.
    random_state : int, Generator, RandomState, SeedSequence or None, default=0
        Seed of the sample and of the draws.
    n_jobs : int or None, default=None
        Threads; None uses the configured number.

    Returns
    -------
    Suggestion
        The advice. Everything in it except the seconds is determined by the data, the seed and the budget.

    Raises
    ------
    ValueError
        If `error` is not positive, there are fewer than 4 rows, or one component of all rows exceeds the budget.

    Notes
    -----
    **Error.** Between the measured widths the prediction interpolates; beyond them it falls by 1/sqrt(m), as for
    independent features. The error of Nystroem features depends on the spectrum of the kernel matrix: it is
    extrapolated at the measured rate, but never faster than 1/sqrt(m), which is cautious. The advised width is at
    least the smaller measured width if the budget and the number of rows allow it. If the ``rate`` of random features
    is well below 1/2, the predicted error is too low.

    **Cost.** About a dozen maps of at most 512 components on at most 500 rows, and their kernel matrices. Columns of
    different units take twice that.

    **Differs from the source.** The survey compares methods by this error on 1,000 points; here the map is fitted on
    one half of up to 1,000 rows and measured on the other.

    References
    ----------
    Liu, Huang, Chen, Suykens, "Random Features for Kernel Approximation: A Survey on Algorithms, Theory, and
    Beyond", TPAMI 2021, Section 6.1.

    Examples
    --------
    >>> import numpy as np, phimap as pm
    >>> X = np.random.default_rng(0).standard_normal((300, 4))
    >>> advice = pm.suggest(X, pm.kernels.Gaussian(length_scale=2.0), error=0.02)
    >>> advice.reached, advice.predicted_error <= 0.02
    (True, True)
    >>> Z = advice.feature_map.fit_transform(X)
    >>> bool(pm.metrics.relative_error(advice.feature_map, X) < 0.04)
    True
    """
    error = check_real("error", error, above=0.0)
    thread_count(n_jobs)
    budget = memory_budget(memory)
    check_frame(X)
    encodes = is_frame(X) and not is_numbers(X)
    if encodes:
        X = TableEncoder().fit_transform(X)
    X = X if hasattr(X, "shape") else np.asarray(X)
    streams = named_streams(random_state, "rows", "maps")
    fitting, measuring = _halves(X, streams["rows"])
    seeds = [int(seed) for seed in streams["maps"].integers(2**31, size=_DRAWS)]

    n_rows, n_features = X.shape[0], fitting.shape[1]
    widest = budget // (n_rows * fitting.dtype.itemsize)
    if widest < 1:
        raise ValueError(
            f"`memory` must hold at least one component of all rows, {n_rows * fitting.dtype.itemsize} bytes, "
            f"got {budget}. Raise it, or transform in batches."
        )

    def advice(fitting: Any, measuring: Any) -> list[Candidate]:
        """The candidates for these rows, the advised one first."""
        maps: list[RandomMap] = [choose_map(kernel, WIDE, length_scale, fitting, random_state=seeds[0], n_jobs=n_jobs)]
        if not isinstance(kernel, RandomMap) and not isinstance(maps[0], NystroemFeatures):
            exact = variant(maps[0]).fit(fitting[:1]).kernel_
            maps.append(NystroemFeatures(exact, n_components=WIDE, random_state=seeds[0], n_jobs=n_jobs))
        candidates = [measure(map_, fitting, measuring, seeds, error, widest, n_rows) for map_ in maps]
        return sorted(candidates, key=preference)

    # Maps that reach the error come first, ordered by cost. The other maps follow, ordered by error.
    def preference(candidate: Candidate) -> tuple[bool, float]:
        reached = candidate.predicted_error <= error
        return not reached, candidate.operations if reached else candidate.predicted_error

    chosen, *others = advice(fitting, measuring)
    # Learners take encoded columns in the scale that the encoder gives them.
    scaled = None if encodes else _standardized(fitting, measuring)
    return Suggestion(
        chosen=chosen,
        others=tuple(others),
        error=error,
        memory=budget,
        n_rows=n_rows,
        n_features=n_features,
        reached=chosen.predicted_error <= error,
        standardized=None if scaled is None else advice(*scaled)[0],
    )


def _standardized(fitting: Any, measuring: Any) -> tuple[Any, Any] | None:
    """Both samples with columns of mean 0 and variance 1, as learners scale them; None if the units are alike.

    The result is also None for CSR rows, which learners leave unscaled.
    """
    if sparse.issparse(fitting):
        return None
    moments = ColumnMoments.empty(fitting.shape[1])
    for rows in (fitting, measuring):
        moments.update(rows)
    scaling = moments.scaling("columns", complete=True)
    varying = scaling.factor[scaling.factor > 0]
    if not varying.size or varying.max() <= _UNITS * varying.min():
        return None
    ops = ops_for(fitting)
    scaling = scaling.bind(ops)
    return scaling.apply(ops, fitting), scaling.apply(ops, measuring)


def _halves(X: Any, rng: np.random.Generator) -> tuple[Any, Any]:
    """Two disjoint random samples of the rows, as arrays or CSR matrices on the host."""
    rows: Any = to_host(subset_rows(X, _SAMPLE_ROWS, rng))
    options: dict[str, Any] = {"accept_sparse": "csr", "dtype": [np.float64, np.float32], "ensure_min_samples": 4}
    rows = check_array(rows, **options)
    order = rng.permutation(rows.shape[0])
    half = rows.shape[0] // 2
    return rows[np.sort(order[:half])], rows[np.sort(order[half:])]
