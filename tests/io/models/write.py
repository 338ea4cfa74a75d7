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
import pandas as pd

import phimap as pm
from tests.support.families import MAPS
from tests.support.learners import FIXED, GAUSSIAN


def rows() -> tuple[np.ndarray, np.ndarray]:
    """Training rows (60, 5) in float32, and targets."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 5)).astype(np.float32)
    return X, np.sin(X[:, 0]) + X[:, 1] * X[:, 2]


def inputs(name: str) -> Any:
    """Rows that the model called `name` predicts: a data frame with text and a gap, or an array."""
    X, _ = rows()
    return frame(X[:3]) if "frame" in name else X[:3]


def frame(X: np.ndarray) -> pd.DataFrame:
    """The rows as a data frame of two columns of numbers, one with a gap, and one of text."""
    first = np.where(np.arange(len(X)) == 1, np.nan, X[:, 0])
    return pd.DataFrame({"a": first, "b": X[:, 1], "c": np.where(X[:, 2] > 0, "up", "down")})


def learners() -> dict[str, Any]:
    """Fitted learners, in the primal and the dual form, by a name for the archive."""
    X, y = rows()
    labels = np.array(["no", "yes"])[(y > 0).astype(int)]
    three = np.array(["a", "b", "c"])[np.digitize(y, [-0.5, 0.5])]
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
        "regressor-huber": pm.KernelRegressor(loss="huber", **settings, **GAUSSIAN).fit(X, y),
        "regressor-frame": pm.KernelRegressor(**settings, **GAUSSIAN).fit(frame(X), y),
        "regressor-searched": pm.KernelRegressor(**settings, effort="fast").fit(X, y + 1e6),
        "regressor-doubly-stochastic": pm.DoublyStochasticRegressor(n_components=64, n_epochs=2, random_state=0).fit(
            X, y
        ),
        "classifier": pm.KernelClassifier(**settings, **GAUSSIAN).fit(X, labels),
        "classifier-three": pm.KernelClassifier(class_weight="balanced", **settings, **GAUSSIAN).fit(X, three),
        "classifier-logistic": pm.KernelClassifier(loss="logistic", **settings, **GAUSSIAN).fit(X, three),
        "classifier-hinge": pm.KernelClassifier(loss="squared_hinge", **settings, **GAUSSIAN).fit(X, labels),
        "classifier-doubly-stochastic": pm.DoublyStochasticClassifier(n_components=64, n_epochs=2, random_state=0).fit(
            X, three
        ),
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
            yield f"{name}.npy", as_npy(outputs(inputs(name)))


def as_npy(values: np.ndarray) -> bytes:
    """The bytes of a NPY file."""
    file = io.BytesIO()
    np.save(file, values, allow_pickle=False)
    return file.getvalue()


if __name__ == "__main__":
    with zipfile.ZipFile(sys.argv[1], "w", zipfile.ZIP_LZMA) as archive:
        for member, content in members():
            archive.writestr(zipfile.ZipInfo(member), content, zipfile.ZIP_LZMA)
