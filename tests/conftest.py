"""Fixtures of all tests: seeds that can be varied and are reported, and the folder of real data."""

from __future__ import annotations

import gc
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

# Plots are drawn to files; set before anything imports matplotlib, and left to the caller where it is set.
os.environ.setdefault("MPLBACKEND", "Agg")

_SEED = pytest.StashKey[int]()
_DEFAULT_SEED = 20260101


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_SEED] = _read_seed(os.environ.get("PHIMAP_TEST_SEED", str(_DEFAULT_SEED)))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Keep what collection makes from the garbage collector.

    The modules and the fifteen thousand tests are 800,000 objects, and all of them live to the end. A full collection
    took 0.4 s to look at them, and came with every model that `compare` measures and every few hundred fits.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def pytest_report_header(config: pytest.Config) -> str:
    return f"PHIMAP_TEST_SEED={config.stash[_SEED]}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report = yield
    if report.failed and "seed" in getattr(item, "fixturenames", ()):
        report.sections.append(("seed", f"Repeat with PHIMAP_TEST_SEED={item.config.stash[_SEED]}"))
    return report


@pytest.fixture(scope="session")
def seed(request: pytest.FixtureRequest) -> int:
    """The seed of the session: fixed, or PHIMAP_TEST_SEED, whose value "any" means a fresh one."""
    return request.config.stash[_SEED]


@pytest.fixture
def rng(seed: int) -> np.random.Generator:
    """A generator that starts anew for every test."""
    return np.random.default_rng(seed)


@pytest.fixture
def brief_search() -> Iterator[None]:
    """Let every fit search its kernel briefly: for tests of what is around fits, which do not ask what is found."""
    from tests.support.learners import brief_searches

    with brief_searches():
        yield


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of real data sets that PHIMAP_DATA names; without it the test is skipped."""
    folder = os.environ.get("PHIMAP_DATA")
    if not folder:
        pytest.skip("PHIMAP_DATA is not set")
    path = Path(folder)
    if not path.is_dir():
        pytest.fail(f"PHIMAP_DATA={folder} is not a folder")
    return path


def _read_seed(text: str) -> int:
    if text == "any":
        return secrets.randbelow(2**32)
    if not text.isdecimal():
        raise pytest.UsageError(f"PHIMAP_TEST_SEED must be 'any' or a non-negative integer, got {text!r}.")
    return int(text)
