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

# Columns of the default map for each that is kept.
_POOL = 4
# Matrices of the order of the inner map's features that a choice among them takes.
_MATRICES = 4


@dataclass(frozen=True)
class SelectedRecord(MapRecord):
    """Some of the features of another map, each times a number.

    Attributes
    ----------
    inner : MapRecord
    columns : ndarray of shape (n_components,)
        Which ones.
    factors : ndarray of shape (n_components,)
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
    """The map of some columns; of stored Fourier directions the others are not computed any more."""
    if not isinstance(inner, FourierRecord) or type(inner.projection) is not DenseRecord:
        return SelectedRecord(inner, columns, factors)
    if inner.normalize_output:
        return SelectedRecord(inner, columns, factors)
    # A sine is a cosine with a phase of a quarter turn.
    n_pairs = inner.n_pairs
    phases = np.concatenate([np.zeros(n_pairs), np.full(n_pairs, -np.pi / 2), inner.shift])
    directions = np.concatenate([np.arange(n_pairs), np.arange(inner.projection.n_directions)])
    # Sines follow all cosines, and lone cosines follow these.
    matrix = np.ascontiguousarray(inner.projection.matrix[:, directions[columns]])
    scale = inner.scale[directions[columns]] * factors
    return FourierRecord(DenseRecord(matrix), phases[columns], scale, inner.normalize_input, False)


class CompressedFeatures(FeatureMap):
    r"""Compressed features: of those of another map a few, with weights under which they give its kernel estimate.

    .. math:: \sum_{j \in S} w_j\, \phi_j(x) \phi_j(y) \approx \sum_j \phi_j(x) \phi_j(y), \qquad |S| = m

    on the pairs of a subset of the rows. Columns are taken one after the other, each toward what is left.

    Parameters
    ----------
    feature_map : RandomMap or None, default=None
        The map that is compressed, unfitted; None is ``FourierFeatures`` of four times as many components.
    n_components : int, default=1024
        Output width m, at most the width of the map.
    method : {"frank-wolfe", "giga"}, default="giga"
        ``"frank-wolfe"`` moves through mixtures of the features, ``"giga"`` along great circles, which forgets the
        length of the sum until the end. Both only choose: the weights of what they took are fitted together, last.
    n_subset : int, default=1000
        Most rows, at least 2, on whose pairs the estimates are compared; fewer where the byte budget is small.
    random_state : int, Generator, RandomState, SeedSequence or None, default=None
        Seed of the rows, and of the map if it has none of its own; None is fresh entropy.
    n_jobs : int or None, default=None
        Threads; None uses the configured number. The result is bitwise the same for any number.

    Attributes
    ----------
    feature_map_ : RandomMap
        The fitted map, whole.
    kernel_ : Kernel
        That of the map, which the compressed features estimate too.
    record_ : FourierRecord or SelectedRecord
        What is left of the map. If it can be cut to the columns, the others are gone.
    n_features_in_ : int

    Notes
    -----
    **Error.** Added to that of the map: after t steps of Frank and Wolfe the squared distance of the two estimates,
    over all pairs of the subset, is at most ``4 sigma^2 / (1 + t)``, sigma the sum of ``|phi_j|^2`` over columns on the
    subset; weights that are fitted together leave no more. The estimate is biased.

    **Cost.** ``fit``: that of the map, ``2 n l^2`` flops for l columns of the map and n rows, and O(l) for each of up
    to 4 m steps, then nonnegative least squares of order m; memory for four matrices of order l. ``transform``: stored
    Fourier directions cost one projection for each column that is kept; all other maps are computed whole and then
    cut, which spares the learner and not the map.

    **Differs from the source in** all pairs of a subset of rows, where the source draws pairs: their inner products
    are squares of those of columns, so that no pair is formed; and in the weights, which are fitted once more.

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
        """Whether the map that is compressed does."""
        return isinstance(self.feature_map, RandomMap) and self.feature_map.wants_targets

    def fit_rows(self) -> int:
        """Rows that `fit` can use: the subset, or those of the map if it uses more."""
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
            # Where steps end before the width is full, other columns fill it up, with weights like all.
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
    """Inner products (l, l) of the estimates ``z_j z_j^T`` on the rows, of each column with its sign."""
    ops = host(np.float64)
    Z = ops.empty((len(rows), record.n_components))
    evaluate(record.bind(ops), ops, ops.floating(rows), Z, n_jobs)
    signs = record.signature
    G = np.square(Z.T @ Z)
    return G if signs is None else G * np.outer(signs, signs)
