"""Kernel matrices and their estimates on a random subset of the rows, in float64."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from phimap._random import RandomState, named_streams
from phimap._validation import check_integer
from phimap.config import memory_budget, size_text
from phimap.kernels import Kernel
from phimap.ops import ops_for, run_tasks, to_host

if TYPE_CHECKING:
    from phimap.random_map import RandomMap


def kernel_pair(
    feature_map: RandomMap,
    X: Any,
    kernel: Kernel | None,
    center: bool,
    n_subset: int,
    random_state: RandomState,
) -> tuple[np.ndarray, np.ndarray]:
    """The exact kernel matrix (n, n) and its estimate (n, n) on n random rows of `X`; double-centred if `center`."""
    X = subset_rows(X, n_subset, random_state)
    try:
        check_is_fitted(feature_map)
    except NotFittedError:
        feature_map = clone(feature_map).fit(X)  # pyright: ignore[reportAttributeAccessIssue]
    Z = feature_map.transform(X)
    Z = np.asarray(ops_for(Z).to_host(Z), dtype=np.float64)
    K = exact_matrix(feature_map.kernel_ if kernel is None else kernel, X)
    # Maps with a `signature_` estimate K by Z S Z^T, with a diagonal matrix S of signs.
    signature = getattr(feature_map, "signature_", None)
    signed = Z if signature is None else Z * np.asarray(signature, dtype=np.float64)
    estimate = run_tasks(lambda pair: pair[0] @ pair[1].T, [(signed, Z)])[0]
    if center:
        K, estimate = _centre(K), _centre(estimate)
    return K, estimate


def subset_rows(X: Any, n_subset: int | None, random_state: RandomState) -> Any:
    """`n_subset` distinct random rows of `X` in their original order; all rows if there are fewer, or for None."""
    X = X if hasattr(X, "shape") else np.asarray(X)
    if n_subset is None:
        return X
    check_integer("n_subset", n_subset, least=1)
    n = X.shape[0]
    if n <= n_subset:
        return X
    chosen = np.sort(named_streams(random_state, "subset")["subset"].permutation(n)[:n_subset])
    return X.iloc[chosen] if hasattr(X, "iloc") else X[chosen]


def exact_matrix(kernel: Kernel, X: Any) -> np.ndarray:
    """Return ``kernel(X)`` (n, n) in float64 on the host."""
    return np.asarray(kernel(to_host(X)), dtype=np.float64)


def given_matrix(kernel: Kernel | Any, X: Any, n_subset: int | None, random_state: RandomState) -> np.ndarray:
    """K (n, n): `kernel` itself, checked, if it is a matrix; else the kernel matrix of a subset of the rows of `X`."""
    if isinstance(kernel, Kernel):
        if X is None:
            raise TypeError("`X` must be given with a kernel, got None. Pass the rows, or the kernel matrix itself.")
        X = subset_rows(X, n_subset, random_state)
        _check_memory(X.shape[0])
        return exact_matrix(kernel, X)
    if X is not None:
        raise TypeError(
            f"`X` goes with a Kernel, got it with kernel={type(kernel).__name__}. Leave it out: a matrix has its rows."
        )
    K = np.asarray(kernel, dtype=np.float64)
    if K.ndim != 2 or K.shape[0] != K.shape[1] or not K.size:
        raise ValueError(f"`kernel` must be a Kernel or a square matrix, got shape {K.shape}.")
    if not np.isfinite(K).all():
        raise ValueError("`kernel` must be finite, got a matrix with NaN or infinity.")
    # K and K.T may differ by two roundings of the largest entry in float32, the lowest accepted precision.
    if np.abs(K - K.T).max() > 2 * np.finfo(np.float32).eps * np.abs(K).max():
        raise ValueError("`kernel` must be symmetric, got a matrix that differs from its transpose.")
    _check_memory(K.shape[0])
    return K


def _check_memory(n: int) -> None:
    """Raise MemoryError if an eigenvalue problem of order n would exceed the byte budget."""
    # Three float64 matrices of order n: K, its factors, and the workspace of the eigenvalue solver.
    n_bytes = 3 * 8 * n * n
    if n_bytes > memory_budget():
        raise MemoryError(
            f"a kernel matrix of order {n} and its factors take {size_text(n_bytes)}, over the budget of "
            f"{size_text(memory_budget())}. Use fewer rows (n_subset), or phimap.config(memory=...)."
        )


def _centre(K: np.ndarray) -> np.ndarray:
    """``(I - 11^T / n) K (I - 11^T / n)`` for symmetric K."""
    means = K.mean(axis=0)
    return K - means - means[:, None] + means.mean()
