"""Tables that are too wide for the budget, and cells that only Python reads as numbers."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import time
import weakref
import zipfile
from pathlib import Path

import numpy as np
import pytest

import phimap as pm
from phimap._files import DataError, OverBudgetError, write_whole
from phimap.io import archive, csv_file, open_frame, open_table

MEASURED = """
import sys
import pyarrow.csv
import phimap as pm
from phimap._progress import peak_memory
from phimap.io import open_frame

before = peak_memory()
with pm.config(memory=int(sys.argv[2])):
    try:
        for _ in open_frame(sys.argv[1]):
            pass
    except MemoryError:
        pass
print(peak_memory() - before)
"""


def wide(folder, n_columns):
    path = folder / f"{n_columns}.csv"
    lines = [",".join(f"c{j}" for j in range(n_columns)), *[",".join(["1.5"] * n_columns)] * 3]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("n_columns", [9_000, 100_000])
def test_wide_texts_stay_within_the_budget_or_are_refused(n_columns, tmp_path):
    """Three rows of 100,000 columns took 1.2 GB of a budget of 300 MB."""
    budget = 300 * 2**20
    command = [sys.executable, "-c", MEASURED, str(wide(tmp_path, n_columns)), str(budget)]
    taken = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert int(taken) < 1.1 * budget


@pytest.mark.parametrize("reader", [open_frame, open_table])
def test_wide_texts_are_refused_by_their_header(reader, tmp_path):
    path = wide(tmp_path, 10_000)
    with pm.config(memory="150MB"), pytest.raises(OverBudgetError, match=r"text of 10,000 columns takes about 283 MB"):
        reader(path)
    with pm.config(memory="300MB"):
        assert sum(len(y if y is not None else X) for X, y in reader(path)) == 3


@pytest.mark.parametrize("cell", ["٣", "0x1p3", "1_000", "5%"])
def test_cells_that_are_no_numbers_are_named(cell, tmp_path):
    """Python reads the first and the third as numbers: the message then named no cell."""
    path = tmp_path / "t.csv"
    path.write_text(f"a,b,y\n1,2,3\n{cell},3,4\n5,6,7\n", encoding="utf-8")
    with pytest.raises(DataError, match=f"t.csv: column 'a' holds text .'{cell}' in data row 2"):
        open_table(path, target="y")


@pytest.mark.parametrize("lines", [False, True])
def test_json_with_numbers_of_thousands_of_digits(lines, tmp_path):
    """Python refuses to convert them, with an error that names no file; shorter ones overflowed."""
    for n_digits in (400, 5000):
        records = ['{"a": 1, "y": 2}', f'{{"a": {"9" * n_digits}, "y": 3}}', '{"a": 3, "y": 4}']
        path = tmp_path / "t.json"
        path.write_text("\n".join(records) if lines else f"[{', '.join(records)}]")
        with pytest.raises(DataError, match=r"t.json: data row 2, column 'a' is inf|t.json.*row 2.*'a'.*inf"):
            for _ in open_table(path, target="y"):
                pass


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_device_is_named():
    with pytest.raises(OSError, match=r"could not write `/dev/full`: .*No space left"):
        write_whole("/dev/full", lambda file: file.write(np.zeros(10**5).tobytes()))


REFUSED = """
import sys, time
from threading import get_ident
from phimap._files import DataError
from phimap.io import archive, open_frame
read, first = archive._FromStart.read, get_ident()

def late(*arguments):
    # As on a busy machine, where the thread gets no processor after a read.
    data = read(*arguments)
    if get_ident() != first:
        time.sleep(float(sys.argv[2]))
    return data

archive._FromStart.read = late
try:
    open_frame(sys.argv[1])
except DataError as error:
    # The traceback keeps the parser until the interpreter ends.
    kept = error
    print(error)
"""


@pytest.mark.parametrize("packed", [True, False], ids=["zip", "blanks"])
def test_an_unclosed_quote_does_not_abort_the_process(packed, tmp_path):
    """Arrow went on reading on its own thread while the interpreter ended: 19 of 20 runs ended in SIGABRT or hung."""
    separator = "," if packed else "   "
    rows = [separator.join(map(str, (k, 7 * k % 13, 3 * k))) for k in range(300_000)]
    rows[3] = f'1{separator}"open{separator}2'
    text = "\n".join([separator.join("aby"), *rows])
    path = tmp_path / ("rows.zip" if packed else "rows.txt")
    if packed:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("rows.csv", text)
    else:
        path.write_text(text)
    for delay in (0, 0.05):
        command = [sys.executable, "-c", REFUSED, str(path), str(delay)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr[-500:]
        assert "quote" in done.stdout


class Slow:
    """A file of 2^17 bytes whose reads begin and end with a note, and wait in between."""

    def __init__(self):
        self.begun, self.ended, self.given = threading.Event(), threading.Event(), []

    def read(self, size):
        self.begun.set()
        time.sleep(0.2)
        self.given.append(bytes(2**17))
        self.ended.set()
        return self.given[-1][:size]


def test_arrow_keeps_no_object_of_python():
    """Its thread released one while the interpreter ended, which aborts the process."""
    source = Slow()
    with archive.for_arrow(source) as stream:
        buffer = stream.read_buffer(2**17)
        assert buffer.size == 2**17
        alone = [bytes(2**17)]
        count, expected = sys.getrefcount(source.given[-1]), sys.getrefcount(alone[-1])
    assert count == expected


def test_the_end_of_a_stream_waits_for_a_read_that_has_begun():
    source = Slow()
    with archive.for_arrow(source) as stream:
        reader = threading.Thread(target=stream.read, args=(2**17,))
        reader.start()
        assert source.begun.wait(60)
    assert source.ended.is_set()
    reader.join()


def test_options_outlive_their_reader(tmp_path, monkeypatch):
    """Arrow's thread freed the function that skips rows while the interpreter ended: 13 of 300 runs aborted."""
    handlers, options = [], csv_file.arrow_csv.ParseOptions

    def made(**given):
        handlers.append(weakref.ref(given["invalid_row_handler"]))
        return options(**given)

    monkeypatch.setattr(csv_file.arrow_csv, "ParseOptions", made)
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1,2\n3,4\n")
    open_frame(path)
    gc.collect()
    assert handlers
    assert all(handler() is not None for handler in handlers)
