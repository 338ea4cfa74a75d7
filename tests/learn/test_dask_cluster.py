"""Learners on a real cluster of processes, which the tests share: every worker loads all libraries when it starts."""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import subprocess
import sys
import time
from threading import Thread

import numpy as np
import pandas as pd
import pytest

import phimap as pm
from phimap._dask import computed, task
from phimap.config import memory_budget
from tests.support.learners import GAUSSIAN

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("distributed")

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")

# As many as a batch has, so that the rows are cut at the same places in one process.
ROWS = 4096
FIXED = {"n_components": 32, "random_state": 0, "n_jobs": 1, **GAUSSIAN}
# More than are merged at a time.
N = 9 * ROWS


@pytest.fixture(scope="module", autouse=True)
def no_client_is_left():
    """Close a client that is still the default one: tests of other modules would wait for its workers for ever."""
    yield
    with contextlib.suppress(ValueError):
        distributed.default_client().close(timeout=10)


@pytest.fixture(scope="module")
def running_cluster():
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0", memory_limit=0
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield cluster, client


@pytest.fixture
def cluster(running_cluster):
    """The cluster with two workers that are what they say, whatever the test before has done to them."""
    cluster, client = running_cluster
    cluster.scale(2)
    client.wait_for_workers(2, timeout=60)
    client.run(be_honest)
    return running_cluster


@pytest.fixture
def rows(rng):
    X = rng.standard_normal((N, 4))
    return X, np.sin(X[:, 0]) + X[:, 1] / 5 + 0.1 * rng.standard_normal(N)


def learners(y):
    labels = (y > 0).astype(int)
    return {
        "cholesky": (pm.KernelRegressor(alpha=40.0, **FIXED), y),
        "cg": (pm.KernelRegressor(alpha=40.0, solver="cg", **FIXED), y),
        "classifier": (pm.KernelClassifier(alpha=40.0, **FIXED), labels),
        "logistic": (pm.KernelClassifier(alpha=40.0, loss="logistic", **FIXED), labels),
    }


def coefficients(X, y, names=("cholesky", "cg", "classifier", "logistic")):
    """Of learners, on Dask collections where `X` is one."""
    found = {}
    for name in names:
        model, targets = learners(y)[name]
        given = da.from_array(targets, chunks=ROWS) if hasattr(X, "chunks") else targets
        found[name] = model.fit(X, given).coef_
    return found


def deadly(block, folder, block_info=None):
    """The block; the first to ask for block 2, 5 or 8 dies of it."""
    number = block_info[0]["chunk-location"][0]
    mark = os.path.join(folder, f"died-of-{number}")
    if number in (2, 5, 8) and not os.path.exists(mark):
        open(mark, "x").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return block


def test_workers_that_die_cost_nothing_but_time(cluster, rows, tmp_path):
    X, y = rows
    lazy, targets = da.from_array(X, chunks=(ROWS, 4)), da.from_array(y, chunks=ROWS)
    model, _ = learners(y)["cholesky"]
    unharmed = model.fit(lazy, targets).coef_
    dangerous = lazy.map_blocks(deadly, folder=str(tmp_path), dtype=float, meta=np.empty((0, 0)))
    found = model.fit(dangerous, targets).coef_
    # Mutant: nobody died.
    assert len(list(tmp_path.iterdir())) == 3
    np.testing.assert_array_equal(found, unharmed)


def deadly_frame(frame, folder, partition_info=None):
    """The partition; a worker dies of the first look at partition 2, the second at 5 and the third at 8."""
    number = 0 if partition_info is None else partition_info["number"]
    looks = len([name for name in os.listdir(folder) if name.startswith(f"{number}-")])
    open(os.path.join(folder, f"{number}-{looks}"), "x").close()
    if (number, looks) in ((2, 0), (5, 1), (8, 2)):
        open(os.path.join(folder, f"died-of-{number}"), "x").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return frame


@pytest.fixture
def table(rng):
    """A table with a text column, and its targets."""
    frame = pd.DataFrame(rng.standard_normal((1800, 3)), columns=list("abc"))
    frame["colour"] = rng.choice(["red", "green", "blue"], len(frame))
    return frame, pd.Series(np.sin(frame["a"]) + (frame["colour"] == "red"), name="target")


# The client alone searches, as it does without workers.
@pytest.mark.usefixtures("brief_search")
def test_a_default_fit_of_texts_outlives_its_workers(cluster, table, tmp_path):
    X, y = (dd.from_pandas(part, npartitions=9) for part in table)
    unharmed = pm.KernelRegressor(effort="fast", random_state=0).fit(X, y)
    model = pm.KernelRegressor(effort="fast", random_state=0)
    model.fit(X.map_partitions(deadly_frame, str(tmp_path), meta=X._meta), y)
    # Mutant: nobody died.
    assert sorted(tmp_path.glob("died-*")) == [tmp_path / f"died-of-{number}" for number in (2, 5, 8)]
    np.testing.assert_array_equal(model.coef_, unharmed.coef_)
    np.testing.assert_array_equal(model.predict(table[0]), unharmed.predict(table[0]))


def pretend(version=None, free_memory=None):
    """Give the process that runs this another version of phimap, or less free memory."""
    import phimap._dask
    import phimap._free_memory

    if version is not None:
        phimap._dask._VERSION = version
    if free_memory is not None:
        phimap._free_memory.free_memory = lambda: free_memory


def be_honest():
    """Undo what `pretend` did in the process that runs this."""
    import phimap._dask
    import phimap._free_memory

    phimap._dask._VERSION = phimap.__version__
    importlib.reload(phimap._free_memory)


def test_workers_of_another_version_are_refused(cluster, table):
    _, client = cluster
    X, y = (dd.from_pandas(part, npartitions=2) for part in table)
    model = pm.KernelRegressor(**FIXED).fit(*table)
    client.run(pretend, version="0.0.7")
    for work in (lambda: pm.KernelRegressor(**FIXED).fit(X, y), model.predict(X).compute):
        with pytest.raises(RuntimeError, match=r"has phimap 0\.0\.7.* has phimap .*Install") as caught:
            work()
        assert pm.__version__ in str(caught.value)
        assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("brief_search")
@pytest.mark.parametrize("memory", [None, "256MB"])
def test_a_worker_of_half_the_memory_learns_the_same(cluster, table, memory):
    """What is learned follows from the budget of the client."""
    _, client = cluster
    X, y = (dd.from_pandas(part, npartitions=5) for part in table)
    with pm.config(memory=memory):
        budget, found = memory_budget(), []
        for free in (2 * budget, budget):
            client.run(pretend, free_memory=free)
            # Mutant: workers that do not read what they are given.
            assert computed(task(memory_budget)) == (free // 2 if memory is None else budget)
            found.append(pm.KernelRegressor(n_components=64, effort="fast", random_state=0).fit(X, y))
    for model in found[1:]:
        np.testing.assert_array_equal(model.coef_, found[0].coef_)
        np.testing.assert_array_equal(model.predict(table[0]), found[0].predict(table[0]))


def test_workers_fit_what_one_process_fits(cluster, rows):
    X, y = rows
    cluster, client = cluster
    lazy = da.from_array(X, chunks=(ROWS, 4))
    on_two, alone = coefficients(lazy, y), coefficients(X, y)
    for name, coef in alone.items():
        # Conjugate gradients and quasi-Newton steps end at a tolerance.
        bound = 1e-12 if name in ("cholesky", "classifier") else 1e-6
        assert np.abs(on_two[name] - coef).max() <= bound * np.abs(coef).max(), name
    with dask.config.set(scheduler="synchronous"):
        here = coefficients(lazy, y, ["cholesky", "logistic"])
    model, targets = learners(y)["cholesky"]
    model.fit(lazy, da.from_array(targets, chunks=ROWS))
    predicted = model.predict(lazy)
    np.testing.assert_allclose(predicted.compute(), model.predict(X), rtol=1e-10, atol=1e-12)
    assert model.score(lazy, da.from_array(y, chunks=ROWS)) == pytest.approx(model.score(X, y), rel=1e-12)
    with pm.config(memory="321MB"):
        assert computed(task(memory_budget)) == 321 * 2**20
    # The last test on this cluster: another one would wait for a second worker to start again.
    cluster.scale(1)
    while len(client.nthreads()) > 1:
        time.sleep(0.1)
    on_one = coefficients(lazy, y, here)
    for name, coef in here.items():
        np.testing.assert_array_equal(on_two[name], coef, err_msg=name)
        np.testing.assert_array_equal(on_one[name], coef, err_msg=name)


def slow(block, folder):
    """The block, after a while in which the scheduler may die."""
    open(os.path.join(folder, "begun"), "w").close()
    time.sleep(0.5)
    return block


def test_a_scheduler_that_dies_is_told_in_bounded_time(rows, tmp_path):
    place = str(tmp_path / "scheduler.json")
    alone = ["--no-dashboard", "--scheduler-file", place]
    words = (
        ["scheduler", "--host", "127.0.0.1", "--port", "0"],
        ["worker", "--nthreads", "1", "--no-nanny", "--death-timeout", "5"],
    )
    processes = [
        subprocess.Popen([sys.executable, "-m", f"distributed.cli.dask_{kind}", *more, *alone]) for kind, *more in words
    ]
    try:
        # Not the default client: one whose scheduler died may fail to close.
        with distributed.Client(scheduler_file=place, timeout=30, set_as_default=False) as client, client.as_current():
            client.wait_for_workers(1, timeout=60)
            X, y = (da.from_array(part[:800], chunks=(100, *part.shape[1:])) for part in rows)
            X = X.map_blocks(slow, folder=str(tmp_path), dtype=float, meta=np.empty((0, 0)))
            model = pm.KernelRegressor(alpha=40.0, **FIXED)

            def kill():
                while not (tmp_path / "begun").exists():
                    time.sleep(0.05)
                processes[0].kill()

            killer = Thread(target=kill, daemon=True)
            killer.start()
            start = time.monotonic()
            with pytest.raises(ConnectionError, match=r"gave up its tasks.*Start a scheduler") as caught:
                model.fit(X, y)
            assert time.monotonic() - start < 30
            assert "\n" not in str(caught.value)
            assert not hasattr(model, "coef_")
    finally:
        for process in processes:
            process.kill()
            process.wait()
