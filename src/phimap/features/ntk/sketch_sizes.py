"""Widths and degrees inside the layered sketches of neural tangent kernels, and the options that set them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, log

from phimap._validation import check_integer, check_real


@dataclass(frozen=True)
class LayeredSizes:
    """Widths inside a layered sketch, and degrees of its polynomials, with the symbols of the source.

    Attributes
    ----------
    phi : int
        Width of the features of Sigma_l (r).
    psi : int
        Width of the features of K_l (s).
    relu, step : int
        Widths of the sketch of each power in kappa_1 (m) and in kappa_0 (n1).
    relu_degree, step_degree : int
        Degrees of the polynomials for kappa_1 (2 p + 2) and kappa_0 (2 p' + 1).
    output : int
        Output width (s*).
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
        """Sizes by the orders of the source's Theorem 1 (Theorem 4 for images), with all constants set to 1."""
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
    """The parameters of `NTKSketch` and `CNTKSketch` with the same names."""

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
        """The sizes that `epsilon` and `delta` imply; None if these are not given."""
        if self.epsilon is None or self.delta is None:
            return None
        depth = check_integer("depth", self.depth, least=1)
        for name in ("epsilon", "delta"):
            value = check_real(name, getattr(self, name), above=0.0)
            if value >= 1:
                raise ValueError(f"`{name}` must be below 1, got {value}. Use a number such as 0.5.")
        return LayeredSizes.of_bound(depth, self.epsilon, self.delta, n_pixels)

    def sizes(self, n_pixels: int = 1) -> LayeredSizes:
        """Sizes from the bound if it is given, else from `n_components` and `degree`.

        Widths that are given as parameters replace the sizes of the same name.
        """
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
