"""Polynomials for kappa_1 and kappa_0 in `CNTKSketch`, fitted on the range of cosines in each layer."""

from __future__ import annotations

from math import pi

import numpy as np

from phimap.kernels.arccosine import relu_dual, step_dual
from phimap.kernels.expansion import nonnegative_fit
from phimap.random_map import MapRecord
from phimap.sketches import PolySketch

# Number of cosines at which a function is fitted. It is much larger than the number of coefficients.
_N_NODES = 200
# Weight of the cosine 1 in the fit. The weight makes the fit almost exact there, because neighbouring pixels have
# cosines near 1.
_END_WEIGHT = 1e3


def remainder_powers(
    order: int, layer: int, degree: int, fold: float, n_features: int, n_components: int, rng: np.random.Generator
) -> MapRecord | None:
    """Sketches of the powers 2, ..., `degree`; their weighted sum estimates kappa_1 (order 1) or kappa_0 (order 0).

    The degrees 0 and 1 are left out. For homogeneous units with a share `fold` of the absolute value, the sum is
    multiplied by ``2 fold``. Returns None if all weights are 0.
    """
    weights = {power: 2 * fold * weight for power, weight in fitted_weights(order, layer, degree, fold).items()}
    if not weights or fold == 0:
        return None
    total = sum(weights.values())
    # The variance of a power's sketch is about its squared weight divided by its width. Widths proportional to the
    # weights minimise the sum of these variances.
    widths = {power: max(1, round(n_components * weight / total)) for power, weight in weights.items()}
    return PolySketch(inner_components=n_components).sample_powers(n_features, widths, rng, weights)


def fitted_weights(order: int, layer: int, degree: int, fold: float = 0.5) -> dict[int, float]:
    """Positive coefficients of the powers 2, ..., `degree`, by power, for kappa_1 (order 1) or kappa_0 (order 0).

    Cosines range over [-1, 1] in the first layer. In later layers they are values of the dual of the previous layer:
    nonnegative for the ReLU, and at least ``min(0, 2 fold - 1)`` for other units.
    """
    low = -1.0 if layer == 1 else min(0.0, 2 * fold - 1)
    nodes = low + (1.0 - low) * 0.5 * (1.0 - np.cos((np.arange(_N_NODES) + 0.5) * pi / _N_NODES))
    nodes = np.append(nodes, 1.0)
    angle = np.arccos(nodes)
    remainder = relu_dual(angle) - 1 / pi - nodes / 2 if order else step_dual(angle) - 0.5 - nodes / pi
    weight = np.ones(nodes.shape[0])
    weight[-1] = _END_WEIGHT
    powers = np.arange(2, degree + 1)
    coefficients = nonnegative_fit(nodes[:, None] ** powers, remainder, weight)
    return {int(power): float(c) for power, c in zip(powers, coefficients, strict=True) if c > 0}
