"""From what a user asks for, a name or a kernel, to a feature map."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral
from typing import Any

import numpy as np

from phimap._validation import check_real
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
    StationaryKernel,
)
from phimap.learn.search.length_scale import median_length_scale
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
}


def choose_map(
    kernel: str | Kernel | RandomMap,
    n_components: int,
    length_scale: float | str,
    subset: np.ndarray,
    *,
    random_state: Any,
    n_jobs: int | None,
    complete: bool = False,
    weights: np.ndarray | None = None,
) -> RandomMap:
    """An unfitted feature map for what the user named.

    A neural tangent kernel is served by Nystroem features with every row a landmark, which leave no error, where
    `subset` is the whole training set and has no more rows than features are asked for; by `NTKFeatures` elsewhere.

    Parameters
    ----------
    kernel : str, Kernel or RandomMap
        A map is taken as it is.
    n_components : int
    length_scale : float, "auto" or "median"
        For stationary kernels named by text; ``"median"`` is the median of the kernel's own distance on `subset`, and
        ``"auto"`` is the same.
    subset : ndarray or CSR matrix of shape (n_subset, n_features)
    random_state, n_jobs
        Handed to the map.
    complete : bool, default=False
        Whether no rows but those of `subset` are to come.
    weights : ndarray of shape (n_subset,), optional
        Of the rows of `subset`, for the median.

    Returns
    -------
    RandomMap

    Raises
    ------
    ValueError
        If the name is unknown, or a length scale is given where none applies.
    """
    if isinstance(length_scale, str) and length_scale not in ("auto", "median"):
        raise ValueError(f"`length_scale` must be a positive number, 'auto' or 'median', got {length_scale!r}.")
    given = None if isinstance(length_scale, str) else check_real("length_scale", length_scale, above=0.0)
    if isinstance(kernel, str) and kernel in STATIONARY:
        kernel = STATIONARY[kernel](length_scale=1.0 if given is None else given)
        if given is None:
            kernel.set_params(length_scale=median_length_scale(subset, kernel, weights))
    elif given is not None:
        raise ValueError(
            f"`length_scale` applies to the kernels {', '.join(sorted(STATIONARY))} named by text, got it with "
            f"kernel={kernel!r}. Leave it at 'auto' and set the width on the kernel."
        )
    elif isinstance(kernel, str):
        if kernel not in OTHERS:
            names = ", ".join(repr(name) for name in sorted(STATIONARY | OTHERS))
            raise ValueError(f"`kernel` must be one of {names}, a Kernel or a feature map, got {kernel!r}.")
        kernel = OTHERS[kernel]()
    if isinstance(kernel, RandomMap):
        return kernel
    if not isinstance(kernel, Kernel):
        raise TypeError(f"`kernel` must be a name, a Kernel or a feature map, got {type(kernel).__name__}.")
    if complete and isinstance(kernel, NTK) and subset.shape[0] <= n_components:
        return NystroemFeatures(kernel, n_components, landmarks="all", random_state=random_state, n_jobs=n_jobs)
    return map_of_kernel(kernel, n_components, random_state=random_state, n_jobs=n_jobs)


def rows_to_fit(kernel: Any, n_components: Any) -> int:
    """Rows that the map of what the user named can use in its `fit`; what is no kernel is refused by `choose_map`."""
    if isinstance(kernel, Kernel) and isinstance(n_components, Integral):
        kernel = map_of_kernel(kernel, int(n_components), random_state=None, n_jobs=None)
    return kernel.fit_rows() if isinstance(kernel, RandomMap) else FIT_ROWS
