"""Small saved models of every family, as trees and arrays: what mutations start from."""

from __future__ import annotations

import json
import tempfile
import warnings
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from safetensors import safe_open
from safetensors.numpy import save as serialise
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import RobustScaler

import phimap as pm
from phimap.io.tensors import checksum
from phimap.kernels import Gaussian
from phimap.learn.corrections.fit import learn_corrections
from phimap.learn.corrections.residuals import Residuals
from phimap.learn.trees.growth import Boosting, TreeRows
from tests.io.models.write import learners, rows
from tests.support.families import MAPS
from tests.support.learners import FIXED, GAUSSIAN, brief_searches


@dataclass(frozen=True)
class Sample:
    """A model file taken apart.

    Attributes
    ----------
    name : str
    tree : object
        What the JSON text says.
    arrays : dict of str to ndarray
    """

    name: str
    tree: Any
    arrays: dict[str, np.ndarray]

    @classmethod
    def read(cls, name: str, path: Path) -> Sample:
        """Take a file apart."""
        with safe_open(path, framework="numpy") as file:
            text = file.metadata()["model"]
            arrays = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        return cls(name, json.loads(text), arrays)

    def write(self, path: Path) -> None:
        """Write a file with a right checksum."""
        text = json.dumps(self.tree)
        metadata = {"format": "phimap-model-1", "version": "0", "model": text, "sha256": checksum(text, self.arrays)}
        path.write_bytes(serialise(self.arrays, metadata))


def frame() -> pd.DataFrame:
    """Rows (60) with columns of every kind."""
    rng = np.random.default_rng(1)
    words = np.array(["one fine day", "two of a kind", "three is a crowd", "four more to go", "five, give or take"])
    return pd.DataFrame(
        {
            "number": np.where(rng.random(60) < 0.1, np.nan, rng.standard_normal(60)),
            "level": rng.choice(["u", "v", "w"], 60),
            "many": [f"m{i % 45}" for i in range(60)],
            "date": pd.date_range("2020-01-01", periods=60, freq="7h"),
            "text": [f"{word} {i}" for i, word in enumerate(rng.choice(words, 60))],
        }
    )


def fitted_models() -> dict[str, Any]:
    """Fitted maps, learners, an encoder and a pipeline, by name."""
    X, y = rows()
    fixed = {"n_components": 16, "random_state": 0}
    models = {name: feature_map.fit(X, y) for name, feature_map in MAPS.items()}
    images = np.random.default_rng(0).random((8, 5, 4, 2))
    models |= {
        f"images-{name}": feature_map.fit(images)
        for name, feature_map in {
            "cntk": pm.CNTKSketch(3, n_components=16, random_state=0),
            "flatten": pm.CNTKSketch(2, n_components=16, pooling="flatten", random_state=0),
            "activation": pm.CNTKSketch(3, n_components=16, activation="erf", random_state=0),
            "gradient": pm.CNTKGradientFeatures(2, width=4, random_state=0),
        }.items()
    }
    wide = np.random.default_rng(0).standard_normal((40, 20))
    additive = pm.kernels.Additive(pm.kernels.Gaussian(2.0), order=1)
    models |= {
        "weighted": pm.FourierFeatures(projection="spherical-radial", **fixed).fit(X),
        "sparse-grid": pm.FourierFeatures(projection="sparse-grid", n_components=22, random_state=0).fit(X),
        "subsets": pm.FourierFeatures(additive, **fixed).fit(wide),
        "series": pm.DotProductFeatures(pm.kernels.Gaussian(8.0), **fixed).fit(wide),
        "sphere": pm.FourierFeatures(projection="ssf", **fixed).fit(np.tile(wide, 3)),
        "rotated": pm.FourierFeatures(projection="ssf", **fixed).fit(np.tile(wide, 7)),
    }
    models |= learners()
    labels = np.digitize(y, [-0.5, 0.5])
    models |= {
        "logistic": pm.KernelClassifier(**fixed, **GAUSSIAN, loss="logistic").fit(X, labels),
        "huber": pm.KernelRegressor(**fixed, **GAUSSIAN, loss="huber").fit(X, y),
        "far-targets": pm.KernelRegressor(**fixed, **GAUSSIAN).fit(X, 1.7e9 + y),
        "encoder": pm.TableEncoder(max_levels=8).fit(frame(), y),
        "frame": pm.KernelRegressor(**fixed, **FIXED).fit(frame(), y),
        "pipeline": make_pipeline(RobustScaler(), PCA(3), pm.KernelRegressor(**fixed, **GAUSSIAN)).fit(X, y),
        "corrected": corrected(),
        "trees": averaged(pm.KernelRegressor(**fixed, **GAUSSIAN).fit(X, y), X, y),
        "trees-classes": averaged(pm.KernelClassifier(**fixed, **GAUSSIAN).fit(X, labels), X, labels),
        "csr": pm.KernelRegressor(**fixed, **GAUSSIAN).fit(_sparse(X), y),
        "coefficients": pm.DoublyStochasticRegressor(**fixed, n_epochs=1).fit(X, y),
        "coefficients-published": pm.DoublyStochasticRegressor(
            **fixed, n_epochs=1, construction="published", block_components=5
        ).fit(X, y),
        "coefficients-classes": pm.DoublyStochasticClassifier(**fixed, n_epochs=1).fit(X, labels),
        "principal-components": pm.DoublyStochasticPCA(n_components=2, n_random_features=32, random_state=0).fit(X),
    }
    return models


def corrected() -> pm.KernelRegressor:
    """A fitted learner with corrections, which a fit itself learns from 8,000 rows on only."""
    rng = np.random.default_rng(2)
    X = rng.uniform(-1, 1, (400, 4))
    y = np.sin(9 * X[:, 0]) + np.cos(9 * X[:, 1])
    with brief_searches():
        model = pm.KernelRegressor("gaussian", 16, metric="diagonal", alpha=0.1, random_state=0).fit(X, y)
    sample = model._state.sample
    order = np.argsort(sample.keys)
    rows, held_out = sample.rows(order), np.arange(order.size) < order.size // 5
    # The targets themselves: of the small errors of the model it depends on the processor whether corrections gain.
    errors = rows.y[:, None]
    residuals = Residuals(model._fitted.map.on_host(rows.X), None, sample.keys[order], errors, held_out, errors)
    learned = learn_corrections(Gaussian(0.5), residuals, [np.eye(4)])
    assert learned is not None
    model._fitted = replace(model._fitted, corrections=learned.corrections)
    return model


def averaged(model: Any, X: Any, y: Any) -> Any:
    """A fitted learner whose outputs are averaged with those of trees, which a fit grows from 1,000 rows on only."""
    targets = model._fitted.targets
    rows = model._fitted.inputs.rows(X), targets.encode(np.asarray(y)), None
    trees = Boosting(TreeRows.of(*rows, has_labels=targets.has_labels), rate=0.1, rng=np.random.default_rng(0)).grow(5)
    keys = np.sort(model._state.sample.keys)[:40]
    known = {"share": 0.4, "keys": keys, "errors": rows[1][: keys.size]}
    model._fitted = replace(model._fitted, trees=replace(trees, **known))
    return model


def _sparse(X: np.ndarray) -> Any:
    from scipy import sparse

    return sparse.csr_matrix(np.where(np.abs(X) > 1, X, 0))


@cache
def samples() -> tuple[Sample, ...]:
    """Every model taken apart, statistics included."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / "model"
        taken = []
        for name, model in fitted_models().items():
            pm.save(model, path, statistics=True)
            taken.append(Sample.read(name, path))
    return tuple(taken)
