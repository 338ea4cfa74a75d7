"""Projections from quadrature rules, which consist of points and weights."""

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
        Quadrature weights of the directions; they may be negative.
    """

    weights: np.ndarray | None = field(default=None, metadata=of_floats("s"))


@dataclass(frozen=True)
class SparseGridRecord(ProjectionRecord):
    """The points 0, p e_1, ..., p e_d of a sparse grid and, for the full grid, also -p e_1, ..., -p e_d.

    e_j are the unit vectors of the d columns, and p is the distance of the points from 0.

    Attributes
    ----------
    scale : ndarray of shape (n_features,)
        p times the inverse length scales of the law.
    weights : ndarray of shape (d + 1,) or (2 d + 1,)
        Quadrature weights of the points, in the order above.
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
    """Random samples from the product of three-point Gauss rules: entries 0, sqrt(3), -sqrt(3) for Gaussian laws.

    The product rule in d dimensions has 3^d points; points are drawn with their weights as probabilities. For Gaussian
    laws the entries are independent, 0 with probability 2/3 and +-sqrt(3) with probability 1/6 each, times the inverse
    length scale. For Gaussian scale mixtures (Matern) each direction is multiplied by a random factor. For other laws
    with independent coordinates of variance v and kurtosis q, the entries are 0 or ``+-sqrt(q v)``, each sign with
    probability ``1 / (2 q)``.

    Notes
    -----
    **Error.** Biased: only the first five moments of an entry equal the moments of a Gaussian. The expectation of the
    estimate is ``prod_j (2 + cos(sqrt(3) delta_j)) / 3`` at scaled differences delta. At short distances it differs
    from the Gaussian kernel by about ``sum_j delta_j^6 / 240``; if one ``|delta_j|`` exceeds 2 the difference is large.
    The variance is the same as for independent draws.

    **Cost.** O(s d) numbers stored and O(s d) flops per row.

    **Differs from the source in** laws other than the Gaussian, and in equal weights; the source may also reweight the
    sampled points.

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
        # The three-point Gauss rule for a symmetric distribution.
        size, chance = np.sqrt(rule.coordinate_kurtosis * rule.coordinate_variance), 0.5 / rule.coordinate_kurtosis
        u = rng.random((n_directions, law.n_features))
        entries = size * ((u < chance).astype(np.float64) - (u >= 1 - chance))
        if law.is_gaussian_mixture:
            entries *= law.sample_mixing(rng, n_directions)[:, None]
        return DenseRecord(np.ascontiguousarray((entries * law.scale).T))


class SparseGrid(Projection):
    """The sparse-grid rule of degree three: 0 and +-p e_j, with weights ``1 - d / p^2`` and ``1 / (2 p^2)``.

    The rule is deterministic; the unit of p is the standard deviation of a coordinate of the law. The number of
    directions must be ``2 d + 1`` or, for stationary kernels, ``d + 1``: opposite directions have the same cosine and
    are then merged into one direction of weight ``1 / p^2``.

    Parameters
    ----------
    p : float or None, default=None
        Distance of the points from 0 in standard deviations, positive. None means ``sqrt(d)``, for which the weight
        at 0 is zero. For smaller p this weight is negative, and feature maps have a ``signature_``.

    Notes
    -----
    **Error.** Deterministic and biased. Polynomials of degree 3 in w are integrated exactly; for ``p = sqrt(3)``, so is
    the fourth power of each coordinate. For the Gaussian kernel at scaled differences delta the estimate is
    ``1 - (d - sum_j cos(p delta_j)) / p^2``. The kernel is a product over columns and the estimate a sum, so the
    estimate is accurate at short distances only.

    **Cost.** O(d) numbers stored and O(d) flops per row.

    **Differs from the source in** merging opposite directions, and in p: the source uses ``sqrt(3)``, from a
    Gauss-Hermite rule.

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
        # For activations, opposite directions have different features and cannot be merged.
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

    A block consists of the ``d + 1`` vertices of a randomly rotated regular simplex, at a radius rho that follows a chi
    distribution with ``d + 2`` degrees of freedom. The N directions of all blocks have weights ``d / (N rho^2)``. One
    more direction, the first, is the point 0 with weight ``1 - sum d / (N rho^2)``. This weight has mean zero; if it is
    negative, feature maps have a ``signature_``. The radii of the blocks are quantiles at stratified points, in random
    order. If only one direction is requested, it is drawn from the law. For Gaussian scale mixtures (Matern) each
    direction is multiplied by a random factor.

    Parameters
    ----------
    antipodes : bool, default=False
        Whether a block also contains the opposite of each vertex. For stationary kernels opposite vertices are
        redundant, because cosines are even. For activations they make the rule exact to degree 3 rather than 2.

    Notes
    -----
    **Error.** Unbiased. With complete blocks (``s - 1`` a multiple of ``d + 1``) every draw integrates even functions
    exactly up to degree 3. For the Gaussian kernel at a distance of tau length scales, the error of a block is then
    O(tau^4). For other s the last block is incomplete: the rule is not exact, but still unbiased.

    **Cost.** O(s d min(s, d)) flops in `fit`; O(s d) numbers stored and O(s d) flops per row.

    **Differs from the source in** stratified radii, merged opposite vertices, and Haar rotations in place of butterfly
    products. Stratified radii keep the weight of the point 0 small and halve the error with many blocks. An incomplete
    block is weighted by its number of directions.

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
        # There is one radius from each stratum, so the weight of the point 0, which enters every estimate, varies
        # little.
        strata = (rng.permutation(n_blocks) + rng.random(n_blocks)) / n_blocks
        radii = GaussianLaw(d + 2).radial_quantile(np.minimum(strata, 1 - np.finfo(np.float64).epsneg))
        radii = np.repeat(radii, n_vertices)[:n_points]
        points = directions * (radii * law.sample_mixing(rng, n_points))[:, None]
        points = np.concatenate([np.zeros((1, d)), points])
        weights = d / (n_points * radii**2)
        return WeightedRecord(
            np.ascontiguousarray((points * law.scale).T), np.concatenate([[1 - weights.sum()], weights])
        )
