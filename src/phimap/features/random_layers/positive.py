"""Positive random features of the exponential kernel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from phimap._validation import check_choice, check_real
from phimap.features.base import FeatureMap
from phimap.features.projected import ProjectedRecord
from phimap.kernels import Exponential
from phimap.kernels.spectral import GaussianLaw, SpectralLaw, StandardGaussianLaw
from phimap.ops import Array, Ops, ops_for, single_threaded_blas
from phimap.projections import Projection, as_projection
from phimap.projections.base import ProjectionRecord
from phimap.projections.quadrature import WeightedRecord
from phimap.records import of_floats, of_number, with_lengths


@dataclass(frozen=True)
class PositiveRecord(ProjectedRecord):
    """The map ``scale * exp(+-slope Wu - |u|^2 / 2)`` of rows u in units of the length scale.

    Attributes
    ----------
    projection : ProjectionRecord
        The directions W.
    scale : ndarray of shape (n_directions,)
        Factors of the features.
    inverse : float
        Inverse length scale.
    n_pairs : int
        The first `n_pairs` directions have features for -w as well as for w.
    slope : float
        Factor of the projections.
    """

    projection: ProjectionRecord = field(metadata=with_lengths(n_directions="s"))
    scale: np.ndarray = field(metadata=of_floats("s"))
    inverse: float = field(metadata=of_number(above=0))
    n_pairs: int = field(metadata=of_number(least=0))
    slope: float = field(default=1.0, metadata=of_number(above=0))

    def requirements(self) -> Iterator[tuple[bool, str]]:
        yield self.n_pairs <= self.projection.n_directions, "no more pairs than directions"

    @property
    def n_components(self) -> int:
        return self.n_pairs + self.projection.n_directions

    @property
    def scratch_width(self) -> int:
        return self.n_features + 3 * self.projection.scratch_width

    def apply(self, ops: Ops, X: Array, out: Array, first: int = 0) -> None:
        norms = ops.row_norms(X) * self.inverse
        half = (0.5 * norms * norms)[:, None]
        # The finiteness check of the features detects and reports overflow.
        with np.errstate(over="ignore"):
            for columns, projected in self.projection.blocks(ops, X):
                projected = projected * (self.slope * self.inverse)
                # The exponents are subtracted before the exponential function is applied: either factor alone could
                # overflow or underflow.
                self._write(ops, ops.exp(projected - half), columns.start, columns, out, first)
                paired = slice(columns.start, min(columns.stop, self.n_pairs))
                if paired.stop > paired.start:
                    opposite = ops.exp(-projected[:, : paired.stop - paired.start] - half)
                    self._write(ops, opposite, self.projection.n_directions + paired.start, paired, out, first)

    def _write(self, ops: Ops, values: Array, place: int, directions: slice, out: Array, first: int) -> None:
        """Write the scaled exponentials (r, k) of some directions into the map's columns `place` onwards."""
        start = first + place
        ops.multiply(values, self.scale[directions], out[:, start : start + values.shape[1]])

    def truncated(self, n_components: int) -> tuple[np.ndarray, float] | None:
        if self.projection.weights is not None:
            # Quadrature weights are valid only for all nodes of the rule together.
            return None
        factor = (self.n_components / n_components) ** 0.5
        if not self.n_pairs:
            return np.arange(n_components), factor
        if self.n_components % 2 or n_components % 2:
            return None
        leading = np.arange(n_components // 2)
        return np.concatenate([leading, self.n_pairs + leading]), factor


class PositiveFeatures(FeatureMap):
    r"""Positive random features of the exponential kernel, as used for softmax attention (FAVOR+).

    .. math:: \exp(\langle x, y \rangle / \ell^2) = \mathbb{E}_{w \sim N(0, I)}\,
              e^{\langle w, u \rangle - |u|^2 / 2}\, e^{\langle w, v \rangle - |v|^2 / 2}, \qquad
              u = x / \ell, \; v = y / \ell

    All features, and therefore all kernel estimates, are nonnegative.

    Parameters
    ----------
    kernel : Exponential or None, default=None
        The kernel to estimate; None is ``Exponential()``.
    n_components : int, default=1024
        Output width m. With pairs and odd m, the last direction w has no feature for -w.
    projection : str or Projection, default="auto"
        How directions are drawn: any projection for the Gaussian distribution with positive weights.
    damping : float, "auto" or "directions", default=0.0
        A number a of at least 0: features are multiplied by ``(1 + 4a)^(d/4) e^(-a |w|^2)`` and w by
        ``(1 + 4a)^(1/2)``, which keeps the mean. ``"auto"`` is the a of least variance for the mean of ``|u + v|^2``
        over the rows of `fit`; 0 is FAVOR+. ``"directions"`` has an a for each principal axis of these rows, and stores
        all directions.
    pairing : {"pairs", "single"}, default="pairs"
        Features of w and of -w (the hyperbolic form), or of w alone. At equal m, pairs have less error.
    random_state : int, Generator, RandomState, SeedSequence or None, default=None
        Seed of all random draws; None draws fresh entropy.
    n_jobs : int or None, default=None
        Threads; None uses the configured number. The result is bitwise the same for any number.

    Attributes
    ----------
    kernel_ : Exponential
        The exact kernel that ``Z @ Z.T`` estimates.
    record_ : PositiveRecord
        The drawn directions and scales.
    n_features_in_ : int

    Raises
    ------
    TypeError
        If `kernel` is not an `Exponential` kernel.
    ValueError
        If the projection gives negative weights. `transform` raises it if a feature overflows the dtype, see Notes.

    Notes
    -----
    **Error.** Unbiased for every projection whose directions are Gaussian. Let ``z = u + v``. A single direction gives
    ``e^(w.z) e^(-(|u|^2 + |v|^2) / 2)``, and ``E e^(2 w.z) = e^(2 |z|^2)``; with ``k = e^(u.v)`` the variance from
    independent directions is ``k^2 (e^(|z|^2) - 1) / m``. A pair gives ``cosh(w.z)`` in place of ``e^(w.z)``, and
    ``E cosh(w.z)^2 = (1 + e^(2 |z|^2)) / 2``: the variance is ``k^2 (e^(|z|^2) - 1) (1 - e^(-|z|^2)) / m``. For the
    trigonometric form, ``e^(|u|^2 / 2)`` times `FourierFeatures`, it is the variance of pairs with ``z = u - v``.
    Positive features therefore have less error if and only if ``<x, y> < 0``, that is if the kernel is below 1; their
    relative error tends to 0 with ``|u + v|``. The relative error grows like ``e^(|z|^2 / 2) / sqrt(m)``: for nearby
    rows with norms above about 2 length scales no practical width is sufficient.

    **Damping.** With ``E e^(-2 a |w|^2 + b w.z) = (1 + 4a)^(-d/2) e^(b^2 |z|^2 / (2 + 8a))`` the mean is the same for
    every a, and the variance of single directions is ``k^2 (e^(-|z|^2) (1 + 4a)^d (1 + 8a)^(-d/2)
    e^(2 |z|^2 (1 + 4a) / (1 + 8a)) - 1) / m``. It is least at the positive root of
    ``16 d a^2 + (2 d - 4 |z|^2) a - |z|^2 = 0``. For d = 10 this divides the variance by 1.8 at ``|z|^2 = 2``, by
    4.4 at 4 and by 50 at 8.

    A damping for each axis of an orthonormal basis is a product of such estimates in one dimension. Let a symmetric
    matrix replace a. Averaged over all pairs of rows, the logarithm of the second moment is then a function of this
    matrix and of ``M = E z z^T``. It is least if the matrix has the eigenvectors of M, and its eigenvalues are the
    roots of the equation above for ``d = 1``, with the eigenvalues of M in place of ``|z|^2``. For equal eigenvalues
    this is ``"auto"``.

    **Large norms.** A feature is ``scale * e^(|w|^2 / 2 - |u - w|^2 / 2)``. It overflows only if ``e^(|w|^2 / 2)`` does
    (with more than about 150 inputs in float32, 1,300 in float64) and u is close to w. In this case `transform` raises
    an error. Far from all directions, features tend to 0. In float32 they underflow if ``|u|`` exceeds about 14, and
    the estimate for such rows is 0. The features of a row do not depend on other rows.

    **Cost.** As for `FourierFeatures`, with exponentials in place of cosines and sines.

    **Differs from the source in** the choice of projections and in the stabilisation: the source subtracts the largest
    exponent of all rows, so its features depend on the batch. It also adds a constant to each feature, which is omitted
    here.

    References
    ----------
    Choromanski et al. (2021), *Rethinking attention with performers*, Lemmas 1 and 2; Liu, Huang, Chen, Suykens
    (2021), *Random features for kernel approximation*, Section 2.2; Likhosherstov et al. (2022), *Chefs' random
    tables*, Section 3 (the damping); Likhosherstov et al. (2023), *Dense-exponential random features: sharp positive
    estimators of the Gaussian kernel* (a damping for each direction).

    Examples
    --------
    >>> import numpy as np, phimap as pm
    >>> X = np.random.default_rng(0).standard_normal((100, 5))
    >>> X /= np.linalg.norm(X, axis=1, keepdims=True)
    >>> phi = pm.PositiveFeatures(pm.kernels.Exponential(), 4096, random_state=0).fit(X)
    >>> Z = phi.transform(X)
    >>> bool((Z > 0).all())
    True
    >>> bool(np.abs(Z @ Z.T / phi.kernel_(X) - 1).mean() < 0.05)
    True
    """

    _roles = ("directions",)

    def __init__(
        self,
        kernel: Exponential | None = None,
        n_components: int = 1024,
        *,
        projection: str | Projection = "auto",
        damping: float | str = 0.0,
        pairing: str = "pairs",
        random_state: Any = None,
        n_jobs: int | None = None,
    ):
        self.kernel = kernel
        self.n_components = n_components
        self.projection = projection
        self.damping = damping
        self.pairing = pairing
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _draw(self, X: Array, streams: dict[str, np.random.Generator]) -> PositiveRecord:
        kernel = Exponential() if self.kernel is None else self.kernel
        if not isinstance(kernel, Exponential):
            raise TypeError(
                f"`kernel` must be an Exponential kernel, got {kernel!r}. Use DotProductFeatures for others."
            )
        d, width = X.shape[1], self.n_components
        kernel._check_parameters(d)
        paired = check_choice("pairing", self.pairing, ("pairs", "single")) == "pairs"
        # Together, the features of w and -w contribute a hyperbolic cosine. It is even, so w and -w are equivalent.
        law: SpectralLaw = GaussianLaw(d) if paired else StandardGaussianLaw(d)
        n_directions = (width + 1) // 2 if paired else width
        projection = as_projection(self.projection, law).sample(law, n_directions, streams["directions"])
        if projection.weight_signs is not None:
            raise ValueError(
                "`projection` must give positive weights, or estimates could be negative, got "
                f"{self.projection!r}, which gave a negative one. Use projection='orthogonal'."
            )
        n_pairs = width - n_directions
        shares = np.repeat([0.5, 1.0], [n_pairs, n_directions - n_pairs])
        self.kernel_ = kernel
        scale, inverse = shares**0.5 * projection.weight_roots, 1.0 / kernel.length_scale
        slope = 1.0
        if self.damping == "directions":
            W = projection.to_dense()
            with single_threaded_blas():
                a, axes = _dampings(X, inverse)
                matrix = np.ascontiguousarray((axes * np.sqrt(1 + 4 * a)) @ W.T)
                scale = scale * np.exp(np.log1p(4 * a).sum() / 4 - np.square(W) @ a)
            projection = WeightedRecord(matrix, weights=projection.weights)
        else:
            a = _damping(X, inverse) if self.damping == "auto" else check_real("damping", self.damping, least=0.0)
            slope = (1 + 4 * a) ** 0.5
            if a > 0:
                squares = np.square(projection.to_dense()).sum(axis=1)
                scale = scale * np.exp(d / 4 * np.log1p(4 * a) - a * squares)
        return PositiveRecord(projection, scale, inverse, n_pairs, slope)


def _damping(X: Array, inverse: float) -> float:
    """The damping of least variance at the mean of ``|u + v|^2`` over all pairs of rows u, v in length scales."""
    rows = _rows(X, inverse)
    square = 2 * float(np.square(rows).sum(axis=1).mean() + np.square(rows.mean(axis=0)).sum())
    return float(_least_variance(square, X.shape[1]))


def _dampings(X: Array, inverse: float) -> tuple[np.ndarray, np.ndarray]:
    """Dampings (d,) of least variance along the principal axes of u + v, and these axes as columns (d, d)."""
    rows = _rows(X, inverse)
    mean = rows.mean(axis=0)
    moments, axes = np.linalg.eigh(2 * (rows.T @ rows / len(rows) + np.outer(mean, mean)))
    return _least_variance(np.maximum(moments, 0.0), 1), axes


def _rows(X: Array, inverse: float) -> np.ndarray:
    """The rows of `X` divided by the length scale, as float64 on the host."""
    ops = ops_for(X)
    return np.asarray(ops.to_host(ops.dense(X)), dtype=np.float64) * inverse


def _least_variance(square: Any, d: int) -> Any:
    """The positive root a of ``16 d a^2 + (2 d - 4 square) a - square = 0``."""
    linear = 4 * square - 2 * d
    return (linear + np.hypot(linear, 8 * np.sqrt(d * square))) / (32 * d)
