"""``phimap predict``: a saved model on the rows of a table."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import csv as arrow_csv

from phimap.cli.describe import task_of
from phimap.cli.fit import predict_unnamed
from phimap.cli.outputs import check_writable
from phimap.cli.scoring import Scores
from phimap.config import config
from phimap.io import DataError, Table, open_table
from phimap.io.columns import numbered_names
from phimap.io.model import load, write_whole
from phimap.learn.batches import feature_rows


def run(
    model_path: Path, data: str, output: Path | None, target: str | None, memory: str | None, n_jobs: int | None
) -> None:
    """Carry out the command."""
    check_writable("--output", output, [data, str(model_path)])
    with config(memory=memory, n_jobs=n_jobs):
        model = load(model_path)
        if not hasattr(model, "predict"):
            raise DataError(f"{model_path}: holds {type(model).__name__}, which makes no predictions. Give a learner.")
        table = _open(data, target, model)
        scores = Scores(task_of(model)) if target is not None else None
        batches = _predictions(model, table, scores)
        if output is None:
            _write(sys.stdout.buffer, batches)
            sys.stdout.flush()
        else:
            write_whole(output, lambda file: _write(file, batches))
    if scores is not None:
        # Beside predictions on standard output the score would be one more row.
        stream = sys.stderr if output is None else sys.stdout
        stream.writelines(f"{name} {value}\n" for name, value in scores.lines())


def _open(data: str, target: str | None, model: Any) -> Table:
    """The table on the columns that the model was trained on: by name, or by place in arrays, which have no names."""
    names = tuple(str(name) for name in getattr(model, "feature_names_in_", numbered_names(model.n_features_in_)))
    dtype = getattr(model, "input_dtype_", "float32")
    if not (data.lower().endswith((".npy", ".npz")) or ".npz:" in data):
        return open_table(data, target, columns=names, dtype=dtype)
    table = open_table(data, target, dtype=dtype)
    if table.n_features != len(names):
        raise DataError(
            f"{data}: has {table.n_features} feature columns, the model was trained on {len(names)}. "
            "Give an array with the same columns, or name its --target."
        )
    return table


def _predictions(model: Any, table: Table, scores: Scores | None) -> Iterator[np.ndarray]:
    """Predictions (r,) batch by batch, scored on the way."""
    for X, y in table.batches(feature_rows(model.feature_map_.record_.n_components, 4)):
        predicted = predict_unnamed(model, X)
        if scores is not None and y is not None:
            if (y.dtype.kind in "US") != (predicted.dtype.kind in "US"):
                raise DataError(
                    f"target {table.target_name!r} holds {y.dtype.name}, the model predicts {predicted.dtype.name}. "
                    "Name the column that the model was trained on."
                )
            scores.update(y, predicted)
        yield predicted


def _write(file: Any, batches: Iterator[np.ndarray]) -> None:
    """Write a CSV file of one column."""
    options = arrow_csv.WriteOptions(include_header=False, quoting_style="needed")
    for start, predicted in enumerate(batches):
        if start == 0:
            file.write(b"prediction\n")
        sink = pa.BufferOutputStream()
        arrow_csv.write_csv(pa.table({"prediction": pa.array(predicted)}), sink, options)
        file.write(sink.getvalue())
