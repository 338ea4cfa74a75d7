"""The maps of the neural tangent kernel that the experiments compare."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt

import phimap as pm
from phimap.features import FeatureMap
from phimap.kernels import NTK


def published(depth: int, width: int, *, seed: int, **options: object) -> FeatureMap:
    """Make the published map: independent Gaussian directions, and the same widths in all layers."""
    options = {"exact_degrees": (), "projection": "gaussian", "hidden_components": max(1, width // 2), **options}
    return pm.NTKFeatures(depth, width, random_state=seed, **options)  # pyright: ignore[reportArgumentType]


def shared(depth: int, width: int, share: float, seed: int) -> FeatureMap:
    """Make the map of Han et al. (2021): `share` of the width for the sketch, the remaining width for each layer."""
    sketched = min(max(1, round(share * width)), width - 1)
    rest = width - sketched
    layers = {"relu_components": rest, "step_components": rest, "hidden_components": rest}
    return published(depth, width, seed=seed, sketch="countsketch", **layers)


def gradient(depth: int, width: int, n_features: int, seed: int) -> FeatureMap:
    """Make gradient features of the network whose number of parameters is closest to `width`."""
    # Solve (L - 1) w^2 + (d + 1) w = width for w, in a form that is also valid at L = 1.
    linear = n_features + 1
    network = 2 * width / (linear + sqrt(linear**2 + 4 * (depth - 1) * width))
    return pm.NTKGradientFeatures(depth, max(1, round(network)), random_state=seed)


#: Functions that make a map from depth, number of features, number of columns and seed, by the map's name.
METHODS: dict[str, Callable[[int, int, int, int], FeatureMap]] = {
    "published": lambda depth, width, _, seed: published(depth, width, seed=seed),
    "published-countsketch": lambda depth, width, _, seed: published(depth, width, seed=seed, sketch="countsketch"),
    "published-gibbs": lambda depth, width, _, seed: published(
        depth, width, seed=seed, sketch="countsketch", sampling="gibbs"
    ),
    "features": lambda depth, width, _, seed: pm.NTKFeatures(depth, width, random_state=seed),
    "features-fixed": lambda depth, width, _, seed: pm.NTKFeatures(depth, width, adaptive=False, random_state=seed),
    "layers": lambda depth, width, _, seed: pm.NTKFeatures(depth, width, exact_degrees=(), random_state=seed),
    "layers-leverage": lambda depth, width, _, seed: pm.NTKFeatures(
        depth, width, exact_degrees=(), sampling="leverage", random_state=seed
    ),
    "layers-sorf": lambda depth, width, _, seed: pm.NTKFeatures(
        depth, width, exact_degrees=(), projection="sorf", random_state=seed
    ),
    "sketch": lambda depth, width, _, seed: pm.NTKSketch(depth, width, random_state=seed),
    "sketch-layered": lambda depth, width, _, seed: pm.NTKSketch(depth, width, method="layered", random_state=seed),
    "tensor": lambda depth, width, _, seed: published(depth, width, seed=seed, sketch="none"),
    "gradient": gradient,
    "nystroem": lambda depth, width, _, seed: pm.NystroemFeatures(NTK(depth), width, random_state=seed),
}
