"""From what a user asks for, a name or a kernel, to the families that are searched."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone

from phimap._validation import check_choice, check_real, is_none
from phimap.features import NystroemFeatures
from phimap.features.defaults import map_of_kernel
from phimap.kernels import (
    CNTK,
    NNGP,
    NTK,
    ArcCosine,
    Gaussian,
    Kernel,
    Laplacian,
    Matern,
    Polynomial,
    SpectralMixture,
    StationaryKernel,
)
from phimap.learn.search.families import KernelFamily, default_families, landmarks, random_features
from phimap.learn.search.length_scale import median_length_scale
from phimap.learn.search.mixture import MIXTURE
from phimap.learn.search.names import kernel_name
from phimap.ops import Array
from phimap.random_map import FIT_ROWS, RandomMap

#: Kernels by the name a learner or the command line takes; those of the first group have a length scale.
STATIONARY: dict[str, Callable[..., StationaryKernel]] = {
    "gaussian": Gaussian,
    "laplacian": Laplacian,
    "matern": lambda length_scale: Matern(nu=1.5, length_scale=length_scale),
}
OTHERS: dict[str, Callable[[], Kernel]] = {
    "arccosine": lambda: ArcCosine(order=1),
    "cntk": lambda: CNTK(depth=2),
    "nngp": lambda: NNGP(depth=1),
    "ntk": lambda: NTK(depth=1),
    "polynomial": lambda: Polynomial(degree=3),
    # It stands here for its name: `fitted_mixture` makes the kernel.
    MIXTURE: SpectralMixture,
}


#: What `metric` of a learner may be.
METRICS = ("auto", "diagonal", "full")
# With more columns than this no metric is learned unless it is asked for.
_MOST_COLUMNS = 2000
_MOST_COLUMNS_OF_CSR = 1000


@dataclass(frozen=True)
class KernelSpec:
    """What a user asks of the kernel.

    Attributes
    ----------
    kernel : str, Kernel or RandomMap
        A name, ``"auto"``, a kernel, or an unfitted map.
    length_scale : float, "auto" or "median"
    metric : {"auto", "diagonal", "full"} or None
    """

    kernel: str | Kernel | RandomMap
    length_scale: float | str
    metric: str | None

    @classmethod
    def of(cls, kernel: Any, length_scale: Any, metric: Any) -> KernelSpec:
        """What the parameters of a learner ask for, checked; other names of kernels become ours."""
        if isinstance(kernel, str):
            kernel = kernel_name(kernel, ("auto", *STATIONARY, *OTHERS))
        wish = cls(kernel, length_scale, None if is_none(metric) else metric)
        wish.check()
        return wish

    def ignored(self) -> str | None:
        """A line on a length scale that nothing takes; None where there is none."""
        if isinstance(self.length_scale, str) or (isinstance(self.kernel, str) and self.kernel in STATIONARY):
            return None
        return (
            f"`length_scale`={self.length_scale} is ignored: it applies to the kernels "
            f"{', '.join(sorted(STATIONARY))} named by text, got it with kernel={self.kernel!r}. Set the width on the "
            "kernel, or leave it at 'auto'."
        )

    def check(self) -> None:
        """Refuse what no data could make right."""
        kernel, scale = self.kernel, self.length_scale
        if isinstance(scale, str):
            if scale not in ("auto", "median"):
                raise ValueError(f"`length_scale` must be a positive number, 'auto' or 'median', got {scale!r}.")
        else:
            check_real("length_scale", scale, above=0.0)
        if self.metric is not None:
            check_choice("metric", self.metric, METRICS)
        if self.fits_mixture and self.metric not in (None, "auto"):
            raise ValueError(
                f"`metric` must be 'auto' or None with kernel='{MIXTURE}', which has scales of its own, got "
                f"{self.metric!r}. Leave it at 'auto'."
            )
        if not isinstance(kernel, str | Kernel | RandomMap):
            raise TypeError(f"`kernel` must be a name, a Kernel or a feature map, got {type(kernel).__name__}.")

    @property
    def fits_mixture(self) -> bool:
        """Whether the kernel is a spectral mixture that is fitted to the targets."""
        return isinstance(self.kernel, str) and self.kernel == MIXTURE

    def may_search(self) -> bool:
        """Whether data of some form leave anything to choose but the median width."""
        named = isinstance(self.kernel, str)
        learns = self.metric is not None and (named or self.metric != "auto")
        learns = learns or self.fits_mixture
        return learns or self.kernel == "auto" or (named and self.kernel in STATIONARY and self.length_scale == "auto")

    def metrics(self, n_features: int, *, sparse: bool, image: bool) -> tuple[str, ...]:
        """Kinds of metric to learn on data of this form.

        What is named by text gets a metric unless it is refused; a kernel or a map is taken as it is unless a metric
        is asked for.
        """
        if self.metric is None or self.fits_mixture:
            return ()
        if self.metric != "auto":
            return (self.metric,)
        most = _MOST_COLUMNS_OF_CSR if sparse else _MOST_COLUMNS
        if not isinstance(self.kernel, str) or image or n_features > most:
            return ()
        return ("diagonal",) if sparse else ("diagonal", "full")

    def families(self, metrics: tuple[str, ...], n_features: int, *, sparse: bool) -> list[KernelFamily]:
        """What is searched: one family, unless the kernel is ``"auto"``."""
        kernel = self.kernel
        if self.fits_mixture and sparse:
            raise ValueError(f"`kernel`='{MIXTURE}' needs dense rows, got sparse ones. Use X.toarray(), or 'gaussian'.")
        if isinstance(kernel, str) and kernel == "auto" and sparse:
            # Directions of CSR rows cost their entries alone.
            return [KernelFamily("gaussian", STATIONARY["gaussian"], True, metrics, random_features)]
        if isinstance(kernel, str) and kernel == "auto":
            return default_families(metrics, n_features)
        if isinstance(kernel, str) and kernel in STATIONARY:
            make, scale = STATIONARY[kernel], self.length_scale
            if isinstance(scale, str):
                return [KernelFamily(kernel, make, True, metrics, random_features, fixed=scale == "median")]
            return [KernelFamily(kernel, lambda _: make(scale), False, metrics, random_features)]
        if isinstance(kernel, RandomMap):
            return [KernelFamily(type(kernel).__name__, lambda _: Gaussian(), False, metrics, _narrowed(kernel))]
        chosen = OTHERS[kernel]() if isinstance(kernel, str) else kernel
        return [
            KernelFamily(
                kernel if isinstance(kernel, str) else repr(kernel), lambda _: chosen, False, metrics, random_features
            )
        ]

    def rows_to_fit(self, n_components: Any) -> int:
        """Rows that the map can use in its `fit`; what is no kernel is refused by `check`."""
        kernel = self.kernel
        if isinstance(kernel, Kernel) and isinstance(n_components, Integral):
            kernel = map_of_kernel(kernel, int(n_components), random_state=None, n_jobs=None)
        if isinstance(kernel, str) and kernel == "auto" and isinstance(n_components, Integral):
            return max(FIT_ROWS, int(n_components))
        return kernel.fit_rows() if isinstance(kernel, RandomMap) else FIT_ROWS


def choose_map(
    kernel: str | Kernel | RandomMap,
    n_components: int,
    length_scale: float | str,
    subset: Array,
    *,
    random_state: Any,
    n_jobs: int | None,
    weights: np.ndarray | None = None,
) -> RandomMap:
    """An unfitted feature map for what the user named, without a search: a width to choose is the median distance.

    Parameters
    ----------
    kernel : str, Kernel or RandomMap
        A map is taken as it is.
    n_components : int
    length_scale : float, "auto" or "median"
    subset : ndarray or CSR matrix of shape (n_subset, n_features)
        Rows between which the median distance is taken.
    random_state, n_jobs
        Handed to the map.
    weights : ndarray of shape (n_subset,), optional
        Of the rows of `subset`.

    Returns
    -------
    RandomMap

    Raises
    ------
    ValueError
        If the name is unknown.
    """
    wish = KernelSpec.of(kernel, length_scale, None)
    if wish.fits_mixture:
        raise ValueError(f"`kernel`='{MIXTURE}' is fitted to targets. Give the kernel SpectralMixture.fitted(X, y).")
    family = wish.families((), subset.shape[1], sparse=sparse.issparse(subset))[0]
    if isinstance(kernel, RandomMap):
        return kernel
    chosen = median_kernel(family, subset, weights)
    return map_of_family(family, chosen, n_components, None, random_state=random_state, n_jobs=n_jobs)


def median_kernel(family: KernelFamily, rows: Array, weights: np.ndarray | None) -> Kernel:
    """The kernel of a family whose width, where it has one, is the median distance between `rows` (n, d)."""
    unit = family.unit()
    return family.make(None if unit is None else median_length_scale(rows, unit, weights))


def _narrowed(feature_map: RandomMap) -> Callable[..., RandomMap]:
    """Makes copies of a map with another width and seed, where it takes them."""

    def make(_: Kernel, n_components: int, random_state: Any, n_jobs: int | None) -> RandomMap:
        known = feature_map.get_params()
        wanted = {"n_components": n_components, "random_state": random_state, "n_jobs": n_jobs}
        copy: Any = clone(feature_map)
        return copy.set_params(**{name: value for name, value in wanted.items() if name in known})

    return make


def map_of_family(
    family: KernelFamily,
    kernel: Kernel,
    n_components: int,
    n_rows: int | None,
    *,
    random_state: Any,
    n_jobs: int | None,
) -> RandomMap:
    """The unfitted map of a kernel at its full width.

    Parameters
    ----------
    n_rows : int or None
        All rows there will ever be; None where more may come. Landmarks are then as many as these where they are few:
        they leave no error. A neural tangent kernel gets landmarks only so.
    """
    few = n_rows is not None and n_rows <= n_components
    if few and (isinstance(kernel, NTK) or family.features is landmarks):
        return NystroemFeatures(kernel, n_components, landmarks="all", random_state=random_state, n_jobs=n_jobs)
    features = random_features if n_rows is None else family.features
    return features(kernel, n_components, random_state, n_jobs)
