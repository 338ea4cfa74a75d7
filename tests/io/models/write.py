"""Write the archive of model files that `test_old_models.py` reads: run with the version whose files are to be kept.

``python -m tests.io.models.write tests/io/models/NAME.zip``
"""

from __future__ import annotations

import io
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import phimap as pm
from tests.support.families import MAPS
from tests.support.learners import FIXED, GAUSSIAN


def rows() -> tuple[np.ndarray, np.ndarray]:
    """Training rows (60, 5) in float32, and targets."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 5)).astype(np.float32)
    return X, np.sin(X[:, 0]) + X[:, 1] * X[:, 2]


def learners() -> dict[str, Any]:
    """Fitted learners, in the primal and the dual form, by a name for the archive."""
    X, y = rows()
    labels = np.array(["no", "yes"])[(y > 0).astype(int)]
    settings = {"n_components": 16, "random_state": 0}
    return {
        "regressor-dual": pm.KernelRegressor(**settings, **GAUSSIAN).fit(X, y),
        "regressor-primal": pm.KernelRegressor(alpha=0.1, **settings, **GAUSSIAN).partial_fit(X, y),
        "regressor-two-targets": pm.KernelRegressor("laplacian", **settings, **FIXED).fit(X, np.column_stack([y, -y])),
        "regressor-ntk": pm.KernelRegressor("ntk", **settings, **FIXED).fit(X, y),
        "regressor-sparse-sign": pm.KernelRegressor(MAPS["ternary"], random_state=0, **FIXED).fit(X, y),
        "regressor-packed": pm.KernelRegressor(
            pm.TernaryFeatures(n_components=70, packed=True, random_state=0), random_state=0, **FIXED
        ).fit(X, y),
        "classifier": pm.KernelClassifier(**settings, **GAUSSIAN).fit(X, labels),
        "classifier-primal": pm.KernelClassifier(alpha=0.1, **settings, **GAUSSIAN).partial_fit(X, labels),
    }


def members() -> Iterator[tuple[str, bytes]]:
    """Names and contents of the archive: a model file and what the model gives, for each model."""
    X, y = rows()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        for name, feature_map in MAPS.items():
            fitted = feature_map.fit(X, y)
            pm.save(fitted, path)
            yield f"{name}.phimap", path.read_bytes()
            yield f"{name}.npy", as_npy(fitted.transform(X[:3]))
        for name, learner in learners().items():
            pm.save(learner, path, statistics=True)
            yield f"{name}.phimap", path.read_bytes()
            outputs = learner.decision_function if name.startswith("classifier") else learner.predict
            yield f"{name}.npy", as_npy(outputs(X[:3]))


def as_npy(values: np.ndarray) -> bytes:
    """The bytes of a NPY file."""
    file = io.BytesIO()
    np.save(file, values, allow_pickle=False)
    return file.getvalue()


if __name__ == "__main__":
    with zipfile.ZipFile(sys.argv[1], "w", zipfile.ZIP_LZMA) as archive:
        for member, content in members():
            archive.writestr(zipfile.ZipInfo(member), content, zipfile.ZIP_LZMA)
