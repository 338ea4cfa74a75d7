"""Complex numbers as pairs of traced arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from phimap.exports.graph import broadcast_shape


class Complex:
    """Complex numbers as two traced arrays; a constant part is an ndarray."""

    def __init__(self, real: Any, imag: Any):
        self.real, self.imag = real, imag

    @property
    def shape(self) -> tuple[int, ...]:
        return broadcast_shape(self.real.shape, self.imag.shape)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __getitem__(self, key: Any) -> Complex:
        return Complex(self.real[key], self.imag[key])

    def reshape(self, *shape: Any) -> Complex:
        return Complex(self.real.reshape(*shape), self.imag.reshape(*shape))

    __array_ufunc__ = None

    def __mul__(self, other: Any) -> Complex:
        if isinstance(other, Complex) or np.iscomplexobj(other):
            real = self.real * other.real - self.imag * other.imag
            return Complex(real, self.real * other.imag + self.imag * other.real)
        return Complex(self.real * other, self.imag * other)

    __rmul__ = __mul__
