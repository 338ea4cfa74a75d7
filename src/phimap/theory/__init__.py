"""Theory as numbers: what bounds ask for, what a fit costs, Gaussian moments, and kernels in high dimension."""

from phimap.theory.bounds import Bound, RequiredFeatures
from phimap.theory.equivalent import GaussianMixture, equivalent_kernel
from phimap.theory.machine import REFERENCE, Machine
from phimap.theory.mixture import TernaryMixture, ternary_mixture
from phimap.theory.moments import GaussianMoments, gaussian_moments
from phimap.theory.prediction import Cost, cost, sums_rounding
from phimap.theory.required import bounds, required_features
from phimap.theory.stages import StageCost
from phimap.theory.ternary import Ternary, ternary_thresholds
from phimap.theory.variance import estimator_bias, estimator_variance
from phimap.theory.workload import Workload

__all__ = [
    "REFERENCE",
    "Bound",
    "Cost",
    "GaussianMixture",
    "GaussianMoments",
    "Machine",
    "RequiredFeatures",
    "StageCost",
    "Ternary",
    "TernaryMixture",
    "Workload",
    "bounds",
    "cost",
    "equivalent_kernel",
    "estimator_bias",
    "estimator_variance",
    "gaussian_moments",
    "required_features",
    "sums_rounding",
    "ternary_mixture",
    "ternary_thresholds",
]
