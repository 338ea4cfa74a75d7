"""Models as JSON and arrays; only values of known types and classes of this package are written."""

from __future__ import annotations

from dataclasses import fields
from importlib import import_module
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.decomposition import PCA
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, Normalizer, RobustScaler, StandardScaler

from phimap.packed import PackedArray
from phimap.records import NOT_SAVED, Record

# Packages whose public classes a file may name. Reading a file imports and calls no other classes.
_FAMILIES = ("kernels", "projections", "sketches", "features", "learn", "tables")
# Number of entries of an array that are converted to float32 at a time.
_PART = 2**16
# Random generators are not written, because the fitted records already hold the numbers that were drawn.
_SPENT = (np.random.Generator, np.random.RandomState)
#: Transformers of scikit-learn whose fitted state consists of numbers and arrays in public attributes.
TRANSFORMERS: dict[str, type] = {
    f"sklearn.{cls.__name__}": cls
    for cls in (MaxAbsScaler, MinMaxScaler, Normalizer, PCA, RobustScaler, StandardScaler)
}


def public_classes() -> dict[str, type]:
    """The classes that a file may name, by family and name."""
    return {
        f"{family}.{name}": cls
        for family in _FAMILIES
        for name, cls in vars(import_module(f"phimap.{family}")).items()
        if isinstance(cls, type) and issubclass(cls, BaseEstimator)
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


def _fitted_state(transformer: Any) -> dict[str, Any]:
    """The public fitted attributes of a transformer of scikit-learn."""
    return {name: value for name, value in vars(transformer).items() if name.endswith("_") and not name.startswith("_")}


def _in_half(array: np.ndarray) -> np.ndarray:
    """Return a float64 array as float32 if float32 represents all its numbers exactly, for example float32 rows.

    Otherwise return the array unchanged.
    """
    if array.dtype != np.float64:
        return array
    flat = array.reshape(-1)
    # The array is converted in parts, because a whole copy of a very large array may not fit into memory.
    for start in range(0, flat.size, _PART):
        part = flat[start : start + _PART]
        with np.errstate(over="ignore"):
            again = part.astype(np.float32).astype(np.float64)
        # Bits are compared, because -0 and 0 are equal as numbers.
        if not np.array_equal(again.view(np.int64), part.view(np.int64)):
            return array
    return array.astype(np.float32)


class Encoder:
    """Turns values into JSON. Arrays are collected in a dictionary by their paths.

    Parameters
    ----------
    arrays : dict of str to ndarray
    skipped : tuple of str
        Attributes of estimators that are left out.
    whole : bool, default=True
        Whether records keep data that predictions do not need.
    """

    def __init__(self, arrays: dict[str, np.ndarray], skipped: tuple[str, ...], *, whole: bool = True):
        self._arrays = arrays
        self._skipped = skipped
        self._whole = whole
        self._names = {cls: name for name, cls in (public_classes() | TRANSFORMERS).items()}

    def encode(self, value: Any, path: str) -> Any:
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, np.generic):
            return self.encode(np.asarray(value), path) | {"scalar": True}
        if isinstance(value, np.ndarray):
            return self._array(value, path)
        if sparse.issparse(value):
            parts = (value.data, value.indices, value.indptr, tuple(value.shape))
            return {"kind": "csr", "parts": self.encode(parts, path)}
        if isinstance(value, tuple | list):
            kind = "tuple" if isinstance(value, tuple) else "list"
            return {"kind": kind, "items": [self.encode(item, f"{path}.{i}") for i, item in enumerate(value)]}
        if isinstance(value, dict):
            items = [self.encode(item, f"{path}.{i}") for i, item in enumerate(value.values())]
            return {"kind": "dict", "keys": [self.encode(key, path) for key in value], "items": items}
        if isinstance(value, PackedArray):
            numbers = [f.name for f in fields(value) if f.name != "dtype"]
            named = {name: self.encode(getattr(value, name), f"{path}.{name}") for name in numbers}
            return {"kind": "packed", "dtype": value.dtype.str, "fields": named}
        if isinstance(value, Record):
            value = value if self._whole else value.for_prediction()
            kept = [f.name for f in fields(value) if NOT_SAVED not in f.metadata]  # pyright: ignore[reportArgumentType]
            named = {name: self.encode(getattr(value, name), f"{path}.{name}") for name in kept}
            return {"kind": "record", "name": type(value).__name__, "fields": named}
        if isinstance(value, np.random.SeedSequence):
            return {"kind": "seed", "entropy": value.entropy, "spawn_key": list(value.spawn_key)}
        if isinstance(value, _SPENT):
            return None
        if isinstance(value, Pipeline):
            steps = [[name, self.encode(step, f"{path}.{name}")] for name, step in value.steps]
            return {"kind": "pipeline", "steps": steps}
        if type(value) in self._names:
            return self._estimator(value, path)
        raise TypeError(f"a model file cannot hold {path}={value!r} of type {type(value).__name__}.")

    def _array(self, value: np.ndarray, path: str) -> dict[str, Any]:
        if value.dtype.kind in "OUS":
            if not all(isinstance(item, str | int | float | bool) for item in value.ravel().tolist()):
                raise TypeError(f"a model file cannot hold {path}, an array of objects that are not text or numbers.")
            return {"kind": "texts", "items": value.ravel().tolist(), "shape": value.shape, "dtype": value.dtype.str}
        # `ascontiguousarray` would turn a scalar into a vector.
        self._arrays[path] = _in_half(np.asarray(value, order="C"))
        return {"kind": "array", "key": path, "dtype": value.dtype.str}

    def _estimator(self, value: BaseEstimator, path: str) -> dict[str, Any]:
        params = value.get_params(deep=False)
        kept = _fitted_state(value) if type(value) in TRANSFORMERS.values() else vars(value)
        state = {name: item for name, item in kept.items() if name not in params}
        return {
            "kind": "estimator",
            "name": self._names[type(value)],
            "params": {name: self.encode(item, f"{path}.{name}") for name, item in params.items()},
            "state": {
                name: self.encode(item, f"{path}.{name}") for name, item in state.items() if name not in self._skipped
            },
        }
