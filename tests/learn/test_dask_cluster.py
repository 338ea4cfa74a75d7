"""Learners on a real cluster of processes. Each test has a cluster of its own, so that few of them start."""

from __future__ import annotations

import os
import signal
import time

import numpy as np
import pytest

import phimap as pm
from phimap._dask import computed, task
from phimap.config import memory_budget
from tests.support.learners import GAUSSIAN

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")

# As many as a batch has, so that the rows are cut at the same places in one process.
ROWS = 4096
# More than are merged at a time.
N = 9 * ROWS


@pytest.fixture
def cluster():
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0", memory_limit=0
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        client.wait_for_workers(2, timeout=60)
        yield cluster, client


@pytest.fixture
def rows(rng):
    X = rng.standard_normal((N, 4))
    return X, np.sin(X[:, 0]) + X[:, 1] / 5 + 0.1 * rng.standard_normal(N)


def learners(y):
    fixed = {"n_components": 32, "random_state": 0, "n_jobs": 1, **GAUSSIAN}
    labels = (y > 0).astype(int)
    return {
        "cholesky": (pm.KernelRegressor(alpha=40.0, **fixed), y),
        "cg": (pm.KernelRegressor(alpha=40.0, solver="cg", **fixed), y),
        "classifier": (pm.KernelClassifier(alpha=40.0, **fixed), labels),
        "logistic": (pm.KernelClassifier(alpha=40.0, loss="logistic", **fixed), labels),
    }


def coefficients(X, y, names=("cholesky", "cg", "classifier", "logistic")):
    """Of learners, on Dask collections where `X` is one."""
    found = {}
    for name in names:
        model, targets = learners(y)[name]
        given = da.from_array(targets, chunks=ROWS) if hasattr(X, "chunks") else targets
        found[name] = model.fit(X, given).coef_
    return found


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
    cluster.scale(1)
    while len(client.nthreads()) > 1:
        time.sleep(0.1)
    on_one = coefficients(lazy, y, here)
    for name, coef in here.items():
        np.testing.assert_array_equal(on_two[name], coef, err_msg=name)
        np.testing.assert_array_equal(on_one[name], coef, err_msg=name)


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
