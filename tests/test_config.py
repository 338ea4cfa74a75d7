"""The byte budget and the number of threads."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

import phimap as pm
from phimap.config import (
    fits_budget,
    fixed_budget,
    memory_budget,
    parse_bytes,
    settings,
    settings_of,
    size_text,
    thread_count,
)

# As an attribute of the package the name means the class.
MODULE = sys.modules["phimap.config"]


@pytest.fixture(autouse=True)
def restored(monkeypatch):
    """Leave the settings of the process as they were."""
    monkeypatch.setattr(MODULE, "_settings", MODULE._settings)


@pytest.mark.parametrize(
    ("text", "n_bytes"),
    [
        (1, 1),
        (2_000_000_000, 2_000_000_000),
        ("512", 512),
        ("3b", 3),
        ("2k", 2 * 2**10),
        ("2KB", 2 * 2**10),
        ("1.5 MB", 3 * 2**19),
        (" 4GB ", 4 * 2**30),
        ("4g", 4 * 2**30),
        (".5tb", 2**39),
    ],
)
def test_amounts_of_memory(text, n_bytes):
    assert parse_bytes(text) == n_bytes


@pytest.mark.parametrize(
    "bad", [0, -1, "0", "", "GB", "4 potatoes", "-4GB", "4GiB", "1e9", "4 G B", "0.4", None, "nan"]
)
def test_other_amounts_are_refused(bad):
    with pytest.raises(ValueError, match="`memory` must be a positive number of bytes or text like '4GB', got"):
        parse_bytes(bad)


def test_a_block_restores_what_was_before():
    with pm.config(memory="1GB", n_jobs=2):
        assert (memory_budget(), thread_count()) == (2**30, 2)
        with pm.config(memory="1MB"):
            assert (memory_budget(), thread_count()) == (2**20, 2)
        with pm.config(n_jobs=1):
            assert (memory_budget(), thread_count()) == (2**30, 1)
        assert (memory_budget(), thread_count()) == (2**30, 2)


def test_a_block_restores_after_an_error():
    with pm.config(memory="1GB"):
        with pytest.raises(RuntimeError, match="inside"), pm.config(memory="1MB"):
            raise RuntimeError("inside")
        assert memory_budget() == 2**30


def test_without_a_block_the_settings_stay():
    pm.config(memory="3MB")
    pm.config(n_jobs=1)
    assert (memory_budget(), thread_count()) == (3 * 2**20, 1)
    assert pm.config.memory_budget() == 3 * 2**20


def test_arguments_come_before_settings():
    with pm.config(memory="1GB", n_jobs=1):
        assert memory_budget("1MB") == 2**20
        assert thread_count(3) == 3


def test_refused_settings_change_nothing():
    with pm.config(memory="1GB", n_jobs=2):
        with pytest.raises(ValueError, match="`n_jobs`"):
            pm.config(memory="1MB", n_jobs=0)
        with pytest.raises(ValueError, match="`memory`"):
            pm.config(memory="all", n_jobs=1)
        assert (memory_budget(), thread_count()) == (2**30, 2)


def test_default_budget_is_a_share_of_free_memory(monkeypatch):
    monkeypatch.setattr(MODULE, "_settings", type(MODULE._settings)())
    monkeypatch.setattr("phimap._free_memory.free_memory", lambda: 1000)
    assert memory_budget() == 500
    assert thread_count() >= 1


def test_free_memory_is_read_once_and_not_for_a_small_number_of_bytes(monkeypatch):
    amounts = iter((2000 * 2**20, 30 * 2**20, 40 * 2**20))
    monkeypatch.setattr(MODULE, "_settings", type(MODULE._settings)())
    monkeypatch.setattr("phimap._free_memory.free_memory", lambda: next(amounts))
    with fixed_budget():
        assert fits_budget(2**24)
        assert fits_budget(1000 * 2**20)
        with fixed_budget():
            assert not fits_budget(1000 * 2**20 + 1)
    assert not fits_budget(2**24 + 1)
    assert memory_budget() == 20 * 2**20
    with pm.config(memory="1MB"):
        assert fits_budget(2**20)
        assert not fits_budget(2**20 + 1)


def test_negative_counts_of_threads_count_back_from_all_cores():
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert thread_count(-1) == cores
    assert thread_count(-cores - 5) == 1


def test_counts_of_threads_may_be_integers_of_numpy():
    assert thread_count(np.int32(3)) == 3
    assert type(thread_count(np.int32(3))) is int


def test_settings_of_a_caller_hold_in_this_thread_alone():
    with pm.config(memory="5MB", n_jobs=3):
        sent = settings()
    with pm.config(memory="7MB", n_jobs=1), settings_of(sent):
        assert (memory_budget(), thread_count()) == (5 * 2**20, 3)
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(memory_budget).result() == 7 * 2**20
        with settings_of(replace(sent, n_jobs=2)):
            assert thread_count() == 2
        assert thread_count() == 3


@pytest.mark.parametrize("bad", [0, True, 1.5, "2"])
def test_other_counts_of_threads_are_refused(bad):
    with pytest.raises(ValueError, match="`n_jobs` must be a non-zero integer or None, got"):
        thread_count(bad)


@pytest.mark.parametrize(
    ("n_bytes", "text"), [(12, "12 bytes"), (3 * 2**10, "3.00 kB"), (481.5 * 2**20, "482 MB"), (2**30, "1.00 GB")]
)
def test_sizes_are_in_units_that_suit_them(n_bytes, text):
    assert size_text(n_bytes) == text
