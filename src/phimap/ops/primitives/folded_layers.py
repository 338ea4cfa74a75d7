"""Kernels of infinitely wide networks with activation ``max(t, 0) + slope min(t, 0)``, as functions of angles."""

from __future__ import annotations

import math

from phimap.ops.base import Array, Ops
from phimap.ops.primitive import primitive


@primitive
def folded_layers(ops: Ops, angle: Array, fold: float, depth: int, is_tangent: bool) -> Array:
    r"""Return the tangent kernel ``K_L`` if `is_tangent`, else ``Sigma_L``, of unit rows at angles in [0, pi].

    The activation is ``sqrt(1 - fold) t + sqrt(fold) |t|``; `fold` = 0.5 is the ReLU. With f = `fold`, each of the
    `depth` layers replaces the cosine a of an angle t, and the kernel K, by

    .. math:: \kappa(t) = (1 - 2 f) a + 2 f \kappa_1(a), \quad K \bigl((1 - 2 f) + 2 f \kappa_0(a)\bigr) + \kappa(t)

    respectively, with the arc-cosine kernels kappa_0 and kappa_1. ``kappa(t)`` is the cosine of the next layer's angle.
    The result has the shape of `angle`.
    """
    linear = 1.0 - 2.0 * fold
    values = ops.activations["cos"](angle)
    for layer in range(depth):
        if layer:
            angle = _next_angle(ops, angle, fold)
        # kappa1 is computed from the supplement of the angle, so it is exactly 0 at pi.
        supplement = math.pi - angle
        kappa1 = (ops.activations["sin"](supplement) - supplement * ops.activations["cos"](supplement)).clip(min=0)
        dual = linear * ops.activations["cos"](angle) + (2.0 * fold / math.pi) * kappa1
        values = values * (linear + 2.0 * fold * (supplement / math.pi)) + dual if is_tangent else dual
    return values


@folded_layers.override("numpy")
def _(ops: Ops, angle: Array, fold: float, depth: int, is_tangent: bool) -> Array:
    from phimap.ops.compiled.folded_layers import folded_layers

    return folded_layers(angle, fold, depth, is_tangent)


def _next_angle(ops: Ops, angle: Array, fold: float) -> Array:
    """Return the angle after a layer, from ``1 - kappa`` without forming kappa, which would cancel for small angles."""
    if fold == 1.0:
        # The absolute value maps x and -x to the same output.
        angle = math.pi / 2 - abs(math.pi / 2 - angle)
    sine, half_chord = ops.activations["sin"](angle), ops.activations["sin"](0.5 * angle)
    excess = (sine - angle * ops.activations["cos"](angle)) / math.pi
    complement = 2.0 * half_chord * half_chord - 2.0 * fold * excess
    return 2.0 * ops.arcsin((0.5 * complement).clip(0.0, 1.0) ** 0.5)
