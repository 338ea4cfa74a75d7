"""Stochastic gradient steps over blocks of features drawn when needed, preconditioned by a sample of rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import gcd

import numpy as np
from scipy import sparse
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from phimap.learn.blocks.blocks import feature_block
from phimap.learn.blocks.triangle import BlockTriangle
from phimap.learn.doubly_stochastic.blocks import BlockedMap
from phimap.learn.losses.losses import CORNER, Hinge, Logistic, Loss, Squared, SquaredHinge
from phimap.learn.rows.batches import Batch
from phimap.learn.weights import joined_weights
from phimap.ops import Array, ops_for, single_threaded_blas
from phimap.records import Record, of_floats, of_number

#: Rows of the sample, and validation rows on which its level is checked.
SAMPLE_ROWS, JUDGING_ROWS = 2048, 1024
#: Largest number of random rows that a preconditioner uses.
ROWS = SAMPLE_ROWS + JUDGING_ROWS
# Factor between the levels tried: half a decade.
_STEP = 10**-0.5
# Largest preconditioned norm on the validation rows. If it is larger, the sample does not represent the directions with
# curvature below the level.
_MOST_NORM = 30.0
# Steps of the power iteration; they give the norm to a few percent.
_POWERS = 15
# Bounds of the rows of a batch: enough for matrix products at full speed and for steps that cost little compared with
# the features; and the least number of steps of an epoch, for which small training sets have smaller batches.
_MOST_ROWS, _LEAST_ROWS, _STEPS = 4096, 512, 8
#: Losses by name, with bounds of their second derivatives with respect to one of t scores.
LOSSES: dict[str, tuple[Loss, float]] = {
    "squared": (Squared(), 1.0),
    # This is the bound of the multinomial likelihood; that of the binomial likelihood is half of it.
    "logistic": (Logistic(), 0.5),
    "hinge": (Hinge(), 1 / CORNER),
    "squared_hinge": (SquaredHinge(), 2.0),
}


@dataclass(frozen=True)
class SamplePreconditioner(Record):
    r"""``P = level (Z_S^T Z_S / s + level I)^-1 = I - Z_S^T (Z_S Z_S^T + s level I)^-1 Z_S`` of s sample rows.

    Z has a further column of ones for the intercept. P is applied by means of the sample rows and an s x s matrix,
    whatever the number of features.

    Attributes
    ----------
    rows : array or CSR matrix of shape (s, n_features)
        Scaled rows of the sample.
    factor : ndarray of shape (s, s)
        Lower Cholesky factor of ``Z_S Z_S^T + s level I``.
    level : float
        P reduces the curvature of a direction to about the level if it is above the level.
    """

    rows: Array = field(metadata=of_floats("s", None))
    factor: np.ndarray = field(metadata=of_floats("s", "s"))
    level: float = field(metadata=of_number(least=0))

    @classmethod
    def of_sample(
        cls, blocks: BlockedMap, rows: Array, penalty: float, rng: np.random.Generator, n_jobs: int | None
    ) -> SamplePreconditioner:
        """Return the preconditioner of random scaled rows (r, n_features), a third of which are validation rows.

        `penalty` is that of the mean loss. The level is the smallest, in half decades, at which the Gram matrix of the
        validation rows, preconditioned and divided by the level, has a norm of at most 30.
        """
        size = min(SAMPLE_ROWS, -(-2 * rows.shape[0] // 3))
        others = slice(size, size + JUDGING_ROWS) if rows.shape[0] > size else slice(0, size)
        sample, judging = rows[:size], rows[others]
        ops = ops_for(rows)
        gram = BlockTriangle.zeros(size + judging.shape[0])
        for _, parts in blocks.features(ops, (sample, judging), n_jobs):
            gram.add_products(np.concatenate([ops.to_host(part) for part in parts]).T, 1, n_jobs)
        products = gram.to_dense() + 1.0
        own, cross, judged = products[:size, :size], products[:size, size:], products[size:, size:]
        start = rng.standard_normal(judged.shape[0])
        least = max(penalty, float(np.finfo(ops.dtype).eps))
        factor, level = None, 1.0
        with single_threaded_blas():
            while (found := _shifted_factor(own, size * level)) is not None:
                if factor is not None and _norm(found, cross, judged, level, start) > _MOST_NORM:
                    break
                factor, chosen = found, level
                if level <= least:
                    break
                level = max(level * _STEP, least)
        assert factor is not None
        return cls(sample, factor, chosen)

    def solve(self, h: np.ndarray) -> np.ndarray:
        """``(Z_S Z_S^T + s level I)^-1 h`` for `h` (s, t)."""
        with single_threaded_blas():
            return cho_solve((self.factor, True), h)


def _shifted_factor(gram: np.ndarray, shift: float) -> np.ndarray | None:
    """The lower Cholesky factor of `gram` with a shifted diagonal; None if rounding makes it indefinite."""
    shifted = gram.copy()
    shifted.flat[:: len(gram) + 1] += shift
    try:
        return cho_factor(shifted, lower=True, overwrite_a=True)[0]
    except LinAlgError:
        return None


def _norm(factor: np.ndarray, cross: np.ndarray, judged: np.ndarray, level: float, start: np.ndarray) -> float:
    """The norm of ``Z_J P Z_J^T / (j level)`` of j validation rows, by power iteration."""
    vector, norm = start, 0.0
    for _ in range(_POWERS):
        vector = vector / np.linalg.norm(vector)
        vector = judged @ vector - cross.T @ cho_solve((factor, True), cross @ vector)
        norm = float(np.linalg.norm(vector))
        if norm == 0:
            break
    return norm / (len(judged) * level)


def rows_of_batch(n_rows: int) -> int:
    """Rows of a mini-batch for a training set of `n_rows`."""
    return int(np.clip(n_rows // _STEPS, _LEAST_ROWS, _MOST_ROWS))


def in_random_order(
    X: Array, y: np.ndarray, weights: np.ndarray | None, rows: int, rng: np.random.Generator
) -> Iterator[Batch]:
    """All rows once, in batches of about `rows` rows, which are copies.

    The indices are an arithmetic progression modulo n with a random start and step. It needs no memory, and separates
    neighbouring rows, which are similar in sorted tables.
    """
    n = X.shape[0]
    step = int(rng.integers(1, n)) if n > 1 else 1
    while gcd(step, n) > 1:
        step = int(rng.integers(1, n))
    start = int(rng.integers(n))
    bounds = np.linspace(0, n, -(-n // rows) + 1).astype(np.int64)
    for first, last in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        chosen = (start + step * np.arange(first, last)) % n
        yield X[chosen], y[chosen], None if weights is None else weights[chosen]


def in_order_of_stream(batches: Iterable[Batch], rows: int) -> Iterator[Batch]:
    """Batches of at most `rows` rows, of which any two consecutive ones together have more than `rows` rows."""
    pieces: list[Batch] = []
    held = 0
    for X, y, weights in batches:
        for first in range(0, X.shape[0], rows):
            part = slice(first, first + rows)
            piece = (X[part], y[part], None if weights is None else weights[part])
            size = piece[0].shape[0]
            if held and held + size > rows:
                yield _joined(pieces)
                pieces, held = [], 0
            pieces.append(piece)
            held += size
    if pieces:
        yield _joined(pieces)


def _joined(pieces: list[Batch]) -> Batch:
    """One batch from consecutive ones, on the host if there are several."""
    if len(pieces) == 1:
        return pieces[0]
    parts = [X for X, _, _ in pieces]
    X = (
        sparse.vstack(parts).tocsr()
        if sparse.issparse(parts[0])
        else np.concatenate([ops_for(p).to_host(p) for p in parts])
    )
    targets = np.concatenate([y for _, y, _ in pieces])
    return X, targets, joined_weights([w for _, _, w in pieces], [part.shape[0] for part in parts])


@dataclass(frozen=True)
class BlockProblem:
    """The objective: the mean of ``loss(phi(x)^T W + c, y)`` plus ``penalty |W|^2 / 2``.

    Attributes
    ----------
    blocks : BlockedMap
    loss : str
    n_jobs : int or None
    """

    blocks: BlockedMap
    loss: str
    n_jobs: int | None

    def scores(self, X: Array, coef: np.ndarray, intercept: np.ndarray) -> np.ndarray:
        """``phi(x)^T W + c`` (r, t), in float64, for scaled rows."""
        scores = np.tile(intercept, (X.shape[0], 1))
        for columns, (Z,) in self.blocks.features(ops_for(X), (X,), self.n_jobs):
            scores += feature_block(Z).times(coef[columns], self.n_jobs)
        return scores

    def step(
        self,
        X: Array,
        targets: np.ndarray,
        weights: np.ndarray,
        coef: np.ndarray,
        intercept: np.ndarray,
        preconditioner: SamplePreconditioner,
        *,
        penalty: float,
        damping: float,
    ) -> float:
        """Take one step for a batch of scaled rows, in place; return the mean loss before the step.

        The direction is the preconditioned gradient of the batch. The step goes to the minimum of a quadratic upper
        bound of the loss of the batch along the direction, times `damping`.

        Parameters
        ----------
        X : array or CSR matrix of shape (r, n_features)
        targets : ndarray of shape (r, t)
        weights : ndarray of shape (r,)
            Weights with mean 1 over all rows.
        coef : ndarray of shape (m, t)
        intercept : ndarray of shape (t,)
        preconditioner : Preconditioner
        penalty, damping : float
        """
        loss, bound = LOSSES[self.loss]
        ops = ops_for(X)
        shares = weights[:, None] / len(weights)
        scores = self.scores(X, coef, intercept)
        slopes = loss.slopes(scores, targets) * shares
        sample = ops.constant(preconditioner.rows) if not ops.is_sparse(preconditioner.rows) else preconditioner.rows
        # The gradient, and its products with the sample's features, including the constant feature of the intercept.
        gradient, at_intercept = np.empty_like(coef), slopes.sum(axis=0)
        products = np.tile(at_intercept, (sample.shape[0], 1))
        for columns, (Z, Z_sample) in self.blocks.features(ops, (X, sample), self.n_jobs):
            part = feature_block(Z).cross_products(slopes, self.n_jobs)[0] + penalty * coef[columns]
            gradient[columns] = part
            products += feature_block(Z_sample).times(part, self.n_jobs)
        solved = preconditioner.solve(products)
        # Change of the scores along the preconditioned gradient, which overwrites the gradient block by block.
        direction_at_intercept = at_intercept - solved.sum(axis=0)
        slope, curvature = at_intercept * direction_at_intercept, np.zeros(coef.shape[1])
        change = np.tile(direction_at_intercept, (X.shape[0], 1))
        for columns, (Z, Z_sample) in self.blocks.features(ops, (X, sample), self.n_jobs):
            part = gradient[columns] - feature_block(Z_sample).cross_products(solved, self.n_jobs)[0]
            slope += (gradient[columns] * part).sum(axis=0)
            curvature += penalty * np.square(part).sum(axis=0)
            change += feature_block(Z).times(part, self.n_jobs)
            gradient[columns] = part
        curvature += bound * (shares * np.square(change)).sum(axis=0)
        length = damping * np.divide(np.maximum(slope, 0), curvature, out=np.zeros_like(slope), where=curvature > 0)
        coef -= length * gradient
        intercept -= length * direction_at_intercept
        return float((shares[:, 0] * loss.values(scores, targets)).sum())
