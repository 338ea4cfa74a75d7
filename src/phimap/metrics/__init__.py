"""Accuracy measures for feature maps, computed against the exact kernel on a random subset of the rows."""

from phimap.metrics.errors import max_error, mean_squared_error, relative_error, spectral_error
from phimap.metrics.spectral import (
    SpectralApproximation,
    condition_number,
    leverage_scores,
    spectral_approximation,
    statistical_dimension,
)

__all__ = [
    "SpectralApproximation",
    "condition_number",
    "leverage_scores",
    "max_error",
    "mean_squared_error",
    "relative_error",
    "spectral_approximation",
    "spectral_error",
    "statistical_dimension",
]
