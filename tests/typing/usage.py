"""A user's program, which pyright checks in strict mode by ``make lint``: public names have types, and these ones."""

# pyright: strict

from __future__ import annotations

from typing import Any, assert_type

import numpy as np

import phimap as pm


def program() -> np.ndarray[Any, Any]:
    """Never run: its types are checked."""
    X = np.zeros((10, 3), dtype=np.float32)
    y = np.zeros(10)

    kernel = pm.kernels.Matern(nu=1.5, length_scale=2.0)
    assert_type(kernel(X), np.ndarray[tuple[Any, ...], np.dtype[Any]])

    phi = pm.FourierFeatures(kernel, n_components=64, random_state=0)
    assert_type(phi.fit(X), pm.FourierFeatures)

    model = pm.KernelRegressor(phi)
    assert_type(model.fit(X, y), pm.KernelRegressor)
    assert_type(model.alpha_, float)
    assert_type(model.kernel_, pm.kernels.Kernel)

    classifier = pm.KernelClassifier("ntk", n_components=64)
    assert_type(classifier.fit(X, y > 0), pm.KernelClassifier)

    pm.save(model, "model.phimap")
    found = pm.compare(X, y, models=["linear", "phimap"], splits=2)
    assert_type(found.results[0].name, str)
    with pm.config(memory="1GB", n_jobs=2):
        pm.suggest(X, "gaussian", error=0.1)
    return classifier.predict_proba(X)
