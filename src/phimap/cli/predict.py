"""``phimap predict``: a saved model on the rows of a table."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import csv as arrow_csv

from phimap._files import write_whole
from phimap.cli.alignment import Ids, aligned
from phimap.cli.describe import task_of
from phimap.cli.errors import complain
from phimap.cli.fit import predict_unnamed
from phimap.cli.model_rows import ModelRows
from phimap.cli.options import PredictOptions
from phimap.cli.outputs import check_writable
from phimap.cli.rows import check_single, tell_of
from phimap.cli.scoring import Scores
from phimap.cli.standard_input import in_words, readable
from phimap.config import config
from phimap.io import DataError
from phimap.io.model import load
from phimap.io.target import is_present
from phimap.learn.data.batches import feature_rows


def run(options: PredictOptions) -> None:
    """Carry out the command."""
    file, data, output, target = options.model, in_words(options.data), options.output, options.target
    check_writable("--output", output, [options.data, str(file)])
    with config(memory=options.memory, n_jobs=options.n_jobs), readable(options.data) as path:
        model = load(file)
        if not hasattr(model, "predict"):
            raise DataError(f"{file}: holds {type(model).__name__}, which makes no predictions. Give a learner.")
        n_targets = getattr(model, "n_targets_", 1)
        if n_targets > 1:
            raise DataError(
                f"{file}: predicts {n_targets} targets, the command line takes one. Use phimap.load in Python."
            )
        opened = ModelRows(data, path, target, model, strict=options.strict)
        ids = None if options.id is None else Ids(path, options.id)
        scores = Scores(task_of(model), getattr(model, "classes_", None)) if target is not None else None
        batches = aligned(_predictions(model, data, opened, scores), opened, ids)
        if output is None:
            _write(sys.stdout.buffer, batches)
            sys.stdout.flush()
        else:
            write_whole(output, lambda file: _write(file, batches))
    tell_of(data, opened.table)
    if scores is not None:
        if (unseen := scores.unseen()) is not None:
            complain(f"{data}: {unseen}", "warning")
        # Beside predictions on standard output the score would be one more row.
        stream = sys.stderr if output is None else sys.stdout
        stream.writelines(f"{name} {value}\n" for name, value in scores.lines())


def _kind(targets: np.ndarray) -> str:
    """What targets are, in a word; classes from data frames are text in arrays of objects."""
    return "text" if isinstance(targets.tolist()[0], str | bytes) else "numbers"


def _predictions(
    model: Any, data: str, opened: ModelRows, scores: Scores | None
) -> Iterator[tuple[pa.Table, np.ndarray]]:
    """Predictions batch by batch, with the names of rows that have one, and their places; scored on the way."""
    start = 0
    for X, y, numbers in opened.batches(feature_rows(model.feature_map_.record_.n_components, 4)):
        # A model of one target in a column predicts a column.
        predicted = predict_unnamed(model, X).reshape(len(X))
        if scores is not None and y is not None:
            check_single(data, opened.table, y)
            known = is_present(y)
            y, told = y[known], predicted[known]
            if len(y) and _kind(y) != _kind(told):
                raise DataError(
                    f"{data}: target {opened.table.target_name!r} holds {_kind(y)}, the model predicts {_kind(told)}. "
                    "Name the column that the model was trained on."
                )
            scores.update(y, told)
        row_names = opened.table.row_names
        names = {} if row_names is None else {"file": row_names[start : start + len(X)]}
        start += len(X)
        yield pa.table({**names, "prediction": pa.array(predicted)}), numbers


def _write(file: Any, batches: Iterator[pa.Table]) -> None:
    """Write a CSV file."""
    for start, batch in enumerate(batches):
        if start == 0:
            file.write(f"{','.join(batch.column_names)}\n".encode())
        if batch.num_columns > 1 or not batch.column(0).null_count:
            file.write(_lines(batch))
            continue
        # A missing value alone would make an empty line, which readers pass over.
        missing = batch.column(0).is_null().to_numpy()
        for run in np.split(np.arange(len(missing)), np.flatnonzero(np.diff(missing)) + 1):
            file.write(b'""\n' * len(run) if missing[run[0]] else _lines(batch.slice(run[0], len(run))))


def _lines(batch: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    arrow_csv.write_csv(batch, sink, arrow_csv.WriteOptions(include_header=False, quoting_style="needed"))
    return sink.getvalue().to_pybytes()
