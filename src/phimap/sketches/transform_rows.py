"""Lengths of fast transforms, and rows of them drawn at random."""

from __future__ import annotations

import numpy as np


def padded_width(n_features: int) -> int:
    """The least power of two that is not below `n_features`."""
    return 1 << (n_features - 1).bit_length()


def is_padded_width(width: int, n_features: int) -> bool:
    """Whether rows of `n_features` may be padded to a transform of this width: a power of two."""
    return width >= n_features and width == padded_width(width)


def fast_fourier_width(n_features: int) -> int:
    """The least product of small primes, fast for the transform of real rows, that is not below `n_features`."""
    from scipy.fft import next_fast_len

    return next_fast_len(n_features, real=True)  # pyright: ignore[reportReturnType] -- SciPy's stub has no result


def balanced_rows(rng: np.random.Generator, length: int, n_samples: int) -> np.ndarray:
    """Uniform rows (n_samples,) of a transform of this length, intp: every row once before any comes again."""
    rounds = [rng.permutation(length) for _ in range(-(-n_samples // length))]
    return np.concatenate([np.empty(0, np.intp), *rounds])[:n_samples].astype(np.intp)


def lower_half(frequencies: np.ndarray, length: int) -> tuple[np.ndarray, np.ndarray]:
    """The frequencies up to half the length, and -1 where the entry there is the conjugate of the one meant.

    The transform of a real vector has at ``length - i`` the conjugate of i. Both are of the shape of `frequencies`,
    the second int8.
    """
    upper = 2 * frequencies > length
    return np.where(upper, length - frequencies, frequencies), np.where(upper, -1, 1).astype(np.int8)
