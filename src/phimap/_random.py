"""Named random streams: one independent generator for each role, determined by the seed and the role's name."""

from __future__ import annotations

from numbers import Integral

import numpy as np

# Constants of SplitMix64: the golden-ratio step, and the multipliers and shifts of its output function.
_STEP = np.uint64(0x9E3779B97F4A7C15)
_MULTIPLIERS = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_SHIFTS = np.uint64(30), np.uint64(27), np.uint64(31)

RandomState = int | np.random.Generator | np.random.RandomState | np.random.SeedSequence | None


def named_streams(random_state: RandomState, *roles: str) -> dict[str, np.random.Generator]:
    """Draw one generator per role.

    A stream depends only on the seed and on its role's name, but not on the other roles or their order. So a new role
    does not change the draws of the others.

    Parameters
    ----------
    random_state : int, Generator, RandomState, SeedSequence or None
        None draws fresh entropy from the system; NumPy's global state is never used. A Generator or RandomState is
        advanced once.
    *roles : str
        Names such as ``"frequencies"``.

    Returns
    -------
    dict of str to numpy.random.Generator

    Raises
    ------
    TypeError
        If `random_state` has another type.
    """
    root = seed_sequence(random_state)
    return {role: _child(root, role) for role in roles}


def seed_sequence(random_state: RandomState) -> np.random.SeedSequence:
    """The seed sequence from which all streams derive; a generator is advanced once, None draws fresh entropy."""
    if random_state is None:
        return np.random.SeedSequence()
    if isinstance(random_state, np.random.SeedSequence):
        return random_state
    if isinstance(random_state, Integral) and not isinstance(random_state, bool):
        if random_state < 0:
            raise ValueError(f"`random_state` must not be negative, got {random_state}.")
        return np.random.SeedSequence(int(random_state))
    if isinstance(random_state, np.random.Generator):
        return np.random.SeedSequence(random_state.integers(2**32, size=4).tolist())
    if isinstance(random_state, np.random.RandomState):
        return np.random.SeedSequence(random_state.randint(0, 2**32, size=4, dtype=np.uint64).tolist())
    raise TypeError(
        "`random_state` must be an int, Generator, RandomState, SeedSequence or None, "
        f"got {type(random_state).__name__}."
    )


def _child(root: np.random.SeedSequence, role: str) -> np.random.Generator:
    # The bytes of the name are added to the spawn key of the root. A stream thus depends on its name, and not on the
    # order in which streams are requested.
    key = (*root.spawn_key, *role.encode())
    seed = np.random.SeedSequence(root.entropy, spawn_key=key, pool_size=root.pool_size)
    return np.random.Generator(np.random.PCG64(seed))


def row_uniforms(first: int, n: int, seed: int) -> np.ndarray:
    """Uniforms (n,) in [0, 1) for rows ``first, ..., first + n - 1``, each determined by its row index and `seed`.

    The generator is SplitMix64 (Steele, Lea and Flood 2014, Figures 13 and 17). The seed is hashed as well. Otherwise
    seeds 1 and 2 would give the same stream, shifted by a row.
    """
    return hashed_uniforms(np.arange(first, first + n, dtype=np.uint64), seed)


def hashed_uniforms(rows: np.ndarray, seed: int) -> np.ndarray:
    """One uniform in [0, 1) for each entry of `rows` (uint64), determined by the entry and `seed`; see `row_uniforms`.

    All arithmetic is modulo 2**64.
    """
    # Arrays wrap around modulo 2**64 without a warning, as the hash requires; NumPy scalars would warn.
    offset = _mixed((np.array([seed % 2**64], dtype=np.uint64) + np.uint64(1)) * _STEP)
    # The upper 53 bits give a uniform double in [0, 1).
    return (_mixed(rows * _STEP + offset) >> np.uint64(11)) * 2.0**-53


def _mixed(state: np.ndarray) -> np.ndarray:
    """SplitMix64's output function on uint64 (n,)."""
    state = (state ^ (state >> _SHIFTS[0])) * _MULTIPLIERS[0]
    state = (state ^ (state >> _SHIFTS[1])) * _MULTIPLIERS[1]
    return state ^ (state >> _SHIFTS[2])
