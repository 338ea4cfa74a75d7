"""Results of theory as numbers: feature counts from bounds, costs of fits, variances, moments, and predicted errors.

`cost` and the names that belong to it are in `phimap.advice`, which imports the learners. They are loaded from there at
their first use.
"""

from importlib import import_module
from typing import Any

from phimap.theory.asymptotics import AsymptoticErrors, asymptotic_classification_error, asymptotic_errors
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
from phimap.theory.required import bounds, required_features
from phimap.theory.rounding import sums_rounding
from phimap.theory.ternary import Ternary, ternary_thresholds
from phimap.theory.variance import estimator_bias, estimator_variance

_ADVICE = ("Cost", "StageCost", "Workload", "cost")

__all__ = [  # pyright: ignore[reportUnsupportedDunderAll]
    "REFERENCE",
    "AsymptoticErrors",
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
    "asymptotic_classification_error",
    "asymptotic_errors",
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


def __getattr__(name: str) -> Any:
    if name not in _ADVICE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__.partition('.')[0]}.advice"), name)
