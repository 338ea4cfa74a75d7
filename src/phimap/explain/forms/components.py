"""Kernels as sums of product kernels and of elementary symmetric polynomials of one-dimensional kernels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from itertools import product
from math import log
from operator import mul as multiply

import numpy as np
from scipy.special import gammaln

from phimap.kernels import Additive, Gaussian, Kernel, Matern, StationaryKernel, StationaryProduct

# A Matern kernel is replaced by a mixture of finitely many scales. This is the probability of scales below the smallest
# of them, and a bound on the probability of scales above the largest. The first probability is added to the weight of
# the smallest scale, and larger scales are left out. As kernel values are at most 1, the error of the kernel is at most
# the sum of both probabilities.
_TAIL = 1e-11
# Largest distance of the logarithms of two neighbouring scales. A trapezoidal rule with this step has an error of about
# exp(-pi^2 / step) = 1e-12, because its integrand is analytic in a strip of half-width pi / 2 about the real line.
_STEP = 0.36
# For large nu, log g (see `matern_mixture`) is nearly normal with variance 1 / nu, and the error is about
# 2 exp(-2 pi^2 / (nu step^2)): below 1e-12 for a step of 0.83 / sqrt(nu).
_DEVIATIONS = 0.83
# Largest number of summands of a product of kernels for which values are exact. With more summands, exact values would
# take longer than accurate sampled values. Matern kernels have 26 to 160 scales each, so most products of two exceed
# it.
_MOST_SUMMANDS = 1000


@dataclass(frozen=True)
class Component:
    """A summand of a kernel: `weight` times a product over all columns, times means of products over subsets.

    Each mean is taken over all subsets with the same number of columns.

    Attributes
    ----------
    weight : float
        Factor of the whole summand.
    kernels : tuple of StationaryKernel
        Kernels of the product; `of_column` computes the factor of one column.
    subsets : tuple of (tuple of StationaryKernel, int)
        For each mean: the kernels whose product is the factor of a column, and the number of columns in a subset.
    """

    weight: float
    kernels: tuple[StationaryKernel, ...]
    subsets: tuple[tuple[tuple[StationaryKernel, ...], int], ...] = ()


def of_column(
    kernels: tuple[StationaryKernel, ...], rows: np.ndarray, landmarks: np.ndarray, column: int
) -> np.ndarray:
    """Return the product (n, m) of kernels, evaluated on one column of rows (n, w) and landmarks (m, w) alone."""
    width = rows.shape[1]
    return reduce(multiply, (one._of_column(rows[:, column], landmarks[:, column], column, width) for one in kernels))


def components(kernel: Kernel, n_features: int) -> list[Component] | None:
    """Return the components whose sum is a kernel of rows with `n_features` columns; None if it is no such sum."""
    terms = kernel.terms()
    if len(terms) > 1 or terms[0][1] is not kernel:
        parts = [(weight, components(term, n_features)) for weight, term in terms]
        if any(found is None for _, found in parts):
            return None
        return [replace(one, weight=weight * one.weight) for weight, found in parts for one in found or []]
    if isinstance(kernel, Additive):
        return _of_additive(kernel, n_features)
    if isinstance(kernel, StationaryProduct):
        return _of_product(kernel, n_features)
    if isinstance(kernel, StationaryKernel) and kernel.factorises:
        return [Component(1.0, (kernel,))]
    return _of_matern(kernel, n_features) if isinstance(kernel, Matern) else None


def _of_additive(kernel: Additive, n_features: int) -> list[Component] | None:
    if kernel.order == n_features:
        return components(kernel.base, n_features)
    if kernel.order == 1:
        return [Component(1.0, (), (((kernel.base,), 1),))]
    found = components(kernel.base, n_features)
    if found is None or any(one.subsets for one in found):
        return None
    return [Component(one.weight, (), ((one.kernels, int(kernel.order)),)) for one in found]


def _of_product(kernel: StationaryProduct, n_features: int) -> list[Component] | None:
    left, right = (components(side, n_features) for side in (kernel.left, kernel.right))
    if left is None or right is None or len(left) * len(right) > _MOST_SUMMANDS:
        return None
    return [
        Component(one.weight * other.weight, one.kernels + other.kernels, one.subsets + other.subsets)
        for one, other in product(left, right)
    ]


def _of_matern(kernel: Matern, n_features: int) -> list[Component]:
    """Return the mixture of Gaussian kernels that equals a Matern kernel up to 1e-10."""
    scale = 1.0 / np.broadcast_to(kernel._inverse_length_scale(n_features), n_features)
    weights, precisions = matern_mixture(float(kernel.nu))
    return [
        Component(float(weight), (Gaussian(scale / np.sqrt(precision)),))
        for weight, precision in zip(weights, precisions, strict=True)
    ]


def matern_mixture(nu: float) -> tuple[np.ndarray, np.ndarray]:
    """Return weights and precisions p with ``k_nu(r) = sum weights exp(-p r^2 / 2)``, up to 1e-10 for every r.

    A frequency of the Matern kernel is a Gaussian vector over the root of g, with g from the Gamma distribution of
    shape and rate nu. Hence ``k_nu(r) = E exp(-r^2 / (2 g))``, an integral over log g, to which the trapezoidal rule is
    applied. The weights are normalised, so that k(0) is 1.
    """
    low = (log(_TAIL) + gammaln(nu + 1.0)) / nu - log(nu)
    high = log((nu + 8.0 * np.sqrt(nu) + 26.0) / nu)
    step = (_STEP**-2 + nu / _DEVIATIONS**2) ** -0.5
    points = np.arange(low, high + step, step)
    weights = np.exp(nu * log(nu) - gammaln(nu) + nu * points - nu * np.exp(points)) * step
    # Smaller scales than the first are added to its weight. Their kernels are almost 0 unless rows are equal.
    weights[0] += max(0.0, 1.0 - weights.sum())
    return weights / weights.sum(), np.exp(-points)
