"""Errors of kernel approximations, computed exactly on a random subset of the rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from phimap._random import RandomState
from phimap.metrics.matrices import kernel_pair
from phimap.ops import single_threaded_blas

if TYPE_CHECKING:
    from phimap.kernels import Kernel
    from phimap.random_map import RandomMap


def relative_error(
    feature_map: RandomMap,
    X: Any,
    kernel: Kernel | None = None,
    *,
    center: bool = False,
    n_subset: int = 1000,
    random_state: RandomState = 0,
) -> float:
    """Relative Frobenius error ``|K - Z Z^T|_F / |K|_F`` of a map's kernel estimate.

    K is the exact kernel matrix of random rows of `X`, and Z holds the m features of each row.

    Parameters
    ----------
    feature_map : RandomMap
        A feature map or sketch. If it is not fitted, a clone is fitted to the subset.
    X : array-like, CSR matrix or torch.Tensor of shape (n_samples, n_features)
    kernel : Kernel, optional
        The exact kernel; by default the map's ``kernel_``, the kernel that the map estimates.
    center : bool, default=False
        Whether to double-centre both kernel matrices first. For a kernel with a large mean, the uncentred error mostly
        measures the mean. For a learner with an intercept, the centred error is relevant.
    n_subset : int, default=1000
        Number of rows on which K is computed, drawn without replacement; all rows if there are fewer.
    random_state : int, Generator, RandomState, SeedSequence or None, default=0
        Seed of the subset.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If the (centred) kernel matrix is zero, so that the relative error is not defined.

    Notes
    -----
    **Cost.** O(n_subset^2) kernel values and O(n_subset^2 m) flops.

    Examples
    --------
    >>> import numpy as np, phimap as pm
    >>> X = np.random.default_rng(0).standard_normal((200, 5))
    >>> phi = pm.FourierFeatures(pm.kernels.Gaussian(length_scale=3.0), n_components=2048, random_state=0)
    >>> bool(0.001 < pm.metrics.relative_error(phi, X) < 0.03)
    True
    """
    K, estimate = kernel_pair(feature_map, X, kernel, center, n_subset, random_state)
    with single_threaded_blas():
        return _ratio(np.linalg.norm(K - estimate), np.linalg.norm(K))


def spectral_error(
    feature_map: RandomMap,
    X: Any,
    kernel: Kernel | None = None,
    *,
    center: bool = False,
    n_subset: int = 1000,
    random_state: RandomState = 0,
) -> float:
    """Relative spectral-norm error ``|K - Z Z^T|_2 / |K|_2`` of a map's kernel estimate.

    Parameters
    ----------
    feature_map, X, kernel, center, n_subset, random_state
        As in `relative_error`.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If the (centred) kernel matrix is zero.

    Notes
    -----
    **Cost.** As for `relative_error`, plus two symmetric eigenvalue problems of order n_subset.
    """
    K, estimate = kernel_pair(feature_map, X, kernel, center, n_subset, random_state)
    with single_threaded_blas():
        return _ratio(_spectral_norm(K - estimate), _spectral_norm(K))


def mean_squared_error(
    feature_map: RandomMap,
    X: Any,
    kernel: Kernel | None = None,
    *,
    center: bool = False,
    n_subset: int = 1000,
    random_state: RandomState = 0,
) -> float:
    """Mean of the squared entries of ``K - Z Z^T``, the diagonal included.

    Parameters
    ----------
    feature_map, X, kernel, center, n_subset, random_state
        As in `relative_error`.

    Returns
    -------
    float

    Notes
    -----
    **Cost.** As for `relative_error`.

    For m independent unbiased features, the expected value is the mean variance of an entry, which decreases like 1/m.
    """
    K, estimate = kernel_pair(feature_map, X, kernel, center, n_subset, random_state)
    return float(np.mean((K - estimate) ** 2))


def max_error(
    feature_map: RandomMap,
    X: Any,
    kernel: Kernel | None = None,
    *,
    center: bool = False,
    n_subset: int = 1000,
    random_state: RandomState = 0,
) -> float:
    """Largest absolute entry of ``K - Z Z^T``, the error for which uniform bounds are stated.

    Parameters
    ----------
    feature_map, X, kernel, center, n_subset, random_state
        As in `relative_error`.

    Returns
    -------
    float

    Notes
    -----
    **Cost.** As for `relative_error`.
    """
    K, estimate = kernel_pair(feature_map, X, kernel, center, n_subset, random_state)
    return float(np.max(np.abs(K - estimate)))


def _spectral_norm(K: np.ndarray) -> float:
    eigenvalues = np.linalg.eigvalsh(K)
    return float(max(-eigenvalues[0], eigenvalues[-1]))


def _ratio(error: float | np.floating, size: float | np.floating) -> float:
    if not size > 0:
        raise ValueError("the kernel matrix is zero on this subset, so a relative error does not exist.")
    return float(error / size)
