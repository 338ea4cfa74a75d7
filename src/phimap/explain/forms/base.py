"""The interface of exact forms, and the quadrature rule and tiles that they share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import eval_legendre, roots_jacobi
from scipy.stats import binom

from phimap.config import memory_budget
from phimap.ops import run_tasks
from phimap.ops.primitives.shapley_sums import lanes

#: Columns of the rows that belong to each player.
Players = Sequence[np.ndarray]
#: Nodes and weights of a quadrature rule.
Rule = tuple[np.ndarray, np.ndarray]
#: Sums (r, ...) of a tile of rows.
OfTile = Callable[[slice], np.ndarray]
#: Number of terms in a group: the lanes of a float64 vector of the compiled loops.
LANES = lanes(np.float64)
# Number of terms for which tables of the background are in memory at a time. 512 terms of 100 background rows and 20
# players take 8 MiB a table.
_MOST_TERMS = 512
# Share of the byte budget that the tables of the background may take.
_SHARE = 0.25
# A quadrature rule with fewer nodes than the exact rule is used if the bound of its relative error is at most this. The
# computed bound is itself off by about 1e-13.
_RULE_ERROR = 1e-12
# Number of explained rows in one task.
_TILE = 4


@dataclass(frozen=True)
class FormEffects:
    """Parts of the functional decomposition of a form, for players with independent levels of equal probability.

    There are p players with q levels each, and t outputs.

    Attributes
    ----------
    first : ndarray of shape (p, q, t)
        Effect of each player at each level, with mean 0.
    second : ndarray of shape (p, p, q, q, t)
        Effect of each pair beyond the effects of both players; only pairs (j, k) with j < k are filled.
    sampled : ndarray of shape (r, t)
        Values of the form at r random choices of levels.
    """

    first: np.ndarray
    second: np.ndarray
    sampled: np.ndarray

    def __add__(self, other: FormEffects) -> FormEffects:
        return FormEffects(self.first + other.first, self.second + other.second, self.sampled + other.sampled)


class Form(ABC):
    """A function of rows (n, w) with t outputs, a sum of products over p players.

    A player is a set of columns, which take their values from the same row.

    All arithmetic is in float64. Results are sums over blocks of terms in a fixed order, computed for tiles of rows.
    They do not depend on the number of threads.
    """

    #: Number of terms, which measures the work. A polynomial counts each landmark once for each of its products.
    n_terms: int

    @abstractmethod
    def outputs(self, rows: np.ndarray) -> np.ndarray:
        """Return the values (n, t) of the function at rows (n, w)."""

    def shapley(self, rows: np.ndarray, background: np.ndarray, players: Players, n_jobs: int | None) -> np.ndarray:
        """Return the mean over the background rows (B, w) of the Shapley values (n, p, t) of the rows (n, w)."""
        return self._sums(rows, background, players, n_jobs, pairs=False) / len(background)

    def pairs(self, rows: np.ndarray, background: np.ndarray, players: Players, n_jobs: int | None) -> np.ndarray:
        """Return the mean Shapley interaction index (n, p, p, t) of each pair, symmetric, with a zero diagonal."""
        return self._sums(rows, background, players, n_jobs, pairs=True) / len(background)

    @abstractmethod
    def _sums(
        self, rows: np.ndarray, background: np.ndarray, players: Players, n_jobs: int | None, *, pairs: bool
    ) -> np.ndarray:
        """Return sums over the background rows: of the Shapley values, or with `pairs` of the interaction indices."""

    @abstractmethod
    def effects(self, levels: np.ndarray, players: Players, chosen: np.ndarray) -> FormEffects:
        """Return the effects of the players.

        The q levels of a player are its columns in the rows `levels` (q, w). `chosen` (r, p) holds the index of the
        level of each player in r random choices.
        """


class ScaledForm(Form):
    """A form whose rows are scaled first, each column by itself.

    Parameters
    ----------
    form : Form
        Function of scaled rows.
    scale : callable
        Scales rows (n, w).
    """

    def __init__(self, form: Form, scale: Callable[[np.ndarray], np.ndarray]):
        self._form, self._scale, self.n_terms = form, scale, form.n_terms

    def outputs(self, rows: np.ndarray) -> np.ndarray:
        return self._form.outputs(self._scale(rows))

    def _sums(
        self, rows: np.ndarray, background: np.ndarray, players: Players, n_jobs: int | None, *, pairs: bool
    ) -> np.ndarray:
        return self._form._sums(self._scale(rows), self._scale(background), players, n_jobs, pairs=pairs)

    def effects(self, levels: np.ndarray, players: Players, chosen: np.ndarray) -> FormEffects:
        return self._form.effects(self._scale(levels), players, chosen)


def half_rule(degree: int) -> Rule:
    """Return the nodes t >= 0 and weights of the Gauss-Legendre rule on [-1, 1] that is exact up to a degree.

    The rule has ``degree // 2 + 1`` nodes and is symmetric; the weight of a node at 0 is halved, because the loops use
    every node with both signs.
    """
    return _half(*np.polynomial.legendre.leggauss(degree // 2 + 1))


@lru_cache(maxsize=64)
def coalition_rule(n_others: int, *, with_ends: bool = False) -> Rule:
    r"""Return a rule in the form of `half_rule` for the Shapley integral over n other players.

    For large n the rule has fewer nodes than the exact rule. The integrand is ``sum_k c_k B_k(t)`` with the Bernstein
    polynomials B_k of degree n, where c_k is the mean change of the output when the player joins a coalition of k other
    players. In the exact Shapley value every c_k has the weight ``1 / (n + 1)``. With a rule, the weight of c_k is half
    of the rule's result for the integral of B_k. Shapley values thus have a relative error of at most

    .. math:: \max_k \bigl|\tfrac{n + 1}{2} \sum_q w_q B_k(t_q) - 1\bigr|

    times the largest mean ``|c_k|`` of the model's own outputs. The rule has the fewest nodes for which this bound is
    at most 1e-12, or the exact rule. With `with_ends` it is a Gauss-Lobatto rule, which has nodes at -1 and 1, for
    integrands of which only the even part counts.
    """
    nodes_of, exact = (
        (_lobatto, n_others // 2 + 2) if with_ends else (np.polynomial.legendre.leggauss, n_others // 2 + 1)
    )
    counts = (count for count in range(2, exact) if coalition_error(n_others, *nodes_of(count)) <= _RULE_ERROR)
    return _half(*nodes_of(next(counts, exact)))


def coalition_error(n_others: int, nodes: np.ndarray, weights: np.ndarray) -> float:
    """Return the bound of `coalition_rule` for a rule on [-1, 1]."""
    sizes = np.arange(n_others + 1)[:, None]
    values = binom.pmf(sizes, n_others, (1.0 + nodes) / 2.0) @ weights
    return float(np.abs(values * (n_others + 1) / 2.0 - 1.0).max())


def _lobatto(count: int) -> Rule:
    """The Gauss-Lobatto rule on [-1, 1], exact up to the degree 2 count - 3: the ends, and roots of P'_{count - 1}."""
    within = roots_jacobi(count - 2, 1.0, 1.0)[0] if count > 2 else np.empty(0)
    nodes = np.concatenate([[-1.0], within, [1.0]])
    return nodes, 2.0 / (count * (count - 1) * np.square(eval_legendre(count - 1, nodes)))


def _half(nodes: np.ndarray, weights: np.ndarray) -> Rule:
    """The nodes t >= 0 of a symmetric rule with sorted nodes; the weight of a node at 0 is halved."""
    first = nodes.size // 2
    odd = nodes.size % 2
    nodes, weights = nodes[first:].copy(), weights[first:].copy()
    if odd:
        nodes[0], weights[0] = 0.0, weights[0] / 2
    return nodes, weights


def term_blocks(n_terms: int, bytes_of_term: int) -> list[slice]:
    """Divide the terms into blocks whose tables fit into a share of the byte budget."""
    fitting = int(_SHARE * memory_budget()) // max(1, bytes_of_term)
    size = max(LANES, min(_MOST_TERMS, fitting) // LANES * LANES)
    return [slice(start, min(start + size, n_terms)) for start in range(0, n_terms, size)]


def grouped(table: np.ndarray) -> np.ndarray:
    """Arrange a table (n, p, M) of M terms in G groups of terms (G, n, p, LANES); zeros fill the last group."""
    n, p, n_terms = table.shape
    n_groups = -(-n_terms // LANES)
    whole = np.zeros((n, p, n_groups * LANES))
    whole[..., :n_terms] = table
    return np.ascontiguousarray(whole.reshape(n, p, n_groups, LANES).transpose(2, 0, 1, 3))


def grouped_coefs(coefs: np.ndarray) -> np.ndarray:
    """Arrange coefficients (M, t) of M terms in G groups of terms (G, LANES, t); zeros fill the last group."""
    n_groups = -(-coefs.shape[0] // LANES)
    whole = np.zeros((n_groups * LANES, coefs.shape[1]))
    whole[: coefs.shape[0]] = coefs
    return whole.reshape(n_groups, LANES, -1)


def contract(sums: np.ndarray, coefs: np.ndarray) -> np.ndarray:
    """Sum `sums` (G, n, ..., LANES) times `coefs` (G, LANES, t) over the terms; the result is (n, ..., t)."""
    return np.tensordot(sums, coefs, axes=([0, sums.ndim - 1], [0, 1]))


def over_blocks(
    of_block: Callable[[slice], OfTile], parts: list[slice], shape: tuple[int, ...], n_jobs: int | None
) -> np.ndarray:
    """Return sums over the blocks of terms `parts`, with `shape` (n, ...) for n rows.

    ``of_block(part)`` prepares a block, and returns a function from a tile of rows to their sums (r, ...). The division
    into tiles does not depend on the number of threads.
    """
    result = np.zeros(shape)
    tiles = [slice(start, min(start + _TILE, shape[0])) for start in range(0, shape[0], _TILE)]
    for part in parts:
        of_tile = of_block(part)

        def add(tile: slice, of_tile: OfTile = of_tile) -> None:
            result[tile] += of_tile(tile)

        run_tasks(add, tiles, n_jobs)
    return result


def without_one(factors: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return prefix products, suffix products and products without one player, each (p, M), of factors (p, M)."""
    before, after = np.ones_like(factors), np.ones_like(factors)
    for j in range(1, len(factors)):
        before[j] = before[j - 1] * factors[j - 1]
        after[-1 - j] = after[-j] * factors[-j]
    return before, after, before * after


def product_effects(table: np.ndarray, coefs: np.ndarray, chosen: np.ndarray) -> FormEffects:
    """Effects of the real part of ``sum_i coefs_i prod_j table_ji``.

    `table` (q, p, M) holds the factor of term i for each level of each player j, and `coefs` (M, t) the coefficients.
    """
    q, p, _ = table.shape
    means = table.mean(axis=0)
    centred = table - means
    before, after, others = without_one(means)
    first = np.stack([np.real((centred[:, j] * others[j]) @ coefs) for j in range(p)])
    second = np.zeros((p, p, q, q, coefs.shape[1]))
    for j in range(p):
        between = before[j].copy()
        for k in range(j + 1, p):
            weighted = (between * after[k])[:, None] * coefs
            for output in range(coefs.shape[1]):
                product = (centred[:, j] * weighted[:, output]) @ centred[:, k].T
                second[j, k, :, :, output] = np.real(product)
            between *= means[k]
    values = np.ones((len(chosen), table.shape[2]), table.dtype)
    for j in range(p):
        values *= table[chosen[:, j], j]
    return FormEffects(first, second, np.real(values @ coefs))
