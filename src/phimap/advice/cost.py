"""Prediction of the cost of a fit: seconds, memory and traffic.

The solver of a fit, the memory of the solver and the number of rows of a batch come from the code of the learner. This
module counts the operations. The measured rates of a `Machine` convert them to seconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from math import ceil, log2
from typing import Any

from phimap._validation import check_choice, check_integer, check_real
from phimap.advice.workload import Workload
from phimap.config import parse_bytes, size_text
from phimap.learn.blocks.triangle import BLOCK, STRIP
from phimap.learn.ridge.cost import HALF_SPEED, MAKING
from phimap.learn.ridge.nystroem_preconditioner import SAMPLED_FROM, SKETCH_ROWS
from phimap.learn.rows.samples import CAPACITY
from phimap.learn.rows.validation import n_extreme, n_held_out
from phimap.learn.search.effort import TRIAL_ROWS
from phimap.projections import WIDEST_DESIGN
from phimap.theory.machine import REFERENCE, Machine

# For each kernel, the field of `Machine` with the rate of its map. Nystroem features have no such rate, so the user
# gives their seconds.
_MAPS = {
    **dict.fromkeys(("auto", "gaussian", "laplacian", "matern", "cauchy", "arccosine", "dense"), "dense"),
    "structured": "structured",
    "ntk": "ntk",
    "nngp": "ntk",
}
# Bytes that a pass moves through memory: for the float64 moments of columns, per number of the table; for the sums of
# features, per feature of a row.
_MOMENT_BYTES, _SUM_BYTES = 150, 12
# Numbers of operations. First line: for drawing a feature, for a search of normal effort, and for each column in the
# search. Second line: for corrections, for each row in corrections, and in a tree for each column and for each number
# and target of a row. The operations of search, corrections and trees depend on the data, see the notes of `cost`.
_DRAW, _SEARCH, _SEARCH_COLUMN = 1e7, 2.6e11, 5e8
_CORRECTIONS, _CORRECTED_ROW, _TREE_COLUMN, _TREE_CELL = 7e10, 4e6, 5e6, 7e2
# Typical share of the largest number of boosting rounds.
_ROUNDS = 0.3
# Number of rows whose leave-one-out errors are computed for intervals, without and with corrections: with them, only
# the conformal rows, a quarter of the sample. If trees are grown in folds, all rows are used.
_LEFT_OUT, _LEFT_OUT_OF_CORRECTIONS = 1800, CAPACITY // 4
# The choice of alpha begins with the eigenvalue problem of `EXACT_ORDER` of the m features. Its operations divided by
# the cube of this order are `_EIGENVECTORS`. `_CUBE` is the operations of all factorisations divided by ``m^3``, and
# `_SQUARE` is the operations of all Lanczos steps divided by ``m^2``.
EXACT_ORDER, _EIGENVECTORS = 768, 33.0
_CUBE, _SQUARE = 5 / 6, 6000
# For conjugate gradients: share of the passes that search for alpha, columns per target in these passes, and rank of
# the preconditioner.
_SEARCHING, _COLUMNS, _RANK = 0.4, 10, 1024
# Bytes of memory that a search of normal effort takes, and bytes of memory that the reader of tables takes.
_SEARCH_BYTES, _READER_BYTES = 1.5e8, 6e7
# For a cluster: number of tasks in a pass for each part of the table, and seconds that a scheduler needs to place a
# task.
_TASKS, _TASK_SECONDS = 3, 1e-3


@dataclass(frozen=True)
class StageCost:
    """Predicted cost of a stage of a fit.

    Attributes
    ----------
    name : str
    parts : dict of str to float
        Seconds of each part of the stage, such as reading, computing, sending and scheduling.
    seconds : float
        Seconds of the stage. This can be less than the sum over its parts, some of which run at the same time.
    operations : float
        Multiplications and additions of products of features, on all workers.
    bytes_read : float
        Bytes of the numbers that are read from files, counted as they are stored in memory.
    bytes_sent : float
        Bytes sent between workers.
    """

    name: str
    parts: dict[str, float]
    seconds: float
    operations: float = 0.0
    bytes_read: float = 0.0
    bytes_sent: float = 0.0


@dataclass(frozen=True)
class Cost:
    """Predicted cost of a fit.

    Attributes
    ----------
    workload : Workload
    machine : Machine
    stages : tuple of StageCost
        The stages in order, with the names that they have in ``stages_``.
    worker_memory, driver_memory : float
        Bytes of a process that reads rows, and of the process that solves. With one worker this is the same process.
    """

    workload: Workload
    machine: Machine
    stages: tuple[StageCost, ...]
    worker_memory: float
    driver_memory: float

    @property
    def seconds(self) -> float:
        """Seconds of all stages."""
        return sum(stage.seconds for stage in self.stages)

    @property
    def rows_per_second(self) -> float:
        """Rows of the table, divided by `seconds`."""
        return self.workload.n_rows / self.seconds

    @property
    def solver(self) -> str:
        """The solver: ``"cholesky"``, ``"cg"`` or ``"passes"``."""
        return self.workload.solver

    @property
    def n_tasks(self) -> int:
        """Number of parts into which a cluster divides the table; 0 for one process."""
        return self.workload.n_parts

    @property
    def bytes_read(self) -> float:
        """Bytes of the numbers that all stages read from files, counted as they are stored in memory."""
        return sum(stage.bytes_read for stage in self.stages)

    @property
    def bytes_sent(self) -> float:
        """Bytes sent between workers."""
        return sum(stage.bytes_sent for stage in self.stages)

    def seconds_of(self, part: str) -> float:
        """Seconds of a part, such as ``"reading"``, ``"features"`` or ``"sending"``, summed over stages."""
        return sum(stage.parts.get(part, 0.0) for stage in self.stages)

    def to_dict(self) -> dict[str, Any]:
        """Return the whole prediction as plain numbers and texts."""
        totals = ("solver", "seconds", "rows_per_second", "bytes_read", "bytes_sent", "n_tasks")
        return asdict(self) | {name: getattr(self, name) for name in totals}

    def __str__(self) -> str:
        work = self.workload
        head = (
            f"{work.n_rows:,} rows x {work.n_columns:,} columns, {work.n_components:,} features, "
            f"solver {self.solver}, {work.workers} x {work.threads} threads: {self.seconds:,.1f} s, "
            f"{self.rows_per_second:,.0f} rows/s, {size_text(self.worker_memory)} a worker"
        )
        return "\n".join([head, *(f"  {stage.name}: {stage.seconds:,.2f} s" for stage in self.stages)])


def cost(
    n_rows: int,
    n_columns: int,
    n_components: int,
    n_targets: int = 1,
    *,
    kernel: str | float = "gaussian",
    dtype: str = "float32",
    solver: str = "auto",
    file_format: str = "memory",
    search: bool | None = None,
    holdout: float | None = None,
    workers: int = 1,
    threads: int = 1,
    memory: int | str | None = None,
    passes: int | None = None,
    file_columns: int | None = None,
    machine: Machine = REFERENCE,
) -> Cost:
    """Predict what a fit costs, from sizes and a few measured rates of a machine.

    Parameters
    ----------
    n_rows, n_columns, n_components : int
        Number n of rows, number d of columns after categories are encoded as numbers, and number m of features.
    n_targets : int, default=1
        Number t of targets or classes.
    kernel : str or float, default="gaussian"
        Name of the kernel, or the kind of its map: ``"dense"``, ``"structured"`` or ``"ntk"``. ``"auto"`` searches. A
        number is the seconds that one core takes to form one feature of one row. For a given map this is
        `chosen.seconds` of ``pm.suggest(X, map, n_jobs=1)``, divided by the number of rows of `X` and by the advised
        `n_components`.
    dtype : {"float32", "float64"}, default="float32"
    solver : {"auto", "cholesky", "cg", "passes"}, default="auto"
        ``"passes"`` is the solver for losses that are not squared errors. ``"auto"`` is the solver that a learner
        takes.
    file_format : {"memory", "csv", "parquet", "npy"}, default="memory"
        Where the rows come from.
    search : bool, optional
        Whether kernel and metric are searched for. By default, only if `kernel` is ``"auto"``.
    holdout : float, optional
        Share of the rows that the command ``phimap fit`` holds out. The command checks the file in a pass of its own.
        None means a fit in Python.
    workers, threads : int, default=1
        Number of processes, and number of threads of each.
    memory : int or str, optional
        Byte budget of each process, such as ``"4GB"``; None sets no limit.
    passes : int, optional
        Number of passes over the features, for a solver that holds no Gram matrix. In a fit, the convergence of the
        solver decides it. None assumes 20.
    file_columns : int, optional
        Numbers in a row of the file, if there are fewer than `n_columns` because categories are encoded as several
        columns.
    machine : Machine, optional
        The machine, by default the reference machine of the documentation. ``pm.measure_machine()`` returns the machine
        that runs it.

    Returns
    -------
    Cost

    Raises
    ------
    ValueError
        If a size is not positive or a name is not known.

    Notes
    -----
    Let the machine take ``c_f`` seconds to read a number of the file, and ``c_m`` seconds to form a feature of a row.
    The parts of a pass are: reading, ``c_f n d``; features, ``c_m n m``; the Gram matrix, ``n m^2`` operations in the
    dtype of the features; sums, ``16 n m`` bytes. After a search, ``n m^2`` operations whiten features of landmarks.
    The choice of alpha takes ``5/6 m^3 + 6000 m^2`` operations in float64. Conjugate gradients take ``4 n m (k + 12)``
    operations in a pass with k columns, where 12 accounts for the lower speed of narrow products, and a sketch of 1,024
    directions. The time of stages that go over rows is divided by the number of cores. Without a cluster, one thread
    reads while the others compute.

    The bytes are computed from the known memory of the solver and of the batches of a learner. Added to them are the
    rows, the validation rows, and what a process holds before the fit.

    On a cluster, sums are added along a tree. Every worker sends its triangle of some ``4 m (m + 512)`` bytes once, in
    one of ``log2(workers)`` rounds. A scheduler places three tasks for each part of 128 MB of the table, at a
    millisecond for each task.

    **Error.** Fits by factorisation on one thread took 0.8 to 1.4 times the predicted seconds, and 0.8 to 1 times the
    predicted bytes (``benchmarks/cost.py --scale 0.3``, a busy machine, 24 November 2026). Conjugate gradients took up
    to 3.6 times the predicted seconds if the preconditioner had to grow. Default fits, which search a kernel, took
    0.5 to 1.6 times the seconds predicted for the width that they chose, on 43 tables of 2,700 to 196,000 rows
    (``benchmarks/cost.py --tables``, 1 December 2026): the data decide how long search, corrections and trees take. The
    counts of these stages were fitted to 32 of the tables. All seconds hold for an idle machine. What a cluster adds is
    computed, not measured.

    **Cost** none.

    **Differs from the source in** nothing: these are counts.

    References
    ----------
    None; the counts are derived in the documentation, page "From one machine to many".

    Examples
    --------
    >>> import phimap as pm
    >>> whole = pm.theory.cost(10**9, 28, 4096, file_format="parquet", workers=100)
    >>> whole.solver, whole.seconds_of("Gram matrix") > whole.seconds_of("reading")
    ('cholesky', True)
    >>> pm.theory.cost(10**6, 28, 100_000, memory="16GB").solver
    'cg'
    """
    if isinstance(kernel, str):
        kind = _MAPS[check_choice("kernel", kernel, tuple(_MAPS))]
        if kind == "dense" and kernel != "dense" and check_integer("n_columns", n_columns, least=1) > WIDEST_DESIGN:
            kind = "structured"
        feature_seconds, searches = getattr(machine, kind), kernel == "auto"
    else:
        feature_seconds, searches = check_real("kernel", kernel, above=0.0), False
    searches, budget = searches if search is None else bool(search), None if memory is None else parse_bytes(memory)
    sizes, fit = (n_rows, n_columns, n_components, n_targets), (dtype, solver, file_format, searches, holdout)
    work = Workload(*sizes, *fit, workers, threads, budget, passes, file_columns)
    return Cost(work, machine, tuple(_Clock(work, machine, feature_seconds).stages()), *_memory(work, machine))


@dataclass(frozen=True)
class _Clock:
    """Computes the costs of a workload on a machine whose cores form one feature of a row in `feature_seconds`."""

    work: Workload
    machine: Machine
    feature_seconds: float

    def stages(self) -> Iterator[StageCost]:
        work = self.work
        moments = self.machine.moves(_MOMENT_BYTES * float(work.n_columns))
        if work.holdout is not None:
            yield self._over_rows("checking the data", {"sums": work.n_rows * moments})
        if work.holdout is None or work.workers > 1:
            # In one process the learner makes its first pass while the command line checks the rows.
            yield self._over_rows("scales", {"sums": work.n_train * moments})
        yield self._feature_map()
        if work.solver == "cholesky":
            yield self._gram(moments)
            yield self._regularisation()
        else:
            yield self._passes()
        if work.corrects:
            operations = _CORRECTIONS + _CORRECTED_ROW * work.n_train
            yield self._over_rows("corrections", {"regions": self.machine.products(operations, 4)})
        if work.solver == "cholesky":
            yield self._intervals()
        if work.grows_trees:
            yield self._trees()
        if work.holdout:
            n = float(work.n_rows - work.n_train)
            scoring = {"features": self._features(n) + self._narrow(2 * n, work.n_targets)}
            yield self._over_rows("held-out rows", scoring, readings=0.0 if work.held_out_bytes else 1.0)

    def _features(self, n_rows: float) -> float:
        """Seconds that one core takes to form the features of `n_rows` rows."""
        m, itemsize = self.work.n_components, self.work.itemsize
        # A search usually chooses landmarks, whose kernel values are multiplied by a triangular matrix.
        whitening = self.machine.products(n_rows * float(m) ** 2, itemsize) if self.work.search else 0.0
        return n_rows * m * self.feature_seconds * itemsize / 4 + whitening

    def _narrow(self, operations_a_feature: float, columns: float) -> float:
        """Seconds that one core takes for products of the features with a few columns.

        `operations_a_feature` counts the operations per feature and column, over all rows. Products with 12 columns run
        at half the speed of wide products.
        """
        operations = operations_a_feature * self.work.n_components * (columns + HALF_SPEED)
        return self.machine.products(operations, self.work.itemsize)

    def _feature_map(self) -> StageCost:
        """The stage that runs the search, if any, and draws the map. One process runs the whole stage."""
        work = self.work
        parts = {"drawing": self.machine.products(_DRAW * work.n_components, 4)}
        if work.search:
            # Half of the operations grow with the number of rows of the largest trials.
            share = (1 + min(work.n_train, TRIAL_ROWS) / TRIAL_ROWS) / 2
            operations = share * _SEARCH + _SEARCH_COLUMN * work.n_columns
            parts["search"] = self.machine.products(operations, 4) / work.threads
        return StageCost("search" if work.search else "feature map", parts, sum(parts.values()))

    def _gram(self, moments: float) -> StageCost:
        work, machine, n, m = self.work, self.machine, float(self.work.n_train), self.work.n_components
        # Each batch writes its own Gram matrix and reads it again to add it to the sums, which are also read and
        # written.
        triangles = n / work.batch_rows * work.triangle_bytes * (2 + work.itemsize / 4)
        parts = {
            "features": self._features(n),
            "Gram matrix": machine.products(n * m**2, work.itemsize) + machine.moves(triangles),
            "sums": machine.moves(n * m * (work.itemsize + _SUM_BYTES))
            + n * moments
            + self._narrow(2 * n, work.n_targets),
        }
        if work.workers > 1:
            # On a cluster every thread has its own sums. They are joined in pairs while other threads wait.
            cores = work.workers * work.threads
            parts["joining sums"] = cores * ceil(log2(cores)) * machine.moves(3.0 * work.triangle_bytes)
        operations, tree = n * m**2 + 2 * n * m * work.n_targets, 8.0 * m * work.n_targets + work.triangle_bytes
        return self._over_rows("features and Gram matrix", parts, operations=operations, tree=tree)

    def _regularisation(self) -> StageCost:
        """The stage that chooses alpha and solves, in one process."""
        work, machine, m = self.work, self.machine, self.work.n_components
        rows = n_held_out(work.n_train) + n_extreme(work.n_train)
        factors = machine.products((_CUBE * m + _SQUARE) * float(m) ** 2, 8)
        parts = {
            "validation rows": (self._features(rows) + machine.products(rows * float(m) ** 2, work.itemsize))
            / work.threads,
            "factorisations": factors / work.threads,
            # One thread computes the eigenvectors.
            "eigenvectors": machine.products(_EIGENVECTORS * min(m, EXACT_ORDER) ** 3, 8),
        }
        return StageCost("regularisation", parts, sum(parts.values()))

    def _intervals(self) -> StageCost:
        """The stage that computes leave-one-out errors for intervals, in one process."""
        work, machine, m = self.work, self.machine, float(self.work.n_components)
        most = _LEFT_OUT_OF_CORRECTIONS if work.corrects else _LEFT_OUT
        rows = work.n_train if work.grows_trees and work.trees_in_folds else min(work.n_train, most)
        parts = {
            "rows left out": self._features(rows) + machine.products(4 * rows * m**2, 8),
            "factorisation": machine.products(m**3 / 3, 8),
        }
        if work.corrects:
            # Corrections need the features of all rows once more, and a solution for each row that is left out.
            parts["corrections"] = self._features(work.n_train) + machine.products(4 * rows * m**2, 8)
        parts = {part: seconds / work.threads for part, seconds in parts.items()}
        return StageCost("intervals", parts, sum(parts.values()))

    def _trees(self) -> StageCost:
        """The stage that grows boosted trees."""
        from phimap.learn.average import most_rounds

        work = self.work
        n_trees = _ROUNDS * most_rounds(work.n_targets) * work.n_growths
        cells = _TREE_CELL * work.n_train * (work.n_columns + work.n_targets)
        growth = self.machine.products(n_trees * (_TREE_COLUMN * work.n_columns + cells), 4)
        # `_over_rows` divides by the number of all threads, but trees may grow on fewer threads.
        return self._over_rows("trees", {"growth": growth * work.threads / work.tree_threads})

    def _passes(self) -> StageCost:
        """The stage of a solver that holds no Gram matrix: all its passes, and its preconditioner."""
        work, machine, n, m = self.work, self.machine, float(self.work.n_train), self.work.n_components
        n_passes, rank = work.n_passes, min(m, _RANK)
        searching = _SEARCHING if work.solver == "cg" else 0.0
        columns = work.n_targets * (1 + searching * (_COLUMNS - 1))
        sketched = n if n < SAMPLED_FROM else SKETCH_ROWS
        formed = 1 - work.kept_bytes / (n * m * work.itemsize)
        readings = 1 + (n_passes - 1) * formed
        parts = {
            "features": self._features(n * readings),
            "products": machine.products(4.0 * sketched * m * rank, work.itemsize)
            + self._narrow(4.0 * n * (n_passes - 1), columns),
        }
        tree = 16.0 * m * (rank + n_passes * columns)
        stage = self._over_rows("passes over the features", parts, readings=readings, tree=tree, n_passes=n_passes)
        alone = 2 * MAKING * m * float(rank) ** 2 * REFERENCE.double / machine.double / work.threads
        parts = stage.parts | {"preconditioner": alone}
        return StageCost(stage.name, parts, stage.seconds + alone, 0.0, stage.bytes_read, stage.bytes_sent)

    def _over_rows(
        self,
        name: str,
        core_seconds: dict[str, float],
        *,
        readings: float = 1.0,
        operations: float = 0.0,
        tree: float = 0.0,
        n_passes: int = 1,
    ) -> StageCost:
        """A stage that goes over rows.

        `core_seconds` has the seconds of each part on one core; the parts and the reading share all cores. The file is
        read `readings` times, without a cluster by one thread. `tree` is the number of bytes that every worker sends
        once, to a worker that adds them to its own sums.
        """
        work, machine, cores = self.work, self.machine, self.work.workers * self.work.threads
        # Held-out rows are also read, although they are not used.
        numbers = work.n_rows * ((work.file_columns or work.n_columns) + 1.0) * readings
        reading, computing = machine.reads(numbers, work.file_format), sum(core_seconds.values())
        readers = cores if work.workers > 1 else 1
        parts = {"reading": reading / readers} if reading else {}
        parts |= {part: seconds / cores for part, seconds in core_seconds.items() if seconds}
        seconds = max(reading / readers, (reading + computing) / cores)
        if work.workers > 1:
            # The sums of workers are added in pairs, in rounds. All pairs of a round send at the same time. Tasks are
            # placed while other tasks run.
            parts["sending"] = ceil(log2(work.workers)) * tree / machine.network
            parts["scheduling"] = work.n_parts * _TASKS * n_passes * _TASK_SECONDS
            seconds = max(seconds, parts["scheduling"]) + parts["sending"]
        read = numbers * work.itemsize if work.file_format != "memory" else 0.0
        return StageCost(name, parts, seconds, operations, read, (work.workers - 1) * tree)


def _memory(work: Workload, machine: Machine) -> tuple[float, float]:
    """Largest numbers of bytes that a worker and the driver hold at a time."""
    m, size = work.n_components, work.itemsize
    in_memory, reader = work.file_format == "memory", work.file_format in ("csv", "parquet")
    # Two batches of rows are held: the batch in use, and the next batch, which is being read.
    rows = work.n_rows if in_memory and work.workers == 1 else 2 * work.batch_rows
    process = machine.process + reader * _READER_BYTES + (work.held_out_bytes if work.holdout else 0)
    process += rows * work.row_bytes
    products = work.threads * size * min(m, BLOCK) * min(m, STRIP)
    validation = n_held_out(work.n_train) + n_extreme(work.n_train)
    searching = _SEARCH_BYTES if work.search else 0.0
    solving = work.grown_bytes + validation * m * size
    if work.solver == "cholesky":
        # The search for alpha begins with the eigenvectors of a smaller problem, and with the features of the
        # validation rows in the basis of these eigenvectors. Two triangles are held meanwhile.
        order = min(m, EXACT_ORDER)
        exact = 2 * work.triangle_bytes + 24 * order**2 + (8 + size) * order * validation + validation * m * size
        solving, accumulating = max(solving, exact), work.triangle_bytes + work.batch_bytes + products
        # Every thread of a worker has its own batch and its own sums. In addition, the worker receives one triangle of
        # sums from another worker.
        worker = accumulating + (work.threads - 1) * (work.triangle_bytes + work.batch_bytes) + work.triangle_bytes
    else:
        accumulating = solving + work.kept_bytes / work.workers + work.batch_bytes
        worker = work.kept_bytes / work.workers + work.threads * work.batch_bytes + 16 * m * min(m, _RANK)
    if work.workers == 1:
        own = process + max(accumulating, solving, searching)
        return own, own
    return process + worker, process - rows * work.row_bytes + max(solving, searching)
