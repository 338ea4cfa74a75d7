"""Model files of earlier versions: renamed classes and fields, and attributes that became records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from phimap.io.schema import check_record
from phimap.records import Record

#: Names of record classes in older files, and their current names.
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
#: For each current record class, the names of its fields in older files and their current names.
FIELDS: dict[str, dict[str, str]] = {
    "SeriesTerm": {"deviation": "orthogonal"},
}
#: For each removed record class, a function that converts its fields to the name and fields of a current class.
CONVERTED: dict[str, Callable[[dict[str, Any]], tuple[str, dict[str, Any]]]] = {}
#: Names of attributes of estimators in older files, and their current names.
ATTRIBUTES: dict[str, str] = {"_far": "_outlying"}


def current_record(name: str, values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Convert the class name and the fields of a record in a model file to the current ones."""
    if name in CONVERTED:
        name, values = CONVERTED[name](values)
    name = RECORDS.get(name, name)
    renamed = FIELDS.get(name, {})
    return name, {renamed.get(field, field): value for field, value in values.items()}


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
    inputs, targets = _inputs(estimator, state), _targets(state)
    scaling: Any = state.pop("scaling_")
    mapped = _record(
        "ScaledMap",
        scaling=scaling,
        feature_map=state.pop("feature_map_"),
        metric=state.pop("metric_", np.ones(scaling.shift.size)),
        range=state.pop("_range", None),
    )
    parts = {name: state.pop(f"{name}_", None) for name in ("search", "solution", "corrections", "calibration")}
    seed, n_rows = state.pop("_seed"), state.pop("n_samples_seen_")
    found = {
        "_fitted": _record(
            "Fitted", inputs=inputs, targets=targets, map=mapped, seed=seed, n_samples_seen=n_rows, **parts
        )
    }
    kept = {name: state.pop(old, None) for name, old in _STATE.items()}
    if kept["sums"] is not None:
        found["_state"] = _record("TrainingState", **kept)
    return found | state


#: Fields of a training state, and the attributes of a learner that held them.
_STATE = {"sums": "solver_", "sample": "_sample", "extreme": "_outlying", "origin": "_origin"}


def _stochastic_learner(estimator: str, state: dict[str, Any]) -> dict[str, Any]:
    """Convert attributes of a doubly stochastic learner in files up to version 0.2 to a model and a preconditioner."""
    inputs, targets = _inputs(estimator, state), _targets(state)
    names = ("scaling", "blocks", "n_samples_seen", "weight_seen", "n_steps")
    parts = {name: state.pop(f"{name}_") for name in names}
    parts |= {name: state.pop(f"_{name}") for name in ("coef", "intercept", "seed")}
    found = {"_fitted": _record("StochasticModel", inputs=inputs, targets=targets, **parts)}
    if "solver_" in state:
        found["_preconditioner"] = state.pop("solver_")
    return found | state


def _inputs(estimator: str, state: dict[str, Any]) -> Record:
    return _record(
        "InputEncoding",
        learner=estimator.rpartition(".")[2],
        n_features=state.pop("n_features_in_"),
        names=state.pop("feature_names_in_", None),
        image_shape=state.pop("image_shape_", None),
        sparse=state.pop("_sparse"),
        encoder=state.pop("encoder_", None),
    )


def _targets(state: dict[str, Any]) -> Record:
    if "classes_" in state:
        return _record("Classes", labels=state.pop("classes_"), factors=state.pop("_class_factors", None))
    return _record(
        "Numbers",
        n_targets=state.pop("n_targets_"),
        single_column=state.pop("_single_column"),
        units=state.pop("target_units_", None),
        clip=state.pop("_robust", None),
    )


def _record(name: str, **values: Any) -> Record:
    """Make a current record, and check it like a record from a file."""
    record = Record.registry[name](**values)
    check_record(record)
    return record


def _ridge_solver(statistics: Any, rows: Any) -> Record:
    """Make a ridge solver from the sums of a learner or, in dual form, from the features and targets of its rows."""
    solver: Any = Record.registry["RidgeSolver"]
    return solver(None, (rows,), len(rows[1])) if statistics is None else solver(statistics)
