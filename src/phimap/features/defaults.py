"""Which feature map serves a kernel."""

from __future__ import annotations

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


def map_of_kernel(kernel: Kernel, n_components: int, *, random_state: Any, n_jobs: int | None) -> FeatureMap:
    """The feature map that serves a kernel: its random features, or Nystroem features where it has none."""
    common: dict[str, Any] = {"n_components": n_components, "random_state": random_state, "n_jobs": n_jobs}
    if isinstance(kernel, StationaryKernel):
        return FourierFeatures(kernel, **common)
    if isinstance(kernel, ArcCosine) and kernel.depth == 1:
        return ArcCosineFeatures(kernel.order, **common)
    if isinstance(kernel, NTK):
        return NTKFeatures(kernel.depth, **common)
    if isinstance(kernel, NNGP):
        return DotProductFeatures(kernel, **common)
    if isinstance(kernel, CNTK):
        shape = {"pooling": kernel.pooling, "image_shape": kernel.image_shape}
        return CNTKSketch(kernel.depth, kernel.filter_size, **shape, **common)
    return NystroemFeatures(kernel, **common)


def with_image_shape(feature_map: RandomMap, image_shape: tuple[int, int, int] | None) -> RandomMap:
    """An unfitted copy of the map that reads flat rows as images of that shape, where it or its kernel asks for one."""
    open_places = [
        name
        for name, value in feature_map.get_params().items()
        if name.rpartition("__")[2] == "image_shape" and value is None
    ]
    chosen: RandomMap = clone(feature_map)  # pyright: ignore[reportAssignmentType]
    return chosen.set_params(**dict.fromkeys(open_places, image_shape))
