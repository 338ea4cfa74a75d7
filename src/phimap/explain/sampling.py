"""Shapley values and interactions by permutation sampling, for models without an exact form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from phimap.config import memory_budget

#: A function from rows (n, w) to outputs (n, t).
Function = Callable[[np.ndarray], np.ndarray]
#: Values and their standard errors: (n, p, t) for columns, (n, p, p, t) for pairs.
Sampled = tuple[np.ndarray, np.ndarray]
# Independent estimates for each background row. Two is the least number that gives a variance.
_ESTIMATES = 2
# Largest number of bytes of the mixed rows that are evaluated at a time. They also take at most one part in `_SHARE` of
# the byte budget.
_MOST_BYTES, _SHARE = 2**26, 16


def sampled_values(
    function: Function,
    rows: np.ndarray,
    background: np.ndarray,
    players: Sequence[np.ndarray],
    seed: int,
    advance: Callable[[int], None] = lambda rows: None,
) -> Sampled:
    """Estimate Shapley values (n, p, t) and their standard errors.

    In the order of a random permutation of the players, the columns of each player in a background row are replaced by
    the columns of the explained row. The change of the output is an estimate of the player's value. Each permutation is
    also used in reverse order. Every background row gets the same number of permutations, so that the values sum
    exactly to the output minus the mean output of the background. The standard error describes the variance of the
    permutations, not of the background.

    Parameters
    ----------
    function : callable
        Function from rows (n, w) to the outputs (n, t) that are explained.
    rows, background : ndarray of shape (n, w) and (B, w)
        Rows to explain, and rows with which they are compared.
    players : sequence of ndarray
        Columns of each player.
    seed : int
        Row i is explained with random numbers that depend on the seed and on i alone.
    advance : callable
        Called with 1 after every row.
    """
    return _sampled(function, rows, background, players, seed, advance, _reversed, _values_of)


def sampled_interactions(
    function: Function,
    rows: np.ndarray,
    background: np.ndarray,
    players: Sequence[np.ndarray],
    seed: int,
    advance: Callable[[int], None] = lambda rows: None,
) -> Sampled:
    """Estimate Shapley interaction values (n, p, p, t) and their standard errors.

    Players j and k that follow each other in a random permutation, after the players S, give the difference
    ``f(S, j, k) - f(S, j) - f(S, k) + f(S)``, whose mean is the interaction index of the pair. The permutations of an
    estimate are p rotations of a zigzag, ``0, 1, -1, 2, -2, ...`` modulo p, with random names of the players: every
    pair is adjacent in two of them, and every player has each place once. A sum over the second player is the player's
    estimated Shapley value, and the sum over all pairs is exact. Parameters are the same as in `sampled_values`.
    """
    return _sampled(function, rows, background, players, seed, advance, _rotations, _pairs_of)


@dataclass(frozen=True)
class _Game:
    """An explained row, and B background rows with which its columns are mixed.

    Attributes
    ----------
    function : callable
        Function from rows (n, w) to outputs (n, t).
    row : ndarray of shape (w,)
        The explained row.
    output : ndarray of shape (t,)
        Outputs at the explained row.
    background : ndarray of shape (B, w)
        The background rows.
    at_background : ndarray of shape (B, t)
        Outputs at the background rows.
    owners : ndarray of int, shape (w,)
        Player of each column.
    """

    function: Function
    row: np.ndarray
    output: np.ndarray
    background: np.ndarray
    at_background: np.ndarray
    owners: np.ndarray

    def mixed(self, members: np.ndarray) -> np.ndarray:
        """Outputs (B, ..., t) of mixtures of the explained row with each of the B background rows.

        The masks `members` (B, ..., p) are true for players whose columns come from the explained row.
        """
        if not members.size:
            return np.zeros((*members.shape[:-1], self.output.size))
        background = self.background.reshape(len(self.background), *[1] * (members.ndim - 2), self.row.size)
        rows = np.where(members[..., self.owners], self.row, background)
        return self.function(rows.reshape(-1, self.row.size)).reshape(*members.shape[:-1], self.output.size)

    def paths(self, ranks: np.ndarray) -> np.ndarray:
        """Outputs (..., p + 1, t) while the players join in the order of their ranks (B, ..., p)."""
        counts = np.arange(1, ranks.shape[-1])[:, None]
        between = self.mixed(ranks[..., None, :] < counts)
        shape = (*ranks.shape[:-1], 1, self.output.size)
        first = self.at_background.reshape(len(self.background), *[1] * (ranks.ndim - 1), self.output.size)
        return np.concatenate([np.broadcast_to(first, shape), between, np.broadcast_to(self.output, shape)], axis=-2)


def _reversed(rng: np.random.Generator, n_background: int, p: int) -> np.ndarray:
    """Ranks (B, estimates, 2, p) of the players in random permutations and in the reversed permutations."""
    ranks = np.argsort(rng.random((n_background, _ESTIMATES, p)), axis=2)
    return np.stack([ranks, p - 1 - ranks], axis=2)


def _rotations(rng: np.random.Generator, n_background: int, p: int) -> np.ndarray:
    """Ranks (B, estimates, p, p) of the players in all rotations of a zigzag with random names."""
    steps = np.arange(p)
    zigzag = np.where(steps % 2, (steps + 1) // 2, -(steps // 2))
    ranks = np.argsort((zigzag + steps[:, None]) % p, axis=1)
    names = np.argsort(rng.random((n_background, _ESTIMATES, p)), axis=2)
    return ranks[:, names].transpose(1, 2, 0, 3)


def _values_of(game: _Game, ranks: np.ndarray) -> np.ndarray:
    """Estimates (B, estimates, p, t) of the values."""
    return _contributions(game.paths(ranks), ranks)


def _pairs_of(game: _Game, ranks: np.ndarray) -> np.ndarray:
    """Estimates (B, estimates, p, p, t) of halves of the indices, with the rest of the values on the diagonal."""
    p, path = ranks.shape[-1], game.paths(ranks)
    # The player of rank c + 1 joins the players of ranks 0 to c - 1, without the player of rank c.
    counts = np.arange(p - 1)[:, None]
    skipped = game.mixed((ranks[..., None, :] < counts) | (ranks[..., None, :] == counts + 1))
    differences = path[..., 2:, :] - path[..., 1:-1, :] - skipped + path[..., :-2, :]
    order = np.argsort(ranks, axis=-1)
    found = np.zeros((*ranks.shape[:2], p, p, game.output.size))
    # Every pair of players occurs twice. Entries (j, k) and (k, j) each get half of the mean: a quarter of the sum.
    b, e = np.ogrid[: ranks.shape[0], : ranks.shape[1]]
    np.add.at(found, (b[..., None, None], e[..., None, None], order[..., :-1], order[..., 1:]), differences / 4)
    return with_diagonal(found + found.swapaxes(2, 3), _contributions(path, ranks))


def _contributions(path: np.ndarray, ranks: np.ndarray) -> np.ndarray:
    """Mean changes (B, estimates, p, t) of the outputs (B, estimates, ..., p + 1, t) when a player joins."""
    return np.take_along_axis(np.diff(path, axis=-2), ranks[..., None], axis=-2).mean(axis=2)


def owners_of(players: Sequence[np.ndarray], width: int) -> np.ndarray:
    """Return the player (w,) of each column of the rows."""
    owners = np.zeros(width, np.intp)
    for player, columns in enumerate(players):
        owners[columns] = player
    return owners


def with_diagonal(pairs: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Set the diagonal of pairs (..., p, p, t), in place, so that each row of pairs adds up to `values` (..., p, t)."""
    places = np.arange(pairs.shape[-2])
    pairs[..., places, places, :] = values - pairs.sum(axis=-2)
    return pairs


def _sampled(
    function: Function,
    rows: np.ndarray,
    background: np.ndarray,
    players: Sequence[np.ndarray],
    seed: int,
    advance: Callable[[int], None],
    ranks_of: Callable[[np.random.Generator, int, int], np.ndarray],
    estimates_of: Callable[[_Game, np.ndarray], np.ndarray],
) -> Sampled:
    """Means over the background of the estimates from random ranks, and their standard errors."""
    owners = owners_of(players, rows.shape[1])
    at_rows, at_background, p = function(rows), function(background), len(players)
    n_paths = ranks_of(np.random.default_rng(0), 1, p).size // p
    step = max(1, min(_MOST_BYTES, memory_budget() // _SHARE) // (n_paths * max(1, p - 1) * (rows[0].nbytes + p)))
    totals, variances = [], []
    for place, (row, output) in enumerate(zip(rows, at_rows, strict=True)):
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(place,)))
        total, variance = 0.0, 0.0
        for start in range(0, len(background), step):
            chosen = slice(start, start + step)
            game = _Game(function, row, output, background[chosen], at_background[chosen], owners)
            estimates = estimates_of(game, ranks_of(rng, len(game.background), p))
            total = total + estimates.mean(axis=1).sum(axis=0)
            variance = variance + estimates.var(axis=1, ddof=1).sum(axis=0) / _ESTIMATES
        totals.append(total / len(background))
        variances.append(np.sqrt(variance) / len(background))
        advance(1)
    return np.stack(totals), np.stack(variances)
