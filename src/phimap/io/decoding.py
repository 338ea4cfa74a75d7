"""Makes models from JSON and arrays. Only registered classes are created, with values of their declared types."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, get_type_hints

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline

from phimap._files import DataError, one_line
from phimap.config import thread_count
from phimap.io import legacy
from phimap.io.encoding import TRANSFORMERS, public_classes
from phimap.io.schema import check_record, is_of, quoted
from phimap.kernels import Kernel
from phimap.packed import PackedArray
from phimap.records import Record

# Largest depth of nesting that is accepted. The map of a deep network in a pipeline is nested about twenty deep.
_DEEPEST = 100
# All text arrays together may take `_TEXT_BYTES` bytes for each character of the description, and `_TEXT_GRANT` bytes
# in addition. Without this limit, a small file could expand to large arrays, because every item of a text array is as
# wide as the longest item.
_TEXT_BYTES, _TEXT_GRANT = 256, 2**20
# Largest length of an array along any axis, because no model has more rows. The limit matters for arrays without
# entries, which could have any shape.
_MOST_ROWS = 2**40
# Largest depth, degree or order of a kernel. More steps could take years.
_MOST_STEPS = 10_000
# Names of the parameters of kernels to which this limit applies, whatever types the parameters have.
_ORDERS = ("nu", "order", "degree", "depth")
_DEVICE = re.compile(r"auto|cpu|cuda(:\d{1,3})?")
_MISSING = object()
# Kinds of nodes. For each kind the decoder has a method of this name.
_KINDS = ("array", "csr", "dict", "estimator", "list", "packed", "pipeline", "record", "seed", "texts", "tuple")
# Attributes that the command line adds to a fitted model.
_NOTES: dict[str, Any] = {
    "target_name_": str,
    "sample_shape_": tuple[int, ...] | None,
    "resized_": tuple[int, int] | None,
    "input_dtype_": str | None,
}


class Decoder:
    """Values of a model file.

    Parameters
    ----------
    arrays : mapping of str to ndarray
    n_characters : int
        Length of the description.
    """

    def __init__(self, arrays: Mapping[str, np.ndarray], n_characters: int):
        self._arrays = dict(arrays)
        # Number of bytes that further text arrays may take.
        self._text_bytes = _TEXT_GRANT + _TEXT_BYTES * n_characters
        self._classes = public_classes() | TRANSFORMERS
        self._depth = 0

    def decode(self, node: Any) -> Any:
        """The value of a node of the tree.

        Raises
        ------
        DataError
            If the node describes a value that a model file cannot hold.
        """
        if node is None or isinstance(node, bool | int | float | str):
            return node
        kind = node.get("kind") if isinstance(node, dict) else None
        if not isinstance(kind, str) or kind not in _KINDS:
            raise DataError(f"it holds a value of the unknown kind {quoted(kind)}")
        self._depth += 1
        if self._depth > _DEEPEST:
            raise DataError(f"its parts are nested more than {_DEEPEST} deep")
        value = getattr(self, f"_{kind}")(node)
        self._depth -= 1
        return value

    def _array(self, node: dict[str, Any]) -> Any:
        # An array may be used only once, because many references to it could make a small file large in memory.
        array = self._arrays.pop(node["key"], None)
        if array is None:
            raise DataError(f"the array {quoted(node['key'])} is missing, or named twice")
        if max(array.shape, default=0) > _MOST_ROWS:
            raise DataError(f"the array {quoted(node['key'])} has the shape {array.shape}")
        if node["dtype"] == "<f8" and array.dtype == np.float32:
            array = array.astype(np.float64)
        return array[()] if node.get("scalar") else array

    def _texts(self, node: dict[str, Any]) -> Any:
        items, dtype = node["items"], np.dtype(node["dtype"])
        self._text_bytes -= len(items) * dtype.itemsize
        if dtype.kind not in "OUS" or self._text_bytes < 0:
            raise DataError(f"{len(items)} texts of the dtype {one_line(node['dtype'])} are no texts of a model")
        if not all(isinstance(item, str | int | float | bool) for item in items):
            raise DataError("an array of texts holds something else")
        array = np.empty(len(items), dtype)
        array[:] = items
        array = array.reshape(node["shape"])
        return array[()] if node.get("scalar") else array

    def _csr(self, node: dict[str, Any]) -> sparse.csr_matrix:
        data, places, bounds, shape = self.decode(node["parts"])
        matrix = sparse.csr_matrix((data, places, bounds), shape=shape)
        matrix.check_format(full_check=True)
        if not np.isfinite(matrix.data).all():
            raise DataError("a sparse matrix has entries that are not finite")
        return matrix

    def _tuple(self, node: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(self.decode(item) for item in node["items"])

    def _list(self, node: dict[str, Any]) -> list[Any]:
        return [self.decode(item) for item in node["items"]]

    def _dict(self, node: dict[str, Any]) -> dict[Any, Any]:
        keys = [self.decode(key) for key in node["keys"]]
        return dict(zip(keys, (self.decode(item) for item in node["items"]), strict=True))

    def _seed(self, node: dict[str, Any]) -> np.random.SeedSequence:
        return np.random.SeedSequence(node["entropy"], spawn_key=tuple(node["spawn_key"]))

    def _record(self, node: dict[str, Any]) -> Record:
        values = {name: self.decode(item) for name, item in node["fields"].items()}
        name, values = legacy.current_record(node["name"], values)
        if name not in Record.registry:
            raise DataError(f"there is no record {quoted(name)}")
        record = Record.registry[name](**values)
        check_record(record)
        return record

    def _packed(self, node: dict[str, Any]) -> PackedArray:
        named = {name: self.decode(item) for name, item in node["fields"].items()}
        packed = PackedArray(**named, dtype=np.dtype(node["dtype"]))
        check_record(packed)
        return packed

    def _pipeline(self, node: dict[str, Any]) -> Pipeline:
        steps = [(name, self.decode(step)) for name, step in node["steps"]]
        if not steps or not all(isinstance(name, str) and _is_step(step) for name, step in steps):
            raise DataError("a step of its pipeline is no estimator")
        return Pipeline(steps)

    def _estimator(self, node: dict[str, Any]) -> Any:
        if node["name"] not in self._classes:
            raise DataError(f"there is no estimator {quoted(node['name'])}")
        cls = self._classes[node["name"]]
        params = {name: self.decode(item) for name, item in node["params"].items()}
        for name, value in params.items():
            _check_parameter(cls, name, value)
        estimator = cls(**params)
        state = {name: self.decode(item) for name, item in node["state"].items()}
        for name, value in legacy.current_state(node["name"], state).items():
            _check_state(estimator, name, value)
            setattr(estimator, name, value)
        if cls in TRANSFORMERS.values():
            _check_shapes(estimator)
        return estimator


def _is_step(step: Any) -> bool:
    return step in (None, "passthrough") if step is None or isinstance(step, str) else isinstance(step, BaseEstimator)


def _check_parameter(cls: type, name: str, value: Any) -> None:
    """Raise unless an estimator could have been fitted with this value of a parameter."""
    where = f"{cls.__name__}.{name}"
    if isinstance(value, Record | Pipeline):
        raise DataError(f"{where} must be no {type(value).__name__}")
    if issubclass(cls, Kernel) and _is_beyond_steps(name, value):
        raise DataError(f"{where} must be at most {_MOST_STEPS}, got {quoted(value)}")
    if name == "n_jobs":
        thread_count(value)
    if name == "device" and not (isinstance(value, str) and _DEVICE.fullmatch(value)):
        raise DataError(f"{where} must be 'auto', 'cpu' or 'cuda[:index]', got {quoted(value)}")
    _check_numbers(where, value, _is_number)


def _is_beyond_steps(name: str, value: Any) -> bool:
    """Return whether a parameter of a kernel is a finite number of steps that is larger than the limit."""
    is_whole = isinstance(value, int | np.integer)
    if not is_whole and not (name in _ORDERS and isinstance(value, float | np.floating)):
        return False
    return value != np.inf and not -_MOST_STEPS <= value <= _MOST_STEPS


def _check_state(estimator: Any, name: str, value: Any) -> None:
    """Raise unless the class declares the attribute, and the value has the declared type."""
    cls = type(estimator)
    where = f"{cls.__name__}.{name}"
    if cls in TRANSFORMERS.values():
        if name.startswith("_") or not name.endswith("_") or hasattr(cls, name):
            raise DataError(f"{where} is nothing that is fitted")
        if isinstance(value, Record | BaseEstimator):
            raise DataError(f"{where} must be no {type(value).__name__}")
    else:
        hint = (_NOTES | _hints(cls)).get(name, _MISSING)
        # Properties and parameters are attributes of the class; the results of a fit are not.
        if hint is _MISSING or hasattr(cls, name):
            raise DataError(f"{where} is nothing that is fitted")
        if not is_of(value, hint):
            raise DataError(f"{where} is of the wrong type {type(value).__name__}")
    _check_numbers(where, value, _is_number if isinstance(value, tuple) else np.isfinite)


def _check_shapes(transformer: Any) -> None:
    """Raise unless each array of a scikit-learn transformer has one entry, or one row of entries, for each column.

    Arrays of other shapes could be broadcast with rows to far larger arrays.
    """
    n_columns = getattr(transformer, "n_features_in_", None)
    components = getattr(transformer, "components_", None)
    allowed = {(n_columns,)} if components is None else {(n_columns,), np.shape(components)[:1]}
    for name, value in vars(transformer).items():
        shapes = {(*np.shape(value)[:1], n_columns)} if name == "components_" else allowed
        if name.endswith("_") and np.ndim(value) and np.shape(value) not in shapes:
            raise DataError(f"{type(transformer).__name__}.{name} has the shape {np.shape(value)}")


@cache
def _hints(cls: type) -> dict[str, Any]:
    # Some modules import `Kernel` only for type checkers, so its name must be given here.
    return get_type_hints(cls, localns={"Kernel": Kernel})


def _check_numbers(where: str, value: Any, is_right: Callable[[Any], Any] = np.isfinite) -> None:
    """Raise unless ``is_right`` is true for a number, or for all numbers of a tuple or an array."""
    if isinstance(value, tuple | list):
        for item in value:
            _check_numbers(where, item, is_right)
        return
    are_floats = isinstance(value, float | np.floating) or (isinstance(value, np.ndarray) and value.dtype.kind in "fc")
    if are_floats and not np.all(is_right(value)):
        raise DataError(f"{where} must hold finite numbers")


def _is_number(value: Any) -> Any:
    # Thresholds may be infinite.
    return ~np.isnan(value)
