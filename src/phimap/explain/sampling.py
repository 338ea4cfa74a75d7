"""Shapley values by permutation sampling, for models without an exact form."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from phimap.config import memory_budget

#: A function from rows (n, w) to outputs (n, t).
Function = Callable[[np.ndarray], np.ndarray]
# Pairs of a permutation and its reverse for each background row. Two is the least number that gives a variance.
_PAIRS = 2
# Largest number of bytes of the mixed rows that are evaluated at a time, and their share of the byte budget.
_MOST_BYTES, _SHARE = 2**26, 16


def sampled_values(
    function: Function, rows: np.ndarray, background: np.ndarray, players: Sequence[np.ndarray], seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Estimate Shapley values (n, p, t) and their standard errors.

    In the order of a random permutation, the players of a background row are replaced by those of the explained row;
    the change of the output is the value of the player. Each permutation is also used in reverse order. Every
    background row gets the same number of permutations, so that the values sum exactly to the output minus the mean
    output of the background. The standard error is that of the permutations alone.

    Parameters
    ----------
    function : callable
    rows, background : ndarray of shape (n, w) and (B, w)
    players : sequence of ndarray
        Columns of each player.
    seed : int
        Row i gets the stream of this seed and i.
    """
    owners = np.zeros(rows.shape[1], np.intp)
    for player, columns in enumerate(players):
        owners[columns] = player
    at_rows, at_background = function(rows), function(background)
    found = [
        _of_row(function, row, output, background, at_background, owners, len(players), _stream(seed, place))
        for place, (row, output) in enumerate(zip(rows, at_rows, strict=True))
    ]
    return np.stack([values for values, _ in found]), np.stack([errors for _, errors in found])


def _stream(seed: int, place: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(place,)))


def _of_row(
    function: Function,
    row: np.ndarray,
    output: np.ndarray,
    background: np.ndarray,
    at_background: np.ndarray,
    owners: np.ndarray,
    n_players: int,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Values (p, t) and standard errors of one row."""
    n_background, n_outputs = at_background.shape
    total, variance = np.zeros((n_players, n_outputs)), np.zeros((n_players, n_outputs))
    bytes_of_one = 2 * _PAIRS * max(1, n_players - 1) * (row.nbytes + n_players)
    step = max(1, min(_MOST_BYTES, memory_budget() // _SHARE) // bytes_of_one)
    for start in range(0, n_background, step):
        chosen = slice(start, start + step)
        several = background[chosen]
        ranks = np.argsort(rng.random((len(several), _PAIRS, n_players)), axis=2)
        ranks = np.stack([ranks, n_players - 1 - ranks], axis=2)
        # Mixed row k has the players of ranks below k from the explained row.
        counts = np.arange(1, n_players)[:, None]
        from_row = (ranks[..., None, :] < counts)[..., owners]
        mixed = np.where(from_row, row, several[:, None, None, None])
        between = function(mixed.reshape(-1, row.size)).reshape(*from_row.shape[:-1], n_outputs)
        shape = (*ranks.shape[:3], 1, n_outputs)
        first = np.broadcast_to(at_background[chosen][:, None, None, None], shape)
        path = np.concatenate([first, between, np.broadcast_to(output, shape)], axis=3)
        values = np.take_along_axis(np.diff(path, axis=3), ranks[..., None], axis=3).mean(axis=2)
        total += values.mean(axis=1).sum(axis=0)
        variance += values.var(axis=1, ddof=1).sum(axis=0) / _PAIRS
    return total / n_background, np.sqrt(variance) / n_background
