"""Exact kernels: their values, and the facts that an approximation needs."""

from phimap.kernels.arccosine import ArcCosine, kappa0, kappa1, kappa2
from phimap.kernels.base import DotProductKernel, HomogeneousKernel, Kernel, StationaryKernel
from phimap.kernels.dot_product import Polynomial
from phimap.kernels.neural import NNGP, NTK
from phimap.kernels.normalized import NormalizedInput
from phimap.kernels.spectral import CauchyLaw, GaussianLaw, SpectralLaw, StandardGaussianLaw, StudentLaw
from phimap.kernels.stationary import Gaussian, Laplacian, Matern

__all__ = [
    "NNGP",
    "NTK",
    "ArcCosine",
    "CauchyLaw",
    "DotProductKernel",
    "Gaussian",
    "GaussianLaw",
    "HomogeneousKernel",
    "Kernel",
    "Laplacian",
    "Matern",
    "NormalizedInput",
    "Polynomial",
    "SpectralLaw",
    "StandardGaussianLaw",
    "StationaryKernel",
    "StudentLaw",
    "kappa0",
    "kappa1",
    "kappa2",
]
