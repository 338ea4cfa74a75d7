"""Subsets of columns, and the spectral law of directions with few non-zero entries."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from phimap.kernels.spectral import GaussianLaw, SpectralLaw, SumLaw


@dataclass(frozen=True, eq=False)
class SubsetLaw(SpectralLaw):
    """A uniform subset of the coordinates follows another law, and all others are zero: the law of `Additive`.

    Parameters
    ----------
    n_features, scale : as in `SpectralLaw`
        Inverse length scale, that of the other law.
    base : SpectralLaw
        The other law, of unit scale.
    order : int, default=1
        Size q of a subset.
    """

    base: SpectralLaw = field(default_factory=lambda: GaussianLaw(1))
    order: int = 1
    kernel_name: ClassVar[str] = "an additive kernel"

    @property
    def part(self) -> SpectralLaw:
        """The law of unit scale of the entries in a subset, in q dimensions."""
        return self.base.unit(self.order)

    def unit(self, n_features: int) -> SpectralLaw:
        raise ValueError("The spectral law of an additive kernel is of its own columns alone. Use its `part`.")

    def sample_entries(self, rng: np.random.Generator, size: int) -> tuple[np.ndarray, np.ndarray]:
        """Draw independent frequencies without their zeros.

        Parameters
        ----------
        rng : numpy.random.Generator
        size : int
            Number of frequencies s. A larger size extends the same draws.

        Returns
        -------
        subsets : ndarray of intp, shape (s, q)
            Columns that are not zero, rising along rows.
        entries : ndarray of shape (s, q)
            Their values, of unit scale.
        """
        subset_rng, entry_rng = rng.spawn(2)
        subsets = random_subsets(self.n_features, self.order, size, subset_rng)
        if isinstance(self.base, SumLaw):
            # Its parts may have a scale for each column, which the law of a subset could not tell apart.
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
    """Independent uniform subsets (size, order) of the columns, rising along rows; a larger size extends the same."""
    ranks = rng.random((size, order)) * np.arange(n_features, n_features - order, -1)
    subsets = np.empty((size, order), dtype=np.intp)
    for place, rank in enumerate(ranks.T.astype(np.intp)):
        # The rank counts the columns not yet taken: each one taken at or below moves it up.
        for taken in subsets[:, :place].T:
            rank += rank >= taken
        subsets[:, place] = rank
        subsets[:, : place + 1].sort(axis=1)
    return subsets


def spread_subsets(n_features: int, order: int, size: int, rng: np.random.Generator) -> np.ndarray:
    """Distinct subsets (size, order) of the columns, of which every stretch counts each column about equally often.

    A subset and its cyclic shifts count each column equally often. They follow each other, for one random subset after
    the other, until there are enough; a random order of the columns makes each place a uniform subset.
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
