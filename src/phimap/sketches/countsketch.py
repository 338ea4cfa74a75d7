"""CountSketch and OSNAP: every input coordinate is added, with random signs, to one or a few random outputs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from phimap._validation import check_integer
from phimap.ops import Array, Ops
from phimap.ops.primitives.countsketch import countsketch
from phimap.random_map import MapRecord
from phimap.records import of_floats, of_indices, of_number
from phimap.sketches.base import Sketch
from phimap.sketches.signs import fair_factors


@dataclass(frozen=True)
class CountSketchRecord(MapRecord):
    """The outputs to which each input coordinate is added, and the factors by which it is multiplied.

    Attributes
    ----------
    buckets : ndarray of intp, shape (n_features, k)
        The k outputs to which a coordinate is added.
    signs : ndarray of shape (n_features, k)
        The factors: 1 / sqrt(k) or -1 / sqrt(k).
    n_components : int
    """

    buckets: np.ndarray = field(metadata=of_indices("d", "k", below="m"))
    signs: np.ndarray = field(metadata=of_floats("d", "k"))
    n_components: int = field(metadata=of_number(length="m"))

    @property
    def n_features(self) -> int:
        return self.buckets.shape[0]

    def sketch(self, ops: Ops, X: Array) -> Array:
        """The sketch of the rows of `X` (r, n_features), dense or CSR, as a new array (r, n_components)."""
        out = ops.empty((X.shape[0], self.n_components))
        self.apply(ops, X, out)
        return out

    @property
    def scratch_width(self) -> int:
        # Input rows are read in place, so only the output rows take scratch memory.
        return self.n_components

    def apply(self, ops: Ops, X: Array, out: Array, first: int = 0) -> None:
        countsketch(ops, X, self.buckets, self.signs, self.n_components, out, first)


class CountSketch(Sketch):
    """Sketch vectors by hashing their coordinates: ``(Sx)_i = sum over j with h(j) = i of s(j) x_j``.

    h assigns a random output to each coordinate, and s a random sign.

    Parameters
    ----------
    n_components : int, default=1024
        Output width m.
    random_state : int, Generator, RandomState, SeedSequence or None, default=None
    n_jobs : int or None, default=None
        Number of threads; None uses the configured number. It does not change the result.

    Attributes
    ----------
    kernel_ : Polynomial
        The kernel that the sketch estimates: the inner product.
    record_ : CountSketchRecord
        The hash and the signs.

    Notes
    -----
    **Error.** Unbiased, ``Var <Sx, Sy> <= (|x|^2 |y|^2 + <x, y>^2) / m``.

    **Cost.** O(nnz + n m) for n rows with nnz nonzeros in total; O(d) numbers stored.

    **Differs from the source in** a fully independent hash and signs, where pairwise independence suffices.

    References
    ----------
    Charikar, Chen, Farach-Colton (2002), *Finding frequent items in data streams*, Section 3.

    Examples
    --------
    >>> import numpy as np, phimap as pm
    >>> X = np.eye(4)
    >>> S = pm.sketches.CountSketch(8, random_state=0).fit(X)
    >>> np.diag(S.transform(X) @ S.transform(X).T)
    array([1., 1., 1., 1.])
    """

    def sample(self, n_features: int, rng: np.random.Generator) -> CountSketchRecord:
        buckets = rng.integers(self.n_components, size=(n_features, 1), dtype=np.intp)
        return CountSketchRecord(buckets, fair_factors(rng, (n_features, 1)), self.n_components)


class OSNAP(Sketch):
    """Sketch vectors by a matrix with k entries ``+-1 / sqrt(k)`` in every column, one in each of k blocks of rows.

    Parameters
    ----------
    n_components : int, default=1024
        Output width m.
    nonzeros : int, default=4
        Number k of entries per column, at least 1; at most m are used. With k = 1 the sketch is `CountSketch`.
    random_state : int, Generator, RandomState, SeedSequence or None, default=None
    n_jobs : int or None, default=None
        Number of threads; None uses the configured number. It does not change the result.

    Attributes
    ----------
    kernel_ : Polynomial
        The kernel that the sketch estimates: the inner product.
    record_ : CountSketchRecord
        The outputs and the signs.

    Notes
    -----
    **Error.** Unbiased. If k divides m, the variance is the same as for `CountSketch`, at most
    ``(|x|^2 |y|^2 + <x, y>^2) / m``. A larger k makes large errors less likely: two large coordinates share an output
    with a probability of at most k^2 / m, but then only 1 / k of their product is added. The norms of vectors with a
    single non-zero coordinate are preserved exactly.

    **Cost.** O(k nnz + n m) for n rows with nnz nonzeros in total; O(k d) numbers stored.

    **Differs from the source in** fully independent outputs and signs, where limited independence suffices.

    References
    ----------
    Nelson, Nguyen (2013), *OSNAP: faster numerical linear algebra algorithms via sparser subspace embeddings*,
    Section 2, the block construction.

    Examples
    --------
    >>> import numpy as np, phimap as pm
    >>> S = pm.sketches.OSNAP(8, nonzeros=4, random_state=0).fit(np.eye(3))
    >>> np.abs(S.transform(np.eye(3))).sum(axis=1)
    array([2., 2., 2.])
    """

    def __init__(
        self,
        n_components: int = 1024,
        *,
        nonzeros: int = 4,
        random_state: Any = None,
        n_jobs: int | None = None,
    ):
        super().__init__(n_components, random_state=random_state, n_jobs=n_jobs)
        self.nonzeros = nonzeros

    def sample(self, n_features: int, rng: np.random.Generator) -> CountSketchRecord:
        copies = min(check_integer("nonzeros", self.nonzeros, least=1), self.n_components)
        # The output rows are divided into blocks whose sizes differ by at most one.
        bounds = self.n_components * np.arange(copies + 1, dtype=np.intp) // copies
        buckets = rng.integers(bounds[:-1], bounds[1:], size=(n_features, copies), dtype=np.intp)
        return CountSketchRecord(buckets, fair_factors(rng, buckets.shape) / copies**0.5, self.n_components)
