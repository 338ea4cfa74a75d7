"""Progress: rates, the time that is left, and every pass of a fit."""

from __future__ import annotations

import re
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest

import phimap as pm
from phimap import _progress
from phimap._progress import Stages, Watched, left_text, peak_memory, rate_text


class Clock:
    """A clock that moves when it is told to."""

    def __init__(self):
        self.now = 100.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(_progress, "time", clock)
    return clock


@pytest.mark.parametrize(
    ("done", "seconds", "unit", "text"),
    [
        (56_123, 1.0, "rows", "56,100 rows/s"),
        (30, 60.0, "rows", "0.5 rows/s"),
        (3, 2.0, None, ""),
        (0, 2.0, "rows", ""),
        (5, 0.0, "rows", ""),
    ],
)
def test_rates(done, seconds, unit, text):
    assert rate_text(done, seconds, unit) == text


@pytest.mark.parametrize(
    ("done", "total", "seconds", "text"),
    [
        # Mutants that forget what is done, or divide the other way round, give 20 s and 4 s.
        (1, 2, 10.0, "10 s left"),
        (1, 5, 10.0, "40 s left"),
        (1_000, 10_000, 20.0, "3 min 0 s left"),
        (1, 1_000, 20.0, "5 h 33 min left"),
        (0, 10, 20.0, ""),
        (10, 10, 20.0, ""),
        (11, 10, 20.0, ""),
        (5, None, 20.0, ""),
    ],
)
def test_time_left(done, total, seconds, text):
    assert left_text(done, total, seconds) == text


def test_lines_tell_rate_and_time_left(capsys, clock):
    with Stages(verbose=True).stage("features", 3000, "rows") as advance:
        for _ in range(3):
            clock.now += 10
            advance(1000)
    assert capsys.readouterr().err.splitlines() == [
        "features: 1,000 of 3,000 after 10 s, 100 rows/s, 20 s left",
        "features: 2,000 of 3,000 after 20 s, 100 rows/s, 10 s left",
        "features: 3,000 of 3,000 after 30 s, 100 rows/s",
        "features: 30.0 s (100 rows/s)",
    ]


def test_the_first_step_of_a_long_stage_tells_how_long_it_takes(capsys, clock):
    for total in (500, 50):
        with Stages(verbose=True).stage("sampled values", total, "rows") as advance:
            for _ in range(2):
                clock.now += 0.125
                advance(1)
    assert capsys.readouterr().err.splitlines() == [
        "sampled values: 1 of 500 after 0 s, 8 rows/s, 1 min 2 s left",
        "sampled values: 0.2 s (8 rows/s)",
        "sampled values: 0.2 s (8 rows/s)",
    ]


def test_lines_without_a_total(capsys, clock):
    with Stages(verbose=True).stage("scales", None, "rows") as advance:
        clock.now += 10
        advance(1500)
    assert capsys.readouterr().err.splitlines() == [
        "scales: 1,500 rows after 10 s, 150 rows/s",
        "scales: 10.0 s (150 rows/s)",
    ]


@pytest.mark.parametrize(("total", "shown"), [(4000, "25 %, "), (None, "")])
def test_bars_tell_rate_and_time_left(capsys, monkeypatch, total, shown):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("FORCE_COLOR", "1")
    with Stages(verbose=True).stage("features", total, "rows") as advance:
        advance(1000)
    assert re.search(r"features .*[\d,]+ rows/s", capsys.readouterr().err)


def test_watched_batches_tell_what_is_done():
    told: list[int] = []
    batches = [(np.zeros((rows, 2)), None) for rows in (3, 4, 1)]
    watched = Watched(batches, told.append)
    seen = [(X.shape[0], list(told)) for X, _ in watched]
    assert seen == [(3, []), (4, [3]), (1, [3, 4])]
    # As often as wanted.
    assert sum(1 for _ in watched) == 3
    assert told == [3, 4, 1] * 2


@pytest.mark.parametrize(
    ("solver", "passes"), [("cholesky", ("scales", "features and Gram matrix")), ("cg", ("scales", "passes over the"))]
)
def test_every_pass_of_a_fit_tells_its_rows(capsys, monkeypatch, solver, passes):
    monkeypatch.setattr(_progress, "_SECONDS_BETWEEN_LINES", 0.0)
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(9000, 2)), rng.normal(size=9000)
    model = pm.KernelRegressor(
        "gaussian", 16, length_scale=1.0, metric=None, alpha=1.0, solver=solver, random_state=0, verbose=True
    )
    model.fit_batches([(X[a:b], y[a:b]) for a, b in pairwise(range(0, 9001, 1000))])
    lines = capsys.readouterr().err.splitlines()
    for name in passes:
        mine = [line for line in lines if line.startswith(name)]
        assert any(re.search(r"1,000 (rows|of 9,000) after", line) for line in mine), mine
        assert "rows/s" in mine[-1]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has /proc")
def test_the_peak_is_that_of_this_process_alone():
    """Mutant: `ru_maxrss`, which is at least the memory of the process that started this one."""
    held = np.ones(2**27)
    code = "from phimap._progress import peak_memory; print(peak_memory())"
    found = int(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
    assert 2**20 < found < held.nbytes / 2
    assert peak_memory() > held.nbytes
