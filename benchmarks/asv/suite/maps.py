"""Time, peak memory and kernel error of every kind of map, on the same rows."""

from __future__ import annotations

import numpy as np

import phimap as pm

_ROWS, _COLUMNS, _WIDTH = 4000, 20, 1024
_MAPS = {
    "fourier": lambda: pm.FourierFeatures(n_components=_WIDTH, random_state=0),
    "fourier orthogonal": lambda: pm.FourierFeatures(n_components=_WIDTH, projection="orthogonal", random_state=0),
    "fourier sorf": lambda: pm.FourierFeatures(n_components=_WIDTH, projection="sorf", random_state=0),
    "arc-cosine": lambda: pm.ArcCosineFeatures(n_components=_WIDTH, random_state=0),
    "polynomial": lambda: pm.DotProductFeatures(pm.kernels.Polynomial(3), _WIDTH, random_state=0),
    "ntk": lambda: pm.NTKFeatures(1, _WIDTH, random_state=0),
    "ternary": lambda: pm.TernaryFeatures(n_components=_WIDTH, random_state=0),
    "nystroem": lambda: pm.NystroemFeatures(pm.kernels.Gaussian(), _WIDTH, random_state=0),
}


class Transform:
    """A fitted map on rows of unit norm."""

    params = (list(_MAPS),)
    param_names = ("map",)

    def setup(self, name: str) -> None:
        X = np.random.default_rng(0).standard_normal((_ROWS, _COLUMNS))
        self.X = (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32)
        self.map = _MAPS[name]().fit(self.X)
        # Loops are compiled before they are timed.
        self.map.transform(self.X[:300])

    def time_transform(self, name: str) -> None:
        self.map.transform(self.X)

    def peakmem_transform(self, name: str) -> None:
        self.map.transform(self.X)

    def track_relative_error(self, name: str) -> float:
        return float(pm.metrics.relative_error(self.map, self.X[:500]))
