"""Constants of this machine."""

from __future__ import annotations

import pytest

import phimap as pm
from phimap.advice import machine as machine_module
from phimap.advice.speed import best_seconds
from phimap.theory import REFERENCE


@pytest.fixture
def quick(monkeypatch):
    """Sizes that take no time, and the clock, each reading of which is a second later."""
    for name, size in {"_ROWS": 300, "_WIDTH": 512, "_MAP_WIDTH": 64, "_FILE_ROWS": 400}.items():
        monkeypatch.setattr(machine_module, name, size)
    monkeypatch.setattr("phimap.advice.speed._ORDER", 64)
    # The clock of the processor is too coarse for such sizes.
    clock = iter(range(10**6))
    monkeypatch.setattr("phimap.advice.machine.time.process_time", lambda: float(next(clock)))
    return clock


def test_what_can_be_measured_is_and_the_rest_is_taken_over(quick):
    found = pm.measure_machine()
    assert (found.network, found.process) == (REFERENCE.network, REFERENCE.process)
    # Every timing took one second of this clock.
    numbers = 400 * 29
    assert found.csv == found.parquet == found.npy == 1 / numbers
    assert found.dense == found.structured == found.ntk == 1 / (300 * 64)
    assert found.bandwidth == 300 * 512 * 20
    assert found.double == pytest.approx(2 * 64**3 / 1e9)
    # Adding to the sums would take more than half of that second, and is then counted as half.
    assert found.single == pytest.approx(2 * 300 * 512**2 / 1e9)
    assert "cores" in found.name
    # Nothing else was timed: three timings each of the memory, two products, three maps and three files.
    assert next(quick) == 2 * 3 * 9


def test_files_that_cannot_be_read_keep_the_constants_given(quick, monkeypatch):
    monkeypatch.setattr(machine_module, "find_spec", lambda name: None)
    found = pm.measure_machine()
    assert (found.csv, found.parquet) == (REFERENCE.csv, REFERENCE.parquet)
    assert found.npy != REFERENCE.npy


def test_best_of_timings_leaves_out_the_first():
    times = iter([0.0, 5.0, 5.0, 7.0, 7.0, 17.0])
    called = []
    assert best_seconds(lambda: called.append(1), lambda: next(times)) == 2.0
    assert len(called) == 4
