"""Partial dependence of predictions on the numeric columns of encoded tables."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from phimap.cli.describe import leading_columns
from phimap.report import Dependence, Dependences, dependences


def encoded_dependences(model: Any, X: Any, count: int) -> Dependences | None:
    """Predictions along the numeric columns among the `count` most relevant columns, in the units of the table.

    `X` (n, d) holds encoded rows. The result is None if there is no such column.
    """
    encoder = model.encoder_
    numbers = {
        column.name: (place, column.encoding)
        for place, column in enumerate(encoder.columns_)
        if column.kind == "number" and column.encoding.deviation
    }
    names = [name for name, _ in leading_columns(model, count) if name in numbers]
    if not names:
        return None
    places = [int(encoder.groups_.searchsorted(numbers[name][0])) for name in names]
    found = dependences(model, X, places, names)
    scales = {name: (numbers[name][1].mean, numbers[name][1].deviation) for name in names}
    pair = None if found.pair is None else _in_units(found.pair, scales)
    return replace(found, singles=[_in_units(one, scales) for one in found.singles], pair=pair)


def _in_units(found: Dependence, scales: dict[str, tuple[float, float]]) -> Dependence:
    """The dependence, with its grids converted from standardised values to the units of the table."""
    grids = zip(found.names, found.grids, strict=True)
    return replace(found, grids=tuple(scales[name][0] + scales[name][1] * grid for name, grid in grids))
