"""The kernel families to search, given the kernel, the kernel's name or the map that a user asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
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
from phimap.learn.search.families import KernelFamily, default_families, landmarks, median_length_scale, random_features
from phimap.learn.search.mixture import MIXTURE
from phimap.ops import Array
from phimap.random_map import FIT_ROWS, RandomMap

#: Names of kernels in other libraries, and our names for them.
ALIASES = {
    "arc-cosine": "arccosine",
    "arc_cosine": "arccosine",
    "laplace": "laplacian",
    "matern32": "matern",
    "poly": "polynomial",
    "rbf": "gaussian",
    "squared_exponential": "gaussian",
}


def kernel_name(text: str, known: Iterable[str], parameter: str = "`kernel`") -> str:
    """Return the name of the kernel that `text` names, directly or by an alias.

    Raises
    ------
    ValueError
        If the name is unknown; the message suggests the nearest one.
    """
    names = sorted(known)
    name = ALIASES.get(text, text)
    if name in names:
        return name
    near = get_close_matches(text.lower(), [*names, *ALIASES], n=1)
    guess = f" Did you mean {ALIASES.get(near[0], near[0])!r}?" if near else ""
    others: dict[str, list[str]] = {}
    for other, name in ALIASES.items():
        others.setdefault(name, []).append(repr(other))
    listed = ", ".join(f"{name!r} (also {', '.join(others[name])})" if name in others else repr(name) for name in names)
    more = ", a Kernel or a feature map" if parameter == "`kernel`" else ""
    raise ValueError(f"{parameter} must be one of {listed}{more}, got {text!r}.{guess}")


#: Kernels by their names in learners and commands. Kernels in `STATIONARY` have a length scale.
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
    # Only the name of this kernel is used here: `fitted_mixture` makes the kernel.
    MIXTURE: SpectralMixture,
}

#: Values of a learner's parameter `metric` other than None.
METRICS = ("auto", "diagonal", "full")
# Largest number of columns for which `metric="auto"` learns a metric, first for dense rows, then for CSR rows.
_MOST_COLUMNS = 2000
_MOST_COLUMNS_OF_CSR = 1000


@dataclass(frozen=True)
class KernelSpec:
    """The kernel that a user asks for. The fields are checked when the object is made.

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
        """Return the kernel that the parameters of a learner ask for. An alias is replaced by the kernel's name."""
        if isinstance(kernel, str):
            kernel = kernel_name(kernel, ("auto", *STATIONARY, *OTHERS))
        return cls(kernel, length_scale, None if is_none(metric) else metric)

    def __post_init__(self) -> None:
        scale = self.length_scale
        if not isinstance(scale, str):
            check_real("length_scale", scale, above=0.0)
        elif scale not in ("auto", "median"):
            raise ValueError(f"`length_scale` must be a positive number, 'auto' or 'median', got {scale!r}.")
        if self.metric is not None:
            check_choice("metric", self.metric, METRICS)
        if self.fits_mixture and self.metric not in (None, "auto"):
            raise ValueError(
                f"`metric` must be 'auto' or None with kernel='{MIXTURE}', which has scales of its own, got "
                f"{self.metric!r}. Leave it at 'auto'."
            )
        if not isinstance(self.kernel, str | Kernel | RandomMap):
            raise TypeError(
                f"`kernel` must be a name, a Kernel or a feature map, got {type(self.kernel).__name__}. Use 'auto'."
            )

    @property
    def name(self) -> str | None:
        """The name of the kernel; None for a Kernel or a map."""
        return self.kernel if isinstance(self.kernel, str) else None

    @property
    def fits_mixture(self) -> bool:
        """Whether the kernel is a spectral mixture that is fitted to the targets."""
        return self.name == MIXTURE

    def ignored(self) -> str | None:
        """A warning that `length_scale` has no effect, or None."""
        if isinstance(self.length_scale, str) or self.name in STATIONARY:
            return None
        return (
            f"`length_scale`={self.length_scale} is ignored: it applies to the kernels "
            f"{', '.join(sorted(STATIONARY))} given by name, got it with kernel={self.kernel!r}. Set the width on the "
            "kernel, or leave it at 'auto'."
        )

    def may_search(self) -> bool:
        """Return whether the parameters allow a search. Whether a search takes place also depends on the data."""
        if self.fits_mixture or self.name == "auto":
            return True
        learns_metric = self.metric is not None and (self.name is not None or self.metric != "auto")
        return learns_metric or (self.name in STATIONARY and self.length_scale == "auto")

    def metrics(self, n_features: int, *, sparse: bool, image: bool) -> tuple[str, ...]:
        """Kinds of metric to learn on data of this form; an empty tuple if no metric is to be learned.

        ``"auto"`` learns a metric for a kernel given by name. It learns none for a Kernel or a map, for images, or for
        more than 2,000 columns (1,000 for CSR rows).
        """
        if self.metric is None or self.fits_mixture:
            return ()
        if self.metric != "auto":
            return (self.metric,)
        most = _MOST_COLUMNS_OF_CSR if sparse else _MOST_COLUMNS
        if self.name is None or image or n_features > most:
            return ()
        return ("diagonal",) if sparse else ("diagonal", "full")

    def families(self, metrics: tuple[str, ...], n_features: int, *, sparse: bool) -> list[KernelFamily]:
        """The families to search. There is one family unless the kernel is ``"auto"``."""
        kernel, scale = self.kernel, self.length_scale
        if self.fits_mixture and sparse:
            raise ValueError(f"`kernel`='{MIXTURE}' needs dense rows, got sparse ones. Use X.toarray(), or 'gaussian'.")
        if self.name == "auto":
            if not sparse:
                return default_families(metrics, n_features)
            # The cost of random features of this kernel is proportional to the stored entries of CSR rows.
            return [KernelFamily("gaussian", Gaussian, True, metrics, random_features)]
        if self.name in STATIONARY:
            make = STATIONARY[self.name]
            if isinstance(scale, str):
                return [KernelFamily(self.name, make, True, metrics, random_features, fixed=scale == "median")]
            return [KernelFamily(self.name, lambda _: make(scale), False, metrics, random_features)]
        if isinstance(kernel, RandomMap):
            features = _with_width_and_seed(kernel)
            return [KernelFamily(type(kernel).__name__, lambda _: Gaussian(), False, metrics, features)]
        chosen = OTHERS[kernel]() if isinstance(kernel, str) else kernel
        return [KernelFamily(self.name or repr(kernel), lambda _: chosen, False, metrics, random_features)]

    def rows_to_fit(self, n_components: Any) -> int:
        """Number of rows that the fit of a map with `n_components` features can use."""
        kernel, given = self.kernel, isinstance(n_components, Integral)
        if self.name == "auto" and given:
            return max(FIT_ROWS, int(n_components))
        if isinstance(kernel, Kernel) and given:
            kernel = map_of_kernel(kernel, int(n_components), random_state=None, n_jobs=None)
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
    """Return an unfitted map for a kernel, without a search.

    If the length scale is to be chosen, it is the median distance.

    Parameters
    ----------
    kernel : str, Kernel or RandomMap
        A map is returned unchanged.
    n_components : int
    length_scale : float, "auto" or "median"
    subset : ndarray or CSR matrix of shape (n_subset, n_features)
        Rows whose median distance is used.
    random_state, n_jobs
        Parameters of the map.
    weights : ndarray of shape (n_subset,), optional
        Weights of the rows of `subset`.

    Returns
    -------
    RandomMap

    Raises
    ------
    ValueError
        If the name is unknown.
    """
    spec = KernelSpec.of(kernel, length_scale, None)
    if spec.fits_mixture:
        raise ValueError(f"`kernel`='{MIXTURE}' is fitted to targets. Give the kernel SpectralMixture.fitted(X, y).")
    family = spec.families((), subset.shape[1], sparse=sparse.issparse(subset))[0]
    if isinstance(kernel, RandomMap):
        return kernel
    chosen = median_kernel(family, subset, weights)
    return map_of_family(family, chosen, n_components, None, random_state=random_state, n_jobs=n_jobs)


def median_kernel(family: KernelFamily, rows: Array, weights: np.ndarray | None) -> Kernel:
    """The kernel of a family. Its length scale, if it has one, is the median distance between `rows` (n, d)."""
    unit = family.unit()
    return family.make(None if unit is None else median_length_scale(rows, unit, weights))


def _with_width_and_seed(feature_map: RandomMap) -> Callable[..., RandomMap]:
    """Return a function that copies a map and sets its width, seed and threads, if it has these parameters."""

    def make(_: Kernel, n_components: int, random_state: Any, n_jobs: int | None) -> RandomMap:
        parameters = feature_map.get_params()
        wanted = {"n_components": n_components, "random_state": random_state, "n_jobs": n_jobs}
        copy: Any = clone(feature_map)
        return copy.set_params(**{name: value for name, value in wanted.items() if name in parameters})

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
    """Return the unfitted map of a kernel, with the width of the model.

    Parameters
    ----------
    n_rows : int or None
        Number of training rows. None means that more rows may follow; the map then has random features. If there are at
        most `n_components` rows, every row becomes a landmark, which reproduces the kernel exactly. A neural tangent
        kernel gets landmarks only in this case.
    """
    few = n_rows is not None and n_rows <= n_components
    if few and (isinstance(kernel, NTK) or family.features is landmarks):
        return NystroemFeatures(kernel, n_components, landmarks="all", random_state=random_state, n_jobs=n_jobs)
    features = random_features if n_rows is None else family.features
    return features(kernel, n_components, random_state, n_jobs)
