"""The kernels among which a search chooses, and what of each may be learned."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from phimap.features import NystroemFeatures
from phimap.features.defaults import map_of_kernel
from phimap.kernels import NTK, Kernel, Laplacian, Matern, StationaryKernel
from phimap.random_map import RandomMap

#: Makes an unfitted map of a kernel, a width, a seed and a number of threads.
MapMaker = Callable[[Kernel, int, Any, int | None], RandomMap]


def random_features(kernel: Kernel, n_components: int, random_state: Any, n_jobs: int | None) -> RandomMap:
    """The map of the registry of kernels."""
    return map_of_kernel(kernel, n_components, random_state=random_state, n_jobs=n_jobs)


def landmarks(kernel: Kernel, n_components: int, random_state: Any, n_jobs: int | None) -> RandomMap:
    """Nystroem features with random landmarks."""
    return NystroemFeatures(kernel, n_components, random_state=random_state, n_jobs=n_jobs)


@dataclass(frozen=True)
class Family:
    """Kernels of one form.

    Attributes
    ----------
    name : str
    make : callable
        The kernel of a length scale, or of None where the width is not to be chosen.
    has_width : bool
        Whether the length scale is searched.
    metrics : tuple of str
        Kinds of metric that may be learned: ``"diagonal"``, ``"full"``.
    features : MapMaker
    """

    name: str
    make: Callable[[float | None], Kernel]
    has_width: bool
    metrics: tuple[str, ...]
    features: MapMaker

    def unit(self) -> StationaryKernel | None:
        """The kernel of unit width, whose distances give the scale of widths; None where there is no width."""
        kernel = self.make(1.0) if self.has_width else None
        return kernel if isinstance(kernel, StationaryKernel) else None


def default_families(metrics: tuple[str, ...]) -> list[Family]:
    """What ``kernel="auto"`` chooses among.

    The Laplacian kernel is a product over columns: wide, it is nearly additive, and it has kinks, so it serves tables
    with steps and with many columns of which few matter. It gets a diagonal metric, since its distance knows columns.
    The Matern kernel serves smooth targets, and turns of the columns; the neural tangent kernel those that grow.
    Landmarks err less than random features for all three, as measured on tables.
    """
    only_diagonal = tuple(kind for kind in metrics if kind == "diagonal")
    return [
        Family("laplacian", lambda width: Laplacian(width or 1.0), True, only_diagonal, landmarks),
        Family("matern", lambda width: Matern(nu=1.5, length_scale=width or 1.0), True, metrics, landmarks),
        Family("ntk", lambda _: NTK(depth=1), False, metrics, landmarks),
    ]


def relevances(root: np.ndarray | None, n_features: int) -> np.ndarray:
    """Share (d,) that each column has in the metric of this root."""
    if root is None:
        return np.full(n_features, 1.0 / n_features)
    values = np.square(root) if root.ndim == 1 else np.square(root).sum(axis=1)
    return values / values.sum()
