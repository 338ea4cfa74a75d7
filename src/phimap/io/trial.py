"""Checks of a loaded model. Its parts must fit each other, and its outputs for a row of zeros must be finite."""

from __future__ import annotations

import warnings
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
from phimap.learn.fitted import Fitted
from phimap.packed import PackedArray
from phimap.random_map import MapRecord, RandomMap
from phimap.tables import TableEncoder

# Largest scratch memory of a row, in floats, for which a model is tried. Maps of large images need more memory and take
# long, so only their parts are checked; other faults show in the first prediction.
_LARGEST_TRIAL = 2**22


def check_model(model: Any) -> None:
    """Raise unless `save` accepts `model`, its parts fit each other, and its outputs for a row of zeros are finite."""
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
    record = _record_of(steps[-1])
    if record is not None:
        _check_size(record)
    if record is None or record.scratch_width <= _LARGEST_TRIAL:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            _try(steps)


def _record_of(step: Any) -> MapRecord | None:
    feature_map = step if isinstance(step, RandomMap) else getattr(step, "feature_map_", None)
    return feature_map.record_ if isinstance(feature_map, RandomMap) else None


def _check_size(record: MapRecord) -> None:
    """Raise if a single row of a map exceeds the byte budget."""
    n_bytes = 8 * max(record.n_features, record.n_components, record.scratch_width)
    if n_bytes > memory_budget():
        raise DataError(
            f"a row takes {size_text(n_bytes)} in its feature map, over the budget of {size_text(memory_budget())}"
        )


def _try(steps: list[Any]) -> None:
    """Raise unless the outputs of the model for a row of zeros are finite. It runs on the host in one thread."""
    encoder = steps[0] if isinstance(steps[0], TableEncoder) else getattr(steps[0], "encoder_", None)
    if encoder is not None:
        _check_outputs(encoder.transform(_missing_cells(encoder)))
    if encoder is steps[0]:
        return
    # The file's `device` and `n_jobs` may not suit this machine.
    tried = [_on_host(step) for step in steps]
    row: Any = np.zeros((1, steps[0].n_features_in_ if encoder is None else encoder.n_columns_out_))
    for step in tried[:-1]:
        row = step.transform(row)
    last = tried[-1]
    if not hasattr(last, "predict"):
        _check_outputs(last.transform(row))
    elif isinstance(fitted := getattr(last, "_fitted", None), Fitted) and fitted.solution is None:
        # A model that was saved before it was solved is solved at its first prediction, so only its features are tried.
        _check_outputs(fitted.map.feature_map.transform(fitted.map.scaled(fitted.inputs.rows(row))))
    else:
        _check_outputs(last.predict(row))
        if hasattr(last, "decision_function"):
            _check_outputs(last.decision_function(row))


def _on_host(step: Any) -> Any:
    params = {"device": "cpu", "n_jobs": 1}
    return copy(step).set_params(**{name: params[name] for name in params if name in step.get_params(deep=False)})


def _missing_cells(encoder: TableEncoder) -> Any:
    """A row in which the cells of all columns of the encoder are missing."""
    import pyarrow as pa

    names = [column.name for column in encoder.columns_]
    if not hasattr(encoder, "feature_names_in_"):
        return np.full((1, len(names)), None, dtype=object)
    return pa.table([pa.nulls(1) for _ in names], names=names)


def _check_outputs(outputs: Any) -> None:
    values = outputs.data if sparse.issparse(outputs) else outputs
    values = values.to_dense() if isinstance(values, PackedArray) else values
    if values.dtype.kind in "fc" and not np.isfinite(values).all():
        raise DataError("it gives numbers that are not finite for a row of zeros")
