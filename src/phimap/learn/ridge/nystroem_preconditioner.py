"""Preconditioners from the leading eigenvalues and eigenvectors of a Gram matrix, found by one random sketch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from phimap.learn.blocks.blocks import FeatureRows
from phimap.learn.ridge.normal_equations import NormalEquations, NormalSums
from phimap.learn.rows.samples import CAPACITY
from phimap.learn.rows.validation import ValidationRows, n_held_out
from phimap.ops import single_threaded_blas

#: Number of random rows in a sketch, if the stream has at least `SAMPLED_FROM` rows: 16 rows for each of 1,024
#: directions. Compared with a sketch of all rows, this at most doubles the condition number of the preconditioned
#: matrix, which costs a pass or two.
SKETCH_ROWS = 16 * 1024
SAMPLED_FROM = 4 * SKETCH_ROWS
# Least number of features for which `solver="auto"` may take passes. With fewer features it takes a factorisation if
# the triangles fit the memory.
_LEAST_FEATURES = 8192


def rows_in_passes(loss: str, solver: str, kernel: Any, width: int) -> int:
    """Number of random rows that the first pass keeps in case the solver makes passes.

    `width` is the number of features, unless `kernel` is a map that fixes this number.
    """
    m = getattr(kernel, "n_components", None) or width
    in_passes = solver == "cg" or (solver == "auto" and m > _LEAST_FEATURES)
    return CAPACITY + SKETCH_ROWS if loss == "squared" and in_passes else 0


def is_sampled(validation: ValidationRows) -> bool:
    """Return whether the sketch is made from a sample of the rows.

    If there are few rows, the sketch uses all of them.
    """
    kept, n_rows = validation.wider_sample, validation.n_rows
    return n_rows >= SAMPLED_FROM and kept is not None and kept.keys.size >= n_held_out(n_rows) + SKETCH_ROWS


class SketchRows:
    r"""The rows of a sketch: random rows, weighted to represent all rows that are not extreme, and the extreme rows.

    .. math:: \sum_i w_i z_i z_i^T \approx c \sum_{i \in S} w_i z_i z_i^T + \sum_{i \in F} w_i z_i z_i^T

    Here w_i are the weights of the rows and z_i their features. The factor c gives the random rows S the weight of all
    rows that are not extreme.

    Parameters
    ----------
    sample : FeatureRows
        S; contains no extreme rows.
    extreme : FeatureRows or None
        F. A random sample would miss most of these rows, and their features are unlike the features of other rows.
    system : NormalEquations
        The equations of all rows.
    n_jobs : int or None

    Notes
    -----
    **Error.** With s rows in S and d directions in the sketch, the eigenvalues of the sketch have a relative error of
    ``O(sqrt(d / s))``. The sketch is only used for a preconditioner, so this error costs iterations but no accuracy.

    **Cost.** ``4 s m k`` flops for k directions, in place of ``4 n m k`` with all n rows.
    """

    def __init__(self, sample: FeatureRows, extreme: FeatureRows | None, system: NormalEquations, n_jobs: int | None):
        own = sample.weights_or_ones
        extreme_weight = 0.0 if extreme is None else extreme.weights_or_ones.sum()
        weighted = sample._replace(weights=own * ((system.weight - extreme_weight) / own.sum()))
        self._extreme, self._n_jobs = extreme, n_jobs
        self._parts = [weighted] if extreme is None else [weighted, extreme]
        sums = [NormalSums.of(rows.block, rows.targets, rows.weights_or_ones, n_jobs) for rows in self._parts]
        self._sums = NormalSums(*(reduce(np.add, terms) for terms in zip(*sums, strict=True)))

    def image(self, V: np.ndarray) -> np.ndarray:
        """Estimate (m, k) of the sum of ``w z z^T V`` over all rows of the stream, for `V` (m, k)."""
        first, *more = (rows.block.gram_times(V, rows.weights_or_ones, self._n_jobs) for rows in self._parts)
        for image in more:
            first += image
        return first

    def estimate(self, system: NormalEquations) -> NormalEquations:
        """Estimate the equations of a system from the rows of the sketch.

        The equations are centred by the mean of the sketch's rows. With the mean of all rows the Gram matrix would not
        be positive definite. No row of the sketch is a held-out random row, so only extreme rows may be left out.
        """
        extreme = [rows for rows in system.held_out if rows is self._extreme]
        return NormalEquations(self._sums, self._n_jobs, extreme)


# The rank of the sketch is the number of features divided by `_RANK_SHARE`, within these bounds.
_RANK_SHARE, _LEAST_RANK, _MOST_RANK = 16, 256, 1024
#: Number of float64 arrays (m, rank) that exist at a time while the preconditioner is made: test matrix, sketch, sketch
#: of the centred matrix or eigenvectors, and one intermediate array.
ARRAYS = 4
# Number of rows of the sketch to which `of_sketch` adds the shift at a time.
_STRIP = 1024
# Rounding error of a sketch divided by its norm, in units of the machine epsilon. For float32 0.1 to 0.2 was measured.
_ROUNDING = 0.25
# The preconditioner suffices if the largest discarded eigenvalue is at most this multiple of alpha. The condition
# number is then about ten.
_SERVES = 4.0


@dataclass(frozen=True)
class NystroemPreconditioner:
    r"""Inverse of an approximation of ``A + mu I``: leading eigenpairs of A, a multiple of the identity for the rest.

    .. math:: P(\mu)^{-1} = U\, [(\Lambda + \mu)^{-1} - (\lambda_r + \mu)^{-1}]\, U^T + (\lambda_r + \mu)^{-1} I

    Attributes
    ----------
    vectors : ndarray of shape (m, r)
        Orthonormal columns U.
    eigenvalues : ndarray of shape (r,)
        Diagonal of :math:`\Lambda`, descending; the last is :math:`\lambda_r`.

    Notes
    -----
    **Error.** With the rank twice the effective dimension of A at mu, the condition number of the preconditioned matrix
    is at most 28 in expectation, for any spectrum.

    **Cost.** One product of A with r columns to make it, ``O(m r^2)`` flops, and ``4 m r`` flops a column to apply it.

    **Differs from the source in** the shift that keeps the sketch positive definite: it is the rounding error of the
    products, and eigenvalues below it are discarded.

    References
    ----------
    Frangella, Tropp, Udell (2023), *Randomized Nystroem preconditioning*, Algorithm 2.1, Equation 5.3, Theorem 1.1.
    """

    vectors: np.ndarray
    eigenvalues: np.ndarray

    @classmethod
    def of_sketch(cls, test: np.ndarray, sketch: np.ndarray, rounding: float) -> NystroemPreconditioner:
        """Return the preconditioner, given ``sketch = A test`` (m, r) for orthonormal columns `test`.

        `rounding` is the norm of the sketch's error. The vectors overwrite `sketch`.
        """
        with single_threaded_blas():
            # Without the shift the error of the sketch would make the core matrix indefinite.
            shift = max(rounding, np.finfo(np.float64).tiny)
            for first in range(0, len(test), _STRIP):
                rows = slice(first, first + _STRIP)
                sketch[rows] += shift * test[rows]
            core, rotation = np.linalg.eigh(test.T @ sketch)
            kept = core > shift * 0.5
            root = sketch @ (rotation[:, kept] / np.sqrt(core[kept]))
            squares, right = np.linalg.eigh(root.T @ root)
            order = np.argsort(-squares)
            eigenvalues = squares[order] - shift
            order = order[eigenvalues > shift]
            if not order.size:
                return cls(np.zeros((test.shape[0], 0)), np.zeros(0))
            rotation = right[:, order] / np.sqrt(squares[order])
            return cls(np.matmul(root, rotation, out=sketch[:, : order.size]), squares[order] - shift)

    @staticmethod
    def rank_of(m: int) -> int:
        """The rank of the sketch for m features."""
        return min(m, int(np.clip(m // _RANK_SHARE, _LEAST_RANK, _MOST_RANK)))

    @property
    def trace(self) -> float:
        """Sum of the kept eigenvalues: a lower bound of the trace of A."""
        return float(self.eigenvalues.sum())

    @property
    def largest(self) -> float:
        """The largest eigenvalue of A, as estimated from the sketch; 0 if none was kept."""
        return float(self.eigenvalues[0]) if self.eigenvalues.size else 0.0

    @property
    def lost(self) -> float:
        """Smallest kept eigenvalue, which estimates the largest discarded one; 0 if none is discarded."""
        return float(self.eigenvalues[-1]) if 0 < self.eigenvalues.size < len(self.vectors) else 0.0

    def serves(self, shift: float) -> bool:
        """Return whether conjugate gradients converge in few steps with the shift mu."""
        return self.lost <= _SERVES * shift

    def gains(self, shift: float) -> tuple[np.ndarray, float]:
        """Return D (r,) and c such that ``P(shift)^{-1} = U diag(D) U^T + c I``."""
        rest = 1.0 / (self.lost + shift)
        return 1.0 / (self.eigenvalues + shift) - rest, rest

    def solve(self, R: np.ndarray, shift: float) -> np.ndarray:
        """``P(shift)^{-1} R`` for `R` (m, k)."""
        gains, rest = self.gains(shift)
        return self.vectors @ (gains[:, None] * (self.vectors.T @ R)) + rest * R


class WoodburyPreconditioner:
    r"""Inverse of ``P + F F^T`` for a `NystroemPreconditioner` P and a few rows F, by Woodbury's formula.

    It approximates the inverse of ``A + F F^T`` as well as the inverse of P approximates the inverse of A, for rows F
    of any size. A sketch of ``A + F F^T`` would represent these rows poorly.

    Parameters
    ----------
    preconditioner : NystroemPreconditioner
    rows : ndarray of shape (m, k)
        F; each column holds the features of one row.

    Notes
    -----
    **Cost.** ``2 m k (rank + k)`` flops once. Each application takes two solves with P.
    """

    def __init__(self, preconditioner: NystroemPreconditioner, rows: np.ndarray):
        self._preconditioner, self._rows = preconditioner, rows
        self._rotated, self._products = preconditioner.vectors.T @ rows, rows.T @ rows

    def middle(self, shift: float) -> np.ndarray:
        """``I + F^T P(shift)^{-1} F`` (k, k)."""
        gains, rest = self._preconditioner.gains(shift)
        return np.eye(len(self._products)) + (self._rotated.T * gains) @ self._rotated + rest * self._products

    def solve(self, R: np.ndarray, shift: float) -> np.ndarray:
        """``(P(shift) + F F^T)^{-1} R`` for `R` (m, t)."""
        first = self._preconditioner.solve(R, shift)
        shares = np.linalg.solve(self.middle(shift), self._rows.T @ first)
        return first - self._preconditioner.solve(self._rows @ shares, shift)


class GramSketch:
    """Products of random directions with the Gram matrix of a stream; further directions can be added.

    Parameters
    ----------
    m, rank : int
        Number of features, and number of directions at the start.
    rng : Generator
    rows : SketchRows, optional
        Sample of the rows. If it is given, the sketch computes the products with the Gram matrix of the sample. If
        not, the caller gives `add` the products with the Gram matrix of all rows.

    Attributes
    ----------
    test : ndarray of shape (m, rank)
        The directions, orthonormal.
    needs_pass : bool
        Whether products of further directions take a pass over all rows.
    """

    def __init__(self, m: int, rank: int, rng: np.random.Generator, rows: SketchRows | None = None):
        self.test, self._rng, self._rows = test_matrix(m, rank, rng), rng, rows
        self.needs_pass = rows is None
        self._image = np.empty((m, 0)) if rows is None else rows.image(self.test)

    @property
    def rank(self) -> int:
        """Number of directions."""
        return self.test.shape[1]

    def add(self, image: np.ndarray) -> None:
        """Add the sums of ``w z z^T V`` for the newest directions V."""
        self._image = np.hstack([self._image, image]) if self._image.size else image

    def extend(self, rank: int) -> np.ndarray:
        """Draw directions until there are `rank`, and return the new ones.

        If `needs_pass`, their products must be passed to `add`.
        """
        more = self._rng.standard_normal((len(self.test), rank - self.rank))
        # The directions are projected twice: after the first projection, rounding errors remain in directions that were
        # nearly in the span.
        for _ in range(2):
            more -= self.test @ (self.test.T @ more)
            more = np.linalg.qr(more)[0]
        self.test = np.hstack([self.test, more])
        if self._rows is not None:
            self.add(self._rows.image(more))
        return more

    def preconditioner(self, system: NormalEquations, eps: float) -> NystroemPreconditioner:
        """The preconditioner of a system of the sketched rows; `eps` is the machine epsilon of the features."""
        system = system if self._rows is None else self._rows.estimate(system)
        centred = system.from_stream(self._image, self.test)
        # A product centres only one of its two factors, by the mean of that factor over a block. So the rounding error
        # is relative to the geometric mean of the norms without and with centring.
        rounding = _ROUNDING * eps * float(np.sqrt(np.linalg.norm(self._image) * np.linalg.norm(centred)))
        return NystroemPreconditioner.of_sketch(self.test, centred, rounding)


def test_matrix(m: int, rank: int, rng: np.random.Generator) -> np.ndarray:
    """Orthonormal columns (m, rank) that span a random subspace."""
    return np.linalg.qr(rng.standard_normal((m, rank)))[0]
