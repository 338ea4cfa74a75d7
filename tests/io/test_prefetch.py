"""Reading ahead: order, bits, bounds, errors in their turn, and threads that end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import traceback

import numpy as np
import pyarrow as pa
import pytest

from phimap.io import DataError, open_table
from phimap.io import prefetch as module
from phimap.io.prefetch import read_ahead


def readers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("phimap-reader")]


@pytest.fixture(autouse=True)
def no_thread_is_left():
    yield
    assert not readers()


class Source:
    """Items (array,) of some bytes; it notes which thread made how many, and whether it was closed."""

    def __init__(self, n=20, n_bytes=80, fail_at=None):
        self.n, self.n_bytes, self.fail_at = n, n_bytes, fail_at
        self.made, self.threads, self.closed = 0, set(), False

    def __iter__(self):
        try:
            for k in range(self.n):
                self.threads.add(threading.current_thread().name)
                if k == self.fail_at:
                    raise DataError(f"row {k} is bad")
                self.made += 1
                yield (np.full(self.n_bytes // 8, float(k)),)
        finally:
            self.closed = True


def settled(source: Source) -> int:
    """Items made once no more come."""
    last = -1
    while last != source.made:
        last = source.made
        time.sleep(0.05)
    return last


def test_order_and_thread():
    source = Source(200)
    assert [item[0][0] for item in read_ahead(source)] == list(range(200))
    assert source.threads == {"phimap-reader_0"}
    assert source.closed
    assert list(read_ahead([])) == []


@pytest.mark.parametrize(
    ("most_bytes", "ahead"),
    # One being worked on. Two wait where they fit, else one; no more is made than can wait.
    [(10**6, 2), (160, 2), (159, 1), (1, 1)],
)
def test_no_more_is_made_than_may_wait(most_bytes, ahead):
    source = Source()
    items = read_ahead(source, most_bytes=most_bytes)
    next(items)
    assert settled(source) == 1 + ahead
    next(items)
    assert settled(source) == 2 + ahead
    items.close()


def test_bytes_of_items_are_counted():
    from scipy import sparse

    X = sparse.csr_matrix(np.eye(3))
    assert module._size((X, None)) == X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
    assert module._size((pa.table({"a": [1, 2]}), np.zeros(2))) == 32


def test_nothing_starts_before_the_first_item_is_wanted():
    source = Source()
    items = read_ahead(source)
    time.sleep(0.02)
    assert source.made == 0
    assert not readers()
    items.close()


def test_an_error_comes_in_its_turn_with_its_traceback():
    source = Source(fail_at=3)
    items, seen = read_ahead(source), []

    def take():
        for item in items:
            time.sleep(0.01)
            seen.append(item[0][0])

    with pytest.raises(DataError, match="row 3 is bad") as error:
        take()
    assert seen == [0, 1, 2]
    frames = [frame.name for frame in traceback.extract_tb(error.value.__traceback__)]
    assert "run" in frames
    assert frames[-1] == "__iter__"
    assert source.closed


@pytest.mark.parametrize("taken", [1, 5])
def test_leaving_early_ends_the_thread_and_closes_the_file(taken):
    source = Source(10**6)
    for k, _ in enumerate(read_ahead(source), start=1):
        if k == taken:
            break
    assert not readers()
    assert source.closed
    assert source.made <= taken + 3


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs a list of open files")
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_files_are_closed_when_left_early(tmp_path, suffix):
    from pyarrow import csv, parquet

    path = tmp_path / f"t.{suffix}"
    data = pa.table({"x": np.arange(200_000.0), "y": np.arange(200_000.0)})
    csv.write_csv(data, path) if suffix == "csv" else parquet.write_table(data, path, row_group_size=1000)
    opened = lambda: [fd for fd in os.listdir("/proc/self/fd") if links_to(fd, path)]  # noqa: E731
    table = open_table(path, "y", batch_rows=500)
    batches = iter(table)
    X, _ = next(batches)
    assert X.ravel().tolist() == list(range(500))
    batches.close()  # pyright: ignore[reportAttributeAccessIssue]
    assert not opened()
    # The same bits as on this thread, again and again.
    plain = [(X.tobytes(), y.tobytes()) for X, y in table.batches() if y is not None]
    assert [(X.tobytes(), y.tobytes()) for X, y in table if y is not None] == plain


def links_to(fd, path) -> bool:
    try:
        return os.readlink(f"/proc/self/fd/{fd}") == str(path)
    except OSError:
        return False


def test_the_context_goes_with_the_items():
    def divide():
        yield (np.ones(1) / np.zeros(1),)

    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        list(read_ahead(divide()))


def test_making_overlaps_with_working():
    # An event says so without a clock: the second item is made while the first is worked on.
    made = threading.Event()

    def items():
        yield (np.zeros(1),)
        made.set()
        yield (np.zeros(1),)

    stream = read_ahead(items())
    next(stream)
    assert made.wait(10)
    stream.close()


def test_interrupt():
    program = """
import signal, sys, time
from phimap.io.prefetch import read_ahead
# What runs in the background ignores it.
signal.signal(signal.SIGINT, signal.default_int_handler)
def endless():
    while True:
        time.sleep(0.01)
        yield (b"",)
try:
    for k, _ in enumerate(read_ahead(endless())):
        if k == 3:
            print("working", flush=True)
except KeyboardInterrupt:
    print("interrupted")
"""
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "working\n"
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=30)[0] == "interrupted\n"
    assert process.returncode == 0
