"""What older model files call the records of today: renamed classes and fields, and classes that became others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from phimap.records import Record

#: Names of record classes in older files, and what they are called now.
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
#: For a record class of today, names of its fields in older files and what they are called now.
FIELDS: dict[str, dict[str, str]] = {
    "SeriesTerm": {"deviation": "orthogonal"},
}
#: For a record class that is gone, what makes of its fields the name and the fields of one of today.
CONVERTED: dict[str, Callable[[dict[str, Any]], tuple[str, dict[str, Any]]]] = {}
#: Names of estimators' attributes in older files, and what they are called now.
ATTRIBUTES: dict[str, str] = {"_far": "_outlying"}


def current_record(name: str, values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The class and the fields of today for a record of a model file."""
    if name in CONVERTED:
        name, values = CONVERTED[name](values)
    name = RECORDS.get(name, name)
    renamed = FIELDS.get(name, {})
    return name, {renamed.get(field, field): value for field, value in values.items()}


def current_state(state: dict[str, Any]) -> dict[str, Any]:
    """The attributes of today for those of an estimator in a model file."""
    state = {ATTRIBUTES.get(name, name): value for name, value in state.items()}
    if "statistics_" in state:
        state["solver_"] = _ridge_solver(state.pop("statistics_"), state.pop("_dual_rows", None))
    return state


def _ridge_solver(statistics: Any, rows: Any) -> Record:
    """What a learner kept of its rows: sums, or where there are none the features and targets themselves."""
    solver: Any = Record.registry["RidgeSolver"]
    return solver(None, (rows,), len(rows[1])) if statistics is None else solver(statistics)
