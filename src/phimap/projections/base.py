"""What a projection is: a way to draw random directions, and a record that applies them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar

import numpy as np
from sklearn.base import BaseEstimator

from phimap.config import memory_budget, size_text
from phimap.kernels.spectral import SpectralLaw
from phimap.kernels.subsets import SubsetLaw
from phimap.ops import Array, Ops, host
from phimap.records import Record


class ProjectionRecord(Record, ABC):
    """Drawn directions w_1, ..., w_s in dimension d: a pure linear map of rows."""

    n_features: int
    n_directions: int

    #: Rows that `blocks` should have at a time at the least; None leaves it to the backend.
    least_tile_rows: ClassVar[int | None] = None
    #: Quadrature weights (s,) of the directions, None for equal weights 1/s. They need not be positive.
    weights: np.ndarray | None = None

    @property
    def weight_roots(self) -> np.ndarray:
        """Root of the absolute weight of each direction (s,), by which features are multiplied."""
        if self.weights is None:
            return np.full(self.n_directions, self.n_directions**-0.5)
        return np.sqrt(np.abs(self.weights))

    @property
    def weight_signs(self) -> np.ndarray | None:
        """Signs of the weights, int8 (s,), or None where no weight is negative."""
        if self.weights is None or (self.weights >= 0).all():
            return None
        return np.where(self.weights < 0, -1, 1).astype(np.int8)

    @abstractmethod
    def blocks(self, ops: Ops, X: Array) -> Iterator[tuple[slice, Array]]:
        """Yield (columns, values) with ``values = X @ W[columns].T`` (r, k), covering all directions in order.

        Blocks are small enough to stay in cache, so that a nonlinearity applied to each costs no memory traffic.
        The values are the caller's to overwrite.
        """

    @property
    @abstractmethod
    def n_flops(self) -> int:
        """Additions and multiplications that `blocks` takes for one dense row, transforms by their usual counts."""

    def apply(self, ops: Ops, X: Array) -> Array:
        """``X @ W.T`` (r, n_directions) in one piece."""
        out = ops.empty((X.shape[0], self.n_directions))
        for columns, values in self.blocks(ops, X):
            ops.copy(values, out, columns.start)
        return out

    def to_dense(self) -> np.ndarray:
        """W of shape (n_directions, n_features) in float64. Slow: for tests and for looking at."""
        ops = host()
        return self.bind(ops).apply(ops, np.eye(self.n_features)).T

    @property
    def scratch_width(self) -> int:
        """Floats of scratch a row that `blocks` holds at a time."""
        return self.n_directions


def fourier_flops(length: int) -> int:
    """Additions and multiplications of a Fourier transform of one real row: half of those of a complex one."""
    return int(2.5 * length * np.log2(length))


def hadamard_flops(width: int) -> int:
    """Additions of one Walsh-Hadamard transform of a row; the width is a power of two."""
    return width * (width.bit_length() - 1)


def input_scale(law: SpectralLaw) -> np.ndarray:
    """The law's inverse length scale of each input (d,)."""
    return np.broadcast_to(np.asarray(law.scale, dtype=np.float64), (law.n_features,)).copy()


class Projection(BaseEstimator, ABC):
    """A way to draw directions from a kernel's spectral law."""

    #: The name by which ``projection=`` refers to it.
    name: ClassVar[str]
    #: Whether it draws a direction uniformly and a radius apart, which not every law allows.
    needs_rotation_invariance: ClassVar[bool] = False
    #: Whether it draws Gaussian directions, which a factor for each turns into those of a mixture of Gaussian laws.
    needs_gaussian_mixture: ClassVar[bool] = False
    #: Whether it makes directions of any of the numbers in a long vector.
    needs_generators: ClassVar[bool] = False
    #: Whether it matches second moments.
    needs_finite_variance: ClassVar[bool] = False
    #: Whether it also draws directions whose entries are zero outside of a subset of columns.
    serves_subsets: ClassVar[bool] = False
    #: Arrays of all directions (s, d) that exist at a time while they are drawn; 0 where none is stored.
    drawn_arrays: ClassVar[int] = 0

    @classmethod
    def unmet_requirement(cls, law: SpectralLaw) -> str:
        """Say what the projection needs of a law and this one does not offer.

        Parameters
        ----------
        law : SpectralLaw
            The law of one direction.

        Returns
        -------
        str
            What is needed, in words; empty where the law serves.
        """
        if isinstance(law, SubsetLaw):
            return cls.unmet_requirement(law.part) if cls.serves_subsets else "directions with entries in all columns"
        return next((words for words, met in cls._requirements(law) if not met), "")

    @classmethod
    def _requirements(cls, law: SpectralLaw) -> tuple[tuple[str, bool], ...]:
        """What the projection may need, in words, and whether that is met: by the law, or because it is not needed."""
        return (
            ("a rotation-invariant spectral law", law.is_rotation_invariant or not cls.needs_rotation_invariance),
            (
                "a spectral law that is rotation-invariant or of independent coordinates",
                law.is_rotation_invariant or law.has_independent_coordinates or not cls.needs_generators,
            ),
            (
                "a spectral law that is Gaussian or a mixture of Gaussian ones",
                law.is_gaussian_mixture or not cls.needs_gaussian_mixture,
            ),
            (
                "a spectral law of finite variance",
                bool(np.isfinite(law.coordinate_variance)) or not cls.needs_finite_variance,
            ),
        )

    def sample(self, law: SpectralLaw, n_directions: int, rng: np.random.Generator) -> ProjectionRecord:
        """Draw directions.

        Parameters
        ----------
        law : SpectralLaw
            The law of one direction, given by the kernel or by the activation.
        n_directions : int
            Number of directions s, at least 1.
        rng : numpy.random.Generator

        Returns
        -------
        ProjectionRecord

        Raises
        ------
        ValueError
            If the law lacks what this projection needs.
        MemoryError
            If the byte budget does not hold the directions while they are drawn.
        """
        needed = self.unmet_requirement(law)
        if needed:
            raise ValueError(
                f"`projection`={self.name!r} needs {needed}, which {law.kernel_name} lacks. "
                "Use projection='qmc', or 'gaussian'."
            )
        # Directions in a few columns each are stored as such where that is less.
        n_bytes = 0 if isinstance(law, SubsetLaw) else 8 * self.drawn_arrays * n_directions * law.n_features
        if n_bytes > memory_budget():
            raise MemoryError(
                f"`projection`={self.name!r} takes {size_text(n_bytes)} to draw {n_directions} directions of "
                f"{law.n_features} columns, over the budget of {size_text(memory_budget())}. Use projection='auto', or "
                "raise the budget with phimap.config(memory=...)."
            )
        return self._sample(law, n_directions, rng)

    @abstractmethod
    def _sample(self, law: SpectralLaw, n_directions: int, rng: np.random.Generator) -> ProjectionRecord:
        """Draw the record; the law was checked."""
