"""One byte budget a fit: read once, and no choice depends on free memory or threads."""

from __future__ import annotations

import gc
import itertools

import numpy as np
import pytest

import phimap as pm
from phimap.config import fixed_budget, stated_budget
from phimap.learn.correct import may_correct
from phimap.learn.fit import batch_height, choose_solver
from phimap.learn.rows.batches import RowShape
from phimap.learn.settings import Compute, FitSettings
from tests.support.learners import GAUSSIAN

FREE = (2**28, 2**32, 2**37)
THREADS = (1, 8, 64)


@pytest.fixture
def readings(monkeypatch):
    """The readings of free memory; each gives another amount."""
    found, amounts = [], itertools.cycle((2**34, 2**31, 2**36))

    def free_memory():
        found.append(next(amounts))
        return found[-1]

    monkeypatch.setattr("phimap._free_memory.free_memory", free_memory)
    return found


def rows(n, d=4):
    X = np.random.default_rng(0).standard_normal((n, d)).astype(np.float32)
    return X, np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2]


@pytest.mark.usefixtures("brief_search")
def test_a_default_fit_reads_free_memory_once(readings):
    """Predictions of few rows do not read it.

    Mutant: a fit without the fixed budget, whose maps and kernels read it again and again.
    """
    X, y = rows(1000)
    model = pm.KernelRegressor(effort="fast", random_state=0).fit(X, y)
    assert len(readings) == 1
    model.predict(X[:10])
    assert len(readings) == 1
    model.predict(np.tile(X, (50, 1)))
    assert len(readings) == 2
    with fixed_budget():
        model.fit(X, y)
    assert len(readings) == 3
    for _ in range(3):
        pm.config.memory_budget()
    assert len(readings) == 6


@pytest.mark.parametrize("settings", [{}, {"solver": "cg"}, {"loss": "huber"}], ids=str)
def test_free_memory_and_threads_change_no_bit(readings, settings):
    X, y = rows(3000)
    fits = [
        pm.KernelRegressor(n_components=64, random_state=0, n_jobs=n_jobs, **GAUSSIAN, **settings).fit(X, y)
        for n_jobs in (1, 2, 1)
    ]
    assert len(set(readings)) == 3
    for other in fits[1:]:
        np.testing.assert_array_equal(other.coef_, fits[0].coef_)
        assert other.alpha_ == fits[0].alpha_


def choices(model, n_jobs):
    """What a fit of a million rows of 20 columns would choose."""
    settings = FitSettings.of(
        pm.KernelRegressor(random_state=0).get_params(),
        pm.KernelRegressor._losses,
        stated_budget(),
        Compute("auto", n_jobs),
    )
    shape, width = RowShape(20, 4), settings.most_width
    return (
        width,
        settings.map_rows,
        choose_solver(settings, 10**6, width, shape).name,
        choose_solver(settings, 10**6, 3 * width, shape).name,
        batch_height(settings, 10**6, 10**6, width, shape),
        may_correct(model._fitted, [], 9000, settings),
    )


def test_every_choice_is_the_same_for_all_threads_and_free_memories(monkeypatch):
    X, y = rows(9000)
    model = pm.KernelRegressor("matern", 64, random_state=0, metric=None, length_scale=1.0).fit(X, y)
    found = set()
    for free in FREE:
        monkeypatch.setattr("phimap._free_memory.free_memory", lambda free=free: free)
        found |= {choices(model, n_jobs) for n_jobs in THREADS}
    assert len(found) == 1
    assert found.pop()[-1]
    with pm.config(memory="8MB"):
        # A stated budget does change choices.
        assert not choices(model, 1)[-1]


def test_a_fit_that_free_memory_does_not_hold_is_refused(monkeypatch):
    X, y = rows(3000)
    monkeypatch.setattr("phimap._free_memory.free_memory", lambda: 2**24)
    model = pm.KernelRegressor(n_components=2048, alpha=1.0, random_state=0, **GAUSSIAN)
    with pytest.raises(MemoryError, match=r"this fit needs .* and 16.0 MB are free\. .*memory='8MB'") as raised:
        model.fit(X, y)
    assert "\n" not in str(raised.value)


@pytest.mark.usefixtures("brief_search")
@pytest.mark.parametrize(
    "settings", [{}, {"solver": "cg"}, {"loss": "huber"}, {"kernel": "auto", "effort": "fast"}], ids=str
)
def test_arrays_are_freed_without_the_garbage_collector(settings):
    """Mutant: the objective of alpha hands out a method of itself, so that its Gram matrix outlives the choice."""
    X, y = rows(2500)
    model = pm.KernelRegressor(**{"n_components": 64, "random_state": 0, **GAUSSIAN, **settings}).fit(X, y)
    # A thread that an earlier test has left may free something meanwhile, but hardly in both fits.
    assert any(_held_in_cycles(model, X, y) < 10_000 for _ in range(2))


def _held_in_cycles(model, X, y):
    """Bytes of the arrays of a fit that only the garbage collector frees."""
    gc.collect()
    gc.disable()
    try:
        model.fit(X, y)
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        held = [part for one in gc.garbage for part in gc.get_referents(one) if isinstance(part, np.ndarray)]
        return sum(part.nbytes for part in held)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
