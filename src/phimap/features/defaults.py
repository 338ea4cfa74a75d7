"""Which feature map serves a kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sklearn.base import clone

from phimap.features import (
    ArcCosineFeatures,
    CNTKSketch,
    DotProductFeatures,
    FeatureMap,
    FourierFeatures,
    NTKFeatures,
    NystroemFeatures,
)
from phimap.kernels import CNTK, NNGP, NTK, ArcCosine, Kernel, StationaryKernel
from phimap.random_map import RandomMap


def _fourier(kernel: StationaryKernel, **common: Any) -> FeatureMap:
    return FourierFeatures(kernel, **common)


def _arccosine(kernel: ArcCosine, **common: Any) -> FeatureMap:
    if kernel.depth > 1:
        return NystroemFeatures(kernel, **common)
    return ArcCosineFeatures(kernel.order, **common)


def _ntk(kernel: NTK, **common: Any) -> FeatureMap:
    return NTKFeatures(kernel.depth, **common)


def _nngp(kernel: NNGP, **common: Any) -> FeatureMap:
    return DotProductFeatures(kernel, **common)


def _cntk(kernel: CNTK, **common: Any) -> FeatureMap:
    shape = {"pooling": kernel.pooling, "image_shape": kernel.image_shape}
    return CNTKSketch(kernel.depth, kernel.filter_size, **shape, **common)


def _nystroem(kernel: Kernel, **common: Any) -> FeatureMap:
    return NystroemFeatures(kernel, **common)


#: What makes the map of a kernel, by the class of the kernel; of several that fit the nearest in its family counts.
MAPS: dict[type[Kernel], Callable[..., FeatureMap]] = {
    StationaryKernel: _fourier,
    ArcCosine: _arccosine,
    NTK: _ntk,
    NNGP: _nngp,
    CNTK: _cntk,
    Kernel: _nystroem,
}


def map_of_kernel(kernel: Kernel, n_components: int, *, random_state: Any, n_jobs: int | None) -> FeatureMap:
    """The feature map that serves a kernel: its random features, or Nystroem features where it has none."""
    family = next(one for one in type(kernel).__mro__ if one in MAPS)
    return MAPS[family](kernel, n_components=n_components, random_state=random_state, n_jobs=n_jobs)


def with_image_shape(feature_map: RandomMap, image_shape: tuple[int, int, int] | None) -> RandomMap:
    """An unfitted copy of the map that reads flat rows as images of that shape, where it or its kernel asks for one."""
    open_places = [
        name
        for name, value in feature_map.get_params().items()
        if name.rpartition("__")[2] == "image_shape" and value is None
    ]
    chosen: RandomMap = clone(feature_map)  # pyright: ignore[reportAssignmentType]
    return chosen.set_params(**dict.fromkeys(open_places, image_shape))
