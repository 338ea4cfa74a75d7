"""phimap: kernel methods made linear, by random features and sketches.

Names are loaded when they are first used, so that importing the package costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

# At once and not lazily: loading the module would put it in the place of the name it gives.
from phimap.config import config

if TYPE_CHECKING:
    from phimap import features, kernels, learn, metrics, projections, sketches, theory
    from phimap.advice import suggest
    from phimap.features import (
        ActivationFeatures,
        ArcCosineFeatures,
        CNTKGradientFeatures,
        CNTKSketch,
        DotProductFeatures,
        FourierFeatures,
        NTKFeatures,
        NTKGradientFeatures,
        NTKSketch,
        NTKTensorFeatures,
        NystroemFeatures,
        QuantizedFeatures,
        TernaryFeatures,
    )
    from phimap.io.model import load, save
    from phimap.learn import KernelClassifier, KernelRegressor
    from phimap.packed import PackedArray

__version__ = version("phimap")

_MODULES = ("features", "kernels", "learn", "metrics", "projections", "sketches", "theory")
_HOMES = {
    "load": "phimap.io.model",
    "save": "phimap.io.model",
    "ActivationFeatures": "phimap.features",
    "ArcCosineFeatures": "phimap.features",
    "CNTKGradientFeatures": "phimap.features",
    "CNTKSketch": "phimap.features",
    "DotProductFeatures": "phimap.features",
    "FourierFeatures": "phimap.features",
    "NTKFeatures": "phimap.features",
    "NTKGradientFeatures": "phimap.features",
    "NTKSketch": "phimap.features",
    "NTKTensorFeatures": "phimap.features",
    "NystroemFeatures": "phimap.features",
    "QuantizedFeatures": "phimap.features",
    "TernaryFeatures": "phimap.features",
    "PackedArray": "phimap.packed",
    "KernelClassifier": "phimap.learn",
    "KernelRegressor": "phimap.learn",
    "suggest": "phimap.advice",
}

__all__ = [
    "ActivationFeatures",
    "ArcCosineFeatures",
    "CNTKGradientFeatures",
    "CNTKSketch",
    "DotProductFeatures",
    "FourierFeatures",
    "KernelClassifier",
    "KernelRegressor",
    "NTKFeatures",
    "NTKGradientFeatures",
    "NTKSketch",
    "NTKTensorFeatures",
    "NystroemFeatures",
    "PackedArray",
    "QuantizedFeatures",
    "TernaryFeatures",
    "config",
    "features",
    "kernels",
    "learn",
    "load",
    "metrics",
    "projections",
    "save",
    "sketches",
    "suggest",
    "theory",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"phimap.{name}")
    if name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'phimap' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
