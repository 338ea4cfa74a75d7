"""A small weighted subset of the features of another map."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import clone

from phimap._validation import check_choice, check_integer
from phimap.config import memory_budget, size_text
from phimap.features.base import FeatureMap
from phimap.features.data_dependent.greedy_weights import METHODS
from phimap.features.data_dependent.kernel_weights import nonnegative_solution
from phimap.features.data_dependent.pool import chosen_rows
from phimap.features.fourier import FourierFeatures, FourierRecord
from phimap.kernels import Kernel
from phimap.ops import Array, Ops, host, single_threaded_blas
from phimap.projections.dense import DenseRecord
from phimap.random_map import MapRecord, RandomMap, evaluate
from phimap.records import of_floats, of_indices, with_lengths

# Ratio of the width of the default inner map to the number of features that are kept.
_POOL = 4
# Number of square matrices in memory during the choice of columns. Their order is the width of the inner map.
_MATRICES = 4


@dataclass(frozen=True)
class SelectedRecord(MapRecord):
    """A subset of the features of another map, each multiplied by a factor.

    Attributes
    ----------
    inner : MapRecord
        The map whose features are selected.
    columns : ndarray of shape (n_components,)
        Indices of the features that are kept.
    factors : ndarray of shape (n_components,)
        Factors of these features.
    """

    inner: MapRecord = field(metadata=with_lengths(n_components="l"))
    columns: np.ndarray = field(metadata=of_indices("m", below="l"))
    factors: np.ndarray = field(metadata=of_floats("m"))

    @property
    def n_features(self) -> int:
        return self.inner.n_features

    @property
    def n_components(self) -> int:
        return self.columns.shape[0]

    @property
    def n_flops(self) -> int | None:
        return self.inner.n_flops

    @property
    def scratch_width(self) -> int:
        return self.inner.scratch_width + self.inner.n_components + self.n_components

    @property
    def signature(self) -> np.ndarray | None:
        signs = self.inner.signature
        return None if signs is None else signs[self.columns]

    def apply(self, ops: Ops, X: Array, out: Array, first: int = 0) -> None:
        features = ops.empty((X.shape[0], self.inner.n_components))
        self.inner.apply(ops, X, features)
        kept = ops.columns(features, self.columns)
        ops.multiply(kept, self.factors, out[:, first : first + self.n_components])


def selected(inner: MapRecord, columns: np.ndarray, factors: np.ndarray) -> MapRecord:
    """The map with some columns of `inner`, each multiplied by its factor.

    Fourier maps with stored directions do not compute the other columns.
    """
    if not isinstance(inner, FourierRecord) or type(inner.projection) is not DenseRecord:
        return SelectedRecord(inner, columns, factors)
    if inner.normalize_output:
        return SelectedRecord(inner, columns, factors)
    # sin(t) = cos(t - pi / 2).
    n_pairs = inner.n_pairs
    phases = np.concatenate([np.zeros(n_pairs), np.full(n_pairs, -np.pi / 2), inner.shift])
    directions = np.concatenate([np.arange(n_pairs), np.arange(inner.projection.n_directions)])
    # Columns of `inner` are ordered as cosines of pairs, sines of pairs, cosines with phases.
    matrix = np.ascontiguousarray(inner.projection.matrix[:, directions[columns]])
    scale = inner.scale[directions[columns]] * factors
    return FourierRecord(DenseRecord(matrix), phases[columns], scale, inner.normalize_input, False)


class CompressedFeatures(FeatureMap):
    r"""Compressed features: a weighted subset of another map's features that reproduces its kernel estimate.

    .. math:: \sum_{j \in S} w_j\, \phi_j(x) \phi_j(y) \approx \sum_j \phi_j(x) \phi_j(y), \qquad |S| = m

    This holds approximately on the pairs of a subset of the rows. Features are chosen greedily: each choice reduces the
    residual.

    Parameters
    ----------
    feature_map : RandomMap or None, default=None
        The map to compress, unfitted; None is ``FourierFeatures`` with four times as many components.
    n_components : int, default=1024
        Output width m, at most the width of the map.
    method : {"frank-wolfe", "giga"}, default="giga"
        Algorithm that chooses the features. ``"frank-wolfe"`` moves within the convex hull of the features, ``"giga"``
        (greedy iterative geodesic ascent) along great circles of the unit sphere. The weights of the chosen features
        are then fitted jointly by nonnegative least squares.
    n_subset : int, default=1000
        Maximum number of rows, at least 2, on whose pairs the estimates are compared; fewer for a small byte budget.
    random_state : int, Generator, RandomState, SeedSequence or None, default=None
        Seed of the row sample, and of the inner map if its own `random_state` is None; None draws fresh entropy.
    n_jobs : int or None, default=None
        Threads; None uses the configured number. The result is bitwise the same for any number.

    Attributes
    ----------
    feature_map_ : RandomMap
        The fitted inner map with all its features.
    kernel_ : Kernel
        The kernel of the inner map, which the compressed features also estimate.
    record_ : FourierRecord or SelectedRecord
        The compressed map. A FourierRecord holds only the kept directions; a SelectedRecord holds the whole inner map.
    n_features_in_ : int

    Notes
    -----
    **Error.** The error of the inner map, and in addition the following. After t Frank-Wolfe steps, the squared
    distance between the two estimates, over all pairs of the subset, is at most ``4 sigma^2 / (1 + t)``, where sigma is
    the sum over features of ``|phi_j|^2`` on the subset. The joint fit of the weights does not increase this distance.
    The estimate is biased.

    **Cost.** ``fit``: the fit of the inner map; ``2 n l^2`` flops for n rows and an inner map of width l; O(l) for each
    of up to 4 m steps; nonnegative least squares of order m; memory for four matrices of order l. ``transform``: for
    stored Fourier directions, one projection per kept feature. For other maps, all features are computed and a subset
    is kept, so only the learner becomes cheaper.

    **Differs from the source in** the pairs of rows and in the weights. The source draws pairs of rows; here all pairs
    of a subset of the rows are used. The inner product over all pairs is the squared inner product of two columns, so
    pairs are never formed. The weights are fitted jointly at the end.

    References
    ----------
    Agrawal, Campbell, Huggins, Broderick (2019), *Data-dependent compression of random features for large-scale
    kernel approximation*, Algorithm 1; Campbell, Broderick (2018), *Bayesian coreset construction via greedy
    iterative geodesic ascent*, Algorithm 2; Liu, Huang, Chen, Suykens (2021), Section 2.4.

    Examples
    --------
    >>> import numpy as np, phimap as pm
    >>> X = np.random.default_rng(0).standard_normal((500, 5))
    >>> kernel = pm.kernels.Gaussian(length_scale=3.0)
    >>> wide = pm.FourierFeatures(kernel, 800, projection="gaussian", random_state=0)
    >>> phi = pm.CompressedFeatures(wide, 100, random_state=0).fit(X)
    >>> narrow = pm.FourierFeatures(kernel, 100, projection="gaussian", random_state=0).fit(X)
    >>> bool(pm.metrics.relative_error(phi, X) < pm.metrics.relative_error(narrow, X))
    True
    """

    feature_map_: RandomMap
    _roles = ("map", "rows")

    def __init__(
        self,
        feature_map: Any = None,
        n_components: int = 1024,
        *,
        method: str = "giga",
        n_subset: int = 1000,
        random_state: Any = None,
        n_jobs: int | None = None,
    ):
        self.feature_map = feature_map
        self.n_components = n_components
        self.method = method
        self.n_subset = n_subset
        self.random_state = random_state
        self.n_jobs = n_jobs

    @property
    def wants_targets(self) -> bool:
        """Whether the inner map uses targets."""
        return isinstance(self.feature_map, RandomMap) and self.feature_map.wants_targets

    def fit_rows(self) -> int:
        """Number of rows that `fit` can use: `n_subset`, but at least as many as the inner map can use."""
        inner = self.feature_map.fit_rows() if isinstance(self.feature_map, RandomMap) else super().fit_rows()
        return max(inner, self.n_subset)

    def _draw(self, X: Array, streams: dict[str, np.random.Generator]) -> MapRecord:
        return self._draw_from(X, None, streams)

    def _draw_from(self, X: Array, y: Any, streams: dict[str, np.random.Generator]) -> MapRecord:
        choose = METHODS[check_choice("method", self.method, tuple(METHODS))]
        n_subset = check_integer("n_subset", self.n_subset, least=2)
        inner = self._fitted_map(X, y, streams["map"])
        rows, _ = chosen_rows(X, n_subset, streams["rows"])
        with single_threaded_blas():
            G = _products(inner.record_, rows, self.n_jobs)
            seen = np.flatnonzero(G.diagonal() > 0)
            weights = np.zeros(len(G))
            if seen.size:
                weights[seen] = choose(G if seen.size == len(G) else G[np.ix_(seen, seen)], self.n_components)
            # If the greedy steps choose fewer than `n_components` columns, add further columns and fit their weights as
            # well.
            columns = seen[np.argsort(-weights[seen], kind="stable")[: self.n_components]]
            columns = np.concatenate([columns, np.setdiff1d(np.arange(len(G)), seen)])[: self.n_components]
            chosen = columns[: seen.size]
            weights[chosen] = nonnegative_solution(G[np.ix_(chosen, chosen)], G[chosen].sum(axis=1))
        self.feature_map_ = inner
        self.kernel_: Kernel = inner.kernel_
        return selected(inner.record_, columns, np.sqrt(weights[columns]))

    def _fitted_map(self, X: Array, y: Any, rng: np.random.Generator) -> Any:
        inner: Any = self.feature_map
        inner = FourierFeatures(n_components=_POOL * self.n_components) if inner is None else inner
        if not isinstance(inner, FeatureMap):
            raise TypeError(f"`feature_map` must be a feature map, got {type(inner).__name__}.")
        width = inner.output_width(X.shape[1])
        if self.n_components > width:
            raise ValueError(
                f"`n_components` must be at most {width}, the width of the map, got {self.n_components}. Use a wider "
                "`feature_map`."
            )
        n_bytes = 8 * _MATRICES * width**2
        if n_bytes > memory_budget():
            raise MemoryError(
                f"the choice among {width} features takes {size_text(n_bytes)}, over the budget of "
                f"{size_text(memory_budget())}. Use a narrower `feature_map`, or phimap.config(memory=...)."
            )
        inner = clone(inner)
        if inner.random_state is None:
            inner.set_params(random_state=rng)
        return inner.fit(X, y)


def _products(record: MapRecord, rows: np.ndarray, n_jobs: int | None) -> np.ndarray:
    """Inner products (l, l) of the matrices ``s_j z_j z_j^T`` on the rows.

    Here z_j (n,) is the column of feature j, and s_j is its sign.
    """
    ops = host(np.float64)
    Z = ops.empty((len(rows), record.n_components))
    evaluate(record.bind(ops), ops, ops.floating(rows), Z, n_jobs)
    signs = record.signature
    G = np.square(Z.T @ Z)
    return G if signs is None else G * np.outer(signs, signs)
