"""CountSketch: every input coordinate is added, with a random sign, to one random output."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from phimap.ops import Array, Ops
from phimap.random_map import MapRecord
from phimap.sketches.base import Sketch


@dataclass(frozen=True)
class CountSketchRecord(MapRecord):
    """Hash and signs.

    Attributes
    ----------
    buckets : ndarray of intp, shape (n_features, 1)
    signs : ndarray of shape (n_features, 1)
    n_components : int
    """

    buckets: np.ndarray
    signs: np.ndarray
    n_components: int

    @property
    def n_features(self) -> int:
        return self.buckets.shape[0]

    def sketch(self, ops: Ops, X: Array) -> Array:
        """The sketch of the rows of `X` (r, n_features), dense or CSR, as a new array (r, n_components)."""
        return ops.countsketch(X, self.buckets, self.signs, self.n_components)

    def apply(self, ops: Ops, X: Array, out: Array, first: int = 0) -> None:
        ops.copy(self.sketch(ops, X), out, first)


class CountSketch(Sketch):
    """Sketch vectors by hashing their coordinates: ``(Sx)_i = sum over j with h(j) = i of s(j) x_j``.

    Parameters
    ----------
    n_components : int, default=1024
        Output width m.
    random_state : int, Generator, RandomState, SeedSequence or None, default=None
    n_jobs : int or None, default=None
        Threads; None is the configured number. Changes no bit of the result.

    Attributes
    ----------
    kernel_ : Polynomial
        The kernel estimated: the inner product.
    record_ : CountSketchRecord
        The hash and the signs.

    Notes
    -----
    **Error.** Unbiased, ``Var <Sx, Sy> <= (|x|^2 |y|^2 + <x, y>^2) / m``.

    **Cost.** O(nnz + n m) for n rows with nnz nonzeros altogether; O(d) numbers stored.

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
        return CountSketchRecord(buckets, random_signs(rng, (n_features, 1)), self.n_components)


def random_signs(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Independent fair signs as float64."""
    return 2.0 * rng.integers(2, size=shape, dtype=np.int8) - 1.0
