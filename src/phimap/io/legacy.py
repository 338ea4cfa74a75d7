"""Model files of earlier versions: renamed classes and fields, and attributes that became records."""

from __future__ import annotations

from typing import Any

import numpy as np

from phimap.io.schema import check_record
from phimap.records import Record

#: Names of record classes in older files, with the current names.
RECORDS: dict[str, str] = {
    "FarRows": "ExtremeRows",
    "OutlyingRows": "ExtremeRows",
    "Preconditioner": "SamplePreconditioner",
    "ResidualRecord": "RectifiedRemainderRecord",
    "RestRecord": "RemainderRecord",
    "RidgeSolution": "LinearSolution",
    "SignProductsRecord": "MaclaurinRecord",
    "SpectralProductsRecord": "ComplexToRealRecord",
}
#: For each current record class, the names of its fields in older files, with the current names.
FIELDS: dict[str, dict[str, str]] = {
    "SeriesTerm": {"deviation": "orthogonal"},
}
#: Names of attributes of estimators in older files, with the current names.
ATTRIBUTES: dict[str, str] = {"_far": "_outlying"}
#: For each record, its fields and the attributes of learners that held their values up to version 0.2.
ATTRIBUTES_OF: dict[str, dict[str, str]] = {
    "InputEncoding": {
        "n_features": "n_features_in_",
        "names": "feature_names_in_",
        "image_shape": "image_shape_",
        "sparse": "_sparse",
        "encoder": "encoder_",
    },
    "Classes": {"labels": "classes_", "factors": "_class_factors"},
    "Numbers": {
        "n_targets": "n_targets_",
        "single_column": "_single_column",
        "units": "target_units_",
        "clip": "_robust",
    },
    "ScaledMap": {"scaling": "scaling_", "feature_map": "feature_map_", "metric": "metric_", "range": "_range"},
    "Fitted": {
        "seed": "_seed",
        "n_samples_seen": "n_samples_seen_",
        **{name: f"{name}_" for name in ("search", "solution", "corrections", "calibration")},
    },
    "TrainingState": {"sums": "solver_", "sample": "_sample", "extreme": "_outlying", "origin": "_origin"},
    "StochasticModel": {
        **{name: f"{name}_" for name in ("scaling", "blocks", "n_samples_seen", "weight_seen", "n_steps")},
        **{name: f"_{name}" for name in ("coef", "intercept", "seed")},
    },
}


def current_record(name: str, values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Convert the class name and the fields of a record in a model file to current names and fields."""
    name = RECORDS.get(name, name)
    renamed = FIELDS.get(name, {})
    values = {renamed.get(field, field): value for field, value in values.items()}
    if name == "Corrections" and "partition" in values:
        values["models"] = (_partition_model(values),)
    return name, values


def current_state(estimator: str, state: dict[str, Any]) -> dict[str, Any]:
    """Convert the attributes `state` of an estimator in a model file to current ones; `estimator` is its class name."""
    state = {ATTRIBUTES.get(name, name): value for name, value in state.items()}
    if "statistics_" in state:
        state["solver_"] = _ridge_solver(state.pop("statistics_"), state.pop("_dual_rows", None))
    if "feature_map_" in state and "scaling_" in state:
        return _learner(estimator, state)
    if "blocks_" in state:
        return _stochastic_learner(estimator, state)
    return state


def _learner(estimator: str, state: dict[str, Any]) -> dict[str, Any]:
    """Convert the attributes of a learner in files up to version 0.2 to a fitted model and a training state."""
    inputs, targets = _inputs_and_targets(estimator, state)
    state.setdefault("metric_", np.ones(state["scaling_"].shift.size))
    mapped = _record("ScaledMap", state)
    found = {"_fitted": _record("Fitted", state, inputs=inputs, targets=targets, map=mapped)}
    if state.get("solver_") is not None:
        found["_state"] = _record("TrainingState", state)
    kept = {name: value for name, value in state.items() if name not in ATTRIBUTES_OF["TrainingState"].values()}
    return found | kept


def _stochastic_learner(estimator: str, state: dict[str, Any]) -> dict[str, Any]:
    """Convert attributes of a doubly stochastic learner in files up to version 0.2 to a model and a preconditioner."""
    inputs, targets = _inputs_and_targets(estimator, state)
    found = {"_fitted": _record("StochasticModel", state, inputs=inputs, targets=targets)}
    if "solver_" in state:
        found["_preconditioner"] = state.pop("solver_")
    return found | state


def _inputs_and_targets(estimator: str, state: dict[str, Any]) -> tuple[Record, Record]:
    inputs = _record("InputEncoding", state, learner=estimator.rpartition(".")[2])
    return inputs, _record("Classes" if "classes_" in state else "Numbers", state)


def _record(name: str, state: dict[str, Any], **parts: Any) -> Record:
    """Make a record of the current class `name` from attributes of an older file, and check it.

    The checks are those of a record from a file. `ATTRIBUTES_OF` names the attribute for each field. The attributes are
    removed from `state`; a missing one gives None. Other fields are given as `parts`.
    """
    held = {field: state.pop(attribute, None) for field, attribute in ATTRIBUTES_OF[name].items()}
    record = Record.registry[name](**held, **parts)
    check_record(record)
    return record


def _partition_model(values: dict[str, Any]) -> Record:
    """Make the model of the only partition from the fields of corrections up to version 0.2, and remove these fields.

    The rows were stored in the order of the regions.
    """
    order = np.arange(len(values["rows"]))
    make: Any = Record.registry["PartitionModel"]
    model = make(values.pop("partition"), order, values.pop("ends"), values.pop("coefs"))
    check_record(model)
    return model


def _ridge_solver(statistics: Any, rows: Any) -> Record:
    """Make a ridge solver from the sums of a learner or, in dual form, from the features and targets of its rows."""
    solver: Any = Record.registry["RidgeSolver"]
    return solver(None, (rows,), len(rows[1])) if statistics is None else solver(statistics)
