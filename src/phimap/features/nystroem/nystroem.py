"""Nystroem features: whitened kernel values with landmarks."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from phimap._validation import check_choice, check_finite
from phimap.features.base import FeatureMap
from phimap.features.nystroem.landmarks import SEARCHES, most_candidates
from phimap.kernels import Gaussian, Kernel, StationaryKernel
from phimap.ops import Array, Ops, ops_for, single_threaded_blas
from phimap.ops.primitives.kernel_matrix import kernel_matrix, without_tiny_values
from phimap.random_map import MapRecord
from phimap.records import of_floats, of_number

# Smallest pivot that is kept, in units of machine epsilon times the largest kernel value.
_LEAST_PIVOT = 64


class FewLandmarksWarning(UserWarning):
    """A map has fewer landmarks than features."""


@dataclass(frozen=True)
class NystroemRecord(MapRecord):
    """Landmarks in pivot order, and the inverse Cholesky factor of their kernel matrix.

    Attributes
    ----------
    kernel : Kernel
        The kernel whose values with the landmarks are whitened.
    landmarks : ndarray of shape (rank, n_features)
        Landmarks in pivot order.
    whitening : ndarray of shape (rank, rank) or None
        Inverse transpose of the lower Cholesky factor, an upper triangular matrix. None in a learner's model file,
        which stores coefficients of kernel values: the record then gives linear outputs but no features.
    n_components : int
        Output width; columns beyond the rank are zero.
    """

    kernel: Kernel
    landmarks: np.ndarray = field(metadata=of_floats("?r", "d"))
    whitening: np.ndarray | None = field(metadata=of_floats("?r", "?r"))
    n_components: int = field(metadata=of_number(length="m"))

    def requirements(self) -> Iterator[tuple[bool, str]]:
        yield self.landmarks.shape[0] <= self.n_components, "no more landmarks than components"

    @property
    def n_features(self) -> int:
        return self.landmarks.shape[1]

    @property
    def n_flops(self) -> int | None:
        return 2 * self.landmarks.size + self.landmarks.shape[0] ** 2

    def apply(self, ops: Ops, X: Array, out: Array, first: int = 0) -> None:
        if self.whitening is None:
            raise ValueError(
                "features of landmarks need their whitening, which the model file leaves out because no prediction "
                "needs it. Save the model with save(model, path, statistics=True)."
            )
        rank = self.landmarks.shape[0]
        similarities = kernel_matrix(ops, self.kernel, X, self.landmarks)
        ops.copy(ops.matmul_upper(similarities, self.whitening), out, first)
        ops.zero(out, first + rank, first + self.n_components)

    def unwhitened(self, coefs: np.ndarray) -> tuple[MapRecord, np.ndarray]:
        # Whitening the coefficients once is cheaper than whitening the features of every row.
        return SimilarityRecord(self.kernel, self.landmarks), self._weights(coefs)

    def for_outputs(self, coefs: np.ndarray) -> tuple[NystroemRecord, np.ndarray]:
        weights = self._weights(coefs)
        padding = np.zeros((self.n_components - len(weights), weights.shape[1]), weights.dtype)
        return replace(self, whitening=None), np.concatenate([weights, padding])

    def _weights(self, coefs: np.ndarray) -> np.ndarray:
        """Return coefficients (rank, t) of the kernel values, given coefficients (n_components, t) of the features."""
        coefs = coefs[: self.landmarks.shape[0]]
        return coefs if self.whitening is None else self.whitening @ coefs

    def output_gradients(self, X: np.ndarray, coefs: np.ndarray) -> np.ndarray | None:
        if not isinstance(self.kernel, StationaryKernel):
            return None
        return self.kernel.gradients(X, self.landmarks, self._weights(coefs))

    def truncated(self, n_components: int) -> tuple[np.ndarray, float] | None:
        # The whitening is triangular, so the first columns are the features of the first landmarks alone.
        return np.arange(n_components), 1.0


@dataclass(frozen=True)
class SimilarityRecord(MapRecord):
    """Kernel values with landmarks, as features.

    Attributes
    ----------
    kernel : Kernel
        The kernel.
    landmarks : ndarray of shape (n_components, n_features)
        Rows; feature j is the kernel value with row j.
    """

    kernel: Kernel
    landmarks: np.ndarray = field(metadata=of_floats("?m", "d"))

    @property
    def n_features(self) -> int:
        return self.landmarks.shape[1]

    @property
    def n_components(self) -> int:
        return self.landmarks.shape[0]

    def apply(self, ops: Ops, X: Array, out: Array, first: int = 0) -> None:
        ops.copy(kernel_matrix(ops, self.kernel, X, self.landmarks), out, first)


class NystroemFeatures(FeatureMap):
    """Nystroem features: ``phi(x) = L^{-1} k(landmarks, x)`` with ``L L^T = k(landmarks, landmarks)``.

    Parameters
    ----------
    kernel : Kernel or None, default=None
        Any kernel; None is ``Gaussian(length_scale=1.0)``.
    n_components : int, default=1024
        Output width m.
    landmarks : {"uniform", "all", "leverage", "rpcholesky"} or array (n_landmarks, n_features), default="uniform"
        ``"uniform"`` takes `n_components` distinct rows of the data at random. ``"leverage"`` draws rows by ridge
        leverage scores; ``"rpcholesky"`` draws pivots of a Cholesky factorisation, each in proportion to the residual
        of ``k(x, x)`` given the previous pivots. Both choose among at most 20,000 random rows. If there are fewer rows
        than `n_components`, these three take all rows and warn. ``"all"`` takes all rows, at most `n_components`. An
        array gives the landmarks themselves.
    random_state : int, Generator, RandomState, SeedSequence or None, default=None
        Seed of all random draws; None draws fresh entropy.
    n_jobs : int or None, default=None
        Threads; None uses the configured number. The result is bitwise the same for any number.

    Attributes
    ----------
    kernel_ : Kernel
        The exact kernel that ``Z @ Z.T`` estimates.
    record_ : NystroemRecord
        The landmarks and the whitening.
    n_features_in_ : int

    Notes
    -----
    **Error.** ``K - Z Z^T`` is positive semidefinite, and zero on the landmarks. With all rows as landmarks
    ``Z Z^T = K`` up to rounding.

    **Cost.** ``fit``: O(m^3). ``transform``: m kernel values and m^2 flops per row.

    **Differs from the source in** the whitening, which uses a pivoted Cholesky factor instead of the symmetric inverse
    root. The features are rotated, and the kernel estimate is the same. Pivoting orders the landmarks by their
    contribution and stops at the numerical rank, beyond which columns are zero. The first columns are the features of
    the first landmarks alone. For tensors the kernel is evaluated on the host.

    References
    ----------
    Williams, Seeger (2001), *Using the Nystroem method to speed up kernel machines*, Section 3.

    Examples
    --------
    >>> import numpy as np, phimap as pm
    >>> X = np.random.default_rng(0).standard_normal((100, 5))
    >>> phi = pm.NystroemFeatures(pm.kernels.NTK(depth=2), n_components=100, random_state=0).fit(X)
    >>> bool(pm.metrics.relative_error(phi, X) < 1e-6)
    True
    """

    _roles = ("landmarks",)

    def __init__(
        self,
        kernel: Kernel | None = None,
        n_components: int = 1024,
        *,
        landmarks: Any = "uniform",
        random_state: Any = None,
        n_jobs: int | None = None,
    ):
        self.kernel = kernel
        self.n_components = n_components
        self.landmarks = landmarks
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit_rows(self) -> int:
        """Number of rows that `fit` can use: the number of landmarks, or of candidates if landmarks are searched."""
        if not isinstance(self.landmarks, str):
            return super().fit_rows()
        wanted = most_candidates(self.n_components) if self.landmarks in SEARCHES else self.n_components
        return max(super().fit_rows(), wanted)

    def _draw(self, X: Array, streams: dict[str, np.random.Generator]) -> NystroemRecord:
        kernel = Gaussian() if self.kernel is None else self.kernel
        if not isinstance(kernel, Kernel):
            raise TypeError(f"`kernel` must be a Kernel, got {type(kernel).__name__}.")
        landmarks, dtype = self._landmarks(kernel, X, streams["landmarks"])
        self.kernel_ = kernel
        landmarks, whitening = self._whitened(kernel, landmarks, dtype)
        if dtype == np.float32:
            without_tiny_values(whitening)
        return NystroemRecord(kernel, landmarks, whitening, self.n_components)

    def _whitened(self, kernel: Kernel, landmarks: np.ndarray, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
        """Return the landmarks that are kept, in the order of the features, and their whitening for data of `dtype`."""
        return pivoted_whitening(kernel, landmarks, dtype)

    def _landmarks(self, kernel: Kernel, X: Array, rng: np.random.Generator) -> tuple[np.ndarray, np.dtype]:
        """Return landmarks (r, d) in float64, and the dtype of the data."""
        ops = ops_for(X)
        if isinstance(self.landmarks, str):
            how = check_choice("landmarks", self.landmarks, ("uniform", "all", *SEARCHES))
            self._check_rows(X.shape[0], how)
            order = rng.permutation(X.shape[0])
            order = order[: most_candidates(self.n_components) if how in SEARCHES else self.n_components]
            rows = np.asarray(ops.to_host(ops.dense(X[order])), dtype=np.float64)
            # For uniform landmarks, `rows` already holds only the chosen rows.
            chosen = SEARCHES[how](kernel, rows, self.n_components, rng) if how in SEARCHES else slice(None)
            return rows[chosen], ops.dtype
        given = np.array(self.landmarks, dtype=np.float64)
        if given.ndim != 2 or given.shape[1] != X.shape[1] or given.shape[0] > self.n_components:
            raise ValueError(
                f"`landmarks` must be of shape (at most n_components={self.n_components}, "
                f"n_features={X.shape[1]}), got {given.shape}."
            )
        check_finite(given, "landmarks")
        return given, ops.dtype

    def _check_rows(self, n_rows: int, how: str) -> None:
        """Raise or warn if the number of rows does not match the requested landmarks."""
        if how == "all" and n_rows > self.n_components:
            raise ValueError(
                f"`landmarks`='all' takes at most n_components={self.n_components} rows, got {n_rows}. Use "
                "landmarks='uniform', or a larger n_components."
            )
        if how != "all" and n_rows < self.n_components:
            warnings.warn(
                f"`n_components`={self.n_components} asks for as many landmarks, and fit got {n_rows} rows: "
                f"{self.n_components - n_rows} features are zero. Fit on more rows, or use fewer components.",
                FewLandmarksWarning,
                stacklevel=5,
            )


def pivoted_whitening(kernel: Kernel, landmarks: np.ndarray, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """Landmarks in pivot order, truncated at the numerical rank for data of `dtype`, and their whitening."""
    from scipy.linalg import lapack

    K = kernel(landmarks)
    tolerance = least_pivot(K, dtype)
    with single_threaded_blas():
        # The matrix is symmetric, so its transpose, which LAPACK takes without a copy, is the same matrix.
        factor, pivots, rank, _ = lapack.dpstrf(K.T, tol=tolerance, lower=1, overwrite_a=1)  # pyright: ignore[reportAttributeAccessIssue]
        del K
        if not rank:
            # The kernel is 0 at all landmarks, as a tangent kernel is at rows of zeros. The features are then 0, too.
            return landmarks[:1], np.zeros((1, 1))
        kept = landmarks[pivots[:rank] - 1]
        lower = factor if rank == len(factor) else np.asfortranarray(factor[:rank, :rank])
        del factor
        for column in range(1, rank):
            lower[:column, column] = 0
        inverse, _ = lapack.dtrtri(lower, lower=1, overwrite_c=1)  # pyright: ignore[reportAttributeAccessIssue]
    return kept, np.ascontiguousarray(inverse.T)


def least_pivot(K: np.ndarray, dtype: np.dtype) -> float:
    """The least pivot that is kept, in a kernel matrix `K` of landmarks and for data of `dtype`.

    Kernel values have rounding errors of about eps. Pivots above this tolerance have relative errors of at most a few
    percent. The tolerance does not grow with the number of landmarks. Otherwise kernels with large length scales, whose
    pivots decrease quickly, would keep too few features.
    """
    return _LEAST_PIVOT * float(np.finfo(dtype).eps) * float(K.diagonal().max(initial=0.0))
