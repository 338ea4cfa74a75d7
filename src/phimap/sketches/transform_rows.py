"""Lengths of fast transforms, and random samples of transform rows."""

from __future__ import annotations

import numpy as np


def padded_width(n_features: int) -> int:
    """The smallest power of two that is at least `n_features`."""
    return 1 << (n_features - 1).bit_length()


def is_padded_width(width: int, n_features: int) -> bool:
    """Whether `width` is a power of two and at least `n_features`."""
    return width >= n_features and width == padded_width(width)


def fast_fourier_width(n_features: int) -> int:
    """The smallest length, at least `n_features`, with a fast real Fourier transform: a product of small primes."""
    from scipy.fft import next_fast_len

    return next_fast_len(n_features, real=True)  # pyright: ignore[reportReturnType] -- SciPy's stub has no result


def balanced_rows(rng: np.random.Generator, length: int, n_samples: int) -> np.ndarray:
    """Random rows (n_samples,), intp, of a transform of given length; every row occurs once before any is repeated."""
    rounds = [rng.permutation(length) for _ in range(-(-n_samples // length))]
    return np.concatenate([np.empty(0, np.intp), *rounds])[:n_samples].astype(np.intp)


def lower_half(frequencies: np.ndarray, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Replace frequencies i above half the length by ``length - i``, and return -1 for these and 1 for the others.

    For a real vector, the transform at ``length - i`` is the conjugate of the transform at i: -1 means that the entry
    must be conjugated. Both results have the shape of `frequencies`; the second is int8.
    """
    upper = 2 * frequencies > length
    return np.where(upper, length - frequencies, frequencies), np.where(upper, -1, 1).astype(np.int8)
