"""TensorSketch: sketches of tensor products by convolution of count sketches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from phimap._validation import check_integer
from phimap.ops import Array, Ops
from phimap.random_map import MapRecord
from phimap.sketches.base import PowerSketch
from phimap.sketches.countsketch import CountSketch, CountSketchRecord


@dataclass(frozen=True)
class TensorSketchRecord(MapRecord):
    """One count sketch per factor; all have the same output width."""

    factors: tuple[CountSketchRecord, ...]

    def requirements(self) -> Iterator[tuple[bool, str]]:
        yield len(self.factors) > 0, "a factor"
        yield len({factor.n_components for factor in self.factors}) == 1, "factors of one width"

    @property
    def n_features(self) -> int:
        return self.factors[0].n_features

    @property
    def n_components(self) -> int:
        return self.factors[0].n_components

    @property
    def scratch_width(self) -> int:
        # Two transforms, each of about m / 2 complex numbers, and one count sketch.
        return self.n_features + 3 * self.n_components

    def sketch_product(self, ops: Ops, *vectors: Array) -> Array:
        """The sketch (r, n_components) of the tensor products of the rows of `vectors`, one (r, d_i) per factor."""
        return convolve(ops, self.factors, vectors)

    def apply(self, ops: Ops, X: Array, out: Array, first: int = 0) -> None:
        ops.copy(convolve(ops, self.factors, [X] * len(self.factors)), out, first)


def convolve(ops: Ops, factors: Sequence[CountSketchRecord], vectors: Sequence[Array]) -> Array:
    """Circular convolution (r, m) of the count sketches of `vectors`, by Fourier transforms."""
    product = None
    for factor, vector in zip(factors, vectors, strict=True):
        transformed = ops.rfft(factor.sketch(ops, vector))
        product = transformed if product is None else product * transformed
    return ops.irfft(product, factors[0].n_components)


class TensorSketch(PowerSketch):
    """Sketch the tensor power ``x^(x p)``, and with it the polynomial kernel ``<x, y>^p``.

    The sketch is a count sketch of the tensor product. Its hash is the sum of p hashes modulo m, its sign the product
    of p signs. The sketch equals the circular convolution of p count sketches of x, a product in Fourier space.

    Parameters
    ----------
    n_components : int, default=1024
        Output width m.
    degree : int, default=2
        The power p, at least 1.
    random_state : int, Generator, RandomState, SeedSequence or None, default=None
    n_jobs : int or None, default=None
        Number of threads; None uses the configured number. It does not change the result.

    Attributes
    ----------
    kernel_ : Polynomial
        The kernel that the sketch estimates: ``<x, y>^degree``.
    record_ : TensorSketchRecord
        The hashes and signs.

    Notes
    -----
    **Error.** Unbiased; the variance is at most ``(2 + 3^p) |x|^(2p) |y|^(2p) / m``, exponential in p.

    **Cost.** O(p (nnz + m log m)) per row; O(p d) numbers stored.

    **Differs from the source in** hashes and signs that are fully independent, not only of limited independence.

    References
    ----------
    Pham, Pagh (2013), *Fast and scalable polynomial kernels via explicit feature maps*, Algorithm 1; Avron,
    Nguyen, Woodruff (2014), *Subspace embeddings for the polynomial kernel*, Lemma 2 for the variance.

    Examples
    --------
    >>> import numpy as np, phimap as pm
    >>> x = np.array([[0.6, 0.8]])
    >>> Z = pm.sketches.TensorSketch(4096, degree=3, random_state=0).fit_transform(x)
    >>> round(float(Z[0] @ Z[0]), 1)
    1.0
    """

    def sample(self, n_features: int, rng: np.random.Generator) -> TensorSketchRecord:
        return self.sample_product((n_features,) * check_integer("degree", self.degree, least=1), rng)

    def sample_product(self, widths: Sequence[int], rng: np.random.Generator) -> TensorSketchRecord:
        """Draw the sketch of tensor products of vectors with lengths `widths`."""
        single = CountSketch(self.n_components)
        children = rng.spawn(len(widths))
        return TensorSketchRecord(
            tuple(single.sample(width, child) for width, child in zip(widths, children, strict=True))
        )
