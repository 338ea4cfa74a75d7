"""Which map, how many features, what error, time and memory: measured at small widths on a sample of the data."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from math import ceil, exp, log
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_array

from phimap._random import RandomState, named_streams
from phimap._validation import check_real
from phimap.config import memory_budget, thread_count
from phimap.features import NystroemFeatures
from phimap.kernels import Kernel
from phimap.learn.search.kernel import choose_map
from phimap.metrics import relative_error
from phimap.metrics.matrices import subset_rows
from phimap.ops import to_host
from phimap.random_map import RandomMap

# Half of the sample fits maps that depend on data, the other half measures: no row is judged by a map that saw it.
_SAMPLE_ROWS = 1000
_WIDE = 512
_NARROWING = 4
_DRAWS = 3
_LEAST_RATE = 0.05
# No memory holds e^40 components.
_MOST_GROWTH = 40.0


@dataclass(frozen=True)
class Candidate:
    """A map that was measured.

    Attributes
    ----------
    feature_map : RandomMap
        Not fitted, of the width advised. Not compared.
    method : str
        Its class.
    widths : tuple of int
        The two small widths.
    errors : tuple of float
        Relative errors measured there: root mean squares over draws.
    rate : float
        Exponent b of error ~ 1/m^b between the two; 1/2 for independent features.
    n_components : int
        Width advised.
    predicted_error : float
        Relative error there.
    n_bytes : int
        Size of the features of all rows.
    operations : float
        Multiplications and additions of the features of all rows and of their Gram matrix.
    seconds : float
        Time of the features of all rows, scaled from a measurement on this machine. Not compared.
    """

    feature_map: RandomMap = field(compare=False, repr=False)
    method: str
    widths: tuple[int, int]
    errors: tuple[float, float]
    rate: float
    n_components: int
    predicted_error: float
    n_bytes: int
    operations: float
    seconds: float = field(compare=False)

    def __str__(self) -> str:
        measured = ", ".join(f"{e:.2g} at {w:,}" for w, e in zip(self.widths, self.errors, strict=True))
        return (
            f"{self.method}: {self.n_components:,} components, relative error {self.predicted_error:.2g}, "
            f"{_readable(self.n_bytes)}, about {self.seconds:.2g} s (measured {measured}; rate m^-{self.rate:.2f})"
        )


@dataclass(frozen=True)
class Suggestion:
    """What `suggest` advises.

    Attributes
    ----------
    chosen : Candidate
    others : tuple of Candidate
        The maps that were measured and not chosen.
    error : float
        The relative error asked for.
    memory : int
        Byte budget of the features of all rows. Not compared: by default it follows the free memory.
    n_rows, n_features : int
    reached : bool
        Whether the chosen map is predicted to reach `error` within `memory`.
    """

    chosen: Candidate
    others: tuple[Candidate, ...]
    error: float
    memory: int = field(compare=False)
    n_rows: int
    n_features: int
    reached: bool

    @property
    def feature_map(self) -> RandomMap:
        """The chosen map, not fitted, of the width advised."""
        return self.chosen.feature_map

    @property
    def n_components(self) -> int:
        """The width advised."""
        return self.chosen.n_components

    @property
    def predicted_error(self) -> float:
        """Relative error predicted there."""
        return self.chosen.predicted_error

    def __str__(self) -> str:
        size = f"{self.n_rows:,} rows x {self.n_features:,} columns"
        lines = [
            f"For {size}, relative error {self.error:g}, features within {_readable(self.memory)}:",
            f"  {self.chosen}",
        ]
        if not self.reached:
            lines.append("  The budget or the number of rows ends before the error is reached.")
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
    """Advise a map and its width for a kernel on given data.

    The kernel's random features and Nystroem features are measured at two small widths on a sample of the rows. Of
    those that reach the error, the one with the fewest operations for features and Gram matrix is chosen.

    Parameters
    ----------
    X : array-like, CSR matrix or torch.Tensor of shape (n_samples, n_features)
        The data as the map will see them: scale them first if a learner would.
    kernel : str, Kernel or RandomMap, default="gaussian"
        As in `KernelRegressor`. A map is measured as it is, at other widths, and has no rival.
    error : float, default=0.05
        Relative Frobenius error of the kernel matrix to reach.
    memory : int or str, optional
        Byte budget of the features of all rows, such as ``"2GB"``; by default the configured one. Learners stream
        over batches and need far less.
    length_scale : float or "auto", default="auto"
        For stationary kernels named by text; ``"auto"`` is the median distance.
    random_state : int, Generator, RandomState, SeedSequence or None, default=0
        Seed of the sample and of the draws.
    n_jobs : int or None, default=None
        Threads; None is the configured number.

    Returns
    -------
    Suggestion
        Everything but the seconds in it is fixed by the seed and the budget.

    Raises
    ------
    ValueError
        If `error` is not positive, there are fewer than 4 rows, or the budget holds no component of all rows.

    Notes
    -----
    **Error.** Between the measured widths the prediction interpolates; beyond them it falls by 1/sqrt(m), the law of
    independent features. The error of Nystroem features falls with the spectrum: theirs is extrapolated by 1/sqrt(m)
    where they were faster, which is cautious, and by their own rate where they were slower. No width below the
    smaller one is advised. A ``rate`` of random features well below 1/2 warns that the prediction is too good.

    **Cost.** Some dozen maps of at most 512 components on at most 500 rows, and their kernel matrices.

    **Differs from the source.** The survey compares methods by this error on 1,000 points; here the map is fitted on
    one half of the sample and measured on the other.

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
    first = choose_map(kernel, _WIDE, length_scale, fitting, random_state=seeds[0], n_jobs=n_jobs)
    maps = [first]
    if not isinstance(kernel, RandomMap) and not isinstance(first, NystroemFeatures):
        exact = _variant(first).fit(fitting[:1]).kernel_
        maps.append(NystroemFeatures(exact, n_components=_WIDE, random_state=seeds[0], n_jobs=n_jobs))
    candidates = [_measure(map_, fitting, measuring, seeds, error, widest, n_rows) for map_ in maps]

    # Those that reach the error come first, the cheapest of them; of others the most exact.
    def preference(candidate: Candidate) -> tuple[bool, float]:
        reached = candidate.predicted_error <= error
        return not reached, candidate.operations if reached else candidate.predicted_error

    chosen, *others = sorted(candidates, key=preference)
    return Suggestion(
        chosen=chosen,
        others=tuple(others),
        error=error,
        memory=budget,
        n_rows=n_rows,
        n_features=n_features,
        reached=chosen.predicted_error <= error,
    )


def _halves(X: Any, rng: np.random.Generator) -> tuple[Any, Any]:
    """Two disjoint random samples of the rows, arrays or CSR matrices on the host."""
    rows: Any = to_host(subset_rows(X, _SAMPLE_ROWS, rng))
    options: dict[str, Any] = {"accept_sparse": "csr", "dtype": [np.float64, np.float32], "ensure_min_samples": 4}
    rows = check_array(rows, **options)
    order = rng.permutation(rows.shape[0])
    half = rows.shape[0] // 2
    return rows[np.sort(order[:half])], rows[np.sort(order[half:])]


def _measure(
    feature_map: RandomMap, fitting: Any, measuring: Any, seeds: list[int], error: float, widest: int, n_rows: int
) -> Candidate:
    """The map at two small widths, and the width that the error needs."""
    # Landmarks are rows: more components than rows to choose from would measure a narrower map.
    wide = min(_WIDE, fitting.shape[0])
    widths = (max(wide // _NARROWING, 1), wide)
    errors, seconds = [], 0.0
    for width in widths:
        squares = []
        for seed in seeds:
            drawn = _variant(feature_map, n_components=width, random_state=seed).fit(fitting)
            squares.append(relative_error(drawn, measuring, n_subset=measuring.shape[0]) ** 2)
            # The last of the draws at the larger width counts: earlier ones may still have compiled.
            start = time.perf_counter()
            drawn.transform(measuring)
            seconds = time.perf_counter() - start
        errors.append(float(np.sqrt(np.mean(squares))))
    rate = log(_ratio(errors[0], errors[1])) / log(widths[1] / widths[0]) if widths[1] > widths[0] else 0.5
    nystroem = isinstance(feature_map, NystroemFeatures)
    # A rate of zero would ask for infinitely many; the rows end before.
    law = _Law(widths, (errors[0], errors[1]), min(max(rate, _LEAST_RATE), 0.5) if nystroem else 0.5)
    needed = law.needed_width(error)
    most = min(widest, n_rows) if nystroem else widest
    n_components = min(needed + needed % 2, most)
    features = _feature_operations(feature_map, n_rows, fitting.shape[1], n_components)
    measured = _feature_operations(feature_map, measuring.shape[0], fitting.shape[1], widths[1])
    return Candidate(
        feature_map=_variant(feature_map, n_components=n_components),
        method=type(feature_map).__name__,
        widths=widths,
        errors=law.errors,
        rate=rate,
        n_components=n_components,
        predicted_error=law.predicted_error(n_components),
        n_bytes=n_rows * n_components * fitting.dtype.itemsize,
        operations=features + float(n_rows) * n_components**2,
        seconds=seconds * features / measured,
    )


def _variant(feature_map: RandomMap, **parameters: Any) -> RandomMap:
    """A clone with other parameters, not fitted."""
    copy: Any = clone(feature_map)
    return copy.set_params(**parameters)


@dataclass(frozen=True)
class _Law:
    """Error by width: `errors` at two `widths`, a straight line between them on log scales, `exponent` outside."""

    widths: tuple[int, int]
    errors: tuple[float, float]
    exponent: float

    def needed_width(self, error: float) -> int:
        """Least width whose predicted error is at most `error`, but not less than the smaller of `widths`."""
        narrow, wide = self.widths
        if self.errors[0] <= error:
            return narrow
        if self.errors[1] <= error:
            inverse_rate = log(wide / narrow) / log(_ratio(*self.errors))
            return min(ceil(narrow * (self.errors[0] / error) ** inverse_rate), wide)
        return ceil(wide * exp(min(log(self.errors[1] / error) / self.exponent, _MOST_GROWTH)))

    def predicted_error(self, n_components: int) -> float:
        """Error at a width."""
        narrow, wide = self.widths
        if n_components >= wide:
            return self.errors[1] * (wide / n_components) ** self.exponent
        if n_components <= narrow:
            return self.errors[0] * (narrow / n_components) ** self.exponent
        share = log(n_components / narrow) / log(wide / narrow)
        return self.errors[0] * _ratio(*self.errors) ** -share


def _ratio(larger: float, smaller: float) -> float:
    """Quotient of two errors, where one that is all rounding counts as one rounding."""
    floor = float(np.finfo(np.float64).eps)
    return max(larger, floor) / max(smaller, floor)


def _feature_operations(feature_map: RandomMap, n: int, d: int, n_components: int) -> float:
    """Multiplications and additions of dense features; Nystroem features pass through one more square matrix."""
    whitening = 2.0 * n_components if isinstance(feature_map, NystroemFeatures) else 0.0
    return float(n) * n_components * (2.0 * d + whitening)


def _readable(n_bytes: int) -> str:
    """Bytes in the largest unit of 1024 that they fill."""
    size = float(n_bytes)
    for unit in ("bytes", "KB", "MB"):
        if size < 1024:
            return f"{size:.4g} {unit}"
        size /= 1024
    return f"{size:.4g} GB"
