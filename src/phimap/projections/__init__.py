"""Projections. A projection draws random directions jointly and multiplies rows by these directions.

A kernel provides the distribution of one direction. A projection draws many directions. It depends on the distribution
only, not on the kernel. `REGISTRY` lists all projections.
"""

from __future__ import annotations

from phimap.kernels.spectral import SpectralLaw
from phimap.kernels.spectral_mixture.kernel import SpectralMixtureLaw
from phimap.kernels.subsets import SubsetLaw
from phimap.projections.base import Projection, ProjectionRecord
from phimap.projections.circulant import Circulant
from phimap.projections.dense import Gaussian, Orthogonal
from phimap.projections.fastfood import Fastfood
from phimap.projections.gauss_grid import GaussGrid
from phimap.projections.hadamard import ROM, SORF
from phimap.projections.minimum_energy import MinimumEnergy
from phimap.projections.p_model import PModel
from phimap.projections.quadrature import GaussQuadrature, SparseGrid, SphericalRadial
from phimap.projections.quasi_monte_carlo import MomentMatching, QuasiMonteCarlo
from phimap.projections.simplex import Simplex
from phimap.projections.sparse_sign import SparseSign
from phimap.projections.spherical_structured import SphericalStructured

__all__ = [
    "REGISTRY",
    "ROM",
    "SORF",
    "Circulant",
    "Fastfood",
    "GaussGrid",
    "GaussQuadrature",
    "Gaussian",
    "MinimumEnergy",
    "MomentMatching",
    "Orthogonal",
    "PModel",
    "Projection",
    "ProjectionRecord",
    "QuasiMonteCarlo",
    "Simplex",
    "SparseGrid",
    "SparseSign",
    "SphericalRadial",
    "SphericalStructured",
    "as_projection",
]

#: All projection classes by name.
REGISTRY: dict[str, type[Projection]] = {
    projection.name: projection
    for projection in (
        Gaussian,
        Orthogonal,
        ROM,
        SORF,
        Fastfood,
        Circulant,
        PModel,
        SparseSign,
        QuasiMonteCarlo,
        MomentMatching,
        MinimumEnergy,
        SphericalStructured,
        GaussQuadrature,
        GaussGrid,
        SparseGrid,
        SphericalRadial,
        Simplex,
    )
}

# Up to this number of columns, "auto" chooses minimum-energy points. With more columns, they are hardly more accurate
# than spherical structured features and cost more.
WIDEST_DESIGN = 48
# Up to this number of columns, "auto" chooses Sobol points. With more columns, they are slow to draw and gain little.
_WIDEST_SOBOL = 1024


def as_projection(projection: str | Projection, law: SpectralLaw) -> Projection:
    """Return the projection given by a name or an object; ``"auto"`` chooses a projection for the law.

    Raises
    ------
    ValueError
        If there is no projection with that name.
    TypeError
        If `projection` is neither a string nor a projection.
    """
    if isinstance(projection, Projection):
        return projection
    if not isinstance(projection, str):
        raise TypeError(f"`projection` must be a name or a Projection, got {type(projection).__name__}.")
    if projection == "auto":
        if isinstance(law, SubsetLaw):
            chosen = as_projection("auto", law.part)
            return chosen if chosen.serves_subsets else Orthogonal()
        if law.is_rotation_invariant:
            return MinimumEnergy() if law.n_features <= WIDEST_DESIGN else SphericalStructured()
        has_quantile = law.has_independent_coordinates or isinstance(law, SpectralMixtureLaw)
        if has_quantile and law.n_features <= _WIDEST_SOBOL:
            return QuasiMonteCarlo()
        return Gaussian()
    if projection not in REGISTRY:
        names = ", ".join(repr(name) for name in ("auto", *sorted(REGISTRY)))
        raise ValueError(f"`projection` must be one of {names}, or a Projection, got {projection!r}.")
    return REGISTRY[projection]()
