"""``phimap explain``: Shapley values of the rows of a table, with a saved model."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from phimap._progress import Stages
from phimap.cli.errors import complain
from phimap.cli.model_rows import ModelRows
from phimap.cli.options import ExplainOptions
from phimap.cli.output import Fact, write
from phimap.cli.outputs import Output, check_distinct, check_report, write_all, write_text
from phimap.cli.rows import note_reading
from phimap.cli.standard_input import MARK, in_words, readable
from phimap.cli.table_output import check_table_output, write_table
from phimap.config import config
from phimap.explain import Explanation, effects, shapley_values
from phimap.explain.background import LEAST_ROWS, background_of
from phimap.io import DataError
from phimap.io.batching import Block, joined
from phimap.io.model import load
from phimap.tables.cells import Cells, text_column
from phimap.tables.frames import n_rows_of, rows_at
from phimap.tables.numbers import NumberEncoding

# Maximum number of pairs of columns in a report, and least share of the outputs' variance that a listed pair has.
_PAIRS, _LEAST_SHARE = 8, 1e-3
# Pairs are listed only if the table has at most this number of columns. The 2,000 pairs of 64 columns take seconds.
_MOST_COLUMNS = 64
# Number of rows that are read at a time.
_BATCH = 4096


def run(options: ExplainOptions) -> None:
    """Run the command."""
    file, data = options.model, in_words(options.data)
    _check(options)
    with config(memory=options.memory, n_jobs=options.n_jobs), readable(options.data) as path:
        model = load(file)
        if not hasattr(model, "predict"):
            raise DataError(f"{file}: holds {type(model).__name__}, which makes no predictions. Give a learner.")
        opened = ModelRows(data, path, options.target, model, strict=options.strict)
        table, numbers = _rows(opened, data)
        if options.row is not None and options.row not in numbers:
            raise ValueError(
                f"--row must be the number, from 1, of one of {len(numbers)} rows that were read, got {options.row}."
            )
        reference = _reference(options, model, table, len(numbers))
        background = background_of(model, reference, options.background_rows, random_state=options.seed)
        places = _explained(options, numbers)
        X, numbers = rows_at(table, places), numbers[places]
        whole = shapley_values(model, X, background, random_state=options.seed, verbose=not options.quiet)
        whole = _of_used_columns(whole, model)
        outputs: list[Output] = []
        if options.output is not None:
            outputs.append((options.output, lambda path: write_table(path, iter([_table(whole, numbers)]))))
        if options.report is not None:
            text = _page(options, data, model, background, _one_output(whole), numbers)
            outputs.append((options.report, lambda path: write_text(path, text)))
        write_all(outputs)
    if options.on_screen:
        write_table(None, iter([_table(whole, numbers)]))
    note_reading(data, opened.table)
    write(
        _facts(whole, n_rows_of(background), options),
        as_json=options.json,
        stream=sys.stderr if options.on_screen else sys.stdout,
    )


def _check(options: ExplainOptions) -> None:
    inputs = [options.data, str(options.model), *([] if options.background is None else [options.background])]
    check_distinct(("--output", options.output), ("--report", options.report))
    check_table_output(options.output, inputs, _has_values, "table of Shapley values", force=options.force)
    check_report(options.report, inputs, force=options.force)
    if options.json and options.on_screen:
        raise ValueError("--json needs --output FILE, got none: values would share standard output with it.")
    if options.data == options.background == MARK:
        raise ValueError("--background must be another input than the table, got standard input for both. Store one.")
    for name, count in (("--background-rows", options.background_rows), ("--rows", options.rows)):
        if count is not None and count < 1:
            raise ValueError(f"{name} must be at least 1, got {count}. Leave it out for the default.")


def _rows(opened: ModelRows, data: str) -> tuple[Any, np.ndarray]:
    """Return the rows of a table, which is called `data` in messages, and their numbers in the file."""
    # Frames are explained column by column, so they are not encoded. Rows of numbers with infinite cells are left out.
    read = opened.batches if opened.model.encoder_ is None else opened.raw_batches
    batches: list[Block] = list(read(_BATCH))
    opened.note_infinite()
    if not batches:
        raise DataError(f"{data}: holds no rows that can be explained. Give a table with rows.")
    X = joined([X for X, _, _ in batches])
    if isinstance(X, np.ndarray):
        X = X.reshape(len(X), -1)
        if getattr(opened.model, "feature_names_in_", None) is not None:
            X = pa.table(dict(zip(opened.model.feature_names_in_, X.T, strict=True)))
    return X, joined([numbers for _, _, numbers in batches])


def _reference(options: ExplainOptions, model: Any, table: Any, n_rows: int) -> Any:
    """Return the rows from which the background is drawn: those of --background, or all `n_rows` of the `table`."""
    if options.background is not None:
        data = in_words(options.background)
        with readable(options.background) as path:
            opened = ModelRows(data, path, options.target, model, strict=options.strict)
            found, _ = _rows(opened, data)
        note_reading(data, opened.table)
        return found
    data = in_words(options.data)
    if n_rows == 1:
        raise DataError(
            f"{data}: has one row, which would be compared with itself. Name a table of other rows, such as the "
            "training table, with --background."
        )
    if n_rows < LEAST_ROWS:
        says = f"the {n_rows} rows are compared with each other alone"
        complain(f"{data}: {says}. Name the training table with --background to compare them with it.", "note")
    return table


def _explained(options: ExplainOptions, numbers: np.ndarray) -> np.ndarray:
    """Return the indices of the explained rows: all, or `options.rows` random rows and the row explained separately."""
    if options.rows is None or options.rows >= len(numbers):
        return np.arange(len(numbers))
    places = np.random.default_rng(options.seed).permutation(len(numbers))[: options.rows]
    return np.union1d(places, np.flatnonzero(numbers == options.row))


def _of_used_columns(found: Explanation, model: Any) -> Explanation:
    """Return the explanation without the columns that the encoder leaves out, whose values are 0."""
    columns = () if model.encoder_ is None else model.encoder_.columns_
    left_out = {column.name for column in columns if column.encoding is None}
    if not left_out:
        return found
    kept = [place for place, name in enumerate(found.feature_names) if name not in left_out]
    errors = found.standard_errors
    return replace(
        found,
        values=found.values[:, kept],
        data=found.data[:, kept],
        feature_names=[found.feature_names[place] for place in kept],
        standard_errors=None if errors is None else errors[:, kept],
    )


def _with_numbers(found: Explanation, model: Any) -> Explanation:
    """Return the explanation with the numbers that the model reads from cells of text."""
    columns = {} if model.encoder_ is None else {column.name: column.encoding for column in model.encoder_.columns_}
    data = found.data.copy()
    for place, name in enumerate(found.feature_names):
        encoding = columns.get(name)
        if isinstance(encoding, NumberEncoding) and encoding.from_text:
            texts = np.array([isinstance(cell, str) for cell in data[:, place]])
            data[texts, place] = Cells(name, text_column(data[texts, place])).numbers(encoding.decimal)
    return replace(found, data=data)


def _one_output(found: Explanation) -> Explanation:
    """Return the explanation of the output whose values vary most, for a report."""
    if found.values.ndim == 2:
        return found
    place = int(np.abs(found.values).mean(axis=(0, 1)).argmax())
    errors = found.standard_errors
    return replace(
        found,
        values=found.values[..., place],
        base_values=float(np.asarray(found.base_values)[place]),
        standard_errors=None if errors is None else errors[..., place],
        output_names=None if found.output_names is None else [found.output_names[place]],
    )


def _page(
    options: ExplainOptions, data: str, model: Any, background: Any, found: Explanation, numbers: np.ndarray
) -> str:
    from phimap.report.explanation import page

    found = _with_numbers(found, model)
    if found.output_names:
        data = f"{data} · output {found.output_names[0]}"
    if options.row is None:
        pairs = _pairs(options, model, background, found.values.shape[1])
        return page(found, data, str(options.model), pairs, "the row")
    chosen, errors = numbers == options.row, found.standard_errors
    of_row = None if errors is None else errors[chosen]
    one = replace(found, values=found.values[chosen], data=found.data[chosen], standard_errors=of_row)
    return page(one, data, str(options.model), [], f"row {options.row}")


def _pairs(options: ExplainOptions, model: Any, background: Any, n_columns: int) -> list[tuple[str, str, float]]:
    """Return the pairs of columns with the largest effects on outputs of `background` rows, and their shares.

    The list is empty if there are too few background rows, fewer than two columns or too many columns.
    """
    if not 1 < n_columns <= _MOST_COLUMNS or n_rows_of(background) < LEAST_ROWS:
        return []
    with Stages(not options.quiet).stage("pairs of columns"):
        try:
            largest = effects(model, background, random_state=options.seed).largest(_PAIRS)
        except ValueError:
            # The effects of all pairs exceed the byte budget.
            return []
    return [pair for pair in largest if pair[2] >= _LEAST_SHARE]


def _has_values(names: list[str]) -> bool:
    """Whether columns have the names that `_table` gives."""
    return [name.partition(":")[0] for name in names[:3]] == ["row", "base value", "output"]


def _table(found: Explanation, numbers: np.ndarray) -> pa.Table:
    """Return a table with the number of the row, the base value, the output and the value of each column.

    With several outputs, the names of columns end with the name of the output.
    """
    one_output = found.values.ndim == 2
    names = [""] if one_output else [f":{name}" for name in found.output_names or range(found.values.shape[2])]
    values = found.values.reshape(*found.values.shape[:2], -1)
    base = np.broadcast_to(np.ravel(found.base_values), (values.shape[2],))
    columns: dict[str, Any] = {"row": numbers}
    for place, name in enumerate(names):
        columns[f"base value{name}"] = np.full(len(numbers), base[place])
        columns[f"output{name}"] = base[place] + values[:, :, place].sum(axis=1)
        for column, feature in enumerate(found.feature_names):
            columns[_unused(f"{feature}{name}", columns)] = values[:, column, place]
        if found.standard_errors is not None:
            errors = found.standard_errors.reshape(values.shape)
            for column, feature in enumerate(found.feature_names):
                columns[_unused(f"standard error {feature}{name}", columns)] = errors[:, column, place]
    return pa.table(columns)


def _unused(name: str, columns: dict[str, Any]) -> str:
    """Return the name, preceded by as many underscores as make it differ from all columns of the table."""
    while name in columns:
        name = f"_{name}"
    return name


def _facts(found: Explanation, n_background: int, options: ExplainOptions) -> list[Fact]:
    order = np.argsort(-found.importances, kind="stable")
    facts = [
        Fact("rows", len(found.values)),
        Fact("columns", found.values.shape[1]),
        Fact("background_rows", n_background),
        Fact("values", "exact" if found.exact else "sampled"),
    ]
    if found.standard_errors is not None:
        facts.append(Fact("standard_error", float(np.sqrt(np.mean(found.standard_errors**2))), ".3g"))
    facts.append(Fact("leading", ", ".join(found.feature_names[j] for j in order[:3].tolist())))
    if options.output is not None:
        facts.append(Fact("output", str(options.output)))
    return facts
