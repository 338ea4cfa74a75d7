"""A few mutants each time: the long runs are ``python -m tests.fuzz.models`` and ``python -m tests.fuzz.tables``."""

from __future__ import annotations

import os
import signal
import time

from tests.fuzz import models, tables
from tests.fuzz.samples import Sample, samples
from tests.fuzz.workers import Worker


def test_mutants_of_models_do_no_harm():
    counts = models.CAMPAIGN.run(150, seed=1000)
    assert set(counts) <= set(models.CAMPAIGN.right)
    assert counts["refused"] > 50


def test_damaged_tables_do_no_harm():
    counts = tables.CAMPAIGN.run(150, seed=1000)
    assert set(counts) <= set(tables.CAMPAIGN.right)
    assert counts["refused"] > 50


def _die(task):
    if task == "crash":
        os.kill(os.getpid(), signal.SIGKILL)
    if task == "hang":
        time.sleep(60)
    if task == "memory":
        bytearray(2**34)
    return "works", task


def test_a_worker_tells_what_a_mutant_does_to_it(monkeypatch):
    monkeypatch.setattr("tests.fuzz.workers.SECONDS", 0.3)
    worker = Worker(_die)
    assert worker("crash") == ("crash", "exit status -9")
    assert worker("hang")[0] == "hang"
    assert worker("memory")[0] == "crash"
    assert worker("nothing") == ("works", "nothing")
    worker.stop()


def test_a_fault_is_seen(tmp_path, monkeypatch):
    # A mutant of the harness itself: a check that passes everything is one that the harness notices.
    sample = next(one for one in samples() if one.name == "fourier")
    arrays = dict(sample.arrays)
    key = next(key for key in arrays if key.endswith("scale"))
    arrays[key] = arrays[key] * float("nan")
    Sample("mutant", sample.tree, arrays).write(tmp_path / "m")
    assert models.meet(str(tmp_path / "m"))[0] == "refused"
    monkeypatch.setattr("phimap.io.decoding.check_record", lambda record: None)
    monkeypatch.setattr("phimap.io.model.check_model", lambda model: None)
    assert models.meet(str(tmp_path / "m"))[0] == "not finite"
