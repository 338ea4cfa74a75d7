"""The families of kernels that a search compares: their metrics, their feature maps and their length scales."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from phimap.features import NystroemFeatures
from phimap.features.defaults import map_of_kernel
from phimap.features.nystroem.nystroem import least_pivot, pivoted_whitening
from phimap.kernels import NTK, Additive, Gaussian, Kernel, Laplacian, Matern, StationaryKernel
from phimap.ops import single_threaded_blas
from phimap.ops.blas import factorise, invert_upper
from phimap.random_map import RandomMap

# Smoothness of the Matern kernel that is tried first. Metrics for kernels that are not isotropic are learned with this
# kernel.
_NU = 1.5
# Relative rounding error of a sum of half a million weights. In the weighted median, sums this close to half of the
# total weight count as equal to it.
_ROUNDING = 1e-12


def median_length_scale(
    subset: Any, kernel: StationaryKernel | None = None, weights: np.ndarray | None = None
) -> float:
    """The median of the kernel's distance between distinct rows of `subset` (n, d), dense or CSR.

    The result is 1 if all rows are equal. Without a kernel the distance is Euclidean. A row of weight w counts like w
    equal rows, but distances between these equal rows are left out.
    """
    kernel = Gaussian() if kernel is None else kernel
    with single_threaded_blas():
        distances = _above_diagonal(kernel.distances(subset))
    positive = distances > 0
    distances = distances[positive]
    if not distances.size:
        return 1.0
    if weights is not None and np.ptp(weights) > 0:
        return _weighted_median(distances, _above_diagonal(np.outer(weights, weights))[positive])
    # The median by NumPy takes several times as long, because it divides the numbers at several places.
    middle = distances.size // 2
    distances.partition(middle)
    lower = distances[middle] if distances.size % 2 else distances[:middle].max()
    return float(np.mean([lower, distances[middle]]))


def _above_diagonal(matrix: np.ndarray) -> np.ndarray:
    """Return the entries of a square matrix above its diagonal, row by row."""
    return np.concatenate([np.empty(0), *(row[i + 1 :] for i, row in enumerate(matrix))])


def _weighted_median(values: np.ndarray, weights: np.ndarray) -> float:
    """The weighted median of `values`; the middle of a gap if exactly half of the weight lies below the gap."""
    order = np.argsort(values, kind="stable")
    values, passed = values[order], np.cumsum(weights[order])
    half = passed[-1] / 2
    low, high = np.searchsorted(passed, half * np.array([1 - _ROUNDING, 1 + _ROUNDING]))
    return float((values[low] + values[min(high, values.size - 1)]) / 2)


#: Least number of columns for which an additive kernel is tried. With fewer columns an isotropic kernel suffices.
LEAST_COLUMNS_OF_ADDITIVE = 6
#: A function that returns the unfitted map for a kernel, a width, a seed and a number of threads.
MapMaker = Callable[[Kernel, int, Any, int | None], RandomMap]


def random_features(kernel: Kernel, n_components: int, random_state: Any, n_jobs: int | None) -> RandomMap:
    """Return the unfitted map to random features that the registry has for a kernel."""
    return map_of_kernel(kernel, n_components, random_state=random_state, n_jobs=n_jobs)


class TrialLandmarks(NystroemFeatures):
    """Nystroem features of random landmarks, for trials.

    The landmarks are not sorted by pivots, which would take several times as long as a factorisation without pivots.
    Instead a small multiple of the identity is added to their kernel matrix. A fold of whole groups may have fewer rows
    than the width; this causes no warning.
    """

    def _check_rows(self, n_rows: int, how: str) -> None:
        pass

    def _whitened(self, kernel: Kernel, landmarks: np.ndarray, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
        rows = landmarks.astype(np.float32)
        single = kernel.in_single_precision(rows, rows) if dtype == np.float32 else None
        # The multiple of the identity that is added below is larger than the rounding errors of float32.
        K = np.ascontiguousarray(kernel(landmarks) if single is None else single, np.float64)
        K[np.diag_indices_from(K)] += least_pivot(K, dtype)
        with single_threaded_blas():
            if not factorise(K):
                return pivoted_whitening(kernel, landmarks, dtype)
            invert_upper(K)
        return landmarks, np.triu(K)


def landmarks(kernel: Kernel, n_components: int, random_state: Any, n_jobs: int | None) -> RandomMap:
    """Return the unfitted map to Nystroem features with random landmarks."""
    return NystroemFeatures(kernel, n_components, random_state=random_state, n_jobs=n_jobs)


@dataclass(frozen=True)
class KernelFamily:
    """Kernels of one form that differ in their length scale.

    Attributes
    ----------
    name : str
        Name in the log of the search.
    make : callable
        Returns the kernel for a length scale. The length scale is None if it is not searched.
    has_width : bool
        Whether the kernel has a length scale that can be chosen.
    metrics : tuple of str
        Kinds of metric that may be learned: ``"diagonal"``, ``"full"``.
    features : MapMaker
    is_additive : bool
        Whether the kernel is additive. Small maps miss most terms of such a kernel.
    fixed : bool
        Whether the length scale stays at the median distance.
    siblings : tuple of Ladder
        Families with the same distance, which are tried after the metric is learned.
    """

    name: str
    make: Callable[[float | None], Kernel]
    has_width: bool
    metrics: tuple[str, ...]
    features: MapMaker
    is_additive: bool = False
    fixed: bool = False
    siblings: tuple[Ladder, ...] = ()

    @property
    def is_isotropic(self) -> bool:
        """Whether the kernel has a length scale that can be chosen, and depends on Euclidean distances."""
        return isinstance(self.unit(), Gaussian | Matern)

    def metric_kernel(self) -> StationaryKernel:
        """The kernel of length scale 1 with which metrics are learned: the family's own if isotropic, else Matern."""
        unit = self.unit()
        return unit if unit is not None and self.is_isotropic else Matern(nu=_NU)

    def trial_features(self, kernel: Kernel, n_components: int, random_state: Any, n_jobs: int | None) -> RandomMap:
        """Return the unfitted map for trials, which is cheaper to fit than the map of the model."""
        if self.features is landmarks:
            return TrialLandmarks(kernel, n_components, random_state=random_state, n_jobs=n_jobs)
        return self.features(kernel, n_components, random_state, n_jobs)

    def unit(self) -> StationaryKernel | None:
        """The kernel of length scale 1, which defines the distance; None for a kernel without a length scale."""
        kernel = self.make(1.0) if self.has_width else None
        return kernel if isinstance(kernel, StationaryKernel) else None


class Ladder(NamedTuple):
    """Families that are tried in order as long as the error falls.

    Attributes
    ----------
    step : int
        Number that is added to the exponent of the length scale: a smoother kernel is best with a smaller length scale,
        a rougher one with a larger.
    families : tuple of KernelFamily
    """

    step: int
    families: tuple[KernelFamily, ...]


def laplacian(metrics: tuple[str, ...]) -> KernelFamily:
    """The family of Laplacian kernels."""
    return KernelFamily("laplacian", lambda width: Laplacian(width or 1.0), True, metrics, landmarks)


def radial(nu: float, metrics: tuple[str, ...], **others: Any) -> KernelFamily:
    """The family of Matern kernels of smoothness `nu`; for infinity these are the Gaussian kernels."""
    if np.isinf(nu):
        return KernelFamily("gaussian", lambda width: Gaussian(width or 1.0), True, metrics, landmarks, **others)

    def make(width: float | None) -> Matern:
        return Matern(nu=nu, length_scale=width or 1.0)

    return KernelFamily(f"matern-{round(2 * nu)}/2", make, True, metrics, landmarks, **others)


def additive() -> KernelFamily:
    """The family of sums of Gaussian kernels of single columns and of pairs of columns."""
    return KernelFamily("additive", lambda width: Additive(Gaussian(width or 1.0), order=2), True, (), random_features)


def combination(one: KernelFamily, other: KernelFamily, sign: str, kernel: Kernel) -> KernelFamily:
    """The family of a single `kernel`, which is the sum or product (`sign`) of kernels of two families."""
    return KernelFamily(f"{one.name} {sign} {other.name}", lambda _: kernel, False, (), one.features)


def partners() -> list[KernelFamily]:
    """The families whose kernels are added to or multiplied by the best kernel: Laplacian, Matern 1/2, Gaussian."""
    return [laplacian(()), radial(0.5, ()), radial(np.inf, ())]


def default_families(metrics: tuple[str, ...], n_features: int) -> list[KernelFamily]:
    """The families that ``kernel="auto"`` compares.

    The Laplacian kernel is a product over columns and has kinks. With a large length scale it is nearly a sum over
    columns. It suits targets with steps, and tables with many columns of which few matter. Only a diagonal metric is
    learned for it, because its distance is a sum over columns. The Matern kernels suit smooth targets, and targets that
    depend on linear combinations of columns. The neural tangent kernel suits targets that grow without bound.

    The additive kernel is tried at the second rung, because small maps miss most of its terms. It also gives the start
    for the learning of metrics if the other kernels explain next to nothing. Their gradients are then noise. This
    happens if few of many columns matter.

    On tables, Nystroem features had smaller errors than random features for every family except the additive one.
    """
    diagonal = tuple(kind for kind in metrics if kind == "diagonal")
    smoother, rougher = (tuple(radial(nu, metrics) for nu in ladder) for ladder in ((2.5, np.inf), (0.5,)))
    smooth = radial(_NU, metrics, siblings=(Ladder(-1, smoother), Ladder(1, rougher)))
    families = [
        laplacian(diagonal),
        smooth,
        KernelFamily("ntk", lambda _: NTK(depth=1), False, (), landmarks),
    ]
    if n_features >= LEAST_COLUMNS_OF_ADDITIVE:
        families.append(replace(additive(), is_additive=True))
    return families
