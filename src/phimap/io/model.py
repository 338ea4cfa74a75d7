"""Model files: safetensors with a JSON description, no pickle, checked on load, written whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import fields
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from phimap._files import DataError, one_line, write_whole
from phimap.io import legacy
from phimap.packed import PackedArray
from phimap.records import Record

_FORMAT = "phimap-model-1"
# The families whose public classes a file may name; nothing else is ever imported or called on behalf of a file.
_FAMILIES = ("kernels", "projections", "sketches", "features", "learn")
# Parameters that are spent once fitted and cannot be written down: the draws are in the records.
_SPENT = (np.random.Generator, np.random.RandomState)


def save(model: BaseEstimator, path: str | os.PathLike[str], *, statistics: bool = False) -> None:
    """Write a fitted model or feature map to one file.

    Parameters
    ----------
    model : estimator
        A fitted learner, feature map or sketch of this package.
    path : path-like
        Replaced only once the new file is complete.
    statistics : bool, default=False
        Also keep a learner's ridge statistics (4 m^2 bytes), without which `partial_fit` and `merge` cannot go on
        after loading.

    Raises
    ------
    sklearn.exceptions.NotFittedError
        If the model is not fitted.
    TypeError
        If it is not of this package, or holds something that a file cannot.
    OSError
        If the file cannot be written; what was there before stays, and nothing half-written is left.

    Notes
    -----
    The file is in safetensors format: arrays as they are in memory, and a JSON text that names classes, parameters
    and records. Its SHA-256 is stored with it. A random generator given as `random_state` is stored as None.

    Examples
    --------
    >>> import numpy as np, phimap as pm, tempfile, pathlib
    >>> X = np.eye(3)
    >>> phi = pm.FourierFeatures(n_components=8, random_state=0).fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "map.phimap"
    ...     pm.save(phi, file)
    ...     bool((pm.load(file).transform(X) == phi.transform(X)).all())
    True
    """
    from safetensors.numpy import save as serialise

    if type(model) not in _public_classes().values():
        raise TypeError(
            f"`model` must be a learner, a feature map or a sketch of phimap, got {type(model).__name__}. Save the "
            "step of a pipeline that is one, or use joblib."
        )
    check_is_fitted(model)
    arrays: dict[str, np.ndarray] = {}
    skipped = () if statistics else ("solver_", "_sample", "_outlying")
    tree = _Encoder(arrays, skipped).encode(model, "model")
    text = json.dumps(tree, separators=(",", ":"))
    metadata = {
        "format": _FORMAT,
        "version": version("phimap"),
        "model": text,
        "sha256": _checksum(text, arrays),
    }
    write_whole(path, lambda file: file.write(serialise(arrays, metadata)))


def load(path: str | os.PathLike[str]) -> Any:
    """Read a model file written by `save`.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    estimator
        Fitted; predicts and transforms to the same bits as the model that was saved.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    DataError
        If it is not a model file, is truncated or damaged, or was written by a later version of the format.
    """
    text, arrays, metadata = _read(Path(path))
    if _checksum(text, arrays) != metadata.get("sha256"):
        raise DataError(f"`{path}` is damaged: its checksum does not match its content. Save the model again.")
    try:
        return _Decoder(arrays).decode(json.loads(text))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError(
            f"`{path}` was written by phimap {metadata.get('version')} and cannot be read by {version('phimap')}: "
            f"{one_line(error)}. Save the model again with this version."
        ) from error


def _read(path: Path) -> tuple[str, dict[str, np.ndarray], dict[str, str]]:
    """The JSON text, the arrays and the metadata of a model file."""
    from safetensors import SafetensorError, safe_open

    if path.is_dir():
        raise DataError(f"`{path}` is a folder. Give a model file, as written by save or by phimap fit --model.")
    if not path.is_file():
        raise FileNotFoundError(f"there is no file `{path}`. Give a model file, as written by phimap fit --model.")
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            if not metadata.get("format", "").startswith("phimap-model-"):
                raise DataError(f"`{path}` is a safetensors file but no phimap model. Give a file written by save.")
            if metadata["format"] != _FORMAT:
                raise DataError(f"`{path}` has format {metadata['format']}, newer than this phimap. Update phimap.")
            if "model" not in metadata:
                raise DataError(f"`{path}` is damaged: it describes no model. Save the model again.")
            return metadata["model"], {key: file.get_tensor(key) for key in file.keys()}, metadata  # noqa: SIM118
    except SafetensorError as error:
        raise DataError(
            f"`{path}` is not a phimap model, or it is truncated: {one_line(error)}. Give a file written by save."
        ) from error


def _checksum(text: str, arrays: Mapping[str, np.ndarray]) -> str:
    digest = hashlib.sha256(text.encode())
    for key in sorted(arrays):
        array = arrays[key]
        digest.update(f"{key} {array.dtype.str} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _public_classes() -> dict[str, type]:
    """The classes that a file may name, by family and name."""
    return {
        f"{family}.{name}": cls
        for family in _FAMILIES
        for name, cls in vars(import_module(f"phimap.{family}")).items()
        if isinstance(cls, type) and issubclass(cls, BaseEstimator)
    }


class _Encoder:
    """Values to JSON; arrays are put aside under the path that leads to them."""

    def __init__(self, arrays: dict[str, np.ndarray], skipped: tuple[str, ...]):
        self._arrays = arrays
        self._skipped = skipped
        self._names = {cls: name for name, cls in _public_classes().items()}

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
        if isinstance(value, PackedArray):
            numbers = [f.name for f in fields(value) if f.name != "dtype"]
            named = {name: self.encode(getattr(value, name), f"{path}.{name}") for name in numbers}
            return {"kind": "packed", "dtype": value.dtype.str, "fields": named}
        if isinstance(value, Record):
            named = {f.name: self.encode(getattr(value, f.name), f"{path}.{f.name}") for f in fields(value)}  # pyright: ignore
            return {"kind": "record", "name": type(value).__name__, "fields": named}
        if isinstance(value, np.random.SeedSequence):
            return {"kind": "seed", "entropy": value.entropy, "spawn_key": list(value.spawn_key)}
        if isinstance(value, _SPENT):
            return None
        if type(value) in self._names:
            return self._estimator(value, path)
        raise TypeError(f"a model file cannot hold {path}={value!r} of type {type(value).__name__}.")

    def _array(self, value: np.ndarray, path: str) -> dict[str, Any]:
        if value.dtype.kind in "OUS":
            if not all(isinstance(item, str | int | float | bool) for item in value.ravel().tolist()):
                raise TypeError(f"a model file cannot hold {path}, an array of objects that are not text or numbers.")
            return {
                "kind": "texts",
                "items": value.ravel().tolist(),
                "shape": value.shape,
                "dtype": value.dtype.str,
            }
        # A scalar stays one: `ascontiguousarray` would make it a vector.
        self._arrays[path] = np.asarray(value, order="C")
        return {"kind": "array", "key": path, "dtype": value.dtype.str}

    def _estimator(self, value: BaseEstimator, path: str) -> dict[str, Any]:
        params = value.get_params(deep=False)
        state = {name: item for name, item in vars(value).items() if name not in params}
        return {
            "kind": "estimator",
            "name": self._names[type(value)],
            "params": {name: self.encode(item, f"{path}.{name}") for name, item in params.items()},
            "state": {
                name: self.encode(item, f"{path}.{name}") for name, item in state.items() if name not in self._skipped
            },
        }


class _Decoder:
    """JSON back to values; only registered classes are made."""

    def __init__(self, arrays: Mapping[str, np.ndarray]):
        self._arrays = arrays
        self._classes = _public_classes()

    def decode(self, node: Any) -> Any:
        if not isinstance(node, dict):
            return node
        return getattr(self, f"_{node['kind']}")(node)

    def _array(self, node: dict[str, Any]) -> Any:
        array = self._arrays[node["key"]]
        return array[()] if node.get("scalar") else array

    def _texts(self, node: dict[str, Any]) -> Any:
        array = np.array(node["items"], dtype=node["dtype"]).reshape(node["shape"])
        return array[()] if node.get("scalar") else array

    def _csr(self, node: dict[str, Any]) -> sparse.csr_matrix:
        *parts, shape = self.decode(node["parts"])
        return sparse.csr_matrix(tuple(parts), shape=shape)

    def _tuple(self, node: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(self.decode(item) for item in node["items"])

    def _list(self, node: dict[str, Any]) -> list[Any]:
        return [self.decode(item) for item in node["items"]]

    def _record(self, node: dict[str, Any]) -> Record:
        values = {name: self.decode(item) for name, item in node["fields"].items()}
        name, values = legacy.current_record(node["name"], values)
        return Record.registry[name](**values)

    def _packed(self, node: dict[str, Any]) -> PackedArray:
        named = {name: self.decode(item) for name, item in node["fields"].items()}
        return PackedArray(**named, dtype=np.dtype(node["dtype"]))

    def _seed(self, node: dict[str, Any]) -> np.random.SeedSequence:
        return np.random.SeedSequence(node["entropy"], spawn_key=tuple(node["spawn_key"]))

    def _estimator(self, node: dict[str, Any]) -> Any:
        params = {name: self.decode(item) for name, item in node["params"].items()}
        estimator = self._classes[node["name"]](**params)
        state = {name: self.decode(item) for name, item in node["state"].items()}
        for name, value in legacy.current_state(state).items():
            setattr(estimator, name, value)
        return estimator
