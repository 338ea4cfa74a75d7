"""Quadrature rules: points with weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from phimap._validation import check_real
from phimap.kernels.spectral import GaussianLaw, SpectralLaw, StandardGaussianLaw
from phimap.ops import Array, Ops
from phimap.projections.base import Projection, ProjectionRecord, input_scale
from phimap.projections.dense import DenseRecord, drawn_blocks
from phimap.projections.simplex import rotated_simplex
from phimap.records import of_floats


@dataclass(frozen=True)
class WeightedRecord(DenseRecord):
    """A stored matrix with quadrature weights.

    Attributes
    ----------
    weights : ndarray of shape (n_directions,)
    """

    weights: np.ndarray | None = field(default=None, metadata=of_floats("s"))


@dataclass(frozen=True)
class SparseGridRecord(ProjectionRecord):
    """The points 0, p e_1, ..., p e_d and, for the full grid, -p e_1, ..., -p e_d.

    Attributes
    ----------
    scale : ndarray of shape (n_features,)
        p times the law's inverse length scales.
    weights : ndarray of shape (d + 1,) or (2 d + 1,)
    """

    scale: np.ndarray = field(metadata=of_floats("d"))
    weights: np.ndarray | None = field(default=None, metadata=of_floats("s"))

    def requirements(self) -> Iterator[tuple[bool, str]]:
        d = self.n_features
        yield self.n_directions in (d + 1, 2 * d + 1), "a weight for the origin and for one or two points a column"

    @property
    def n_features(self) -> int:
        return self.scale.shape[0]

    @property
    def n_directions(self) -> int:
        return 0 if self.weights is None else self.weights.shape[0]

    @property
    def n_flops(self) -> int:
        return self.n_directions - 1

    @property
    def scratch_width(self) -> int:
        return 3 * self.n_features

    def blocks(self, ops: Ops, X: Array) -> Iterator[tuple[slice, Array]]:
        X = ops.dense(X)
        d = self.n_features
        origin = ops.empty((X.shape[0], 1))
        ops.zero(origin, 0, 1)
        yield slice(0, 1), origin
        yield slice(1, d + 1), ops.scale_columns(X, self.scale)
        if self.n_directions > d + 1:
            yield slice(d + 1, 2 * d + 1), ops.scale_columns(X, -self.scale)


class GaussQuadrature(Projection):
    """Random products of three-point Gauss rules: for Gaussian laws entries 0, sqrt(3), -sqrt(3).

    Entries are independent, 0 with probability 2/3 and +-sqrt(3) with 1/6 each, times the inverse length scale:
    the rule's weights are the probabilities, so that the rule in d dimensions, with its 3^d points, is sampled. For
    mixtures of Gaussian laws (Matern) each direction has its factor; for other laws of independent coordinates, of
    variance v and kurtosis q, the entries are 0 and ``+-sqrt(q v)``, the latter with probability ``1 / (2 q)`` each.

    Notes
    -----
    **Error.** Biased: the moments of an entry are the Gaussian's up to the fifth only. The expectation of the
    estimate is ``prod_j (2 + cos(sqrt(3) delta_j)) / 3`` at scaled differences delta, which is the Gaussian kernel
    up to ``sum_j delta_j^6 / 240`` at short distances and far from it where one ``|delta_j|`` exceeds 2. The
    variance about it is that of independent draws.

    **Cost.** O(s d) numbers stored and O(s d) flops a row.

    **Differs from the source in** the laws other than the Gaussian; the source reweights the sampled points as an
    option.

    References
    ----------
    Dao, De Sa, Re (2017), *Gaussian quadrature for kernel features*, Section 3; Liu, Huang, Chen, Suykens (2021),
    *Random features for kernel approximation*, Section 3.3.
    """

    name = "gauss-quadrature"
    drawn_arrays = 4

    @classmethod
    def _requirements(cls, law: SpectralLaw) -> tuple[tuple[str, bool], ...]:
        serves = law.is_gaussian_mixture or (law.has_independent_coordinates and np.isfinite(law.coordinate_kurtosis))
        return (("a spectral law of coordinates with four moments, or a mixture of Gaussian ones", bool(serves)),)

    def _sample(self, law: SpectralLaw, n_directions: int, rng: np.random.Generator) -> ProjectionRecord:
        rule = GaussianLaw(law.n_features) if law.is_gaussian_mixture else law
        # The Gauss rule of three points of any symmetric law.
        size, chance = np.sqrt(rule.coordinate_kurtosis * rule.coordinate_variance), 0.5 / rule.coordinate_kurtosis
        u = rng.random((n_directions, law.n_features))
        entries = size * ((u < chance).astype(np.float64) - (u >= 1 - chance))
        if law.is_gaussian_mixture:
            entries *= law.sample_mixing(rng, n_directions)[:, None]
        return DenseRecord(np.ascontiguousarray((entries * law.scale).T))


class SparseGrid(Projection):
    """The sparse-grid rule of degree three: 0 and +-p e_j, with weights ``1 - d / p^2`` and ``1 / (2 p^2)``.

    Nothing is random; p counts in standard deviations of a coordinate of the law. The number of directions must be
    ``2 d + 1``, or ``d + 1`` for stationary kernels: a direction and its opposite have the same cosine, and the pair is
    then one direction of weight ``1 / p^2``.

    Parameters
    ----------
    p : float or None, default=None
        Distance of the points in standard deviations, greater than 0; None is ``sqrt(d)``, for which the weight
        at 0 vanishes. Below that it is negative: feature maps then have a ``signature_``.

    Notes
    -----
    **Error.** Deterministic and biased. Polynomials of degree 3 in w are integrated exactly, for ``p = sqrt(3)``
    also the fourth powers of each coordinate. For the Gaussian kernel at scaled differences delta the estimate is
    ``1 - (d - sum_j cos(p delta_j)) / p^2``: a sum where the kernel is a product, good at short distances.

    **Cost.** O(d) numbers stored and O(d) flops a row.

    **Differs from the source in** the merged form, and in p, which the source takes from a Gauss-Hermite rule
    (``sqrt(3)``).

    References
    ----------
    Dao, De Sa, Re (2017), *Gaussian quadrature for kernel features*, Section 3.2; Liu, Huang, Chen, Suykens (2021),
    *Random features for kernel approximation*, Section 3.3.
    """

    name = "sparse-grid"
    needs_finite_variance = True

    def __init__(self, p: float | None = None):
        self.p = p

    def _sample(self, law: SpectralLaw, n_directions: int, rng: np.random.Generator) -> ProjectionRecord:
        d = law.n_features
        p_squared = float(d) if self.p is None else check_real("p", self.p, above=0.0) ** 2
        # Features of an activation tell a direction from its opposite.
        fitting = [2 * d + 1] if isinstance(law, StandardGaussianLaw) else [d + 1, 2 * d + 1]
        if n_directions not in fitting:
            sizes = " or ".join(map(str, fitting))
            widths = " or ".join(str(2 * size) for size in fitting)
            remedy = f"n_components={sizes}"
            if not isinstance(law, StandardGaussianLaw):
                remedy = f"n_components={widths} for pairs, {sizes} for phases"
            raise ValueError(
                f"`projection`={self.name!r} has {sizes} directions for {d} features, got {n_directions}. "
                f"Use {remedy}, or projection='orthogonal'."
            )
        weights = np.full(n_directions, 1 / p_squared)
        if n_directions > d + 1:
            weights /= 2
        weights[0] = 1 - d / p_squared
        return SparseGridRecord(np.sqrt(p_squared * law.coordinate_variance) * input_scale(law), weights)


class SphericalRadial(Projection):
    """Stochastic spherical-radial rules of degree three.

    A block is a randomly rotated regular simplex of ``d + 1`` vertices at a radius rho with the law chi of ``d + 2``
    degrees of freedom; N directions of all blocks have weights ``d / (N rho^2)``, and the first of all directions
    is the point 0, whose weight ``1 - sum d / (N rho^2)`` is zero on average. It may be negative: feature maps then
    have a ``signature_``. The radii of the blocks are the law's quantiles at stratified points, in random order. A
    single direction leaves no room for the point 0 and is drawn from the law. For mixtures of Gaussian laws (Matern)
    each direction has its factor.

    Parameters
    ----------
    antipodes : bool, default=False
        Whether a block holds the opposite of each vertex as well. Cosines are even, so that for stationary kernels
        the opposites say nothing new. For activations they make the rule exact to degree 3 rather than 2.

    Notes
    -----
    **Error.** Unbiased. Even functions of whole blocks (``s - 1`` a multiple of ``d + 1``) are integrated exactly
    up to degree 3 by every draw: for the Gaussian kernel at distance tau length scales the error of a block is
    O(tau^4). The last block is cut where s does not fit, which costs the exactness and not the unbiasedness.

    **Cost.** O(s d min(s, d)) flops in `fit`; O(s d) numbers stored and O(s d) flops a row.

    **Differs from the source in** stratified radii, which keep the weight of the point 0 small and halve the error of
    many blocks, in merging opposite vertices, in weighting a cut block by its share of directions, and in Haar
    rotations in place of butterfly products.

    References
    ----------
    Munkhoeva, Kapushev, Burnaev, Oseledets (2018), *Quadrature-based features for kernel approximation*, Equation 5;
    Genz, Monahan (1998), *Stochastic integration rules for infinite regions*.
    """

    name = "spherical-radial"
    drawn_arrays = 5
    needs_gaussian_mixture = True

    def __init__(self, *, antipodes: bool = False):
        self.antipodes = antipodes

    def _sample(self, law: SpectralLaw, n_directions: int, rng: np.random.Generator) -> ProjectionRecord:
        d = law.n_features
        if n_directions == 1:
            return DenseRecord(law.sample(rng, 1).T)
        n_vertices = 2 * (d + 1) if self.antipodes else d + 1
        n_points = n_directions - 1
        n_blocks = -(-n_points // n_vertices)

        def block(size: int, child: np.random.Generator) -> np.ndarray:
            vertices = rotated_simplex(d + 1, d, child, min(size, d + 1))
            return np.concatenate([vertices, -vertices])[:size]

        directions = drawn_blocks(block, n_points, n_vertices, rng)
        # One radius from each stratum: the weight of the point 0, which every estimate shares, hardly varies then.
        strata = (rng.permutation(n_blocks) + rng.random(n_blocks)) / n_blocks
        radii = GaussianLaw(d + 2).radial_quantile(np.minimum(strata, 1 - np.finfo(np.float64).epsneg))
        radii = np.repeat(radii, n_vertices)[:n_points]
        points = directions * (radii * law.sample_mixing(rng, n_points))[:, None]
        points = np.concatenate([np.zeros((1, d)), points])
        weights = d / (n_points * radii**2)
        return WeightedRecord(
            np.ascontiguousarray((points * law.scale).T), np.concatenate([[1 - weights.sum()], weights])
        )
