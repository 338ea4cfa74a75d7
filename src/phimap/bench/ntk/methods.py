"""The maps of the neural tangent kernel, and the ensembles of trees, that the experiments compare."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from math import sqrt
from typing import Any

from sklearn.ensemble import AdaBoostClassifier, RandomForestClassifier

import phimap as pm
from phimap.features import FeatureMap
from phimap.kernels import NTK

#: Numbers of trees of ensembles.
ENSEMBLES = (50, 100, 200, 500)


def published(depth: int, width: int, n_features: int, seed: int, **options: Any) -> FeatureMap:
    """Make the published map: independent Gaussian directions, and the same widths in all layers."""
    options = {"exact_degrees": (), "projection": "gaussian", "hidden_components": max(1, width // 2), **options}
    return pm.NTKFeatures(depth, width, random_state=seed, **options)


def shared(depth: int, width: int, share: float, seed: int) -> FeatureMap:
    """Make the map of Han et al. (2021): `share` of the width for the sketch, the remaining width for each layer."""
    sketched = min(max(1, round(share * width)), width - 1)
    rest = width - sketched
    layers = {"relu_components": rest, "step_components": rest, "hidden_components": rest}
    return published(depth, width, 0, seed, sketch="countsketch", **layers)


def gradient(depth: int, width: int, n_features: int, seed: int) -> FeatureMap:
    """Make gradient features of the network whose number of parameters is closest to `width`."""
    # The number w of units in a layer solves (L - 1) w^2 + (d + 1) w = width, for depth L and d columns. The form of
    # the solution is also valid at L = 1.
    linear = n_features + 1
    network = 2 * width / (linear + sqrt(linear**2 + 4 * (depth - 1) * width))
    return pm.NTKGradientFeatures(depth, max(1, round(network)), random_state=seed)


def _features(depth: int, width: int, n_features: int, seed: int, **options: Any) -> FeatureMap:
    return pm.NTKFeatures(depth, width, random_state=seed, **options)


def _sketch(depth: int, width: int, n_features: int, seed: int, **options: Any) -> FeatureMap:
    return pm.NTKSketch(depth, width, random_state=seed, **options)


def ensembles(method: str, seed: int) -> Iterator[tuple[str, Any]]:
    """Yield a description and a classifier for each number of trees: AdaBoost or, for other methods, a forest."""
    ensemble = AdaBoostClassifier if method == "adaboost" else RandomForestClassifier
    return ((f"{size} trees", ensemble(n_estimators=size, random_state=seed)) for size in ENSEMBLES)


#: Functions that make a map from depth, number of features, number of columns and seed, by the map's name.
METHODS: dict[str, Callable[[int, int, int, int], FeatureMap]] = {
    "published": published,
    "published-countsketch": partial(published, sketch="countsketch"),
    "published-gibbs": partial(published, sketch="countsketch", sampling="gibbs"),
    "features": _features,
    "features-fixed": partial(_features, adaptive=False),
    "layers": partial(_features, exact_degrees=()),
    "layers-leverage": partial(_features, exact_degrees=(), sampling="leverage"),
    "layers-sorf": partial(_features, exact_degrees=(), projection="sorf"),
    "sketch": _sketch,
    "sketch-layered": partial(_sketch, method="layered"),
    "tensor": partial(published, sketch="none"),
    "gradient": gradient,
    "nystroem": lambda depth, width, _, seed: pm.NystroemFeatures(NTK(depth), width, random_state=seed),
}
