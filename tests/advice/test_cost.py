"""Predicted costs against counts, and against what learners hold."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib import import_module
from itertools import pairwise

import numpy as np
import pytest

import phimap as pm
from phimap.advice import Workload, cost
from phimap.learn.blocks.blocks import DenseBlock
from phimap.learn.blocks.triangle import BLOCK
from phimap.learn.registry import MEMBERS, choose
from phimap.learn.ridge import alpha
from phimap.learn.ridge.solver import RidgeSolver
from phimap.learn.rows.batches import RowShape, feature_rows, smallest_batch
from phimap.theory import REFERENCE, Machine
from tests.support.memory import traced

WIDTHS = (64, 512, 1024, 3000, 4096, 16_384, 100_000)


@pytest.mark.parametrize("m", WIDTHS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_batches_and_solvers_are_those_of_learners(m, dtype):
    size = np.dtype(dtype).itemsize
    work = Workload(10**7, 28, m, dtype=dtype, solver="cholesky")
    assert work.batch_rows == feature_rows(m, size)
    assert work.solver_bytes == RidgeSolver.memory(10**7, m, 1)
    in_passes = replace(work, solver="cg", n_targets=3)
    assert in_passes.solver_bytes == MEMBERS["squared", "cg"].memory(10**7, m, 3)
    # The budget shrinks a batch as it does in a fit, and the smallest one is left where nothing fits.
    tight = work.solver_bytes + smallest_batch(m, size, RowShape(28, size, 1))
    assert replace(work, memory=tight).batch_rows < work.batch_rows
    assert replace(work, memory=1).batch_bytes == smallest_batch(m, size)


def test_the_first_problem_of_the_search_is_that_of_learners():
    assert import_module("phimap.advice.cost").EXACT_ORDER == alpha._EXACT_ORDER


@pytest.mark.parametrize("m", WIDTHS)
@pytest.mark.parametrize("memory", [2**30, 2**34, 2**37])
def test_solver_is_the_one_that_learners_take(m, memory):
    chosen = choose("squared", "auto", 10**7, m, memory - smallest_batch(m, 4), n_flops=56 * m)
    assert cost(10**7, 28, m, memory=memory).solver == chosen.name


def gram_operations(n: int, m: int) -> float:
    """Multiplications and additions of the products that a fit adds to its Gram matrix, without the validation rows."""
    counted = []

    class CountingAccumulator(DenseBlock):
        def add_gram(self, gram, sign, n_jobs):
            r, width = self.shape
            for first, last in pairwise([*range(0, width, BLOCK), width]):
                # The diagonal block is symmetric: half of its products are formed.
                counted.append(r * (last - first) * (2 * (width - last) + last - first))

    rng = np.random.default_rng(0)
    statistics = pm.learn.ridge.statistics.RidgeStatistics.empty(m, 1)
    for start in range(0, n, 4096):
        rows = min(4096, n - start)
        statistics.update(CountingAccumulator(rng.random((rows, m), dtype=np.float32)), np.zeros((rows, 1)))
    return float(sum(counted))


def test_operations_of_the_gram_matrix_are_those_that_are_formed():
    n, m = 5000, 1100
    (stage,) = (s for s in cost(n, 3, m).stages if s.name == "features and Gram matrix")
    counted = gram_operations(n, m) + 2 * n * m
    assert stage.operations == pytest.approx(counted, rel=1e-12)
    # A mutant: full products, twice as many.
    assert stage.operations != pytest.approx(2 * counted, rel=0.1)


def test_memory_of_a_fit_is_the_predicted_one():
    n, d, m = 9000, 5, 1024
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((n, d)).astype(np.float32), rng.standard_normal(n)
    options = {"length_scale": 2.0, "metric": None, "random_state": 0, "n_jobs": 1}
    # What is loaded at the first use belongs to the process.
    pm.KernelRegressor("gaussian", 800, **options).fit(X[:3000], y[:3000])
    model = pm.KernelRegressor("gaussian", m, **options)
    peak = traced(lambda: model.fit(X, y)).peak

    def agrees(width: int, **changed) -> bool:
        machine = replace(REFERENCE, process=1.0)
        return 0.8 < cost(n, d, width, machine=machine, **changed).worker_memory / peak < 1.25

    assert agrees(m)
    # Mutants: twice the features, and half of them.
    assert not agrees(2 * m)
    assert not agrees(m // 2)


@pytest.mark.parametrize("workers", [2, 3, 8, 100])
def test_tree_sends_what_a_simulated_one_sends(workers):
    m, t = 2048, 3
    sums = cost(10**8, 28, m, t, workers=workers, file_format="parquet")
    holding, n_sent, levels = workers, 0, 0
    while holding > 1:
        n_sent += holding // 2
        holding -= holding // 2
        levels += 1
    each = 4 * m * (m + 512) + 8 * m * t
    assert sums.bytes_sent == n_sent * each
    assert sums.seconds_of("sending") == pytest.approx(levels * each / REFERENCE.network)


@pytest.mark.parametrize("file_format", ["memory", "csv", "parquet", "npy"])
def test_cost_of_passes_grows_with_rows_and_falls_with_cores(file_format):
    one = cost(10**7, 28, 1024, file_format=file_format)
    ten = cost(10**8, 28, 1024, file_format=file_format)
    shared = cost(10**8, 28, 1024, file_format=file_format, threads=10)
    for part in ("features", "Gram matrix", "reading"):
        assert ten.seconds_of(part) == pytest.approx(10 * one.seconds_of(part), rel=1e-6)
    assert shared.seconds_of("Gram matrix") == pytest.approx(one.seconds_of("Gram matrix"), rel=1e-6)
    assert one.seconds < ten.seconds < 10 * one.seconds
    assert one.seconds_of("reading") == one.bytes_read / 4 * getattr(REFERENCE, file_format, 0.0)


def test_one_thread_reads_while_others_compute():
    slow = replace(REFERENCE, csv=1e-3)
    reading = cost(10**6, 28, 256, file_format="csv", threads=64, machine=slow)
    assert reading.seconds == pytest.approx(reading.seconds_of("reading"), rel=0.01)
    # Workers read each their own part.
    spread = cost(10**6, 28, 256, file_format="csv", workers=64, machine=slow)
    assert spread.seconds < reading.seconds / 20


def test_command_line_checks_the_table_and_scores_held_out_rows():
    python, command = (cost(10**6, 28, 512, file_format="csv", holdout=share) for share in (None, 0.1))
    between = [stage.name for stage in python.stages][1:]
    assert [stage.name for stage in command.stages] == ["checking the data", *between, "held-out rows"]
    assert command.bytes_read == pytest.approx(python.bytes_read)
    # Where there is no room for the rows that are held out, they are read again.
    tight = cost(10**6, 28, 512, file_format="csv", holdout=0.1, memory="20MB")
    assert tight.bytes_read == pytest.approx(1.5 * python.bytes_read)
    # Workers read rows that the command line has read before.
    spread = cost(10**6, 28, 512, file_format="csv", holdout=0.1, workers=2)
    assert spread.stages[1].name == "scales"


def test_searched_kernels_take_a_search_corrections_and_trees():
    plain, searched = (cost(10**5, 28, 1024, kernel=kernel) for kernel in ("gaussian", "auto"))
    added = {stage.name for stage in searched.stages} - {stage.name for stage in plain.stages}
    assert added == {"search", "corrections", "trees"}
    assert searched.seconds_of("search") > 0
    assert "corrections" not in {stage.name for stage in cost(10**5, 28, 1024, kernel="auto", memory=2**26).stages}


def test_a_thread_grows_the_trees_of_a_fold():
    for n, n_threads in ((10**5, 1), (3999, 3)):
        one, four = (cost(n, 10, 512, threads=k, kernel="auto").seconds_of("growth") for k in (1, 4))
        assert four == pytest.approx(one / n_threads)


def test_all_of_few_rows_are_left_out_for_trees():
    """Below 4,000 rows, trees are judged by all rows, whose errors in the kernel model are computed."""
    below, above = (cost(n, 10, 2048, kernel="auto").seconds_of("rows left out") for n in (3999, 4001))
    assert below > 2 * above
    few = cost(3999, 10, 2048, kernel="gaussian").seconds_of("rows left out")
    whitened = 1800 * REFERENCE.products(2048.0**2, 4)
    assert few == pytest.approx(above - whitened)


def test_features_of_landmarks_are_whitened_after_a_search():
    n, m = 10**6, 1024
    plain, whitened = (cost(n, 28, m, kernel=kernel).seconds_of("features") for kernel in ("gaussian", "auto"))
    assert whitened - plain == pytest.approx(REFERENCE.products(n * float(m) ** 2, 4))


def test_trees_of_many_rows_are_grown_once():
    """At most one row in eight is left out of the trees, so that they are kept."""
    few, many = (cost(n, 10, 512, kernel="auto").seconds_of("growth") for n in (30_000, 40_000))
    assert few > 1.3 * many


def test_kinds_of_maps_and_their_seconds():
    n, d, m = 10**6, 28, 1024
    kernels = {"matern": REFERENCE.dense, "structured": REFERENCE.structured, "ntk": REFERENCE.ntk, 5e-9: 5e-9}
    for kernel, constant in kernels.items():
        assert cost(n, d, m, kernel=kernel).seconds_of("features") == pytest.approx(n * m * constant)


def test_wide_tables_have_structured_directions_and_may_be_narrower_in_the_file():
    assert cost(10**6, 49, 512).seconds_of("features") == pytest.approx(10**6 * 512 * REFERENCE.structured)
    encoded = cost(10**6, 845, 512, file_format="csv", file_columns=39)
    assert encoded.seconds_of("reading") == pytest.approx(2 * 40e6 * REFERENCE.csv)


def test_passes_of_solvers_without_a_gram_matrix():
    few, many = (cost(10**6, 28, 20_000, solver="cg", memory="8GB", passes=passes) for passes in (5, 50))
    assert [stage.name for stage in few.stages] == ["scales", "feature map", "passes over the features"]
    assert few.seconds < many.seconds
    # Features that are kept are formed once.
    kept, formed = (cost(10**5, 28, 1024, solver="cg", memory=memory) for memory in (None, "300MB"))
    assert kept.seconds_of("features") < formed.seconds_of("features")
    assert kept.worker_memory > formed.worker_memory


def test_cost_is_shown_in_words_and_as_plain_numbers():
    found = cost(10**9, 28, 4096, workers=100, file_format="parquet")
    assert "1,000,000,000 rows x 28 columns, 4,096 features, solver cholesky" in str(found)
    told = json.loads(json.dumps(found.to_dict()))
    assert told["seconds"] == pytest.approx(sum(stage["seconds"] for stage in told["stages"]))
    assert found.rows_per_second == pytest.approx(10**9 / found.seconds)
    assert Machine(**found.machine.to_dict()) == REFERENCE


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"n_rows": 1}, "`n_rows` must be"),
        ({"n_components": 0}, "`n_components` must be"),
        ({"workers": 0}, "`workers` must be"),
        ({"solver": "lu"}, "`solver` must be one of"),
        ({"kernel": "tree"}, "`kernel` must be one of"),
        ({"kernel": -1.0}, "`kernel` must be greater than 0"),
        ({"file_format": "xls"}, "`file_format` must be one of"),
        ({"holdout": 1.0}, "`holdout` must be below 1, got 1"),
        ({"memory": "much"}, "`memory` must be"),
        ({"passes": 0}, "`passes` must be"),
    ],
)
def test_wrong_parameters_are_named(changed, message):
    with pytest.raises(ValueError, match=message):
        cost(**{"n_rows": 100, "n_columns": 3, "n_components": 64} | changed)


def test_constants_of_a_machine_are_positive():
    with pytest.raises(ValueError, match="`csv` must be greater than 0"):
        replace(REFERENCE, csv=0.0)


@pytest.mark.parametrize("kernel", ["gaussian", "auto"])
@pytest.mark.parametrize("solver", ["cholesky", "cg"])
def test_threads_divide_what_they_share_once(kernel, solver):
    one, four = (cost(10**5, 28, 1024, kernel=kernel, solver=solver, threads=threads) for threads in (1, 4))
    alone = {"drawing", "eigenvectors", "growth"}
    for before, after in zip(one.stages, four.stages, strict=True):
        for (name, seconds), (_, shared) in zip(before.parts.items(), after.parts.items(), strict=True):
            assert shared == pytest.approx(seconds if name in alone else seconds / 4), name
        assert sum(seconds for seconds in before.parts.values()) == pytest.approx(before.seconds)
