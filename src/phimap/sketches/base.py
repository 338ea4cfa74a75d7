"""Base classes of sketches: data-independent linear reductions of vectors or of their tensor powers."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

import numpy as np

from phimap.kernels import Polynomial
from phimap.ops import Array
from phimap.random_map import MapRecord, RandomMap


class Sketch(RandomMap):
    """Base of the sketches: random maps S with ``E <Sx, Sy> = <x, y>^degree``.

    Subclasses implement `sample`, which needs the input width only, no data. Feature maps can therefore draw sketches
    for their intermediate vectors.
    """

    _roles = ("sketch",)

    def __init__(self, n_components: int = 1024, *, random_state: Any = None, n_jobs: int | None = None):
        self.n_components = n_components
        self.random_state = random_state
        self.n_jobs = n_jobs

    @property
    def _power(self) -> int:
        """The power of the inner product that is preserved."""
        return 1

    @abstractmethod
    def sample(self, n_features: int, rng: np.random.Generator) -> MapRecord:
        """Draw the sketch of vectors of length `n_features`."""

    def _draw(self, X: Array, streams: dict[str, np.random.Generator]) -> MapRecord:
        return self.sample(X.shape[1], streams["sketch"])

    def fit(self, X: Any, y: Any = None) -> Self:
        super().fit(X, y)
        self.kernel_ = Polynomial(degree=self._power, gamma=1.0, coef0=0.0)
        return self

    fit.__doc__ = RandomMap.fit.__doc__


class PowerSketch(Sketch):
    """Base of sketches of tensor powers with a parameter `degree`."""

    def __init__(
        self,
        n_components: int = 1024,
        *,
        degree: int = 2,
        random_state: Any = None,
        n_jobs: int | None = None,
    ):
        super().__init__(n_components, random_state=random_state, n_jobs=n_jobs)
        self.degree = degree

    @property
    def _power(self) -> int:
        return self.degree
