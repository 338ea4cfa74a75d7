"""Selection of rows as landmarks, by ridge leverage scores or by randomly pivoted Cholesky."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from phimap.config import stated_budget
from phimap.kernels import Kernel
from phimap.ops import single_threaded_blas

# Number of pivots that are proposed at a time, so that kernel values are computed in blocks.
_BLOCK = 64
# Maximum number of candidate rows in a search for landmarks; more candidates hardly change the result.
_MOST_ROWS = 20_000


def most_candidates(n_landmarks: int) -> int:
    """Number of candidate rows: 20,000, or fewer for a small byte budget, but at least `n_landmarks`.

    The kernel values of all candidates with all landmarks take at most a quarter of the budget.
    """
    return max(n_landmarks, min(_MOST_ROWS, stated_budget() // (4 * 8 * n_landmarks)))


def leverage(kernel: Kernel, rows: np.ndarray, n_landmarks: int, rng: np.random.Generator) -> np.ndarray:
    """Indices of distinct rows, drawn in proportion to ridge leverage scores estimated with uniform pilot landmarks.

    Let Z be the Nystroem features of all rows with m = `n_landmarks` pilot landmarks, and z the features of a row x.
    The score of x is ``z^T (Z^T Z + lam I)^{-1} z + (k(x, x) - |z|^2) / lam``, an upper bound of the exact score (Musco
    and Musco 2017, Lemma 4). The ridge lam is the trace of the kernel matrix minus the m / 2 largest eigenvalues of
    ``Z^T Z``, divided by m / 2.
    """
    n = rows.shape[0]
    if n <= n_landmarks:
        return np.arange(n)
    diagonal = kernel.diag(rows)
    with single_threaded_blas():
        Z = nystroem_factor(kernel, rows, rng.permutation(n)[:n_landmarks])
        values, vectors = np.linalg.eigh(Z.T @ Z)
        tail = max(diagonal.sum() - values[-max(1, n_landmarks // 2) :].sum(), 0.0)
        lam = max(2 * tail / n_landmarks, n * np.finfo(np.float64).eps * diagonal.max())
        scores = np.square((Z @ vectors) / np.sqrt(np.maximum(values, 0) + lam)).sum(axis=1)
    scores += np.maximum(diagonal - np.square(Z).sum(axis=1), 0) / lam
    # Exponential random variables with the rates `scores`, in sorted order, give draws without replacement. Rows of
    # score 0 come last.
    with np.errstate(divide="ignore"):
        clocks = rng.exponential(size=n) / np.minimum(scores, 1.0)
    return np.argsort(clocks)[:n_landmarks]


def rpcholesky(kernel: Kernel, rows: np.ndarray, n_landmarks: int, rng: np.random.Generator) -> np.ndarray:
    """Indices of the pivots of a Cholesky factorisation, each drawn in proportion to the residual diagonal.

    Pivots are proposed in blocks, in proportion to the residual diagonal at the start of the block. They are accepted
    with probabilities that give the distribution of sequential draws (Epperly, Tropp, Webber 2024, Algorithm 2.1).
    """
    n = rows.shape[0]
    diagonal = kernel.diag(rows).astype(np.float64)
    floor = n * np.finfo(np.float64).eps * diagonal.max(initial=0.0)
    factor = np.empty((n, min(n, n_landmarks)))
    pivots: list[int] = []
    with single_threaded_blas():
        while len(pivots) < factor.shape[1] and diagonal.sum() > n * floor:
            done = len(pivots)
            proposed = rng.choice(n, _BLOCK, p=diagonal / diagonal.sum())
            complement = kernel(rows[proposed]) - factor[proposed, :done] @ factor[proposed, :done].T
            before = complement.diagonal().copy()
            accepted = _accept(complement, before, rng.random(_BLOCK), floor)[: factor.shape[1] - done]
            chosen = proposed[accepted]
            columns = kernel(rows, rows[chosen]) - factor[:, :done] @ factor[chosen, :done].T
            lower = np.linalg.cholesky(columns[chosen] + floor * np.eye(chosen.size))
            new = np.linalg.solve(lower, columns.T).T
            factor[:, done : done + chosen.size] = new
            diagonal = np.maximum(diagonal - np.square(new).sum(axis=1), 0.0)
            diagonal[chosen] = 0.0
            pivots += chosen.tolist()
    return np.array(pivots, dtype=np.intp)


def _accept(complement: np.ndarray, before: np.ndarray, chance: np.ndarray, floor: float) -> np.ndarray:
    """Return the positions of the accepted pivots among b proposals.

    The residual of a proposal is its diagonal entry in the Schur complement given the pivots accepted so far. Proposal
    i is accepted if its residual exceeds `floor` and ``chance[i] * before[i]``, where `chance` (b,) holds uniform
    random numbers and `before` (b,) the residuals at the start. `complement` (b, b), the Schur complement of the
    proposals, is overwritten.
    """
    accepted = []
    for i in range(before.size):
        if complement[i, i] > floor and chance[i] * before[i] < complement[i, i]:
            accepted.append(i)
            column = complement[:, i] / complement[i, i] ** 0.5
            complement -= np.outer(column, column)
    return np.array(accepted, dtype=np.intp)


def nystroem_factor(kernel: Kernel, rows: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Nystroem features (n, r) of all rows with the landmarks ``rows[chosen]``, r the rank of their kernel matrix."""
    if not chosen.size:
        return np.empty((rows.shape[0], 0))
    K = kernel(rows[chosen])
    # The kernel matrix may be singular, so eigenvalues below its rounding error are dropped.
    ridge = chosen.size * np.finfo(np.float64).eps * K.diagonal().max(initial=0.0)
    values, vectors = np.linalg.eigh(K)
    kept = values > ridge
    return kernel(rows, rows[chosen]) @ (vectors[:, kept] / np.sqrt(values[kept]))


#: Searches for landmarks, by name.
SEARCHES: dict[str, Callable[[Kernel, np.ndarray, int, np.random.Generator], np.ndarray]] = {
    "leverage": leverage,
    "rpcholesky": rpcholesky,
}
