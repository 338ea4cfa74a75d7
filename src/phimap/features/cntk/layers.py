"""A layer of `CNTKSketch`: from the features of the pixels before it to those behind it."""

from __future__ import annotations

from dataclasses import dataclass
from math import pi

from phimap.features.cntk.parts import ProductRecord, WindowRecord
from phimap.features.cntk.pixels import Pixels
from phimap.ops import Array, Ops
from phimap.random_map import MapRecord
from phimap.records import Record


@dataclass(frozen=True)
class LayerInput:
    """What enters layer h, of all pixels.

    Attributes
    ----------
    before : int
        Layers before this one, h - 1.
    phi : Pixels
        phi_{h-1}, prepared for the layer's window.
    eta : Pixels or None
        eta_{h-1}, prepared for the layer's window of tangents; None for h <= 2.
    roots : array of shape (n h w,)
        Roots of N_h.
    """

    before: int
    phi: Pixels
    eta: Pixels | None
    roots: Array


@dataclass(frozen=True)
class ConvolutionLayer(Record):
    """One layer: windows of the features before it, then features of each window.

    Attributes
    ----------
    window : WindowRecord
        Of phi_{h-1}: gives the patch whose direction both kappas see.
    tangent_window : WindowRecord or None
        Of eta_{h-1}, for h > 2: gives psi_{h-1}. At h = 2 psi_1 is the patch itself.
    relu : MapRecord or None
        Patches to features of kappa_1 beyond degree 1; None in the last layer.
    step : MapRecord or None
        Patches to features of kappa_0 beyond degree 1; None in the first layer, where psi_0 = 0.
    product : ProductRecord or None
        Sketch of psi_{h-1} times the features of kappa_0 beyond degree 0.
    """

    window: WindowRecord
    tangent_window: WindowRecord | None
    relu: MapRecord | None
    step: MapRecord | None
    product: ProductRecord | None

    @property
    def psi_width(self) -> int:
        return (self.tangent_window or self.window).n_components

    @property
    def phi_widths(self) -> tuple[int, int]:
        """Features of phi_h that stand exactly, and all of them."""
        exact = 1 + self.window.exact_components
        return exact, 1 + self.window.n_components + (self.relu.n_components if self.relu else 0)

    @property
    def eta_widths(self) -> tuple[int, int]:
        """Features of eta_h that stand exactly, and all of them."""
        exact, width = self.phi_widths
        if self.product is not None:
            width += self.product.rows[0].shape[0]
        if self.tangent_window is not None:
            exact += self.tangent_window.exact_components
            width += self.tangent_window.n_components
        return exact, width

    @property
    def scratch_width(self) -> int:
        """Floats a pixel that a part of the layer's work holds."""
        parts = [2 * self.window.n_components, self.psi_width, self.phi_widths[1], self.eta_widths[1]]
        parts += [part.n_components + part.scratch_width for part in (self.relu, self.step) if part is not None]
        parts += [self.window.n_components, self.product.scratch_width] if self.product else []
        return sum(parts)

    def patches(self, ops: Ops, entering: LayerInput, part: slice) -> tuple[Array, Array]:
        """Unit patches of phi_{h-1}, and psi_{h-1} of the length it is known to have, of the pixels in `part`."""
        patch, roots = self.window.apply(ops, entering.phi, part), entering.roots[part]
        patch = _of_length(ops, patch, 1.0)
        if self.tangent_window is None or entering.eta is None:
            return patch, ops.scale_rows(patch, roots)
        psi = self.tangent_window.apply(ops, entering.eta, part)
        return patch, _of_length(ops, psi, roots * entering.before**0.5)

    def products(self, ops: Ops, entering: LayerInput, part: slice, patch: Array, psi: Array) -> tuple[Array, Array]:
        """The transform of psi_{h-1}, and its products with the slopes, of the length of those they sketch."""
        product: ProductRecord = self.product  # pyright: ignore[reportAssignmentType] -- of every layer but the first
        first, second = product.transforms(ops, psi, self.slopes(ops, patch))
        products = product.products(ops, first, second)
        return first, _of_length(ops, products, entering.roots[part] * (entering.before / 2) ** 0.5)

    def slopes(self, ops: Ops, patch: Array) -> Array:
        """Features (r, k) of kappa_0 beyond degree 0 of unit patches."""
        n = self.window.n_components
        features = ops.empty((patch.shape[0], n + (self.step.n_components if self.step else 0)))
        ops.copy(patch * pi**-0.5, features)
        if self.step is not None:
            self.step.apply(ops, patch, features, n)
        return features

    def values(self, ops: Ops, patch: Array, gain: Array) -> Array:
        """phi_h (r, k) of unit patches, `gain` (r,) being root N_h / q."""
        phi = ops.empty((patch.shape[0], self.phi_widths[1]))
        phi[:, 0] = pi**-0.5
        ops.copy(patch * 0.5**0.5, phi, 1)
        if self.relu is not None:
            self.relu.apply(ops, patch, phi, 1 + self.window.n_components)
        ops.scale_rows_in_place(phi, gain)
        return phi

    def tangents(self, ops: Ops, phi: Array, psi: Array, products: Array, filter_size: int) -> Array:
        """eta_h (r, k) from phi_h, from psi_{h-1} and from the sketch of its product with the slopes."""
        exact, width = self.phi_widths
        eta = ops.empty((phi.shape[0], self.eta_widths[1]))
        share = 0.5**0.5 / filter_size
        if self.tangent_window is None:
            # psi_1 is the patch of phi_1: the two linear parts, of the weight 1/2 each, are one of the weight 1.
            ops.copy(phi, eta)
            eta[:, 1 : 1 + self.window.n_components] *= 2**0.5
            end = width
        else:
            # Exact features stand first: of phi, then of psi.
            ops.copy(phi[:, :exact], eta)
            ops.copy(psi * share, eta, exact)
            ops.copy(phi[:, exact:], eta, exact + psi.shape[1])
            end = width + psi.shape[1]
        ops.copy(products * (1 / filter_size), eta, end)
        return eta


def _of_length(ops: Ops, rows: Array, lengths: Array | float) -> Array:
    """Rows (r, k) scaled to lengths (r,); zero rows stay zero."""
    return ops.scale_rows(rows, ops.reciprocal(ops.row_norms(rows)) * lengths)
