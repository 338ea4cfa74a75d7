"""Theory as numbers: how many features the bounds ask for, Gaussian moments, and kernels in high dimension."""

from phimap.theory.bounds import Bound, RequiredFeatures
from phimap.theory.equivalent import GaussianMixture, equivalent_kernel
from phimap.theory.mixture import TernaryMixture, ternary_mixture
from phimap.theory.moments import GaussianMoments, gaussian_moments
from phimap.theory.required import bounds, required_features
from phimap.theory.ternary import Ternary, ternary_thresholds

__all__ = [
    "Bound",
    "GaussianMixture",
    "GaussianMoments",
    "RequiredFeatures",
    "Ternary",
    "TernaryMixture",
    "bounds",
    "equivalent_kernel",
    "gaussian_moments",
    "required_features",
    "ternary_mixture",
    "ternary_thresholds",
]
