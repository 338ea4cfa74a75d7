"""Random Maclaurin sketches of tensor powers: products of projections onto independent random sign vectors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from phimap.ops import Array, Ops
from phimap.ops.primitives.hadamard_blocks import hadamard_blocks
from phimap.random_map import MapRecord
from phimap.records import of_floats, of_number, of_signs
from phimap.sketches.signs import fair_signs
from phimap.sketches.transform_rows import is_padded_width, padded_width


@dataclass(frozen=True)
class MaclaurinRecord(MapRecord):
    """Products of projections onto independent random sign vectors, with j factors for a power of degree j.

    Attributes
    ----------
    n_features : int
    signs : ndarray of int8, shape (j, B, 1, p)
        Factor l projects onto the rows of ``H diag(signs[l, b, 0])`` for each block b. Each of these rows is a vector
        of independent signs. p is the padded input width.
    scale : ndarray of shape (n_components,)
        Number by which every factor of a feature is multiplied, ``n_components^(-1 / (2 j))``.
    """

    n_features: int = field(metadata=of_number(length="d"))
    signs: np.ndarray = field(metadata=of_signs("j", "B", 1, "p"))
    scale: np.ndarray = field(metadata=of_floats("m"))

    def requirements(self) -> Iterator[tuple[bool, str]]:
        n_blocks, _, width = self.signs.shape[1:]
        yield is_padded_width(width, self.n_features), "signs for a power of two that holds a row"
        yield n_blocks == -(-self.n_components // width), "as many blocks as its components take"

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
        # Each of the `degree` factors is multiplied by the scale, and all together should give width^(-1/2).
        return cls(n_features, signs, np.full(width, width ** (-0.5 / degree)))

    def apply(self, ops: Ops, X: Array, out: Array, first: int = 0) -> None:
        X = ops.contiguous(ops.dense(X))
        product = hadamard_blocks(ops, X, self.signs[0], self.scale)
        for factor in range(1, self.signs.shape[0]):
            product = product * hadamard_blocks(ops, X, self.signs[factor], self.scale)
        ops.copy(product, out, first)
