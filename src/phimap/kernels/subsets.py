"""Subsets of columns, and the spectral law of directions with few non-zero entries."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from phimap.kernels.spectral import GaussianLaw, SpectralLaw, SumLaw


@dataclass(frozen=True, eq=False)
class SubsetLaw(SpectralLaw):
    """The spectral law of `Additive`: a random subset of the coordinates follows `base`, and all others are zero.

    Parameters
    ----------
    n_features, scale : as in `SpectralLaw`
        `scale` is the inverse length scale of the base kernel.
    base : SpectralLaw
        Spectral law of the base kernel, with unit scale.
    order : int, default=1
        Number q of coordinates in a subset.
    """

    base: SpectralLaw = field(default_factory=lambda: GaussianLaw(1))
    order: int = 1
    kernel_name: ClassVar[str] = "an additive kernel"

    @property
    def part(self) -> SpectralLaw:
        """The law, with unit scale, of the q entries in a subset."""
        return self.base.unit(self.order)

    def unit(self, n_features: int) -> SpectralLaw:
        raise ValueError("The spectral law of an additive kernel is of its own columns alone. Use its `part`.")

    def sample_entries(self, rng: np.random.Generator, size: int) -> tuple[np.ndarray, np.ndarray]:
        """Draw independent frequencies without their zeros.

        Parameters
        ----------
        rng : numpy.random.Generator
        size : int
            Number of frequencies s. For a larger size, the first draws are the same.

        Returns
        -------
        subsets : ndarray of intp, shape (s, q)
            Columns of the non-zero entries, ascending within each row.
        entries : ndarray of shape (s, q)
            Values of the non-zero entries, with unit scale.
        """
        subset_rng, entry_rng = rng.spawn(2)
        subsets = random_subsets(self.n_features, self.order, size, subset_rng)
        if isinstance(self.base, SumLaw):
            # The parts may have one scale per column, but a law in q dimensions has no columns to which these scales
            # could belong.
            whole = self.base.unit(self.n_features).sample(entry_rng, size)
            return subsets, np.take_along_axis(whole, subsets, axis=1)
        return subsets, self.part.sample(entry_rng, size)

    def _sample_unit(self, rng: np.random.Generator, size: int) -> np.ndarray:
        return scattered(*self.sample_entries(rng, size), self.n_features)


def scattered(subsets: np.ndarray, entries: np.ndarray, n_features: int) -> np.ndarray:
    """Rows (s, n_features) that hold `entries` (s, q) in the columns `subsets` (s, q), and zeros elsewhere."""
    rows = np.zeros((len(subsets), n_features))
    np.put_along_axis(rows, subsets, entries, axis=1)
    return rows


def random_subsets(n_features: int, order: int, size: int, rng: np.random.Generator) -> np.ndarray:
    """Independent uniform subsets (size, order) of the columns, ascending within each row.

    For a larger size, the first subsets are the same.
    """
    ranks = rng.random((size, order)) * np.arange(n_features, n_features - order, -1)
    subsets = np.empty((size, order), dtype=np.intp)
    for place, rank in enumerate(ranks.T.astype(np.intp)):
        # A rank counts only columns that are not yet taken. Each taken column at or below a rank raises the rank by
        # one.
        for taken in subsets[:, :place].T:
            rank += rank >= taken
        subsets[:, place] = rank
        subsets[:, : place + 1].sort(axis=1)
    return subsets


def spread_subsets(n_features: int, order: int, size: int, rng: np.random.Generator) -> np.ndarray:
    """Distinct subsets (size, order) of the columns; consecutive subsets contain each column about equally often.

    A subset and its cyclic shifts together contain each column equally often. Random subsets, each followed by its
    shifts, are collected until there are `size`. A random permutation of the columns makes each subset uniform.
    """
    shifts, seen = np.arange(n_features)[:, None], set()
    found: list[np.ndarray] = []
    n_found = 0
    while n_found < size:
        for subset in random_subsets(n_features, order, 1 + (size - n_found) // n_features, rng):
            orbit = np.unique(np.sort((subset + shifts) % n_features, axis=1), axis=0)
            first = orbit[0].tobytes()
            if first not in seen:
                seen.add(first)
                found.append(rng.permutation(orbit))
                n_found += len(orbit)
    return np.sort(rng.permutation(n_features)[np.concatenate(found)[:size]], axis=1)
