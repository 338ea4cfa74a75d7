"""Names of the built-in activations, and their NumPy functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

#: Orders of the activations that are rectified powers, by name: see `primitives.activation.rectify`.
RECTIFIED = {"step": 0, "relu": 1}


def gelu(x: np.ndarray) -> np.ndarray:
    """Return ``x Phi(x)``, where Phi is the distribution function of the standard normal distribution."""
    return x * special.ndtr(x)


def softplus(x: np.ndarray) -> np.ndarray:
    """Return ``log(1 + exp(x))``, without overflow."""
    return np.logaddexp(x, 0)


def leaky_relu(x: Any, slope: float = 0.01) -> Any:
    """Return x where x is positive and ``slope x`` elsewhere."""
    return x.clip(min=0) + slope * x.clip(max=0)


def leaky_step(x: Any, slope: float = 0.01) -> Any:
    """Return 1 where x is positive and `slope` elsewhere."""
    return (x > 0) * (1 - slope) + slope


def erf_slope(x: np.ndarray) -> np.ndarray:
    """Return the derivative of erf."""
    return 2 / np.pi**0.5 * np.exp(-(x**2))


def gelu_slope(x: np.ndarray) -> np.ndarray:
    """Return the derivative of `gelu`."""
    return special.ndtr(x) + x * np.exp(-(x**2) / 2) / (2 * np.pi) ** 0.5


#: All other activations: functions of float32 or float64 arrays that keep the dtype.
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "abs": np.abs,
    "cos": np.cos,
    "erf": special.erf,
    "gelu": gelu,
    "leaky-relu": leaky_relu,
    "sign": np.sign,
    "sin": np.sin,
    "softplus": softplus,
}

#: Functions that are derivatives of activations, but not activations themselves.
SLOPE_FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "erf-slope": erf_slope,
    "gelu-slope": gelu_slope,
    "leaky-step": leaky_step,
    "sigmoid": special.expit,
}
#: For each activation, the function that is its derivative up to the sign. Step and sign are left out, because their
#: derivative is 0 almost everywhere.
SLOPES = {
    "abs": "sign",
    "cos": "sin",
    "erf": "erf-slope",
    "gelu": "gelu-slope",
    "leaky-relu": "leaky-step",
    "relu": "step",
    "sin": "cos",
    "softplus": "sigmoid",
}

NAMES = tuple(sorted([*FUNCTIONS, *RECTIFIED]))
