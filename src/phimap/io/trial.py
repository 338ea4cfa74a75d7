"""Checks of a loaded model. Its parts must fit each other, and its outputs for a few rows must be finite."""

from __future__ import annotations

import warnings
from contextlib import suppress
from copy import copy
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from phimap._files import DataError
from phimap.config import memory_budget, size_text
from phimap.io.encoding import TRANSFORMERS, public_classes
from phimap.io.schema import check_requirements
from phimap.kernels import Kernel
from phimap.learn.base import KernelModel
from phimap.learn.fitted import Fitted
from phimap.packed import PackedArray
from phimap.random_map import RandomMap
from phimap.tables import TableEncoder

# A model is tried only if the scratch memory of a row is at most this number of floats. Maps of large images need more
# memory and take long, so only their parts are checked. Other faults show in the first prediction.
_LARGEST_TRIAL = 2**22


def check_model(model: Any) -> None:
    """Raise unless `save` accepts `model`, its parts fit each other, and its outputs for a few rows are finite."""
    known = tuple(public_classes().values())
    if isinstance(model, Pipeline):
        steps = [step for _, step in model.steps if step not in (None, "passthrough")]
        if not all(type(step) in (*known, *TRANSFORMERS.values()) for step in steps):
            raise DataError("a step of its pipeline is none that a model file can hold")
    elif type(model) in known:
        steps = [model]
    else:
        raise DataError(f"it holds no model but {type(model).__name__}")
    check_is_fitted(model)
    for step in steps:
        params = step.get_params(deep=False)
        for part in (step, *(value for name, value in vars(step).items() if name not in params)):
            if hasattr(part, "requirements"):
                check_requirements(part, type(part).__name__)
    feature_map = _map_of(steps[-1])
    record = None if feature_map is None else feature_map.record_
    if record is not None:
        _check_width(max(record.n_features, record.n_components, record.scratch_width))
        # The kernel of a map is used for deviations and comparisons, which are not tried here.
        if isinstance(kernel := getattr(feature_map, "kernel_", None), Kernel):
            kernel._check_parameters(record.n_features)
    if record is None or record.scratch_width <= _LARGEST_TRIAL:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            _try(steps)


def _map_of(step: Any) -> RandomMap | None:
    feature_map = step if isinstance(step, RandomMap) else getattr(step, "feature_map_", None)
    return feature_map if isinstance(feature_map, RandomMap) else None


def _check_width(width: int) -> None:
    """Raise if a row of `width` numbers exceeds the byte budget."""
    n_bytes = 8 * width
    if n_bytes > memory_budget():
        raise DataError(f"a row takes {size_text(n_bytes)}, over the budget of {size_text(memory_budget())}")


def _try(steps: list[Any]) -> None:
    """Raise unless the outputs of the model for a few rows are finite. It runs on the host in one thread."""
    encoder = steps[0] if isinstance(steps[0], TableEncoder) else getattr(steps[0], "encoder_", None)
    if encoder is not None:
        _check_width(encoder.n_columns_out_)
        _check_outputs(encoder.transform(encoder.missing_row()))
    if encoder is steps[0]:
        return
    if isinstance(steps[-1], KernelModel):
        # A model that is solved at a prediction, or gives standard deviations, uses its parameters only then.
        with steps[-1]._settings(warn=False):
            pass
        _check_state(steps[-1])
    for step in steps:
        _check_width(getattr(step, "n_features_in_", 1))
    # The file's `device` and `n_jobs` may not suit this machine.
    tried = [_on_host(step) for step in steps]
    inputs = getattr(getattr(steps[0], "_fitted", None), "inputs", None)
    if getattr(inputs, "encodes_arrays", False):
        # The rows of such a model are cells, but the stored ranges are the ranges of the encoded columns.
        rows = np.zeros((1, steps[0].n_features_in_))
    else:
        zeros = np.zeros((1, steps[0].n_features_in_ if encoder is None else encoder.n_columns_out_))
        rows = np.vstack([zeros, *_stored_rows(steps[0])])
    _outputs(tried, rows)
    # Rows and targets of unusual size do not fit float32, and raise an error in predictions.
    with suppress(ValueError):
        _outputs(tried, rows.astype(np.float32))


def _outputs(steps: list[Any], rows: Any) -> None:
    """Raise FloatingPointError unless all outputs of the steps for `rows` are finite."""
    for step in steps[:-1]:
        rows = step.transform(rows)
    last = steps[-1]
    fitted = getattr(last, "_fitted", None)
    if not hasattr(last, "predict"):
        _check_outputs(last.transform(rows))
    elif isinstance(fitted, Fitted) and fitted.solution is None:
        # A model that was saved before it was solved is solved at its first prediction, so only its features are tried
        # here.
        _check_outputs(fitted.map.feature_map.transform(fitted.map.scaled(fitted.inputs.rows(rows))))
    else:
        _check_outputs(last.predict(rows))
        if hasattr(last, "decision_function"):
            _check_outputs(last.decision_function(rows))
        if hasattr(last, "predict_proba") and (last.loss == "logistic" or getattr(fitted, "calibration", None)):
            _check_outputs(last.predict_proba(rows))


def _check_state(model: KernelModel) -> None:
    """Raise unless the sums and the sample of a model suit its map and its targets."""
    fitted, state = model._fitted, vars(model).get("_state")
    if state is None:
        if fitted.solution is None:
            raise DataError("it has neither coefficients nor the sums from which they follow")
        return
    # Standard deviations and further rows need features. A map in a file may give linear outputs alone.
    record = fitted.map.record
    _on_host(fitted.map.feature_map).transform(np.zeros((1, record.n_features)))
    if not state.sums.serves(fitted.map.width):
        raise DataError(f"its sums are not those of {fitted.map.width} features")
    if fitted.targets.encode(state.sample.y).shape[1] != fitted.targets.n_outputs:
        raise DataError(f"its sample has no targets for {fitted.targets.n_outputs} outputs")


def _stored_rows(step: Any) -> list[np.ndarray]:
    """Return rows within the stored ranges of the training rows: the shift of the scaling, and both ends."""
    fitted = getattr(step, "_fitted", None)
    mapped = getattr(fitted, "map", fitted)
    found = [getattr(getattr(mapped, "scaling", None), "shift", None)]
    columns = getattr(mapped, "range", None)
    found += [] if columns is None else [columns.low, columns.high]
    return [row[None] for row in found if row is not None]


def _on_host(step: Any) -> Any:
    params = {"device": "cpu", "n_jobs": 1}
    return copy(step).set_params(**{name: params[name] for name in params if name in step.get_params(deep=False)})


def _check_outputs(outputs: Any) -> None:
    values = outputs.data if sparse.issparse(outputs) else outputs
    values = values.to_dense() if isinstance(values, PackedArray) else values
    if values.dtype.kind in "fc" and not np.isfinite(values).all():
        raise FloatingPointError("it gives numbers that are not finite")
