"""The subsampled randomised Hadamard transform of vectors and of tensor products of two vectors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from phimap._validation import check_choice
from phimap.ops import Array, Ops
from phimap.random_map import MapRecord
from phimap.records import of_indices, of_number, of_signs
from phimap.sketches.base import Sketch
from phimap.sketches.product_samples import FORMS, ProductSamples
from phimap.sketches.signs import fair_signs
from phimap.sketches.transform_rows import balanced_rows, is_padded_width, padded_width


@dataclass(frozen=True)
class SRHTRecord(MapRecord):
    """Signs and sampled rows of one or more independent transforms (blocks).

    Attributes
    ----------
    n_features : int
    signs : ndarray of int8, shape (n_blocks, p)
        Signs that multiply a row before the transform of each block. p is `n_features` padded to a power of two.
    rows : ndarray of intp, shape (n_components,)
        Sampled rows of the transforms; entry k belongs to block ``k // per_block``.
    per_block : int
        Rows sampled from each block; the last block may have fewer.
    """

    n_features: int = field(metadata=of_number(length="d"))
    signs: np.ndarray = field(metadata=of_signs("B", "p"))
    rows: np.ndarray = field(metadata=of_indices("m", below="p"))
    per_block: int = field(metadata=of_number(least=1))

    def requirements(self) -> Iterator[tuple[bool, str]]:
        n_blocks, width = self.signs.shape
        yield is_padded_width(width, self.n_features), "signs for a power of two that holds a row"
        yield n_blocks == -(-self.n_components // self.per_block), "as many blocks as its components take"

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
            # H is unnormalised, so the factor is sqrt(p / m) / sqrt(p) = m^(-1/2).
            ops.copy(sampled * self.n_components**-0.5, out, first + start)


class SRHT(Sketch):
    """Sketch vectors by ``sqrt(p / m) P H D``: random signs D, normalised Walsh-Hadamard matrix H, sampled rows P.

    Parameters
    ----------
    n_components : int, default=1024
        Output width m.
    replace : bool, default=False
        Whether to sample rows with replacement. Without replacement, the rows of a block are distinct, and if m exceeds
        the padded input width p, several blocks with independent signs are used.
    random_state : int, Generator, RandomState, SeedSequence or None, default=None
    n_jobs : int or None, default=None
        Number of threads; None uses the configured number. It does not change the result.

    Attributes
    ----------
    kernel_ : Polynomial
        The kernel that the sketch estimates: the inner product.
    record_ : SRHTRecord
        The signs and the sampled rows.

    Notes
    -----
    **Error.** Unbiased. With replacement ``Var <Sx, Sy> <= (|x|^2 |y|^2 + <x, y>^2) / m``. Without replacement the
    variance is smaller, and zero for m = p, where the sketch is an isometry.

    **Cost.** O(p log p) flops per row and block; O(p) numbers stored per block.

    **Differs from the source in** sampling without replacement by default, and in the use of several blocks for m > p.

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
        signs = fair_signs(sign_rng, (n_blocks, width))
        if self.replace:
            rows = row_rng.integers(width, size=self.n_components, dtype=np.intp)
        else:
            rows = balanced_rows(row_rng, width, self.n_components)
        return SRHTRecord(n_features, signs, rows, per_block)


@dataclass(frozen=True)
class TensorSRHTRecord(MapRecord):
    """Signs of two independent transforms, and the sampled rows of their product.

    Attributes
    ----------
    n_features : int
        Width of the first factor.
    signs : tuple of two ndarrays of int8, shapes (p,) and (p',)
        Signs that multiply each factor before its transform. p and p' are the widths of the factors, padded to lengths
        with a fast transform.
    samples : FourierSamples or HadamardSamples
        Rows of the two transforms whose products are the features.
    """

    n_features: int = field(metadata=of_number(length="d"))
    signs: tuple[np.ndarray, np.ndarray] = field(metadata=of_signs(None))
    samples: ProductSamples

    def requirements(self) -> Iterator[tuple[bool, str]]:
        lengths = tuple(signs.shape[0] for signs in self.signs)
        yield lengths[0] >= self.n_features, "a transform that holds a row"
        yield self.samples.serves(lengths), "samples of its transforms"

    @property
    def n_components(self) -> int:
        return self.samples.n_components

    @property
    def scratch_width(self) -> int:
        # Each factor needs a padded row and its transform, which takes about as many floats as the padded row.
        return self.n_components + self.n_features + 2 * sum(signs.shape[0] + 1 for signs in self.signs)

    def sketch_product(self, ops: Ops, X: Array, Y: Array) -> Array:
        """The sketch (r, n_components) of the tensor products of the rows of `X` (r, d) and `Y` (r, d')."""
        out = ops.empty((X.shape[0], self.n_components))
        self.write_product(ops, X, Y, out)
        return out

    def write_product(self, ops: Ops, X: Array, Y: Array, out: Array, first: int = 0) -> None:
        """Write the result of `sketch_product` to the columns of `out` from `first` on."""
        one, other = (
            self.samples.transform(ops, factor, signs) for factor, signs in zip((X, Y), self.signs, strict=True)
        )
        self.samples.write(ops, one, other, out, first)

    def apply(self, ops: Ops, X: Array, out: Array, first: int = 0) -> None:
        self.write_product(ops, X, X, out, first)


class TensorSRHT(Sketch):
    """Sketch ``x (x) x`` by two randomised Fourier or Hadamard transforms that are sampled at independent rows.

    A sample is ``c(x (x) y)_k = (F D_1 x)_{i_k} (F D_2 y)_{j_k}``, with random signs D_1 and D_2, the unnormalised
    transform F, and independent uniform rows i_k and j_k. In the Fourier form the features are the real and imaginary
    parts of m / 2 samples, interleaved, times ``sqrt(2 / m)``. In the Hadamard form they are m real samples times
    ``1 / sqrt(m)``.

    Parameters
    ----------
    n_components : int, default=1024
        Output width m. For odd m, the Fourier form combines the real and imaginary parts of one last sample into one
        feature, as their sum with a random relative sign.
    form : {"fourier", "hadamard"}, default="fourier"
        The transform F.
    replace : bool, default=False
        Whether to sample the rows of each transform with replacement, as the source does. Without replacement, every
        row of a transform is used once before any row is repeated. Rows of the two transforms are independent in both
        cases.
    random_state : int, Generator, RandomState, SeedSequence or None, default=None
    n_jobs : int or None, default=None
        Number of threads; None uses the configured number. It does not change the result.

    Attributes
    ----------
    kernel_ : Polynomial
        The kernel that the sketch estimates: the squared inner product.
    record_ : TensorSRHTRecord
        The signs and the sampled rows.

    Notes
    -----
    **Error.** Unbiased for any sampled rows. Let ``u = F D_1 x`` and ``u' = F D_1 x'``. Since every ``|F_ia|`` is 1,
    ``E u_i conj(u'_i) = sum_a |F_ia|^2 x_a x'_a = <x, x'>``. D_2 is independent of D_1, so
    ``E c_k conj(c'_k) = <x, x'> <y, y'>``. The inner product of the features averages the real parts of
    ``c_k conj(c'_k)``. Given the signs, the average over all (i, j) is exact by Parseval's theorem, so samples are
    uncorrelated and the variance follows from a single sample. For unit vectors, ``s = <x, x'>`` and ``t = <y, y'>``,

    - ``Var <= ((1 + 2 s^2) (1 + 2 t^2) - s^2 t^2) / m <= 8 / m`` for the Hadamard form,
    - ``Var <= 2 ((1 + s^2) (1 + t^2) - s^2 t^2) / m <= 6 / m`` for the Fourier form and even m. If no coordinate
      dominates it is ``(1 + s^2 + t^2 + 3 s^2 t^2) / m``, which never exceeds the bound of the Hadamard form.

    Without replacement, averages over the rows of one transform also become exact as the sampled fraction of rows
    ``f = min(1, m / 2p)`` (``m / p`` in the Hadamard form) approaches 1. The variance of the Fourier form falls to
    ``(1 + s^2 t^2 + (1 - f) (s^2 + t^2 + 2 s^2 t^2)) / m``: to a third for equal vectors and f = 1. The Hadamard form
    is less accurate, so the Fourier form is the default.

    **Cost.** O(p log p + m) flops per row; O(p + m) numbers stored. The Hadamard form pads to a power of two, the
    Fourier form to a product of small primes. The Hadamard transform is several times faster: if later steps do not
    depend on the width, a wider Hadamard sketch reaches the same error in less time.

    **Differs from the source in** the default transform (the paper defines the sketch with Hadamard transforms,
    ``form="hadamard"``; its authors' code uses the Fourier form for even m), and in sampling without replacement.

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

    def __init__(
        self,
        n_components: int = 1024,
        *,
        form: str = "fourier",
        replace: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
    ):
        super().__init__(n_components, random_state=random_state, n_jobs=n_jobs)
        self.form = form
        self.replace = replace

    @property
    def _power(self) -> int:
        return 2

    def sample(self, n_features: int, rng: np.random.Generator) -> TensorSRHTRecord:
        return self.sample_product((n_features, n_features), rng)

    def sample_product(self, widths: tuple[int, int], rng: np.random.Generator) -> TensorSRHTRecord:
        """Draw the sketch of tensor products of two vectors with lengths `widths`."""
        form = FORMS[check_choice("form", self.form, tuple(FORMS))]
        sign_rng, sample_rng = rng.spawn(2)
        lengths = (form.length(widths[0]), form.length(widths[1]))
        signs = tuple(fair_signs(child, (n,)) for child, n in zip(sign_rng.spawn(2), lengths, strict=True))
        samples = form.draw(lengths, self.n_components, sample_rng, replace=self.replace)
        return TensorSRHTRecord(widths[0], (signs[0], signs[1]), samples)
