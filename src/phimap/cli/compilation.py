"""Compilation of all loops before their first use, for container images and machines that are often restarted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy import sparse

import phimap as pm
from phimap.kernels import CNTK, NTK, Additive, Gaussian, Polynomial, Taylor
from phimap.learn.search.gradient import FourierLoss
from phimap.learn.trees.growth import Boosting, TreeRows

_ROWS, _COLUMNS, _WIDTH = 80, 64, 128
_IMAGE = (8, 8, 3)


def compile_loops() -> None:
    """Call every compiled loop once with each type of input, so that the compiled code is cached for later processes.

    This takes half a minute if no code is cached, else a second or two.
    """
    for dtype in (np.float32, np.float64):
        for use in _uses(dtype):
            use()


def _uses(dtype: Any) -> Iterator[Callable[[], Any]]:
    """Yield small calls that together use all compiled loops with arrays of `dtype`."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((_ROWS, _COLUMNS)).astype(dtype)
    images = rng.standard_normal((4, *_IMAGE)).astype(dtype)
    for phi in _maps():
        for rows in (X, sparse.csr_matrix(X)):
            yield lambda phi=phi, rows=rows: phi.fit_transform(rows)
    for phi in (
        pm.CNTKSketch(2, n_components=_WIDTH, random_state=0),
        pm.CNTKGradientFeatures(2, width=16, random_state=0),
    ):
        yield lambda phi=phi: phi.fit_transform(images)
    packed = pm.TernaryFeatures(n_components=_WIDTH, sparsity=0.5, packed=True, random_state=0)
    yield lambda: [(Z.gram(Z[:8]), Z.transposed().gram()) for Z in [packed.fit_transform(X)]]
    yield lambda: NTK(3)(X)
    for activation in ("relu", "softplus"):
        yield lambda activation=activation: CNTK(2, activation=activation, image_shape=_IMAGE)(images)
    y = X[:, 0] + np.sin(X[:, 1])
    yield lambda: pm.KernelRegressor(random_state=0).fit(X, y).predict(X)
    yield lambda: pm.KernelClassifier(random_state=0).fit(X, y > 0).predict(X)
    # The fits above have too few rows to learn a metric.
    loss = FourierLoss.of_rows(X, y[:, None], np.ones(_ROWS), rng.standard_normal((_COLUMNS, _WIDTH)))
    yield lambda: loss(np.ones(_COLUMNS), 0.1)
    for Y, has_labels in ((y[:, None].astype(np.float64), False), (np.eye(3)[np.arange(_ROWS) % 3], True)):
        trees = TreeRows.of(X, Y, None, has_labels=has_labels)
        yield lambda trees=trees: Boosting(trees, rate=0.1, rng=rng).grow(1).outputs(X, 1)
    for kind in (pm.NystroemFeatures, pm.FourierFeatures):
        model = pm.KernelRegressor(kind(Gaussian(8.0), 32, random_state=0), metric=None, random_state=0)
        for values in (pm.explain.shapley_values, pm.explain.interactions):
            yield lambda model=model, values=values: values(model.fit(X, y), X[:4], X[4:12])


def _maps() -> Iterator[pm.RandomMap]:
    """Yield random maps that together use all compiled loops for rows."""
    fixed: dict[str, Any] = {"n_components": _WIDTH, "random_state": 0}
    wide = Gaussian(length_scale=4.0)
    for projection in ("gaussian", "orthogonal", "qmc", "sorf", "ssf", "fastfood", "circulant", "sparse-sign"):
        yield pm.FourierFeatures(wide, projection=projection, **fixed)
    yield pm.FourierFeatures(pairing="offset", **fixed)
    yield pm.FourierFeatures(Additive(wide, order=1), **fixed)
    yield pm.ArcCosineFeatures(0, **fixed)
    yield pm.ArcCosineFeatures(1, depth=2, exact_degrees=(0, 1), **fixed)
    yield pm.DotProductFeatures(Polynomial(degree=6, gamma=0.2), **fixed)
    yield pm.DotProductFeatures(Taylor([0.3, 1.0, 0.5, 0.2], homogeneous=True), adaptive=False, **fixed)
    for method in ("polysketch", "complex-to-real", "tensorsketch", "maclaurin"):
        yield pm.DotProductFeatures(Polynomial(degree=3), method=method, exact_degrees=(), adaptive=False, **fixed)
    for activation in ("relu", "gelu"):
        yield pm.NTKFeatures(2, activation=activation, **fixed)
        yield pm.NTKSketch(2, activation=activation, **fixed)
    for levels in (2, 3):
        yield pm.TernaryFeatures(wide, levels=levels, **fixed)
        yield pm.TernaryFeatures(wide, levels=levels, packed=True, **fixed)
    for rounding in ("nearest", "stochastic"):
        inner = pm.FourierFeatures(wide, **fixed)
        yield pm.QuantizedFeatures(inner, bits=4, rounding=rounding, random_state=0)
    yield pm.MondrianFeatures(4.0, **fixed)
    yield pm.BinningFeatures(**fixed)
    yield pm.sketches.CountSketch(**fixed)
    yield pm.sketches.SRHT(**fixed)
