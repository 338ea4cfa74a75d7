"""Fitted models in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from phimap.io import Table

#: Items of a long list that are written out.
LISTED = 12


def task_of(model: Any) -> str:
    """The task of a learner."""
    from sklearn.base import is_classifier

    return "classification" if is_classifier(model) else "regression"


def kernel_text(kernel: Any) -> str:
    """A kernel with its parameters, numbers to four digits."""
    set_ones = {name: value for name, value in kernel.get_params().items() if value is not None}
    values = {name: f"{v:.4g}" if isinstance(v, float) else f"{v}" for name, v in set_ones.items()}
    return f"{type(kernel).__name__}({', '.join(f'{name} = {text}' for name, text in values.items())})"


def inputs_text(table: Table) -> str:
    """What a row of a table holds."""
    if table.is_image:
        return f"images of {times(table.sample_shape)}"
    return f"{table.n_features:,} columns"


def times(shape: Sequence[int]) -> str:
    """A shape in words."""
    return " x ".join(map(str, shape))


def some(items: Sequence[Any]) -> str:
    """The first few of `items`."""
    shown = ", ".join(str(item) for item in items[:LISTED])
    return f"{shown}, ..." if len(items) > LISTED else shown
