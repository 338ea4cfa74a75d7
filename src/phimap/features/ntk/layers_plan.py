"""The published layers of neural tangent features as a plan."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from phimap.features.ntk.layer_options import LayerOptions
from phimap.features.ntk.layers import NTKRecord
from phimap.kernels import NNGP, NTK, Kernel
from phimap.sketches import CountSketch

# The least error of the layers that was measured on any set, times the root of m, and how the depth raises it: relative
# to the kernel where its root mean square is above 1, else absolute.
_ERROR, _GROWTH = 1.4, 0.6


@dataclass(frozen=True)
class LayersPlan:
    """Layers of rectified features and of sketched tensor products.

    Attributes
    ----------
    n_features, n_components, depth : int
    options : LayerOptions
    kernel_size : float
        Root mean square of the kernel over pairs of rows.
    """

    n_features: int
    n_components: int
    depth: int
    options: LayerOptions
    kernel_size: float = 1.0

    @property
    def kernel(self) -> Kernel:
        """The kernel that the layers estimate: without room for the derivative that of the output layer alone."""
        widths = self.options.widths(self.n_features, self.n_components, self.depth)
        return (NNGP if widths[0].product == 0 else NTK)(depth=self.depth)

    def predicted_error(self) -> float:
        """The least that was measured of any such layers."""
        return _ERROR * self.depth**_GROWTH / self.n_components**0.5 * max(self.kernel_size, 1.0)

    def draw(self, streams: dict[str, np.random.Generator]) -> NTKRecord:
        """Draw the layers from the streams ``relu``, ``step`` and ``sketch``."""
        self.options.check()
        widths = self.options.widths(self.n_features, self.n_components, self.depth)
        reduction = None
        if self.n_components == 1 and self.options.sketch != "none":
            reduction = CountSketch(1).sample(2, streams["sketch"].spawn(1)[0])
        return NTKRecord.draw(self.n_features, widths, self.options, streams, reduction)
