"""Signed circulant random features."""

from __future__ import annotations

import numpy as np

from phimap.kernels.spectral import SpectralLaw
from phimap.projections.base import Projection, ProjectionRecord
from phimap.projections.convolution import (
    ConvolutionRecord,
    draw_generators,
    fast_length,
    row_factors,
    signed_input_scale,
)
from phimap.sketches.signs import fair_word_factors


class Circulant(Projection):
    """Signed circulant random features (SCRF): blocks ``diag(nu) C(w) D`` of all cyclic shifts of one direction.

    C(w) is the circulant matrix with first column w, applied by Fourier transforms. nu and the diagonal matrix D hold
    random signs.

    Notes
    -----
    **Error.** Unbiased: every direction holds the coordinates of w in some order and follows the law of w. Directions
    of one block are dependent. Their dependence involves the inner products rho_k of ``(x - y) / |x - y|`` with its
    cyclic shifts. Averaged over D, the sum of rho_k^2 is nearly 1. For the Gaussian kernel at a distance of tau length
    scales, the variance of paired features is ``((1 - exp(-tau^2))^2 + tau^4 exp(-tau^2)) / (2 s)``. For close rows
    this is up to twice the variance of independent draws, and for distant rows it is the same. The survey states,
    incorrectly, that the variance is the same at all distances.

    **Cost.** O(s log d) flops per row, one transform per d directions, and 16 bytes stored per direction; no matrix is
    stored.

    **Differs from the source in** the signs D, without which neighbouring directions nearly agree for smooth rows such
    as images. The order of C is d rounded up to an even product of small primes, and its last columns are cut off. For
    a rotation-invariant law that is not Gaussian, w is Gaussian and every direction has its own radius from the law,
    because a common radius would make the errors of a block equal.

    References
    ----------
    Feng, Hu, Liao (2015), *Random feature mapping with signed circulant matrix projection*, Section 3; Liu, Huang,
    Chen, Suykens (2021), *Random features for kernel approximation*, Section 3.1.
    """

    name = "circulant"
    needs_generators = True

    def _sample(self, law: SpectralLaw, n_directions: int, rng: np.random.Generator) -> ProjectionRecord:
        d = law.n_features
        order = fast_length(d)
        n_blocks = -(-n_directions // order)
        generator_rng, sign_rng, column_rng, radius_rng = rng.spawn(4)
        generators = draw_generators(law, (n_blocks, order), generator_rng)
        cyclic = np.concatenate([generators[:, order - d + 1 :], generators], axis=1)
        signs = fair_word_factors(sign_rng, (n_directions,))
        scale = signs * row_factors(law, cyclic, n_directions, radius_rng)
        return ConvolutionRecord(signed_input_scale(law, column_rng), None, generators, 0, scale)
