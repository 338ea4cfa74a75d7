"""``phimap predict``: a saved model on the rows of a table."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import csv as arrow_csv

from phimap._files import write_whole
from phimap.cli.describe import inputs_text, task_of, times
from phimap.cli.errors import complain
from phimap.cli.facts import Fact, write
from phimap.cli.held_out import outcomes
from phimap.cli.options import PredictOptions
from phimap.cli.outputs import check_writable
from phimap.cli.rows import check_single
from phimap.cli.scoring import Scores
from phimap.cli.uncertainty import Uncertainty
from phimap.config import config
from phimap.io import DataError, Table, open_table
from phimap.io.model import load
from phimap.learn.data.batches import feature_rows


def run(options: PredictOptions) -> None:
    """Carry out the command."""
    file, data, output, target = options.model, options.data, options.output, options.target
    check_writable("--output", output, [data, str(file)])
    if options.json and output is None:
        raise ValueError("--json needs --output FILE, got none: predictions would share standard output with it.")
    with config(memory=options.memory, n_jobs=options.n_jobs):
        model = load(file)
        if not hasattr(model, "predict"):
            raise DataError(f"{file}: holds {type(model).__name__}, which makes no predictions. Give a learner.")
        n_targets = getattr(model, "n_targets_", 1)
        if n_targets > 1:
            raise DataError(
                f"{file}: predicts {n_targets} targets, the command line takes one. Use phimap.load in Python."
            )
        extra = Uncertainty(model, str(file), options.probabilities, options.std, options.interval)
        table = _open(data, target, model)
        scores = Scores(task_of(model), getattr(model, "classes_", None)) if target is not None else None
        batches = _predictions(model, data, table, scores, extra)
        if output is None:
            _write(sys.stdout.buffer, batches)
            sys.stdout.flush()
        else:
            write_whole(output, lambda file: _write(file, batches))
    if scores is not None and (unseen := scores.unseen()) is not None:
        complain(f"{data}: {unseen}", "warning")
    facts = [] if scores is None else [*scores.facts(), Fact("rows", scores.n)]
    if options.json:
        facts.append(Fact("output", str(output)))
    # Beside predictions on standard output the score would be one more row.
    write(facts, as_json=options.json, stream=sys.stderr if output is None else sys.stdout)


def _open(data: str, target: str | None, model: Any) -> Table:
    """The table on the columns that the model was trained on: by name, or by place where one of both has no names.

    Images of a folder get the model's channels, and its size if the model was trained on resized ones.
    """
    names = getattr(model, "feature_names_in_", None)
    dtype = getattr(model, "input_dtype_", "float32")
    shape: tuple[int, ...] = getattr(model, "sample_shape_", ())
    if Path(data).is_dir():
        resized, channels = getattr(model, "resized_", None), shape[2] if len(shape) == 3 else None
        table = open_table(data, target, dtype=dtype, size=resized, channels=channels)
    elif names is None or data.lower().endswith((".npy", ".npz")) or ".npz:" in data:
        table = open_table(data, target, dtype=dtype)
    elif target in names.tolist():
        known = f", {model.target_name_!r}" if hasattr(model, "target_name_") else ""
        raise DataError(
            f"{data}: `target` {target!r} is a feature of the model. Name the column that it predicts{known}."
        )
    else:
        return open_table(data, target, columns=names.tolist(), dtype=dtype)
    if len(shape) == 3 and table.is_image and table.sample_shape != shape:
        raise DataError(
            f"{data}: holds {inputs_text(table)}, the model was trained on images of {times(shape)}. "
            "Resize the images, or train with --size."
        )
    if table.n_features != model.n_features_in_:
        raise DataError(
            f"{data}: has {table.n_features} feature columns, the model was trained on {model.n_features_in_}. "
            "Give the same columns, or name the --target."
        )
    return table


def _kind(targets: np.ndarray) -> str:
    """What targets are, in a word; classes from data frames are text in arrays of objects."""
    return "text" if isinstance(targets.tolist()[0], str | bytes) else "numbers"


def _predictions(model: Any, data: str, table: Table, scores: Scores | None, extra: Uncertainty) -> Iterator[pa.Table]:
    """Predictions batch by batch, with the names of rows that have one; scored on the way."""
    start = 0
    for X, y in table.batches(min(feature_rows(model.feature_map_.record_.n_components, 4), table.batch_rows)):
        predicted, decisions = outcomes(model, X)
        if scores is not None and y is not None:
            check_single(data, table, y)
            if _kind(y) != _kind(predicted):
                raise DataError(
                    f"{data}: target {table.target_name!r} holds {_kind(y)}, the model predicts {_kind(predicted)}. "
                    "Name the column that the model was trained on."
                )
            scores.update(y, predicted, decisions)
        names = {} if table.row_names is None else {"file": table.row_names[start : start + len(X)]}
        start += len(X)
        yield pa.table({**names, "prediction": pa.array(predicted), **extra.columns(X)})


def _write(file: Any, batches: Iterator[pa.Table]) -> None:
    """Write a CSV file."""
    options = arrow_csv.WriteOptions(include_header=False, quoting_style="needed")
    for start, batch in enumerate(batches):
        if start == 0:
            head = io.StringIO()
            csv.writer(head, lineterminator="\n").writerow(batch.column_names)
            file.write(head.getvalue().encode())
        sink = pa.BufferOutputStream()
        arrow_csv.write_csv(batch, sink, options)
        file.write(sink.getvalue())
