"""Pipelines in model files: the classes of scikit-learn that a file may name."""

from __future__ import annotations

from typing import Any

from sklearn.decomposition import PCA
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, Normalizer, RobustScaler, StandardScaler

#: Transformers of scikit-learn whose fitted state consists of numbers and arrays in public attributes.
TRANSFORMERS: dict[str, type] = {
    f"sklearn.{cls.__name__}": cls
    for cls in (MaxAbsScaler, MinMaxScaler, Normalizer, PCA, RobustScaler, StandardScaler)
}


def check_steps(pipeline: Pipeline, known: tuple[type, ...]) -> None:
    """Raise unless a file may name the class of every step; a step may also be ``"passthrough"``."""
    for name, step in pipeline.steps:
        if step in (None, "passthrough") or type(step) in (*known, *TRANSFORMERS.values()):
            continue
        peers = ", ".join(sorted(cls.__name__ for cls in TRANSFORMERS.values()))
        raise TypeError(
            f"step {name!r} of the pipeline is {type(step).__name__}, which a model file cannot hold. Use classes of "
            f"phimap and {peers}, or joblib."
        )


def fitted_state(transformer: Any) -> dict[str, Any]:
    """The public fitted attributes of a transformer of scikit-learn."""
    return {name: value for name, value in vars(transformer).items() if name.endswith("_") and not name.startswith("_")}
