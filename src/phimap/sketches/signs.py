"""Fair random signs, drawn as 8-bit or as 64-bit integers.

The same seed gives different signs in the two cases. Callers keep their case, because results for a seed must not
change.
"""

from __future__ import annotations

import numpy as np


def fair_signs(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Independent fair signs as int8, drawn as 8-bit integers."""
    return 2 * rng.integers(2, size=shape, dtype=np.int8) - 1


def fair_factors(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """The signs of `fair_signs` as float64."""
    return fair_signs(rng, shape).astype(np.float64)


def fair_word_factors(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Independent fair signs as float64, drawn as 64-bit integers; the signs differ from the signs of `fair_signs`."""
    return 2.0 * rng.integers(2, size=shape) - 1.0
