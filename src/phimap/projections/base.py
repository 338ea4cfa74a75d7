"""Base classes: `Projection` draws random directions, `ProjectionRecord` stores them and applies them to rows."""

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
    """Drawn directions w_1, ..., w_s in d dimensions, the rows of a matrix W (s, d) that multiplies data rows."""

    n_features: int
    n_directions: int

    #: Minimum number of rows for which `blocks` is efficient; None stands for the backend's minimum.
    least_tile_rows: ClassVar[int | None] = None
    #: Quadrature weights (s,) of the directions; None means equal weights 1/s. Weights may be negative.
    weights: np.ndarray | None = None

    @property
    def weight_roots(self) -> np.ndarray:
        """Factors (s,) of the features of each direction: square roots of the absolute weights of the directions."""
        if self.weights is None:
            return np.full(self.n_directions, self.n_directions**-0.5)
        return np.sqrt(np.abs(self.weights))

    @property
    def weight_signs(self) -> np.ndarray | None:
        """Signs of the weights, int8 (s,), or None if no weight is negative."""
        if self.weights is None or (self.weights >= 0).all():
            return None
        return np.where(self.weights < 0, -1, 1).astype(np.int8)

    @abstractmethod
    def blocks(self, ops: Ops, X: Array) -> Iterator[tuple[slice, Array]]:
        """Yield slices of directions and their values ``X @ W[slice].T`` (r, k), covering all directions in order.

        Blocks are small enough to stay in cache, so that applying a nonlinearity to each block costs no memory traffic.
        The caller may overwrite the values.
        """

    @property
    @abstractmethod
    def n_flops(self) -> int:
        """Additions and multiplications of `blocks` per dense row, with textbook counts for fast transforms."""

    def apply(self, ops: Ops, X: Array) -> Array:
        """``X @ W.T`` (r, n_directions) as one array."""
        out = ops.empty((X.shape[0], self.n_directions))
        for columns, values in self.blocks(ops, X):
            ops.copy(values, out, columns.start)
        return out

    def to_dense(self) -> np.ndarray:
        """W of shape (n_directions, n_features) in float64. Slow; for tests and inspection."""
        ops = host()
        return self.bind(ops).apply(ops, np.eye(self.n_features)).T

    @property
    def scratch_width(self) -> int:
        """Scratch floats per row that `blocks` needs."""
        return self.n_directions


def fourier_flops(length: int) -> int:
    """Additions and multiplications of the Fourier transform of one real row: half as many as for a complex row."""
    return int(2.5 * length * np.log2(length))


def hadamard_flops(width: int) -> int:
    """Additions of the Walsh-Hadamard transform of one row; `width` is a power of two."""
    return width * (width.bit_length() - 1)


def input_scale(law: SpectralLaw) -> np.ndarray:
    """The inverse length scale of each column (d,)."""
    return np.broadcast_to(np.asarray(law.scale, dtype=np.float64), (law.n_features,)).copy()


class Projection(BaseEstimator, ABC):
    """A method of drawing directions from a spectral law."""

    #: Name of the projection, for the parameter ``projection``.
    name: ClassVar[str]
    #: Whether the projection needs a rotation-invariant law, because it draws uniform directions and separate radii.
    needs_rotation_invariance: ClassVar[bool] = False
    #: Whether the law must be a mixture of scaled Gaussians: the projection multiplies Gaussians by random factors.
    needs_gaussian_mixture: ClassVar[bool] = False
    #: Whether the directions are parts of one long random vector, which requires exchangeable entries.
    needs_generators: ClassVar[bool] = False
    #: Whether the projection needs a law with finite variance, because it matches second moments.
    needs_finite_variance: ClassVar[bool] = False
    #: Whether the projection also supports `SubsetLaw`, whose directions are zero outside a subset of columns.
    serves_subsets: ClassVar[bool] = False
    #: Number of (s, d) arrays in memory while directions are drawn; 0 if the projection stores no such array.
    drawn_arrays: ClassVar[int] = 0

    @classmethod
    def unmet_requirement(cls, law: SpectralLaw) -> str:
        """Describe the first requirement of the projection that a law does not meet.

        Parameters
        ----------
        law : SpectralLaw
            The distribution of one direction.

        Returns
        -------
        str
            The requirement in words; empty if the law meets all requirements.
        """
        if isinstance(law, SubsetLaw):
            return cls.unmet_requirement(law.part) if cls.serves_subsets else "directions with entries in all columns"
        return next((words for words, met in cls._requirements(law) if not met), "")

    @classmethod
    def _requirements(cls, law: SpectralLaw) -> tuple[tuple[str, bool], ...]:
        """Return every requirement in words, with True if the law meets it or the projection does not have it."""
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
            The distribution of one direction, from the kernel or the activation.
        n_directions : int
            Number of directions s, at least 1.
        rng : numpy.random.Generator

        Returns
        -------
        ProjectionRecord

        Raises
        ------
        ValueError
            If the law does not meet a requirement of this projection.
        MemoryError
            If drawing the directions would exceed the byte budget.
        """
        needed = self.unmet_requirement(law)
        if needed:
            raise ValueError(
                f"`projection`={self.name!r} needs {needed}, which {law.kernel_name} lacks. "
                "Use projection='qmc', or 'gaussian'."
            )
        # The memory of subset laws is not checked, because their directions are stored without zeros if that takes less
        # memory.
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
        """Draw the record; `sample` has checked the law."""
