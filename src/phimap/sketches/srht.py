"""The subsampled randomised Hadamard transform, of vectors and of tensor products of two."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from phimap.ops import Array, Ops
from phimap.random_map import MapRecord
from phimap.sketches.base import Sketch


@dataclass(frozen=True)
class SRHTRecord(MapRecord):
    """Signs and sampled rows, in one or more independent blocks.

    Attributes
    ----------
    n_features : int
    signs : ndarray of int8, shape (n_blocks, p)
        p is `n_features` padded to a power of two.
    rows : ndarray of intp, shape (n_components,)
        Sampled rows; entry k belongs to block ``k // per_block``.
    per_block : int
        Rows taken from each block but the last, which gives the rest.
    """

    n_features: int
    signs: np.ndarray
    rows: np.ndarray
    per_block: int

    @property
    def n_components(self) -> int:
        return self.rows.shape[0]

    @property
    def scratch_width(self) -> int:
        return self.n_features + 2 * self.signs.shape[1]

    def apply(self, ops: Ops, X: Array, out: Array, first: int = 0) -> None:
        for block in range(self.signs.shape[0]):
            start = block * self.per_block
            transformed = ops.fwht(ops.pad_signed(X, self.signs[block]))
            sampled = transformed[:, self.rows[start : start + self.per_block]]
            # With H unnormalised, sqrt(p / m) / sqrt(p) is left of the scaling.
            ops.copy(sampled * self.n_components**-0.5, out, first + start)


class SRHT(Sketch):
    """Sketch vectors by ``sqrt(p / m) P H D``: random signs, normalised Walsh-Hadamard transform, sampled rows.

    Parameters
    ----------
    n_components : int, default=1024
        Output width m.
    replace : bool, default=False
        Sample rows with replacement. Without it rows are distinct, and widths beyond the padded input width p are
        filled by further blocks with signs of their own.
    random_state : int, Generator, RandomState, SeedSequence or None, default=None
    n_jobs : int or None, default=None
        Threads; None is the configured number. Changes no bit of the result.

    Attributes
    ----------
    kernel_ : Polynomial
        The kernel estimated: the inner product.
    record_ : SRHTRecord
        The signs and the sampled rows.

    Notes
    -----
    **Error.** Unbiased; with replacement ``Var <Sx, Sy> <= (|x|^2 |y|^2 + <x, y>^2) / m``, without it smaller, and
    zero (an isometry) at m = p.

    **Cost.** O(p log p) flops a row and block; O(p) numbers stored.

    **Differs from the source in** sampling without replacement by default, and in the blocks beyond m = p.

    References
    ----------
    Ailon, Chazelle (2009), *The fast Johnson-Lindenstrauss transform*; Tropp (2011), *Improved analysis of the
    subsampled randomized Hadamard transform*, Section 1.3.

    Examples
    --------
    >>> import numpy as np, phimap as pm
    >>> X = np.random.default_rng(0).standard_normal((3, 8))
    >>> Z = pm.sketches.SRHT(8, random_state=0).fit_transform(X)
    >>> bool(np.allclose(Z @ Z.T, X @ X.T))
    True
    """

    def __init__(
        self,
        n_components: int = 1024,
        *,
        replace: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
    ):
        super().__init__(n_components, random_state=random_state, n_jobs=n_jobs)
        self.replace = replace

    def sample(self, n_features: int, rng: np.random.Generator) -> SRHTRecord:
        width = padded_width(n_features)
        per_block = self.n_components if self.replace else min(self.n_components, width)
        n_blocks = -(-self.n_components // per_block)
        sign_rng, row_rng = rng.spawn(2)
        signs = hadamard_signs(sign_rng, (n_blocks, width))
        if self.replace:
            rows = row_rng.integers(width, size=self.n_components, dtype=np.intp)
        else:
            rows = np.concatenate([row_rng.permutation(width) for _ in range(n_blocks)])[: self.n_components]
        return SRHTRecord(n_features, signs, rows.astype(np.intp), per_block)


@dataclass(frozen=True)
class TensorSRHTRecord(MapRecord):
    """Signs and sampled rows of two independent transforms.

    Attributes
    ----------
    n_features : int
        Width of the first factor; of both where a vector is multiplied by itself.
    signs : tuple of two ndarrays of int8, shapes (p,) and (p',)
    rows : tuple of two ndarrays of intp, shape (n_components,)
    """

    n_features: int
    signs: tuple[np.ndarray, np.ndarray]
    rows: tuple[np.ndarray, np.ndarray]

    @property
    def n_components(self) -> int:
        return self.rows[0].shape[0]

    @property
    def scratch_width(self) -> int:
        return self.n_components + self.n_features + sum(signs.shape[0] for signs in self.signs)

    def sketch_product(self, ops: Ops, X: Array, Y: Array) -> Array:
        """The sketch of the tensor products of the rows of `X` (r, d) and `Y` (r, d'): (r, n_components)."""
        first, second = (
            ops.fwht(ops.pad_signed(factor, signs)) for factor, signs in zip((X, Y), self.signs, strict=True)
        )
        return ops.gather_product(first, self.rows[0], second, self.rows[1], self.n_components**-0.5)

    def apply(self, ops: Ops, X: Array, out: Array, first: int = 0) -> None:
        ops.copy(self.sketch_product(ops, X, X), out, first)


class TensorSRHT(Sketch):
    """Sketch ``x (x) x`` by two randomised Hadamard transforms sampled at independent rows.

    ``S(x (x) y)_k = (H D_1 x)_{i_k} (H D_2 y)_{j_k} / sqrt(m)`` with H unnormalised and i_k, j_k uniform.

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
        The kernel estimated: the squared inner product.
    record_ : TensorSRHTRecord
        The signs and the sampled rows.

    Notes
    -----
    **Error.** Unbiased; ``|x|^2 |y|^2`` times a relative standard deviation of order ``sqrt(8 / m)`` at most.

    **Cost.** O(p log p + m) flops a row; O(p + m) numbers stored.

    **Differs from the source in** the transform: the authors' code uses the complex Fourier transform in place of
    the Hadamard transform of the paper's definition, which is the one here.

    References
    ----------
    Ahle, Kapralov, Knudsen, Pagh, Velingker, Woodruff, Zandieh (2020), *Oblivious sketching of high-degree
    polynomial kernels*, Definition 15; Zandieh et al. (2021), *Scaling neural tangent kernels via sketching and
    random features*, Section 2.

    Examples
    --------
    >>> import numpy as np, phimap as pm
    >>> x = np.array([[3.0, 4.0]])
    >>> Z = pm.sketches.TensorSRHT(20_000, random_state=0).fit_transform(x)
    >>> round(float(Z[0] @ Z[0]) / 625, 1)
    1.0
    """

    @property
    def _power(self) -> int:
        return 2

    def sample(self, n_features: int, rng: np.random.Generator) -> TensorSRHTRecord:
        return self.sample_product((n_features, n_features), rng)

    def sample_product(self, widths: tuple[int, int], rng: np.random.Generator) -> TensorSRHTRecord:
        """Draw the sketch of tensor products of vectors of the two lengths."""
        padded = [padded_width(width) for width in widths]
        rngs = rng.spawn(4)
        signs = tuple(hadamard_signs(child, (width,)) for child, width in zip(rngs[:2], padded, strict=True))
        rows = tuple(
            child.integers(width, size=self.n_components, dtype=np.intp)
            for child, width in zip(rngs[2:], padded, strict=True)
        )
        return TensorSRHTRecord(widths[0], signs, rows)


def padded_width(n_features: int) -> int:
    """The least power of two that is not below `n_features`."""
    return 1 << (n_features - 1).bit_length()


def hadamard_signs(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Independent fair signs as int8."""
    return 2 * rng.integers(2, size=shape, dtype=np.int8) - 1
