"""Exact kernels, and the properties from which feature maps are built.

A kernel computes exact values, which are the reference for every feature map. It also provides the properties from
which a map is made: its spectral law, its Taylor coefficients, or its function of the cosine. Kernels do not depend on
maps. Start with `base.py`.
"""

from phimap.kernels.activation import ActivationKernel
from phimap.kernels.additive import Additive
from phimap.kernels.arccosine import ArcCosine, kappa0, kappa1, kappa2
from phimap.kernels.base import DotProductKernel, Kernel, StationaryKernel
from phimap.kernels.combined import Product, Scaled, StationaryProduct, Sum
from phimap.kernels.convolutional import CNTK
from phimap.kernels.cost import KernelCost
from phimap.kernels.dot_product import Exponential, Polynomial, Taylor
from phimap.kernels.finite_spectrum import FiniteSpectrum
from phimap.kernels.indefinite import Zonal
from phimap.kernels.neural import NNGP, NTK
from phimap.kernels.normalized import NormalizedInput
from phimap.kernels.rotation_invariant import HomogeneousKernel, RotationInvariantKernel
from phimap.kernels.spectral import (
    CauchyLaw,
    GaussianLaw,
    LaplaceLaw,
    SpectralLaw,
    StableLaw,
    StandardGaussianLaw,
    StudentLaw,
    SumLaw,
)
from phimap.kernels.spectral_mixture.kernel import SpectralMixture, SpectralMixtureLaw
from phimap.kernels.stationary import Cauchy, ExponentialPower, Gaussian, Laplacian, Matern
from phimap.kernels.subsets import SubsetLaw
from phimap.kernels.ternary import TernaryKernel
from phimap.kernels.wide_layers import LeakyReLU

__all__ = [
    "CNTK",
    "NNGP",
    "NTK",
    "ActivationKernel",
    "Additive",
    "ArcCosine",
    "Cauchy",
    "CauchyLaw",
    "DotProductKernel",
    "Exponential",
    "ExponentialPower",
    "FiniteSpectrum",
    "Gaussian",
    "GaussianLaw",
    "HomogeneousKernel",
    "Kernel",
    "KernelCost",
    "LaplaceLaw",
    "Laplacian",
    "LeakyReLU",
    "Matern",
    "NormalizedInput",
    "Polynomial",
    "Product",
    "RotationInvariantKernel",
    "Scaled",
    "SpectralLaw",
    "SpectralMixture",
    "SpectralMixtureLaw",
    "StableLaw",
    "StandardGaussianLaw",
    "StationaryKernel",
    "StationaryProduct",
    "StudentLaw",
    "SubsetLaw",
    "Sum",
    "SumLaw",
    "Taylor",
    "TernaryKernel",
    "Zonal",
    "kappa0",
    "kappa1",
    "kappa2",
]
