"""The subsampled randomised Hadamard transform, of vectors and of tensor products of two."""

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
    """Signs and sampled rows, in one or more independent blocks.

    Attributes
    ----------
    n_features : int
    signs : ndarray of int8, shape (n_blocks, p)
        p is `n_features` padded to a power of two.
    rows : ndarray of intp, shape (n_components,)
        Sampled rows; entry k belongs to block ``k // per_block``.
    per_block : int
        Rows taken from each block but the last, which gives the others.
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
            # With H unnormalised, the scaling comes to sqrt(p / m) / sqrt(p).
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
        signs = fair_signs(sign_rng, (n_blocks, width))
        if self.replace:
            rows = row_rng.integers(width, size=self.n_components, dtype=np.intp)
        else:
            rows = balanced_rows(row_rng, width, self.n_components)
        return SRHTRecord(n_features, signs, rows, per_block)


@dataclass(frozen=True)
class TensorSRHTRecord(MapRecord):
    """Signs of two independent transforms, and the samples of their product.

    Attributes
    ----------
    n_features : int
        Width of the first factor; of both where a vector is multiplied by itself.
    signs : tuple of two ndarrays of int8, shapes (p,) and (p',)
        p and p' are the widths of the factors, padded to lengths that the transform likes.
    samples : FourierSamples or HadamardSamples
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
        # Each factor has a padded row and its transform, which is complex and half as long, or real in place.
        return self.n_components + self.n_features + 2 * sum(signs.shape[0] + 1 for signs in self.signs)

    def sketch_product(self, ops: Ops, X: Array, Y: Array) -> Array:
        """The sketch of the tensor products of the rows of `X` (r, d) and `Y` (r, d'): (r, n_components)."""
        out = ops.empty((X.shape[0], self.n_components))
        self.write_product(ops, X, Y, out)
        return out

    def write_product(self, ops: Ops, X: Array, Y: Array, out: Array, first: int = 0) -> None:
        """Write what `sketch_product` gives to the columns of `out` from `first`."""
        one, other = (
            self.samples.transform(ops, factor, signs) for factor, signs in zip((X, Y), self.signs, strict=True)
        )
        self.samples.write(ops, one, other, out, first)

    def apply(self, ops: Ops, X: Array, out: Array, first: int = 0) -> None:
        self.write_product(ops, X, X, out, first)


class TensorSRHT(Sketch):
    """Sketch ``x (x) x`` by two randomised Fourier or Hadamard transforms sampled at independent rows.

    ``c(x (x) y)_k = (F D_1 x)_{i_k} (F D_2 y)_{j_k}`` with random signs D_1 and D_2, the unnormalised transform F
    and i_k, j_k independent and uniform over its rows. In the Fourier form the features are the real and imaginary
    parts of m / 2 such samples, one after the other, times ``sqrt(2 / m)``; in the Hadamard form they are m real
    samples times ``1 / sqrt(m)``.

    Parameters
    ----------
    n_components : int, default=1024
        Output width m. Where it is odd, the Fourier form ends in the sum of the two parts of a last sample, with a
        random sign between them and the weight of one feature.
    form : {"fourier", "hadamard"}, default="fourier"
        The transform.
    replace : bool, default=False
        Sample the rows of each transform with replacement, as published. Without it every row of a transform comes
        once before any comes again; the pairs are independent either way.
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
    **Error.** Unbiased whatever rows are sampled. With ``u = F D_1 x``, ``u' = F D_1 x'`` and independent signs,
    ``E u_i conj(u'_i) = sum_a |F_ia|^2 x_a x'_a = <x, x'>`` since every ``|F_ia|`` is 1. D_2 is independent of D_1,
    so ``E c_k conj(c'_k) = <x, x'> <y, y'>``, of which the inner product of the features averages the real parts.
    Given the signs, the average over all (i, j) is exact by Parseval's theorem, so that samples are uncorrelated and
    only the variance of a single one counts. With unit vectors, ``s = <x, x'>`` and ``t = <y, y'>``, it leaves

    - ``Var <= ((1 + 2 s^2) (1 + 2 t^2) - s^2 t^2) / m <= 8 / m`` for the Hadamard form,
    - ``Var <= 2 ((1 + s^2) (1 + t^2) - s^2 t^2) / m <= 6 / m`` for the Fourier form and even m; where no coordinate
      dominates it is ``(1 + s^2 + t^2 + 3 s^2 t^2) / m``, never more than the Hadamard form's.

    Without replacement the marginal averages over the rows of either transform are exact too, up to the fraction
    ``f = min(1, m / 2p)`` of the rows that is drawn (``m / p`` in the Hadamard form), and the variance of the Fourier
    form falls to ``(1 + s^2 t^2 + (1 - f) (s^2 + t^2 + 2 s^2 t^2)) / m``: a third for equal vectors. The Hadamard form
    errs more: that is why the Fourier form is the default.

    **Cost.** O(p log p + m) flops a row; O(p + m) numbers stored. The Hadamard form pads to a power of two, the
    Fourier form to a product of small primes. The Hadamard transform is several times as fast: where width costs
    nothing afterwards, a wider Hadamard form is the quicker way to the same error.

    **Differs from the source in** the transform: the paper defines the sketch with Hadamard transforms
    (``form="hadamard"``), its authors' code uses the Fourier form for even m; and in rows without replacement.

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
        """Draw the sketch of tensor products of vectors of the two lengths."""
        form = FORMS[check_choice("form", self.form, tuple(FORMS))]
        sign_rng, sample_rng = rng.spawn(2)
        lengths = (form.length(widths[0]), form.length(widths[1]))
        signs = tuple(fair_signs(child, (n,)) for child, n in zip(sign_rng.spawn(2), lengths, strict=True))
        samples = form.draw(lengths, self.n_components, sample_rng, replace=self.replace)
        return TensorSRHTRecord(widths[0], (signs[0], signs[1]), samples)
