"""``phimap predict``: predict the rows of a table with a saved model."""

from __future__ import annotations

import csv
import io
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
from phimap.cli.far_rows import FarRows
from phimap.cli.held_out import outcomes
from phimap.cli.model_rows import ModelRows
from phimap.cli.options import PredictOptions
from phimap.cli.output import Fact, write
from phimap.cli.outputs import check_writable
from phimap.cli.rows import check_single, note_reading
from phimap.cli.scoring import Scores
from phimap.cli.standard_input import in_words, readable
from phimap.cli.uncertainty import Uncertainty
from phimap.config import config
from phimap.io import DataError
from phimap.io.model import load
from phimap.io.prefetch import read_ahead
from phimap.io.target import is_present
from phimap.learn.rows.batches import feature_rows


def run(options: PredictOptions) -> None:
    """Run the command."""
    file, data, output, target = options.model, in_words(options.data), options.output, options.target
    check_writable("--output", output, [options.data, str(file)])
    if options.json and output is None:
        raise ValueError("--json needs --output FILE, got none: predictions would share standard output with it.")
    with config(memory=options.memory, n_jobs=options.n_jobs), readable(options.data) as path:
        model = load(file)
        if not hasattr(model, "predict"):
            raise DataError(f"{file}: holds {type(model).__name__}, which makes no predictions. Give a learner.")
        n_targets = getattr(model, "n_targets_", 1)
        if n_targets > 1:
            raise DataError(
                f"{file}: predicts {n_targets} targets, the command line takes one. Use phimap.load in Python."
            )
        extra = Uncertainty(model, str(file), options.probabilities, options.std, options.interval)
        opened = ModelRows(data, path, target, model, strict=options.strict)
        ids = None if options.id is None else Ids(path, options.id)
        scores = Scores(task_of(model), getattr(model, "classes_", None)) if target is not None else None
        far = FarRows()
        batches = aligned(_predictions(model, data, opened, scores, extra, far), opened, ids)
        if output is None:
            _write(sys.stdout.buffer, batches)
            sys.stdout.flush()
        else:
            write_whole(output, lambda file: _write(file, batches))
    note_reading(data, opened.table)
    if far.message is not None:
        complain(f"{data}: {far.message}", "warning")
    if scores is not None and (unseen := scores.unseen()) is not None:
        complain(f"{data}: {unseen}", "warning")
    facts = [] if scores is None else [*scores.facts(), Fact("rows", scores.n)]
    if options.json:
        facts.append(Fact("output", str(output)))
    # If predictions go to standard output, scores go to standard error: they would look like further predictions.
    write(facts, as_json=options.json, stream=sys.stderr if output is None else sys.stdout)


def _kind(targets: np.ndarray) -> str:
    """``"text"`` or ``"numbers"``. Text from data frames is stored in arrays of objects."""
    return "text" if isinstance(targets.tolist()[0], str | bytes) else "numbers"


def _predictions(
    model: Any, data: str, opened: ModelRows, scores: Scores | None, extra: Uncertainty, far: FarRows
) -> Iterator[tuple[pa.Table, np.ndarray]]:
    """Yield a table of predictions and the row numbers for each batch, with names of images; also update `scores`."""
    for X, y, numbers in read_ahead(opened.batches(feature_rows(model.feature_map_.record_.n_components, 4))):
        with far.counted(len(X)):
            predicted, decisions = outcomes(model, X)
        if scores is not None and y is not None:
            check_single(data, opened.table, y)
            known = is_present(y)
            y, told = y[known], predicted[known]
            if len(y) and _kind(y) != _kind(told):
                raise DataError(
                    f"{data}: target {opened.table.target_name!r} holds {_kind(y)}, the model predicts {_kind(told)}. "
                    "Name the column that the model was trained on."
                )
            scores.update(y, told, None if decisions is None else decisions[known])
        row_names = opened.table.row_names
        names = {} if row_names is None else {"file": [row_names[number - 1] for number in numbers]}
        yield pa.table({**names, "prediction": pa.array(predicted), **extra.columns(X)}), numbers


def _write(file: Any, batches: Iterator[pa.Table]) -> None:
    """Write tables of predictions as one CSV file."""
    for start, batch in enumerate(batches):
        if start == 0:
            head = io.StringIO()
            csv.writer(head, lineterminator="\n").writerow(batch.column_names)
            file.write(head.getvalue().encode())
        if batch.num_columns > 1 or not batch.column(0).null_count:
            file.write(_lines(batch))
            continue
        # In a table of one column a missing value would be an empty line, which most readers skip, so it is quoted.
        missing = batch.column(0).is_null().to_numpy()
        for run in np.split(np.arange(len(missing)), np.flatnonzero(np.diff(missing)) + 1):
            file.write(b'""\n' * len(run) if missing[run[0]] else _lines(batch.slice(run[0], len(run))))


def _lines(batch: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    arrow_csv.write_csv(batch, sink, arrow_csv.WriteOptions(include_header=False, quoting_style="needed"))
    return sink.getvalue().to_pybytes()
