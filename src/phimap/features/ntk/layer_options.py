"""The published layers of neural tangent features: their options and widths."""

from __future__ import annotations

from dataclasses import dataclass, fields

from phimap._validation import check_choice, check_integer
from phimap.projections import Projection
from phimap.projections.gibbs import GibbsDirections
from phimap.sketches import TensorSketch, TensorSRHT

SKETCHES = {
    "tensorsrht": TensorSRHT,
    # The convolution of the count sketches of two vectors is a count sketch of their tensor product.
    "countsketch": TensorSketch,
}
SAMPLINGS = ("gaussian", "leverage", "gibbs")
# Least default width of hidden layers. Narrower layers are not cheaper, and the norms of rows would shrink from layer
# to layer, for some rows to 0.
_LEAST_HIDDEN = 256


@dataclass(frozen=True)
class LayerWidths:
    """Widths of one layer.

    Attributes
    ----------
    relu, step : int
        Widths m1 of the rectified features and m0 of the step features.
    product : int or None
        Width ms of the sketched product; None for the full product, 0 for no product (NNGP kernel).
    """

    relu: int
    step: int
    product: int | None


@dataclass(frozen=True)
class LayerOptions:
    """The parameters of `NTKFeatures` with the same names."""

    sketch: str = "tensorsrht"
    sampling: str = "gaussian"
    relu_components: int | None = None
    hidden_components: int | None = None
    step_components: int | None = None
    projection: str | Projection = "auto"
    gibbs_sweeps: int = 1

    def check(self) -> None:
        """Raise ValueError for unknown names and for incompatible choices."""
        check_choice("sketch", self.sketch, (*SKETCHES, "none"))
        check_choice("sampling", self.sampling, SAMPLINGS)
        if self.sampling == "gibbs" and self.projection not in ("auto", "gaussian"):
            raise ValueError(
                f"`projection` must be 'auto' or 'gaussian' for sampling='gibbs', whose chains are independent, got "
                f"{self.projection!r}. Use sampling='leverage'."
            )

    def chosen(self) -> list[str]:
        """Names of the parameters, except `gibbs_sweeps`, that are not at their defaults; any selects the layers."""
        names = [field.name for field in fields(self) if getattr(self, field.name) != field.default]
        return [name for name in names if name != "gibbs_sweeps"]

    @property
    def relu_projection(self) -> str | Projection:
        """The projection that draws the directions of the rectified features. Step features always use `projection`."""
        return GibbsDirections(self.gibbs_sweeps) if self.sampling == "gibbs" else self.projection

    def widths(self, n_features: int, n_components: int, depth: int) -> list[LayerWidths]:
        """Widths of the layers, first to last."""
        if self.sketch == "none":
            return self._tensor_widths(n_features, n_components, depth)
        last = self._last(max(n_components, 2))
        return [self._hidden(last, n_components)] * (depth - 1) + [last]

    def _last(self, width: int) -> LayerWidths:
        """Widths of the last layer if products are sketched."""
        relu = width // 2
        if self.relu_components is not None:
            relu = check_integer("relu_components", self.relu_components, least=1)
        if relu > width:
            raise ValueError(f"`relu_components` must be at most `n_components`={width}, got {relu}.")
        step = product = width - relu
        if self.step_components is not None:
            step = check_integer("step_components", self.step_components, least=1)
        return LayerWidths(relu, step, product)

    def _hidden(self, last: LayerWidths, n_components: int) -> LayerWidths:
        """Widths of every layer before the last, if products are sketched."""
        width = max(n_components, _LEAST_HIDDEN)
        if self.hidden_components is not None:
            width = check_integer("hidden_components", self.hidden_components, least=1)
        return LayerWidths(width, last.step, width if last.product else 0)

    def _tensor_widths(self, n_features: int, n_components: int, depth: int) -> list[LayerWidths]:
        """Widths of the layers if products are not sketched."""
        relu = None if self.relu_components is None else check_integer("relu_components", self.relu_components, least=1)

        def products(step: int) -> int:
            """Width of the last layer's products."""
            return step * tensor_width(n_features, [relu or step] * (depth - 1), [step] * (depth - 1))

        if self.step_components is not None:
            step = check_integer("step_components", self.step_components, least=1)
        else:
            step = 1
            while 2 * products(step + 1) <= n_components:
                step += 1
        if products(step) >= n_components:
            raise ValueError(
                f"`n_components` must exceed the {products(step):,} products of {step} step features a layer for "
                f"sketch='none' at depth {depth} with {n_features} inputs, got {n_components}. "
                "Use sketch='tensorsrht'."
            )
        hidden = [LayerWidths(relu or step, step, None)] * (depth - 1)
        return [*hidden, LayerWidths(n_components - products(step), step, None)]


def tensor_width(n_features: int, relu_widths: list[int], step_widths: list[int]) -> int:
    """Width of the tangent features of the last layer without sketches, for the widths m1 and m0 of each layer."""
    width = n_features
    for relu, step in zip(relu_widths, step_widths, strict=True):
        width = relu + step * width
    return width
