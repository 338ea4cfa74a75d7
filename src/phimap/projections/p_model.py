"""The P-model: all directions are taken from one short vector of random numbers."""

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

# The maximum length of a transform is four times the number of columns, but at least this number. For shorter
# transforms, the overhead of calls would dominate.
_LEAST = 512


class PModel(Projection):
    """P-model: directions ``w_i = P_i^T g`` that reuse the entries of one vector g of independent numbers.

    P_i^T selects d entries of g, so that W is a circulant, Toeplitz or Hankel matrix T times random signs of the
    columns. For s directions:

    - ``"circulant"``: ``T[i, j] = g[(i - j) mod n]``, n = max(s, d) numbers;
    - ``"toeplitz"``: ``T[i, j] = g[i - j + d - 1]``, s + d - 1 numbers;
    - ``"hankel"``: ``T[i, j] = g[i + j]``, s + d - 1 numbers.

    Parameters
    ----------
    structure : {"circulant", "toeplitz", "hankel"}, default="circulant"
        The structure of T.

    Notes
    -----
    **Error.** Unbiased: no direction uses an entry of g twice, so each direction follows the law. For the Gaussian law,
    directions that share entries are uncorrelated but not independent. The variance is the same as for `Circulant`.

    **Cost.** O(s log d) flops per row, by Fourier transforms of overlapping pieces of g; O(s + d) stored numbers, and
    no stored matrix.

    **Differs from the source in** random signs of the columns in place of a Hadamard transform between two diagonal
    sign matrices, and in laws other than the Gaussian. For a rotation-invariant law, directions from a Gaussian g are
    scaled to radii drawn from the law. For a law with independent coordinates, the entries of g follow that law.

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
        # The last n - d + 1 entries are the same in a cyclic convolution of length n and in the linear convolution.
        n_blocks = -(-n_directions // (max(4 * d, _LEAST) - d + 1))
        length = fast_length(-(-n_directions // n_blocks) + d - 1)
        step = length - d + 1
        padded = np.pad(g, (0, n_blocks * step + d - 1 - needed))
        pieces = np.lib.stride_tricks.sliding_window_view(padded, length)[::step].copy()
        order = np.arange(d, dtype=np.intp)[::-1].copy() if structure == "hankel" else None
        return ConvolutionRecord(signed_input_scale(law, column_rng), order, pieces, d - 1, scale)
