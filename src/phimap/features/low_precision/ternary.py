"""Ternary random features: signs and zeros, which can replace any activation on high-dimensional data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from phimap._validation import check_real
from phimap.features.low_precision.packable import PackableFeatures, PackableRecord
from phimap.features.random_layers.pointwise import PointwiseRecord
from phimap.kernels import Gaussian, Kernel, TernaryKernel
from phimap.kernels.spectral import SpectralLaw, StandardGaussianLaw
from phimap.ops import Array, Ops, ops_for
from phimap.ops.primitives.ternary import pack_ternary, write_ternary
from phimap.packed import SIGNS, PackedArray
from phimap.projections import SparseSign
from phimap.projections.base import ProjectionRecord
from phimap.records import of_floats, of_number, one_of, with_lengths

if TYPE_CHECKING:
    from phimap.theory import TernaryMixture

# For each kind of features, the weights of the bit planes and the offset, see `PackedArray`.
_CODES = {"signs": ((2.0,), -1.0), "steps": ((1.0,), 0.0), "ternary": (SIGNS, 0.0)}


@dataclass(frozen=True)
class TernaryRecord(PackableRecord, PointwiseRecord):
    """A map whose features are ``height / sqrt(m)`` times -1, 0 or 1.

    Attributes
    ----------
    projection : ProjectionRecord
        Sparse directions.
    lower, upper : ndarray of shape (n_components,)
        Thresholds: projections below `lower` give -1, above `upper` 1. Both are shifted by the projection of
        the data's centre.
    height : float
        Magnitude of nonzero features times sqrt(m).
    kind : str
        ``"ternary"``; ``"signs"`` if lower and upper thresholds are equal, so that no feature is 0; ``"steps"`` if no
        feature is negative.
    packed : bool
        Whether learners should store the features packed.
    """

    projection: ProjectionRecord = field(metadata=with_lengths(n_directions="s"))
    # A threshold may be infinite: no projection lies beyond it, so no feature takes the value -1, or 1.
    lower: np.ndarray = field(metadata=of_floats("s", finite=False, least=-np.inf))
    upper: np.ndarray = field(metadata=of_floats("s", finite=False, least=-np.inf))
    height: float = field(metadata=of_number(above=0))
    kind: str = field(metadata=one_of("ternary", "signs", "steps"))
    packed: bool

    @property
    def peak(self) -> float:
        """The largest magnitude of a feature."""
        return self.height / self.n_components**0.5

    @property
    def code(self) -> tuple[tuple[float, ...], float, float]:
        return *_CODES[self.kind], self.peak

    def _respond(self, ops: Ops, projected: Array, columns: slice, out: Array, first: int) -> None:
        lower = None if self.kind == "steps" else self.lower[columns]
        write_ternary(ops, projected, lower, self.upper[columns], self.kind == "signs", self.peak, out, first)

    def pack(self, ops: Ops, X: Array, out: PackedArray) -> None:
        for columns, projected in self.projection.blocks(ops, X):
            pack_ternary(
                ops,
                projected,
                self.lower[columns],
                self.upper[columns],
                self.kind == "signs",
                out.planes,
                columns.start,
            )


class TernaryFeatures(PackableFeatures):
    r"""Ternary random features: ``height / sqrt(m) * (1 if w.x > upper, -1 if w.x < lower, else 0)``, w sparse signs.

    For high-dimensional data, the kernel of features sigma(w.x) depends only on two moments of sigma, and not on the
    distribution of w. Thresholds and height are chosen so that these moments match the moments of a target activation
    or kernel. Linear models on the ternary features then perform like models on features of the target. They need only
    additions and two bits per feature.

    Parameters
    ----------
    target : Gaussian, ActivationKernel, str, callable or None, default=None
        The function or kernel that the features replace: the Gaussian kernel (None has length scale 1), or an
        activation as in `theory.gaussian_moments`.
    n_components : int, default=1024
        Output width m.
    sparsity : float, default=0.9
        Share eps of zeros among the entries of w; the others are ``+-(1 - eps)^(-1/2)``.
    packed : bool, default=False
        Whether `transform` returns a `PackedArray`, and learners train on one.
    output : {"float", "integer"}, default="float"
        Type of the dense result: features, or int8 integers to be multiplied by ``scale_``.
    levels : {2, 3}, default=3
        With 2, the thresholds are equal: features are signs without zeros and take one bit each.
    degrees : {2, 3} or None, default=None
        None uses one function for all features, see `theory.ternary_thresholds`. 2 or 3 divides the features among the
        functions of `theory.ternary_mixture`, whose mean kernel matches the target up to this degree. Their height,
        and therefore the variance, is larger, so that they suit large widths.
    center : bool or None, default=None
        Whether the mean of the training rows is subtracted from all rows, at no cost in `transform`. None centres if
        the target is the Gaussian kernel, which does not depend on shifts.
    tau : float or None, default=None
        Variance of the projections for which the moments are matched; None is the mean squared norm of the training
        rows, after centring and in units of the length scale (1 if the mean is 0).
    random_state : int, Generator, RandomState, SeedSequence or None, default=None
        Seed of all random draws; None draws fresh entropy.
    n_jobs : int or None, default=None
        Threads; None uses the configured number. The result is bitwise the same for any number.

    Attributes
    ----------
    kernel_ : TernaryKernel
        The limit of ``Z @ Z.T`` as m and then d grow: the dual kernel of the ternary function with Gaussian
        directions. It is not the target's kernel.
    mixture_ : TernaryMixture
        Thresholds and height of the functions, in units of the length scale, and their shares of the features.
    ternary_ : Ternary
        The function with the largest share; by default there is only one.
    tau_ : float
        The variance for which the moments were matched.
    scale_ : float
        ``height / sqrt(m)``.
    record_ : TernaryRecord
        The drawn directions and thresholds.
    n_features_in_ : int

    Notes
    -----
    **Error.** ``Z @ Z.T`` is an unbiased estimate of the mean product over sparse signs. This mean tends to ``kernel_``
    if many coordinates contribute to each projection. After centring, and up to a multiple of the identity, ``kernel_``
    tends to the target's kernel as n and d grow together (Theorem 1); for few inputs its entries differ. The match is
    best for rows of equal norm, so rows should be normalised if their norms carry no information. The high degrees of
    ``kernel_`` act as regularisation.

    **Cost.** ``transform``: ``(1 - eps) m d`` additions per row and two comparisons per feature. Packed, a row takes
    m / 4 bytes, or m / 8 with two levels or if no feature is negative.

    **Differs from the source in** the height, without which the moments of the Gaussian kernel cannot be matched for
    tau >= 1; in the moments, which correct errors of the source (see `theory.Ternary`); and in the centring. The
    source counts one bit per feature, which is enough only for two levels.

    References
    ----------
    Ali, Liao, Couillet (2022), *Random matrices in service of ML footprint: ternary random features with no
    performance loss*, Corollary 1 and Algorithm 1.

    Examples
    --------
    >>> import numpy as np, phimap as pm
    >>> X = np.random.default_rng(0).standard_normal((100, 300)) / 300**0.5
    >>> phi = pm.TernaryFeatures(pm.kernels.Gaussian(), 4096, packed=True, random_state=0).fit(X)
    >>> Z = phi.transform(X)
    >>> Z.nbytes == 100 * 4096 // 4
    True
    >>> bool(np.abs(Z.gram() - phi.kernel_(X)).max() < 0.3)
    True
    """

    _roles = ("directions",)

    ternary_: tuple
    mixture_: tuple
    tau_: float

    def __init__(
        self,
        target: Any = None,
        n_components: int = 1024,
        *,
        sparsity: float = 0.9,
        packed: bool = False,
        output: str = "float",
        levels: int = 3,
        degrees: int | None = None,
        center: bool | None = None,
        tau: float | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ):
        self.target = target
        self.n_components = n_components
        self.sparsity = sparsity
        self.packed = packed
        self.output = output
        self.levels = levels
        self.degrees = degrees
        self.center = center
        self.tau = tau
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _draw(self, X: Array, streams: dict[str, np.random.Generator]) -> TernaryRecord:
        self._check_output()
        target = Gaussian() if self.target is None else self.target
        d = X.shape[1]
        stationary = isinstance(target, Gaussian)
        law = target.spectral_law(d) if isinstance(target, Gaussian) else StandardGaussianLaw(d)
        # The law scales the projections, so that the Gaussian target has length scale 1.
        target = Gaussian() if stationary else target
        ops = ops_for(X)
        center = stationary if self.center is None else bool(self.center)
        mean = np.asarray(X.mean(axis=0) if ops.is_sparse(X) else ops.column_sums(X) / X.shape[0], np.float64).ravel()
        mean *= center
        if self.tau is not None:
            tau = check_real("tau", self.tau, above=0.0)
        else:
            tau = _mean_squared_norm(ops, X, mean, law) or 1.0
        mixture = self._mixture(target, tau)
        # Functions are assigned to features such that any number of leading features has nearly the right shares.
        functions = mixture.assign(self.n_components)
        lower, upper, heights = np.array(mixture.functions).T
        projection = SparseSign(self.sparsity).sample(law, self.n_components, streams["directions"])
        host = ops_for(np.empty(0))
        shift = projection.bind(host).apply(host, mean[None])[0]
        self.ternary_ = ternary = mixture.functions[int(np.argmax(mixture.shares))]
        self.mixture_, self.tau_ = mixture, tau
        kind = "ternary"
        if lower.size == 1 and ternary.is_binary:
            kind = "signs" if lower[0] == upper[0] else "steps"
        scale = 1.0 / np.asarray(law.scale)
        single = lower.size == 1
        self.kernel_: Kernel = TernaryKernel(
            float(lower[0]) if single else lower,
            float(upper[0]) if single else upper,
            float(heights[0]),
            shares=None if single else np.bincount(functions, minlength=lower.size) / functions.size,
            center=mean if center else None,
            length_scale=scale if scale.ndim else float(scale),
        )
        return TernaryRecord(
            projection, lower[functions] + shift, upper[functions] + shift, float(heights[0]), kind, bool(self.packed)
        )

    def _mixture(self, target: Any, tau: float) -> TernaryMixture:
        from phimap.theory import TernaryMixture, ternary_mixture, ternary_thresholds

        if self.degrees is None:
            return TernaryMixture((ternary_thresholds(target, tau, levels=self.levels),), (1.0,))
        if self.levels != 3:
            raise ValueError(f"`degrees` must be None with levels=2, got {self.degrees!r}. Use levels=3.")
        return ternary_mixture(target, tau, degrees=self.degrees)


def _mean_squared_norm(ops: Ops, X: Array, mean: np.ndarray, law: SpectralLaw) -> float:
    """Mean of ``|law.scale * (x - mean)|^2`` over the rows."""
    scale = np.broadcast_to(law.scale, mean.shape)
    norms = ops.to_host(ops.row_norms(ops.scale_columns(X, ops.constant(np.ascontiguousarray(scale)))))
    # Centred rows would be dense, so the squared norm of the mean is subtracted at the end.
    return max(float(np.mean(norms.astype(np.float64) ** 2) - np.sum((scale * mean) ** 2)), 0.0)
