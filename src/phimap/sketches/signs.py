"""Fair random signs. Their draws differ in kind, and a seed has to keep its signs: hence more than one function."""

from __future__ import annotations

import numpy as np


def fair_signs(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Independent fair signs as int8, from draws of bytes."""
    return 2 * rng.integers(2, size=shape, dtype=np.int8) - 1


def fair_factors(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """The signs of `fair_signs` as float64."""
    return fair_signs(rng, shape).astype(np.float64)


def fair_word_factors(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Independent fair signs as float64, from draws of words: others than those of `fair_signs`."""
    return 2.0 * rng.integers(2, size=shape) - 1.0
