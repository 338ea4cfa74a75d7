"""A layer of `CNTKSketch`, which maps the pixel features phi_{h-1} and eta_{h-1} to phi_h and eta_h."""

from __future__ import annotations

from dataclasses import dataclass

from phimap.features.cntk.parts import ProductRecord, WindowRecord
from phimap.features.cntk.pixels import Pixels
from phimap.features.cntk.units import ActivationMoments, Units
from phimap.ops import Array, Ops
from phimap.random_map import MapRecord
from phimap.records import Record


@dataclass(frozen=True)
class LayerInput:
    """The inputs of layer h at all pixels. `CNTKSketch` defines the symbols.

    Attributes
    ----------
    before : int
        Number of layers before this one, h - 1.
    units : Units
        The activation.
    phi : Pixels
        phi_{h-1}, prepared for the layer's window.
    eta : Pixels or None
        eta_{h-1}, prepared for the layer's tangent window; None for h <= 2.
    roots : array of shape (n h w,)
        Square roots of N_h: exact lengths of the patches of phi_{h-1}.
    lengths : array of shape (n h w,)
        Square roots of P_{h-1} of each pixel with itself: exact lengths of psi_{h-1}.
    moments : ActivationMoments
        Hermite coefficients of the activation for patches of length `roots`.
    """

    before: int
    units: Units
    phi: Pixels
    eta: Pixels | None
    roots: Array
    lengths: Array
    moments: ActivationMoments


@dataclass(frozen=True)
class ConvolutionLayer(Record):
    """Layer h. It takes windows of the features of layer h - 1, and computes the features of each window.

    Attributes
    ----------
    window : WindowRecord
        Windows of phi_{h-1}, the patches.
    tangent_window : WindowRecord or None
        Windows of eta_{h-1}, whose features are psi_{h-1}. None for h <= 2: psi_0 is 0, and psi_1 is the patch itself.
    relu : MapRecord or None
        Map from patches to features of the activation's dual without degrees 0 and 1; None in the last layer.
    step : MapRecord or None
        Map from patches to features of the derivative's dual without degrees 0 and 1; None in the first layer, where
        psi_0 = 0.
    product : ProductRecord or None
        Sketch of the product of psi_{h-1} and the features of the derivative's dual without degree 0.
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
        """Number of features of phi_h that were never folded, and number of all its features."""
        exact = 1 + self.window.exact_components
        return exact, 1 + self.window.n_components + (self.relu.n_components if self.relu else 0)

    @property
    def eta_widths(self) -> tuple[int, int]:
        """Number of features of eta_h that were never folded, and number of all its features."""
        exact, width = self.phi_widths
        if self.product is not None:
            width += self.product.rows[0].shape[0]
        if self.tangent_window is not None:
            exact += self.tangent_window.exact_components
            width += self.tangent_window.n_components
        return exact, width

    @property
    def scratch_width(self) -> int:
        """Floats of scratch memory per pixel."""
        parts = [2 * self.window.n_components, self.psi_width, self.phi_widths[1], self.eta_widths[1]]
        parts += [part.n_components + part.scratch_width for part in (self.relu, self.step) if part is not None]
        parts += [self.window.n_components, self.product.scratch_width] if self.product else []
        return sum(parts)

    def patches(self, ops: Ops, entering: LayerInput, part: slice) -> tuple[Array, Array]:
        """Return unit patches of phi_{h-1}, and psi_{h-1} scaled to its exact length, for the pixels in `part`."""
        patch = _of_length(ops, self.window.apply(ops, entering.phi, part), 1.0)
        if self.tangent_window is None or entering.eta is None:
            return patch, ops.scale_rows(patch, entering.roots[part])
        psi = self.tangent_window.apply(ops, entering.eta, part)
        return patch, _of_length(ops, psi, entering.lengths[part])

    def products(self, ops: Ops, entering: LayerInput, part: slice, patch: Array, psi: Array) -> tuple[Array, Array]:
        """Return the Hadamard transform of psi_{h-1}, and the sketch of psi_{h-1} (x) slopes, scaled to its length."""
        product: ProductRecord = self.product  # pyright: ignore[reportAssignmentType] -- not None after layer 1
        first, second = product.transforms(ops, psi, self.slopes(ops, entering, part, patch))
        products = product.products(ops, first, second)
        moments = entering.moments.of(part)
        beyond = (moments.slope_energy - moments.slope * moments.slope).clip(min=0)
        return first, _of_length(ops, products, entering.lengths[part] * beyond**0.5)

    def slopes(self, ops: Ops, entering: LayerInput, part: slice, patch: Array) -> Array:
        """Features (r, k) of the derivative's dual without degree 0, for unit patches."""
        n = self.window.n_components
        features = ops.empty((patch.shape[0], n + (self.step.n_components if self.step else 0)))
        ops.copy(ops.scale_rows(patch, entering.moments.linear_slope[part]), features)
        if self.step is not None:
            self.step.apply(ops, entering.units.entering(ops, patch, entering.roots[part]), features, n)
        return features

    def values(self, ops: Ops, entering: LayerInput, part: slice, patch: Array, filter_size: int) -> Array:
        """Return phi_h (r, k) of the pixels in `part`, given their unit patches."""
        roots, moments, n = entering.roots[part], entering.moments.of(part), 1 + self.window.n_components
        phi = ops.empty((patch.shape[0], self.phi_widths[1]))
        phi[:, 0] = moments.value
        ops.copy(ops.scale_rows(patch, moments.linear_value), phi, 1)
        if self.relu is not None:
            self.relu.apply(ops, entering.units.entering(ops, patch, roots), phi, n)
            entering.units.scale_values(ops, phi[:, n:], roots)
        phi *= 1 / filter_size
        return phi

    def tangents(
        self, ops: Ops, entering: LayerInput, part: slice, phi: Array, psi: Array, products: Array, filter_size: int
    ) -> Array:
        """Return eta_h (r, k), given phi_h, psi_{h-1} and the sketched products of psi_{h-1} with the slopes."""
        exact, width = self.phi_widths
        eta = ops.empty((phi.shape[0], self.eta_widths[1]))
        if self.tangent_window is None:
            # psi_1 is the patch of phi_1, and r d_0(r) = h_1(r) by Stein's lemma (symbols: see units.py). The linear
            # parts of phi_2 and of the product are therefore equal. They are stored once, multiplied by sqrt(2).
            ops.copy(phi, eta)
            eta[:, 1 : 1 + self.window.n_components] *= 2**0.5
            end = width
        else:
            # The window of the next layer keeps the first features and folds the others. So features that were never
            # folded come first: unfolded features of phi, then psi, whose unfolded features come first.
            ops.copy(phi[:, :exact], eta)
            ops.copy(ops.scale_rows(psi, entering.moments.slope[part] * (1 / filter_size)), eta, exact)
            ops.copy(phi[:, exact:], eta, exact + psi.shape[1])
            end = width + psi.shape[1]
        ops.copy(products * (1 / filter_size), eta, end)
        return eta


def _of_length(ops: Ops, rows: Array, lengths: Array | float) -> Array:
    """Rows (r, k) scaled to lengths (r,); zero rows stay zero."""
    return ops.scale_rows(rows, ops.reciprocal(ops.row_norms(rows)) * lengths)
