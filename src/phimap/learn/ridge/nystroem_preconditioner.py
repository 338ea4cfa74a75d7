"""Leading eigenvalues and vectors of a Gram matrix from one random sketch of it, as a preconditioner."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from phimap.learn.ridge.normal_equations import NormalEquations
from phimap.learn.ridge.sketch_rows import SketchRows
from phimap.ops import single_threaded_blas

# Rank of the sketch: a share of the width, within bounds.
_RANK_SHARE, _LEAST_RANK, _MOST_RANK = 16, 256, 1024
#: Float64 arrays (m, rank) that making the preconditioner holds at a time: test matrix, sketch, the sketch of the
#: centred matrix or the vectors, and one on the way there.
ARRAYS = 4
# Rows that are shifted at a time.
_STRIP = 1024
# Rounding of a sketch in float32, in this unit times its norm: 0.1 to 0.2 as measured.
_ROUNDING = 0.25
# A lost eigenvalue of so many alphas leaves the condition number at some ten.
_SERVES = 4.0


@dataclass(frozen=True)
class NystroemPreconditioner:
    r"""The inverse of a randomised Nystroem approximation of a matrix A, its lost part replaced by a multiple of one.

    .. math:: P(\mu)^{-1} = U\, [(\Lambda + \mu)^{-1} - (\lambda_r + \mu)^{-1}]\, U^T + (\lambda_r + \mu)^{-1} I

    Attributes
    ----------
    vectors : ndarray of shape (m, r)
        Orthonormal columns U.
    eigenvalues : ndarray of shape (r,)
        Lambda, descending; the last is :math:`\lambda_r`.

    Notes
    -----
    **Error.** With the rank twice the effective dimension of A at mu, the condition number of the preconditioned
    matrix is at most 28 in expectation, whatever the spectrum.

    **Cost.** One product of A with r columns to make it, ``O(m r^2)`` flops, and ``4 m r`` flops a column to apply it.

    **Differs from the source in** the shift that keeps the sketch positive definite, which is the rounding of the
    products, and in that eigenvalues below it are left out.

    References
    ----------
    Frangella, Tropp, Udell (2023), *Randomized Nystroem preconditioning*, Algorithm 2.1, Equation 5.3, Theorem 1.1.
    """

    vectors: np.ndarray
    eigenvalues: np.ndarray

    @classmethod
    def of_sketch(cls, test: np.ndarray, sketch: np.ndarray, rounding: float) -> NystroemPreconditioner:
        """Of ``sketch = A test`` (m, r) for orthonormal columns `test`, known to an error of the norm `rounding`.

        The vectors take the memory of `sketch`.
        """
        with single_threaded_blas():
            # The error of the sketch would make the middle matrix indefinite.
            shift = max(rounding, np.finfo(np.float64).tiny)
            for first in range(0, len(test), _STRIP):
                rows = slice(first, first + _STRIP)
                sketch[rows] += shift * test[rows]
            middle, turn = np.linalg.eigh(test.T @ sketch)
            kept = middle > shift * 0.5
            root = sketch @ (turn[:, kept] / np.sqrt(middle[kept]))
            squares, right = np.linalg.eigh(root.T @ root)
            order = np.argsort(-squares)
            eigenvalues = squares[order] - shift
            order = order[eigenvalues > shift]
            if not order.size:
                return cls(np.zeros((test.shape[0], 0)), np.zeros(0))
            turn = right[:, order] / np.sqrt(squares[order])
            return cls(np.matmul(root, turn, out=sketch[:, : order.size]), squares[order] - shift)

    @staticmethod
    def rank_of(m: int) -> int:
        """The rank that serves for m features."""
        return min(m, int(np.clip(m // _RANK_SHARE, _LEAST_RANK, _MOST_RANK)))

    @property
    def trace(self) -> float:
        """Sum of the eigenvalues known: a lower bound of the trace of A."""
        return float(self.eigenvalues.sum())

    @property
    def largest(self) -> float:
        """The largest eigenvalue."""
        return float(self.eigenvalues[0]) if self.eigenvalues.size else 0.0

    @property
    def lost(self) -> float:
        """The last eigenvalue known, about the largest of what is not."""
        return float(self.eigenvalues[-1]) if 0 < self.eigenvalues.size < len(self.vectors) else 0.0

    def serves(self, shift: float) -> bool:
        """Whether iterations with this shift are few."""
        return self.lost <= _SERVES * shift

    def gains(self, shift: float) -> tuple[np.ndarray, float]:
        """D (r,) and c of ``P(shift)^{-1} = U diag(D) U^T + c I``."""
        rest = 1.0 / (self.lost + shift)
        return 1.0 / (self.eigenvalues + shift) - rest, rest

    def solve(self, R: np.ndarray, shift: float) -> np.ndarray:
        """``P(shift)^{-1} R`` for `R` (m, k)."""
        gains, rest = self.gains(shift)
        return self.vectors @ (gains[:, None] * (self.vectors.T @ R)) + rest * R


class GramSketch:
    """Images of random directions under the Gram matrix of all rows, to which further directions can be added.

    Parameters
    ----------
    m, rank : int
        Features, and directions to begin with.
    rng : Generator
    rows : SketchRows, optional
        Rows that stand for all rows. Their images are formed here; without them `add` takes those of all rows.

    Attributes
    ----------
    test : ndarray of shape (m, rank)
        The directions, orthonormal.
    needs_pass : bool
        Whether images of directions are sums over all rows.
    """

    def __init__(self, m: int, rank: int, rng: np.random.Generator, rows: SketchRows | None = None):
        self.test, self._rng, self._rows = test_matrix(m, rank, rng), rng, rows
        self._image = np.empty((m, 0))
        if rows is not None:
            self.add(rows.image(self.test))

    @property
    def needs_pass(self) -> bool:
        return self._rows is None

    @property
    def rank(self) -> int:
        """Directions so far."""
        return self.test.shape[1]

    def add(self, image: np.ndarray) -> None:
        """Take the sums of ``w z z^T`` times the directions that have none yet."""
        self._image = np.hstack([self._image, image]) if self._image.size else image

    def extend(self, rank: int) -> np.ndarray:
        """Draw directions up to `rank`; those added are returned, for `add` where that needs a pass."""
        more = self._rng.standard_normal((len(self.test), rank - self.rank))
        # Twice: once leaves what rounding leaves of directions that were nearly spanned.
        for _ in range(2):
            more -= self.test @ (self.test.T @ more)
            more = np.linalg.qr(more)[0]
        self.test = np.hstack([self.test, more])
        if self._rows is not None:
            self.add(self._rows.image(more))
        return more

    def preconditioner(self, system: NormalEquations, eps: float) -> NystroemPreconditioner:
        """The preconditioner of a system of these rows, whose products are known to `eps`."""
        system = system if self._rows is None else self._rows.estimate(system)
        centred = system.of_all(self._image, self.test)
        # Products see one factor less its mean over a block, and the other as it is.
        rounding = _ROUNDING * eps * float(np.sqrt(np.linalg.norm(self._image) * np.linalg.norm(centred)))
        return NystroemPreconditioner.of_sketch(self.test, centred, rounding)


def test_matrix(m: int, rank: int, rng: np.random.Generator) -> np.ndarray:
    """Orthonormal columns (m, rank) of a random direction."""
    return np.linalg.qr(rng.standard_normal((m, rank)))[0]
