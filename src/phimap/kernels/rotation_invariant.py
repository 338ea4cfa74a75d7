"""Kernels that depend on the norms of two rows and the angle between them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from phimap.kernels.base import Kernel
from phimap.kernels.geometry import Rows, angles, row_norms


class RotationInvariantKernel(Kernel):
    """A kernel that depends on the norms of two rows and the angle between them.

    A zero row has the angle pi / 2 with every row, including itself.
    """

    @property
    def is_homogeneous(self) -> bool:
        """Whether the kernel is a power of the norms times a function of the angle."""
        return False

    @property
    def homogeneity(self) -> int:
        """The power of the norms if the kernel is homogeneous, else 0."""
        return 0

    @property
    def norm_power(self) -> int | None:
        """The power p for which ``k(x, y) / (|x| |y|)^p`` is a smooth function of the norms; None if no p exists."""
        return None

    @abstractmethod
    def _of_polar(self, x: np.ndarray, y: np.ndarray, angle: np.ndarray) -> np.ndarray:
        """Kernel values for norms x and y and angles in [0, pi]; x and y broadcast to the shape of `angle`."""

    def kappa(self, cosine: Any) -> Any:
        """Evaluate the kernel of two unit vectors as a function of their cosine.

        Parameters
        ----------
        cosine : float or array-like
            Cosines, clipped to [-1, 1].

        Returns
        -------
        float or ndarray
            Values with the shape of `cosine`; float32 for float32 input, else float64.
        """
        self._check_parameters(1)
        return of_cosine(self._of_angle, cosine)

    def _of_angle(self, angle: np.ndarray) -> np.ndarray:
        """Kernel values of unit rows at the given angles."""
        return self._of_polar(np.ones(()), np.ones(()), angle)

    def _evaluate(self, X: Rows, Y: Rows) -> np.ndarray:
        return self._of_polar(row_norms(X)[:, None], row_norms(Y), angles(X, Y))

    def _diagonal(self, X: Rows) -> np.ndarray:
        norms = row_norms(X)
        return self._of_polar(norms, norms, _own_angles(norms))


class HomogeneousKernel(RotationInvariantKernel):
    """A kernel ``k(x, y) = (|x| |y|)^p kappa(cos(x, y))``.

    A zero row has the cosine 0 with every row, including itself. Its kernel values are 0 if p > 0, and ``kappa(0)`` if
    p = 0.
    """

    @property
    def is_homogeneous(self) -> bool:
        """True: the kernel is a power of the norms times a function of the angle."""
        return True

    @property
    @abstractmethod
    def homogeneity(self) -> int:
        """The power p of the norms."""

    @abstractmethod
    def _of_angle(self, angle: np.ndarray) -> np.ndarray:
        """``kappa(cos(angle))`` for angles in [0, pi]."""

    def _of_polar(self, x: np.ndarray, y: np.ndarray, angle: np.ndarray) -> np.ndarray:
        return times_norms(self._of_angle(angle), x, y, self.homogeneity)


def times_norms(values: np.ndarray, x: np.ndarray, y: np.ndarray, power: int) -> np.ndarray:
    """Multiply `values` by ``x^power y^power`` in place."""
    if power:
        values *= x**power
        values *= y**power
    return values


def of_cosine(of_angle: Callable[[np.ndarray], np.ndarray], cosine: Any) -> Any:
    """Return `of_angle` at the arc cosine of `cosine` (any shape, clipped to [-1, 1]); float32 in gives float32 out."""
    cosine = np.asarray(cosine)
    dtype = cosine.dtype if cosine.dtype == np.float32 else np.float64
    values = of_angle(np.arccos(np.clip(cosine.astype(np.float64), -1.0, 1.0)))
    return np.asarray(values).astype(dtype)[()]


def _own_angles(norms: np.ndarray) -> np.ndarray:
    """Angles (n,) between each row and itself: 0, or pi / 2 for a zero row."""
    return np.where(norms > 0, 0.0, np.pi / 2)
