"""``phimap predict``: predict the rows of a table with a saved model."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from phimap._files import one_line
from phimap.cli.describe import task_of
from phimap.cli.errors import complain
from phimap.cli.far_rows import FarRows
from phimap.cli.held_out import outcomes
from phimap.cli.loss_scores import scores_of
from phimap.cli.model_rows import ModelRows
from phimap.cli.options import PredictOptions
from phimap.cli.output import Fact, write
from phimap.cli.rows import check_single, note_reading
from phimap.cli.scoring import Scores
from phimap.cli.standard_input import in_words, readable
from phimap.cli.table_output import check_table_output, write_table
from phimap.cli.uncertainty import Uncertainty
from phimap.config import config
from phimap.io import BadRows, DataError, open_frame
from phimap.io.columns import MissingColumnError, closest_first
from phimap.io.model import load
from phimap.io.prefetch import read_ahead
from phimap.io.target import is_present
from phimap.learn.rows.batches import feature_rows

# The type is Any because the functions are created at import, so type checkers cannot see them.
pc: Any = pyarrow.compute
# The beginning of a text that spreadsheets take for a formula, and the pattern of a number, which may begin with a
# sign.
_FORMULA, _NUMBER = r"^[=+\-@\t\r]", r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
# Names of columns of predictions. The names of quantiles end with the level.
_PREDICTION = re.compile(r"prediction(_[\d.e-]+)?")


def run(options: PredictOptions) -> None:
    """Run the command."""
    file, data, output, target = options.model, in_words(options.data), options.output, options.target
    inputs = [options.data, str(file)]
    check_table_output(output, inputs, _has_predictions, "table of predictions", force=options.force)
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
        scores = scores_of(model, task_of(model)) if target is not None else None
        far = FarRows()
        batches = _aligned(_predictions(model, data, opened, scores, extra, far), opened, ids)
        if options.escape_formulas:
            batches = map(_escaped, batches)
        write_table(output, batches)
    if not options.quiet:
        note_reading(data, opened.table)
        if opened.n_filled:
            filled = "missing cells, which are filled with the medians of the training rows"
            complain(f"{data}: {opened.n_filled:,} rows have {filled}.", "note")
        opened.note_infinite()
        for note in (*opened.new_cells.notes, *([] if extra.note is None else [extra.note])):
            complain(f"{data}: {note}", "note")
    if far.message is not None:
        complain(f"{data}: {far.message}", "warning")
    if scores is not None and (unseen := scores.unseen()) is not None:
        complain(f"{data}: {unseen}", "warning")
    facts = [] if scores is None else [*(scores.facts() if scores.n else ()), *extra.facts(), Fact("rows", scores.n)]
    if options.json:
        facts.append(Fact("output", str(output)))
    # If predictions go to standard output, scores go to standard error, because they would look like further
    # predictions.
    write(facts, as_json=options.json, stream=sys.stderr if output is None else sys.stdout)


def _kind(targets: np.ndarray) -> str:
    """What the targets are: ``"text"`` or ``"numbers"``. Text from data frames is stored in arrays of objects."""
    return "text" if isinstance(targets.ravel()[0], str | bytes) else "numbers"


def _predictions(
    model: Any, data: str, opened: ModelRows, scores: Scores | None, extra: Uncertainty, far: FarRows
) -> Iterator[tuple[pa.Table, np.ndarray]]:
    """Yield a table of predictions and the row numbers (r,) of each batch, and update `scores`.

    For images, the first column of the table holds the names of the files.
    """
    for X, y, numbers in read_ahead(opened.batches(feature_rows(model.feature_map_.record_.n_components, 4))):
        with far.counted(len(X)):
            predicted, decisions = outcomes(model, X)
        columns = extra.columns(X)
        if scores is not None and y is not None:
            check_single(data, opened.table, y)
            known = is_present(y)
            y, told = y[known], predicted[known]
            if len(y) and _kind(y) != _kind(told):
                raise DataError(
                    f"{data}: target {opened.table.target_name!r} holds {_kind(y)}, the model predicts {_kind(told)}. "
                    "Name the column that the model was trained on."
                )
            if len(y):
                extra.count_inside(columns, known, y)
                scores.update(y, told, None if decisions is None else decisions[known])
            elif not scores.n and (text := opened.table.unread_target) is not None:
                raise DataError(
                    f"{data}: target {opened.table.target_name!r} holds text, such as {one_line(text)!r}, the model "
                    "predicts numbers. Name the column that the model was trained on."
                )
        row_names = opened.table.row_names
        names = {} if row_names is None else {"file": [row_names[number - 1] for number in numbers]}
        yield pa.table({**names, **prediction_columns(model, predicted), **columns}), numbers


def prediction_columns(model: Any, predicted: np.ndarray) -> dict[str, Any]:
    """Return predictions (r,), or (r, q) for q quantiles, as columns by name."""
    columns = zip(model._fitted.targets.prediction_names, predicted.reshape(len(predicted), -1).T, strict=True)
    return {name: pa.array(np.ascontiguousarray(one)) for name, one in columns}


def _aligned(found: Iterator[tuple[pa.Table, np.ndarray]], opened: ModelRows, ids: Ids | None) -> Iterator[pa.Table]:
    """Yield tables of predictions, with an empty row for each row of the file that has no prediction.

    If `ids` are given, they form the first column.

    Parameters
    ----------
    found : iterator of (pyarrow.Table of r rows, numbers (r,))
        Predictions, and the numbers of their rows in the file, from 1 and ascending.
    opened : ModelRows
        The rows to predict. Once all have been read, `opened` has the number of rows in the file.
    ids : Ids or None
    """
    done, empty = 0, None
    for predictions, numbers in found:
        if len(numbers):
            yield _beside(ids, predictions.take(_places(numbers, done)))
            done, empty = int(numbers[-1]), predictions.schema
    if empty is None:
        raise DataError(f"no row can be predicted{opened.table.skipped.excuse}. Fill in the values.")
    if (rest := opened.table.skipped.seen - done) > 0:
        yield _beside(ids, pa.table([pa.nulls(rest, kind) for kind in empty.types], schema=empty))


class Ids:
    """The cells of one column of a file as text, which are read together with the predictions."""

    def __init__(self, path: str, name: str) -> None:
        try:
            frame = open_frame(path, columns=[name], types={name: "text"}, bad_rows=BadRows("skip", "keep", "keep"))
        except MissingColumnError as error:
            raise DataError(f"--id: no column {name!r}. Choose from {closest_first(name, error.names)}.") from None
        self.name: str = frame.feature_names[0]
        self._batches = frame.numbered_batches()
        self._rest = pa.array([], pa.string())
        self._done = 0

    def next(self, n: int) -> pa.Array:
        """Return the cells of the next `n` rows; rows that cannot be read have empty cells."""
        while len(self._rest) < n:
            block = next(self._batches, None)
            if block is None:
                cells = pa.nulls(n - len(self._rest), self._rest.type)
            else:
                columns, _, numbers = block
                cells = columns.column(0).take(_places(numbers, self._done)).cast(self._rest.type)
                self._done = int(numbers[-1])
            self._rest = pa.chunked_array([self._rest, *getattr(cells, "chunks", [cells])]).combine_chunks()
        cells, self._rest = self._rest.slice(0, n), self._rest.slice(n)
        return cells


def _places(numbers: np.ndarray, done: int) -> pa.Array:
    """For each row of a file from number `done` + 1 to ``numbers[-1]``, its index in `numbers` (r,), or null."""
    places = np.full(numbers[-1] - done, -1)
    places[numbers - done - 1] = np.arange(len(numbers))
    return pa.array(places, mask=places < 0)


def _beside(ids: Ids | None, predictions: pa.Table) -> pa.Table:
    if ids is None:
        return predictions
    if ids.name in predictions.column_names:
        raise DataError(f"--id {ids.name!r} has the name of a column of predictions. Rename it in the file.")
    return predictions.add_column(0, ids.name, ids.next(len(predictions)))


def _escaped(batch: pa.Table) -> pa.Table:
    """Put an apostrophe before cells and names of columns that a spreadsheet would take for formulas."""
    columns = [_as_plain(column) if pa.types.is_string(column.type) else column for column in batch.columns]
    return pa.table(columns, names=_as_plain(pa.array(batch.column_names, pa.string())).to_pylist())


def _as_plain(texts: Any) -> Any:
    """Return the texts, with an apostrophe before each text that begins like a formula and is not a number."""
    is_formula = pc.and_not(pc.match_substring_regex(texts, _FORMULA), pc.match_substring_regex(texts, _NUMBER))
    return pc.if_else(is_formula, pc.binary_join_element_wise("'", texts, ""), texts)


def _has_predictions(names: list[str]) -> bool:
    """Whether a column has a name that this command gives to predictions or to predicted quantiles."""
    return any(_PREDICTION.fullmatch(name) for name in names)
