"""BLAS limits that hold in every thread, and tasks that end up in one."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import scipy.linalg  # noqa: F401  # brings a BLAS of its own
from threadpoolctl import ThreadpoolController, threadpool_limits

from phimap.config import Settings, memory_budget, settings_of
from phimap.ops import one_thread, run_tasks, single_threaded_blas, tasks
from phimap.ops import threads as module


def counts() -> list[int]:
    return [library["num_threads"] for library in ThreadpoolController().select(user_api="blas").info()]


@pytest.fixture
def two_threads():
    """BLAS with two threads, set by this thread, which so has it under control."""
    with threadpool_limits(2, user_api="blas"):
        if set(counts()) != {2}:
            pytest.skip("this BLAS takes no number of threads")
        yield


def in_a_thread(work):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


def limited() -> list[int]:
    with single_threaded_blas():
        return counts()


@pytest.mark.usefixtures("two_threads")
def test_a_limit_holds_in_a_thread_that_is_not_the_first():
    """Issue 18, row 3. Mutant: threadpoolctl's own limit, which the thread in control keeps from others."""

    def by_threadpoolctl() -> list[int]:
        limit = ThreadpoolController().limit(limits=1, user_api="blas")
        found = counts()
        limit.restore_original_limits()
        return found

    assert in_a_thread(by_threadpoolctl) == [2] * len(counts())
    assert set(in_a_thread(limited)) == {1}
    assert set(counts()) == {2}


@pytest.mark.usefixtures("two_threads")
def test_the_last_of_overlapping_blocks_gives_back_what_was_there():
    begun, left = threading.Event(), threading.Event()
    found = {}

    def other() -> None:
        with single_threaded_blas():
            begun.set()
            left.wait()
            found["alone"] = counts()

    thread = threading.Thread(target=other)
    with single_threaded_blas():
        thread.start()
        begun.wait()
    left.set()
    thread.join()
    assert set(found["alone"]) == {1}
    assert set(counts()) == {2}


@pytest.mark.usefixtures("two_threads")
def test_a_limit_that_somebody_raised_is_set_anew():
    with single_threaded_blas():
        in_a_thread(lambda: [library.set_num_threads(2) for library in module._libraries()])
        assert set(limited()) == {1}
    assert set(counts()) == {2}


class PerThread:
    """A BLAS whose number of threads belongs to the thread that calls, as OpenBLAS built with OpenMP has it."""

    internal_api, threading_layer = "openblas", "openmp"

    def __init__(self):
        self._own = threading.local()

    def get_num_threads(self) -> int:
        return getattr(self._own, "count", 4)

    def set_num_threads(self, count: int) -> None:
        self._own.count = count


def test_a_setting_of_each_thread_is_set_in_each(monkeypatch):
    library = PerThread()
    monkeypatch.setattr(module, "_libraries", lambda: [library])

    def seen() -> tuple[int, int]:
        with single_threaded_blas():
            inside = library.get_num_threads()
        return inside, library.get_num_threads()

    with single_threaded_blas():
        assert in_a_thread(seen) == (1, 4)
        assert library.get_num_threads() == 1
        assert run_tasks(lambda _: library.get_num_threads(), range(4), n_jobs=2) == [1] * 4
    assert library.get_num_threads() == 4


def test_one_thread_starts_no_others():
    with one_thread():
        assert set(run_tasks(lambda _: threading.get_ident(), range(4), n_jobs=2)) == {threading.get_ident()}
        assert set(counts()) == {1}
    assert tasks._team_of_thread() is None


def test_the_caller_works_too_and_the_threads_stay():
    """Which thread of the pool comes to help is chance. Mutant: a pool for each call, whose threads end with it."""
    before = set(threading.enumerate())

    def met_by(n_calls: int) -> set[threading.Thread]:
        seen = []
        for _ in range(n_calls):
            met = threading.Barrier(2)

            def work(_: int, met: threading.Barrier = met) -> threading.Thread:
                met.wait()
                return threading.current_thread()

            seen.append(run_tasks(work, range(2), n_jobs=2))
        assert all(threading.current_thread() in threads for threads in seen)
        return {thread for threads in seen for thread in threads}

    helpers = met_by(20) - {threading.current_thread()}
    assert all(thread.is_alive() for thread in helpers)
    # The pool starts a thread where none of those that it has is waiting at that moment.
    assert len(helpers - before) < 20


def test_the_first_error_is_raised_and_what_nobody_began_is_dropped():
    begun = []

    def work(item: int) -> None:
        begun.append(item)
        if item == 3:
            raise ValueError("three")

    with pytest.raises(ValueError, match="three"):
        run_tasks(work, range(1000), n_jobs=2)
    assert len(begun) < 1000
    assert run_tasks(abs, [-1, -2, -3], n_jobs=2) == [1, 2, 3]


def test_calls_within_tasks_share_the_threads():
    """One of two threads has nothing to do until the other one calls. Mutant: calls within tasks on their own thread.

    At no time do more threads work than asked for. Mutant: a team for each call.
    """
    met, working, most = threading.Barrier(2), [], []

    def inner(_: int) -> int:
        working.append(1)
        most.append(len(working))
        met.wait(timeout=60)
        working.pop()
        return threading.get_ident()

    def outer(item: int) -> set[int]:
        return set(run_tasks(inner, range(4), n_jobs=8)) if item == 0 else set()

    with_two, nothing = run_tasks(outer, range(2), n_jobs=2)
    assert len(with_two) == 2
    assert not nothing
    assert max(most) == 2


def test_calls_within_few_tasks_use_all_threads():
    """Two tasks of two parts each, on four threads. Mutant: a team of one thread for each task."""
    met = threading.Barrier(4)

    def outer(_: int) -> list[int]:
        return run_tasks(lambda _: met.wait(timeout=60), range(2), n_jobs=4)

    assert sorted(place for places in run_tasks(outer, range(2), n_jobs=4) for place in places) == [0, 1, 2, 3]


def test_an_error_in_a_call_within_a_task_is_raised():
    def outer(item: int) -> list[float]:
        return run_tasks(lambda divisor: 1 / divisor, range(item, item + 3), n_jobs=3)

    with pytest.raises(ZeroDivisionError):
        run_tasks(outer, range(-2, 2), n_jobs=3)
    assert run_tasks(outer, [1, 4], n_jobs=3) == [[1, 1 / 2, 1 / 3], [1 / 4, 1 / 5, 1 / 6]]


def test_settings_of_the_caller_hold_in_every_thread():
    met = threading.Barrier(2)

    def budget(_: int) -> int:
        met.wait()
        return memory_budget()

    with settings_of(Settings(memory=12345)):
        assert run_tasks(budget, range(2), n_jobs=2) == [12345] * 2


def test_callers_in_many_threads_do_not_wait_for_each_other(monkeypatch):
    """Mutant: a caller that waits for helpers which others keep busy, with a pool of one thread."""
    monkeypatch.setattr(tasks, "_MOST_HELPERS", 1)
    tasks._pool.cache_clear()
    try:
        with ThreadPoolExecutor(8) as callers:
            sums = list(callers.map(lambda n: sum(run_tasks(abs, range(n), n_jobs=4)), range(50)))
    finally:
        tasks._pool.cache_clear()
    assert sums == [n * (n - 1) // 2 for n in range(50)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_starts_threads_of_its_own():
    run_tasks(abs, range(4), n_jobs=2)
    child = os.fork()
    if not child:
        os._exit(0 if run_tasks(abs, range(4), n_jobs=2) == [0, 1, 2, 3] else 1)
    assert os.waitpid(child, 0)[1] == 0


# Distances of CSR rows, which scikit-learn computes with OpenMP, in a process and in its fork.
FORKED_DISTANCES = """
import os, signal
from scipy import sparse
from phimap.kernels.geometry import city_block_distances

rows = sparse.csr_array(sparse.random(200, 30, 0.2, random_state=0))
city_block_distances(rows, rows)
child = os.fork()
if child == 0:
    signal.alarm(30)
    city_block_distances(rows, rows)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_distances_of_sparse_rows_do_not_hang_in_a_fork():
    environment = os.environ | {"OMP_NUM_THREADS": "2"}
    subprocess.run([sys.executable, "-c", FORKED_DISTANCES], env=environment, timeout=60, check=True)


def test_a_fork_forgets_the_blocks_of_other_threads():
    limits = module._Limits()
    in_a_thread(limits.enter)
    limits.forked()
    assert limits._users == 0


PROGRAM = """
import multiprocessing, sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from joblib import Parallel, delayed
from tests.ops.test_threads import digest

def main():
    found = {digest(0)}
    for kind in sys.argv[1:]:
        if kind == "thread":
            with ThreadPoolExecutor(2) as pool:
                found |= set(pool.map(digest, range(2)))
        elif kind == "loky":
            found |= set(Parallel(2, backend="loky")(delayed(digest)(i) for i in range(1)))
        else:
            with ProcessPoolExecutor(1, multiprocessing.get_context(kind)) as pool:
                found |= set(pool.map(digest, range(1)))
    print(len(found))

if __name__ == "__main__":
    main()
"""


def digest(_: int) -> str:
    """A hash of a fitted model, whose bits follow from every product on the way."""
    import hashlib

    import numpy as np

    import phimap as pm

    rng = np.random.default_rng(0)
    X = rng.standard_normal((2600, 6))
    model = pm.KernelRegressor("gaussian", 600, random_state=0, metric=None, length_scale="median")
    return hashlib.sha256(model.fit(X, np.sin(X[:, 0]) + X[:, 1]).coef_.tobytes()).hexdigest()


@pytest.mark.parametrize(
    "kinds", [("thread", "fork"), pytest.param(("spawn", "forkserver", "loky"), marks=pytest.mark.slow)], ids="-".join
)
def test_bits_are_the_same_in_threads_and_processes(kinds, tmp_path):
    script = tmp_path / "program.py"
    script.write_text(PROGRAM, encoding="utf-8")
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    # The parent's BLAS has two threads, so that a limit which does not hold shows in the bits.
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "2"}
    environment["PYTHONPATH"] = os.pathsep.join([root, environment.get("PYTHONPATH", "")])
    command = [sys.executable, "-W", "ignore", str(script), *kinds]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "1"
