"""The kernels among which a search chooses, and what of each may be learned."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from phimap.features import NystroemFeatures
from phimap.features.defaults import map_of_kernel
from phimap.kernels import NTK, Additive, Gaussian, Kernel, Laplacian, Matern, StationaryKernel
from phimap.random_map import RandomMap

#: With fewer columns than this an isotropic kernel sees them all.
LEAST_COLUMNS_OF_ADDITIVE = 6
#: Makes an unfitted map of a kernel, a width, a seed and a number of threads.
MapMaker = Callable[[Kernel, int, Any, int | None], RandomMap]


def random_features(kernel: Kernel, n_components: int, random_state: Any, n_jobs: int | None) -> RandomMap:
    """The map of the registry of kernels."""
    return map_of_kernel(kernel, n_components, random_state=random_state, n_jobs=n_jobs)


def landmarks(kernel: Kernel, n_components: int, random_state: Any, n_jobs: int | None) -> RandomMap:
    """Nystroem features with random landmarks."""
    return NystroemFeatures(kernel, n_components, random_state=random_state, n_jobs=n_jobs)


@dataclass(frozen=True)
class KernelFamily:
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
    next : KernelFamily or None
        What the metric that was learned from this family's fit goes to; None is the family itself.
    fixed : bool
        Whether the width stays at the median distance.
    siblings : tuple of tuples of KernelFamily
        Families of the same distance, that may take the place of this one when its metric is known: ladders that lead
        away from it, each to be climbed while the error falls.
    """

    name: str
    make: Callable[[float | None], Kernel]
    has_width: bool
    metrics: tuple[str, ...]
    features: MapMaker
    next: KernelFamily | None = None
    fixed: bool = False
    siblings: tuple[tuple[KernelFamily, ...], ...] = ()

    def unit(self) -> StationaryKernel | None:
        """The kernel of unit width, whose distances give the scale of widths; None where there is no width."""
        kernel = self.make(1.0) if self.has_width else None
        return kernel if isinstance(kernel, StationaryKernel) else None


def laplacian(metrics: tuple[str, ...]) -> KernelFamily:
    """The Laplacian kernels."""
    return KernelFamily("laplacian", lambda width: Laplacian(width or 1.0), True, metrics, landmarks)


def radial(nu: float, metrics: tuple[str, ...], **others: Any) -> KernelFamily:
    """The Matern kernels of smoothness `nu`, the Gaussian ones at infinity."""
    name = "gaussian" if np.isinf(nu) else f"matern-{round(2 * nu)}/2"
    return KernelFamily(
        name, lambda width: Matern(nu=nu, length_scale=width or 1.0), True, metrics, landmarks, **others
    )


def combination(one: KernelFamily, other: KernelFamily, sign: str, kernel: Kernel) -> KernelFamily:
    """A sum or a product of kernels of two families, whose widths are known."""
    return KernelFamily(f"{one.name} {sign} {other.name}", lambda _: kernel, False, (), one.features)


def partners() -> list[KernelFamily]:
    """Kernels whose sums and products with the best one are tried: with kinks in every column, with one, smooth."""
    return [laplacian(()), radial(0.5, ()), radial(np.inf, ())]


def default_families(metrics: tuple[str, ...], n_features: int) -> list[KernelFamily]:
    """What ``kernel="auto"`` chooses among.

    The Laplacian kernel is a product over columns: wide, it is nearly additive, and it has kinks, so it serves tables
    with steps and with many columns of which few matter. It gets a diagonal metric, since its distance knows columns.
    The Matern kernels serve smooth targets, and turns of the columns; the neural tangent kernel those that grow. The
    additive kernel only starts: among many columns of which few matter an isotropic kernel sees nothing, and its
    gradients show no way. Landmarks err less than random features for all but this, as measured on tables.
    """
    diagonal = tuple(kind for kind in metrics if kind == "diagonal")
    smoother, rougher = (tuple(radial(nu, metrics) for nu in ladder) for ladder in ((2.5, np.inf), (0.5,)))
    smooth = radial(1.5, metrics, siblings=(smoother, rougher))
    families = [
        laplacian(diagonal),
        smooth,
        KernelFamily("ntk", lambda _: NTK(depth=1), False, (), landmarks),
    ]
    if n_features >= LEAST_COLUMNS_OF_ADDITIVE:
        families.append(
            KernelFamily(
                "additive",
                lambda width: Additive(Gaussian(width or 1.0), order=2),
                True,
                diagonal,
                random_features,
                next=smooth,
            )
        )
    return families
