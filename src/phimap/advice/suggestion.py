"""The advice: of the maps that serve a kernel, the cheapest that reaches the error."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.utils.validation import check_array

from phimap._random import RandomState, named_streams
from phimap._validation import check_real
from phimap.advice.candidate import WIDE, Candidate, measure, readable, variant
from phimap.config import memory_budget, thread_count
from phimap.features import NystroemFeatures
from phimap.kernels import Kernel
from phimap.learn.search.kernel import choose_map
from phimap.metrics.matrices import subset_rows
from phimap.ops import to_host
from phimap.random_map import RandomMap

# Half of the sample fits maps that depend on data, the other half measures: no row is judged by a map that saw it.
_SAMPLE_ROWS = 1000
_DRAWS = 3


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
            f"For {size}, relative error {self.error:g}, features within {readable(self.memory)}:",
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
    length_scale : float, "auto" or "median", default="auto"
        For stationary kernels named by text; both words are the median distance, in the distance of the kernel.
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
    first = choose_map(kernel, WIDE, length_scale, fitting, random_state=seeds[0], n_jobs=n_jobs)
    maps = [first]
    if not isinstance(kernel, RandomMap) and not isinstance(first, NystroemFeatures):
        exact = variant(first).fit(fitting[:1]).kernel_
        maps.append(NystroemFeatures(exact, n_components=WIDE, random_state=seeds[0], n_jobs=n_jobs))
    candidates = [measure(map_, fitting, measuring, seeds, error, widest, n_rows) for map_ in maps]

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
