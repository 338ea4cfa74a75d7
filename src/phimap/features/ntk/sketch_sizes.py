"""Widths and degrees inside the layered sketch of neural tangent kernels, and the options that set them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, log

from phimap._validation import check_integer, check_real


@dataclass(frozen=True)
class LayeredSizes:
    """Dimensions inside the map, and degrees of its polynomials.

    Attributes
    ----------
    phi : int
        r, width of the features of Sigma_l.
    psi : int
        s, width of the features of K_l.
    relu, step : int
        m and n1, widths of the sketch of each power in kappa_1 and in kappa_0.
    relu_degree, step_degree : int
        2 p + 2 and 2 p' + 1.
    output : int
        s*.
    """

    phi: int
    psi: int
    relu: int
    step: int
    relu_degree: int
    step_degree: int
    output: int

    @classmethod
    def of_bound(cls, depth: int, epsilon: float, delta: float, n_pixels: int = 1) -> LayeredSizes:
        """The orders of the source's Theorem 1, for images of its Theorem 4, every constant in them taken as 1."""
        size = log(n_pixels * depth / (epsilon * delta))
        return cls(
            phi=ceil(depth**6 / epsilon**4 * size**3),
            psi=ceil(depth**2 / epsilon**2 * size**2),
            relu=ceil(depth**8 / epsilon ** (16 / 3) * size**3),
            step=ceil(depth**4 / epsilon**4 * size**3),
            relu_degree=2 * ceil(2 * depth**2 / epsilon ** (4 / 3)) + 2,
            step_degree=2 * ceil(9 * depth**2 / epsilon**2) + 1,
            output=ceil(log(1 / delta) / epsilon**2),
        )


@dataclass(frozen=True)
class LayeredOptions:
    """Parameters of `NTKSketch` and of `CNTKSketch` of the same names."""

    depth: int
    n_components: int
    degree: int
    phi_components: int | None
    psi_components: int | None
    relu_components: int | None
    step_components: int | None
    epsilon: float | None
    delta: float | None

    def bound(self, n_pixels: int = 1) -> LayeredSizes | None:
        """The sizes that `epsilon` and `delta` ask for, if they are given."""
        if self.epsilon is None or self.delta is None:
            return None
        depth = check_integer("depth", self.depth, least=1)
        for name in ("epsilon", "delta"):
            value = check_real(name, getattr(self, name), above=0.0)
            if value >= 1:
                raise ValueError(f"`{name}` must be below 1, got {value}. Use a number such as 0.5.")
        return LayeredSizes.of_bound(depth, self.epsilon, self.delta, n_pixels)

    def sizes(self, n_pixels: int = 1) -> LayeredSizes:
        """Those of the bound or of `n_components` and `degree`, but for widths given by name."""
        sizes = self.bound(n_pixels)
        if sizes is None:
            degree = check_integer("degree", self.degree, least=2)
            width = int(self.n_components)
            half = -(-width // 2)
            sizes = LayeredSizes(half, width, half, half, degree - degree % 2, degree - 1 + degree % 2, width)
        named = {name: getattr(self, f"{name}_components") for name in ("phi", "psi", "relu", "step")}
        given = {
            name: check_integer(f"{name}_components", width, least=1)
            for name, width in named.items()
            if width is not None
        }
        return replace(sizes, **given)
