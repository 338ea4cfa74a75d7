"""Random Maclaurin sketches of tensor powers: products of projections onto independent random signs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from phimap.ops import Array, Ops
from phimap.ops.primitives.hadamard_blocks import hadamard_blocks
from phimap.random_map import MapRecord
from phimap.sketches.signs import fair_signs
from phimap.sketches.transform_rows import padded_width


@dataclass(frozen=True)
class MaclaurinRecord(MapRecord):
    """Products of projections onto independent random signs: a power of degree j has j factors.

    Attributes
    ----------
    n_features : int
    signs : ndarray of int8, shape (j, B, 1, p)
        Factor l projects onto the rows of ``H diag(signs[l, b, 0])``, p the padded input width: each of these rows
        is a vector of independent signs.
    scale : ndarray of shape (n_components,)
    """

    n_features: int
    signs: np.ndarray
    scale: np.ndarray

    @property
    def n_components(self) -> int:
        return self.scale.shape[0]

    @property
    def scratch_width(self) -> int:
        return self.n_features + 3 * self.n_components

    @classmethod
    def draw(cls, n_features: int, degree: int, width: int, rng: np.random.Generator) -> MaclaurinRecord:
        padded = padded_width(n_features)
        signs = fair_signs(rng, (degree, -(-width // padded), 1, padded))
        # The j-th root, since each factor is scaled.
        return cls(n_features, signs, np.full(width, width ** (-0.5 / degree)))

    def apply(self, ops: Ops, X: Array, out: Array, first: int = 0) -> None:
        X = ops.contiguous(ops.dense(X))
        product = hadamard_blocks(ops, X, self.signs[0], self.scale)
        for factor in range(1, self.signs.shape[0]):
            product = product * hadamard_blocks(ops, X, self.signs[factor], self.scale)
        ops.copy(product, out, first)
