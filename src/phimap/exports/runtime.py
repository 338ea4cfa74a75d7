"""The source of ``predict.py``: the fixed code around the operations of a model."""

from __future__ import annotations

import json
from textwrap import fill
from typing import Any

import numpy as np

from phimap._files import one_line
from phimap._missing import MISSING_AMONG_NUMBERS, MISSING_MARKS
from phimap._number_text import label_text
from phimap.exports.frames import used_columns
from phimap.exports.graph import ExportError, Graph
from phimap.exports.numpy_source import GraphSource
from phimap.io.dialect import DECIMAL_COMMA, DECIMAL_POINT, ROWS
from phimap.learn.fitted import Fitted
from phimap.learn.targets.quantiles import Quantiles
from phimap.tables.amounts import number_steps
from phimap.tables.dates import DateEncoding
from phimap.tables.levels import LevelEncoding
from phimap.tables.tallies import ALL_FORMS

# Largest number of lines of the operations of a model, which a person can still read. The rest of the file is the same
# for all models of numbers, and for all models of data frames.
_MOST_LINES = 150
# Width of the lines that list the texts of missing cells.
_WIDTH = 110

_HEAD = '''"""Predictions of a {learner} of phimap {version}, with NumPy alone. The numbers are in model.safetensors.

In a program:  model = predict.load(folder); model.predict(X){proba}
As a program:  python predict.py FOLDER ROWS.csv [PREDICTIONS.csv]
"""

import csv
import json
import os
import re
import sys
import warnings
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np

BATCH = 1024  # rows that are computed at once
{missing}{helpers}

def outputs({argument}, w):
    """Outputs for {what}; w holds the constants by name."""
{body}
    return {results}


class Model:
    """The model. X is {given}."""

    def __init__(self, w, facts):
        self.w, self.facts = w, facts

    def predict(self, X):
        """Return {predictions}."""
        found = self.run(X, "{first}")
        {decode}
{predict_proba}
    def run(self, X, name):
        """Return one of the outputs for all rows."""
        rows = self.rows(X)
        starts = range(0, len(rows{column}), BATCH)
        parts = [outputs({part}, self.w)[name] for start in starts]
        return np.concatenate(parts) if parts else outputs(rows, self.w)[name]

    def rows(self, X):
        """Check X and return it as {checked}."""
{rows}{parse}

def load(folder):
    """Read the model of a folder: the arrays of model.safetensors, and the facts in its header."""
    data = (Path(folder) / "model.safetensors").read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    facts = json.loads(header.pop("__metadata__")["phimap"])
    kinds = {{"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "BOOL": "?"}}
    w = {{}}
    for name, entry in header.items():
        start, stop = (8 + size + offset for offset in entry["data_offsets"])
        array = np.frombuffer(data[start:stop], kinds[entry["dtype"]]).reshape(entry["shape"])
        w[name] = array.astype(np.float32) if entry["dtype"] == "F16" else array
    for name, levels in facts["levels"].items():
        w[name] = {{level: place for place, level in enumerate(levels)}}
    return Model(w, facts)


def read_csv(path, names):
    """Return the columns of a CSV file by name; without a line of names, the columns have the names in order."""
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            lines = [line for line in csv.reader(file) if any(cell.strip() for cell in line)]
    except UnicodeDecodeError:
        raise ValueError(f"{{path}}: must be in UTF-8, got another encoding. Save it as UTF-8.") from None
    if not lines:
        raise ValueError(f"{{path}}: the file is empty. Check the path.")
    head = [name.strip() for name in lines[0]]
    mark = next((one for one in ";\t|" if one in head[0]), None)
    if mark and len(lines[0]) == 1 < len(names):
        raise ValueError(f"{{path}}: cells must be separated by commas, got {{mark!r}}. Save it with commas.")
    known = [name for name in names if name in head]
    if len(known) == len(names) or any(name[:1].isalpha() for name in known):
        names, lines = head, lines[1:]
    if not lines:
        raise ValueError(f"{{path}}: has a header but no rows. Check the file.")
    for row, cells in enumerate(lines, 1):
        if len(cells) != len(names):
            raise ValueError(f"data row {{row}} has {{len(cells)}} cells, expected {{len(names)}}: {{names}}.")
    return dict(zip(names, zip(*lines)))


def replaced(text, patterns):
    """Return a text after all replacements."""
    for pattern, new in patterns:
        text = re.sub(pattern, new, text, flags=re.ASCII)
    return text


def plain(columns, names, marks):
    """Write the numbers of the named columns as Python does, by the decimal mark of the file."""
    texts = [cell.strip().strip("()") for cells in columns.values() for cell in cells[:{looked_at}]]
    seen = [mark for mark, form in marks.items() if any(re.fullmatch(form["decimal"], text) for text in texts)]
    mark = marks["," if seen == [","] else "."]
    for name in names:
        cells = [(cell, replaced(cell.strip(), mark["before"])) for cell in columns.get(name, ())]
        found = [replaced(text, mark["after"]) for cell, text in cells]
        are_numbers = [re.search(mark["number"], text, re.ASCII) for cell, text in cells]
        read = [new if is_number else cell for (cell, _), new, is_number in zip(cells, found, are_numbers)]
        columns |= {{name: read}} if read else {{}}
    return columns

{matrix}
def main(folder, rows, target=None):
    """Predict the rows of a CSV file, and write a line of names and one line for each row."""
    model = load(folder)
    columns = plain(read_csv(rows, model.facts["columns"]), model.facts["amounts"], model.facts["marks"])
    found = model.predict({from_csv})
    file = open(target, "w", newline="", encoding="utf-8") if target else sys.stdout
    lines = csv.writer(file, lineterminator="\\n")
    lines.writerow(model.facts["predictions"])
    texts = dict(zip(model.facts["labels"] or (), model.facts["texts"]))
    lines.writerows([texts.get(cell, cell) for cell in cells] for cells in found.reshape(len(found), -1).tolist())
    file.flush()


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit("usage: python predict.py FOLDER ROWS.csv [PREDICTIONS.csv]")
    warnings.showwarning = lambda message, *_: print(f"warning: {{message}}", file=sys.stderr)
    try:
        main(*sys.argv[1:])
    except BrokenPipeError:  # the program that reads the predictions, such as head, has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError) as error:
        sys.exit(f"error: {{error}}")
'''
_PROBA = '''
    def predict_proba(self, X):
        """Return the probabilities (n, n_classes) of the classes, which model.facts["labels"] lists."""
        return self.run(X, "probabilities")
'''
_NUMBER_ROWS = """        X = np.asarray(X, dtype=np.float32)
        if X.ndim != 2 or X.shape[1] != {width}:
            raise ValueError(f"X must be of shape (n, {width}), got {{X.shape}}.")
        if not np.isfinite(X).all():
            raise ValueError("X must be finite, got NaN or infinity. Fill missing values in.")
        return X
"""
_MATRIX = '''
def matrix(columns, names):
    """Return the named columns as numbers (n, d)."""
    found = np.empty((len(next(iter(columns.values()))), len(names)), np.float32)
    for place, name in enumerate(names):
        if name not in columns:
            raise ValueError(f"no column {name!r}, which the model was trained on. Add it to the file.")
        for row, cell in enumerate(columns[name]):
            try:
                found[row, place] = float(cell)
            except ValueError:
                raise ValueError(f"data row {row + 1}, column {name!r} is no number, got {cell!r}. Fill it in.")
    return found

'''
_COLUMN_ROWS = """        missing = [column["name"] for column in self.facts["encoded"] if column["name"] not in X]
        if missing:
            raise ValueError(f"no column {missing[0]!r}, which the model was trained on. Add it to the rows.")
        return [PARSERS[column["kind"]](np.asarray(X[column["name"]]), column) for column in self.facts["encoded"]]
"""
_PARSE = r'''

def numbers(cells, column):
    """Return cells as float32 numbers (n, 1), NaN for missing ones."""
    if cells.dtype.kind in "biuf":
        return cells.astype(np.float32)[:, None]
    found, unread = np.full((len(cells), 1), np.nan, np.float32), []
    for row, cell in enumerate(cells):
        text = "" if cell is None else str(cell).strip()
        if text.lower() in ("true", "false"):
            found[row] = text.lower() == "true"
        elif text not in MISSING_AMONG_NUMBERS:
            number = replaced(text, column["before"])  # without a currency and a unit
            if re.search(column["number"], number, re.ASCII):
                found[row] = float(replaced(number, column["after"]))
            elif not column["from_text"]:
                raise ValueError(f"data row {row + 1}, column {column['name']!r} is no number, got {text!r}.")
            else:
                unread.append(text)
    warn_of_unread(column, unread, "numbers")
    return found


def warn_of_unread(column, unread, what):
    """Warn of cells that count as missing."""
    if unread:
        said = f"column {column['name']!r}: cells that cannot be read as {what} count as missing"
        said += f" ({len(unread):,} of these rows, such as {' '.join(unread[0].split())[:60]!r})"
        warnings.warn(f"{said}. Write all cells of the column as in {column['like']}.", stacklevel=5)


def texts(cells, column):
    """Return cells as texts (n, 1), empty for missing ones."""
    found = ["" if cell is None or cell != cell else str(cell).strip() for cell in cells.tolist()]
    return np.array(["" if text in MISSING else text for text in found], dtype=object)[:, None]


def times(cells, column):
    """Return cells as seconds (n, 1) since 1970, NaN for missing ones."""
    if cells.dtype.kind == "M":
        seconds = cells.astype("datetime64[us]").astype(np.int64) / 1e6
        return np.where(np.isnat(cells), np.nan, seconds)[:, None]
    given = ["" if cell is None else str(cell).strip() for cell in cells]
    given = ["" if text in MISSING_AMONG_NUMBERS else text for text in given]
    known = [text for text in given if text]
    read = {text: moment(text, "") for text in known}
    if None in read.values():  # not all are ISO dates, so they have the form of the training rows, or the likeliest
        readings = [{text: moment(text, form) for text in known} for form in column["forms"]]
        read = max(readings, key=lambda one: sum(one[text] is not None for text in known))
    found = {text: elapsed(time, column) for text, time in read.items() if time}
    warn_of_unread(column, [text for text in known if text not in found], "dates")
    return np.array([found.get(text, np.nan) for text in given], dtype=np.float64)[:, None]


def moment(text, form):
    """Return the time that a text gives in a form, "" for ISO; None if it has another form."""
    try:
        if not form:
            text = f"1970-01-01T{text}" if re.match(r"\d\d:\d\d", text, re.ASCII) else text
            return datetime.fromisoformat(text) if re.match(r"\d{4}-\d\d-\d\d", text, re.ASCII) else None
        zone = None
        if form.endswith("%S"):
            text, zone = re.fullmatch(r"(.*?)(?:\.\d+)?(Z|[+-]\d\d:?\d\d)?", text, re.ASCII).groups()
        time = datetime.strptime(text + (zone or ""), form + "%z" * (zone is not None))
        return time if "%y" in form.lower() else time.replace(year=1970)
    except ValueError:
        return None


def elapsed(time, column):
    """Return seconds since 1970 in the time zone of the training rows, "" for none; None keeps the zone of a time."""
    zone = column["zone"]
    if zone is not None and bool(zone) != (time.tzinfo is not None):
        needed = f"a time zone, such as {zone!r}" if zone else "no time zone"
        raise ValueError(f"column {column['name']!r} must hold times with {needed}, as in training, got {str(time)!r}.")
    if zone:
        offset = "Z" if zone == "UTC" else zone
        time = time.astimezone(datetime.strptime(offset, "%z").tzinfo if offset[0] in "+-Z" else ZoneInfo(zone))
    return (time.replace(tzinfo=None) - datetime(1970, 1, 1)).total_seconds()


PARSERS = {"numbers": numbers, "texts": texts, "times": times}
'''


def runtime(fitted: Fitted, graph: Graph, version: str) -> tuple[str, dict[str, np.ndarray], str]:
    """Return the source of ``predict.py``, the arrays of ``model.safetensors`` and the text of its facts.

    Raises
    ------
    ExportError
        If the source is too long to be read.
    """
    frame = fitted.inputs.encoder is not None
    names = {name: f"c[{place}]" for place, name in enumerate(graph.inputs)} if frame else None
    source = GraphSource(graph, inputs=names)
    is_classifier = fitted.targets.has_labels
    proba = "probabilities" in graph.outputs
    decode = "return found"
    if is_classifier:
        decode = 'return np.array(self.facts["labels"])[found]'
    elif fitted.targets.prediction_names == ["prediction"]:
        decode = "return found[:, 0]"
    elif isinstance(fitted.targets, Quantiles):
        decode = "return np.sort(found, axis=1)"
    text = _HEAD.format(
        learner=fitted.inputs.learner,
        version=version,
        looked_at=ROWS,
        proba=", model.predict_proba(X)" if proba else "",
        helpers=f"\n{source.helpers}" if source.helpers else "",
        argument="c" if frame else "X",
        what="columns c (n, 1)" if frame else "rows X (n, d)",
        body="\n".join(f"    {line}" for line in source.lines),
        results="{" + ", ".join(f'"{name}": {value}' for name, value in source.results.items()) + "}",
        given="a dict of columns, or a data frame" if frame else "an array (n, d) of numbers",
        predictions="labels (n,)" if is_classifier else "predictions (n,) or (n, targets)",
        first="label" if is_classifier else "variable",
        decode=decode,
        predict_proba=_PROBA if proba else "",
        column="[0]" if frame else "",
        part="[column[start : start + BATCH] for column in rows]" if frame else "rows[start : start + BATCH]",
        checked="columns (n, 1)" if frame else "rows of float32",
        rows=_COLUMN_ROWS if frame else _NUMBER_ROWS.format(width=fitted.inputs.width),
        parse=_PARSE if frame else "",
        missing=_marks("MISSING", MISSING_MARKS) + _marks("MISSING_AMONG_NUMBERS", MISSING_AMONG_NUMBERS)
        if frame
        else "",
        matrix="" if frame else _MATRIX,
        from_csv="columns" if frame else 'matrix(columns, model.facts["columns"])',
    )
    n_lines = len(source.lines) + source.helpers.count("\n")
    if n_lines > _MOST_LINES:
        raise ExportError(
            f"the operations of this model take {n_lines} lines of NumPy, and a readable source has at most "
            f"{_MOST_LINES}. Export it as ONNX, or fit with the kernel 'gaussian', whose map takes few operations."
        )
    return text, source.constants, json.dumps(_facts(fitted, source))


def _marks(name: str, marks: tuple[str, ...]) -> str:
    """The definition of the texts of missing cells, a few of them on each line."""
    lines = fill(", ".join(map(repr, marks)), _WIDTH, initial_indent="    ", subsequent_indent="    ")
    return f"{name} = (  # texts of missing cells\n{lines},\n)\n"


def _facts(fitted: Fitted, source: GraphSource) -> dict[str, Any]:
    encoder, inputs = fitted.inputs.encoder, fitted.inputs
    labels = plain_labels(fitted.targets.known).tolist() if fitted.targets.has_labels else None  # pyright: ignore
    decimals = {".": DECIMAL_POINT, ",": DECIMAL_COMMA}
    marks = {mark: {"decimal": form.pattern} | number_steps(mark)._asdict() for mark, form in decimals.items()}
    texts = list(map(label_text, fitted.targets.known.tolist())) if fitted.targets.has_labels else []  # pyright: ignore
    facts = {"labels": labels, "texts": texts, "predictions": fitted.targets.prediction_names, "marks": marks}
    if encoder is None:
        columns = (
            [f"x{j}" for j in range(inputs.width)] if inputs.names is None else [str(name) for name in inputs.names]
        )
        return facts | {"columns": columns, "amounts": columns, "levels": {}}
    encoded = []
    for column in used_columns(encoder):
        encoding: Any = column.encoding
        fact = {"name": column.name, "like": encoding.example()}
        if isinstance(encoding, LevelEncoding):
            fact |= {"kind": "texts"}
        elif isinstance(encoding, DateEncoding):
            forms = [encoding.form] if encoding.form else ALL_FORMS
            fact |= {"kind": "times", "forms": forms, "zone": encoding.zone}
        else:
            fact |= {"kind": "numbers", "from_text": encoding.from_text} | number_steps(encoding.decimal)._asdict()
        encoded.append(fact)
    names = [column.name for column in encoder.columns_]
    # Text that was read as numbers in training keeps its form.
    amounts = [fact["name"] for fact in encoded if fact["kind"] == "numbers" and not fact["from_text"]]
    return facts | {"columns": names, "amounts": amounts, "encoded": encoded, "levels": source.levels}


def plain_labels(labels: np.ndarray) -> np.ndarray:
    """Return labels as integers, floats or texts, which both export formats can store."""
    if labels.dtype.kind in "iu":
        return labels.astype(np.int64)
    if labels.dtype.kind == "b":
        return labels.astype(np.int64)
    if labels.dtype.kind == "f":
        return labels.astype(np.float64)
    if not all(isinstance(label, str) for label in labels.tolist()):
        raise ExportError(f"labels must be numbers or texts, got {one_line(labels.tolist())}. Fit with one kind.")
    return labels.astype(object)
