"""The P-model: all directions from one short budget of random numbers."""

from __future__ import annotations

import numpy as np

from phimap._validation import check_choice
from phimap.kernels.spectral import SpectralLaw
from phimap.projections.base import Projection, ProjectionRecord
from phimap.projections.convolution import (
    ConvolutionRecord,
    draw_generators,
    fast_length,
    row_factors,
    signed_input_scale,
)

# Longest transform: four times the input width, or this where that is shorter and would spend its time in calls.
_LEAST = 512


class PModel(Projection):
    """P-model: directions ``w_i = P_i^T g`` that recycle one budget g of independent numbers.

    Each w_i is d numbers of g in an order that makes W a circulant, Toeplitz or Hankel matrix T, times random signs
    of the columns. With s directions:

    - ``"circulant"``: ``T[i, j] = g[(i - j) mod n]``, n = max(s, d) numbers;
    - ``"toeplitz"``: ``T[i, j] = g[i - j + d - 1]``, s + d - 1 numbers;
    - ``"hankel"``: ``T[i, j] = g[i + j]``, s + d - 1 numbers.

    Parameters
    ----------
    structure : {"circulant", "toeplitz", "hankel"}, default="circulant"
        How g is recycled.

    Notes
    -----
    **Error.** Unbiased: no row takes a number of g twice, so each follows the law. Rows that share numbers are
    uncorrelated for the Gaussian law, not independent; the variance is that of `Circulant`.

    **Cost.** O(s log d) flops a row, by Fourier transforms of overlapping pieces of g, and O(s + d) numbers stored;
    no matrix is stored.

    **Differs from the source in** the signs of the columns in place of a Hadamard transform between two diagonals
    of signs, and in laws other than the Gaussian: where the law is rotation-invariant, rows of a Gaussian g are
    given radii from the law; where it has independent coordinates, g follows it.

    References
    ----------
    Choromanski, Sindhwani (2016), *Recycling randomness with structure for sublinear time kernel expansions*,
    Section 2; Liu, Huang, Chen, Suykens (2021), *Random features for kernel approximation*, Section 3.1.
    """

    name = "p-model"
    needs_generators = True

    def __init__(self, structure: str = "circulant"):
        self.structure = structure

    def _sample(self, law: SpectralLaw, n_directions: int, rng: np.random.Generator) -> ProjectionRecord:
        structure = check_choice("structure", self.structure, ("circulant", "toeplitz", "hankel"))
        d = law.n_features
        needed = n_directions + d - 1
        budget_rng, column_rng, radius_rng = rng.spawn(3)
        budget = max(n_directions, d) if structure == "circulant" else needed
        g = draw_generators(law, (budget,), budget_rng)
        if structure == "circulant":
            g = np.concatenate([g[budget - d + 1 :], g])[:needed]
        scale = row_factors(law, g[None], n_directions, radius_rng)
        # The last n - d + 1 entries of a cyclic convolution of length n are those of the convolution with all of g.
        n_blocks = -(-n_directions // (max(4 * d, _LEAST) - d + 1))
        length = fast_length(-(-n_directions // n_blocks) + d - 1)
        step = length - d + 1
        padded = np.pad(g, (0, n_blocks * step + d - 1 - needed))
        pieces = np.lib.stride_tricks.sliding_window_view(padded, length)[::step].copy()
        order = np.arange(d, dtype=np.intp)[::-1].copy() if structure == "hankel" else None
        return ConvolutionRecord(signed_input_scale(law, column_rng), order, pieces, d - 1, scale)
