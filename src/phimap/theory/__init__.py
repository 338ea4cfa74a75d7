"""Theory as numbers: feature counts from bounds, costs of fits, variances, moments, and predicted errors."""

from phimap.theory.bounds import Bound, Printed, RequiredFeatures
from phimap.theory.double_descent import (
    FeatureMoments,
    PredictedErrors,
    feature_moments,
    gaussian_covariates,
    predicted_errors,
)
from phimap.theory.equivalent import GaussianMixture, equivalent_kernel
from phimap.theory.machine import REFERENCE, Machine
from phimap.theory.mixture import TernaryMixture, ternary_mixture
from phimap.theory.moments import CovariateMoments, GaussianMoments, covariate_moments, gaussian_moments
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
    "CovariateMoments",
    "FeatureMoments",
    "GaussianMixture",
    "GaussianMoments",
    "Machine",
    "PredictedErrors",
    "Printed",
    "RequiredFeatures",
    "StageCost",
    "Ternary",
    "TernaryMixture",
    "Workload",
    "bounds",
    "cost",
    "covariate_moments",
    "equivalent_kernel",
    "estimator_bias",
    "estimator_variance",
    "feature_moments",
    "gaussian_covariates",
    "gaussian_moments",
    "predicted_errors",
    "required_features",
    "sums_rounding",
    "ternary_mixture",
    "ternary_thresholds",
]
