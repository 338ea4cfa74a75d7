"""What each stage of a fit costs on a machine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil, log2

from phimap.theory.machine import Machine
from phimap.theory.workload import BLOCK, EXACT_ORDER, OUTLYING, SEARCHING_SHARE, Workload

# Seconds in which a scheduler places a task, whatever the cores: the figure that Dask's documentation gives.
_TASK_SECONDS = 1e-3
# Tasks of a part of a table in a pass: read, sum, join.
_TASKS_A_PARTITION = 3
# Bytes that the first pass moves for each number: moments in float64, of the row and of its square, and keys.
_MOMENT_BYTES = 150
# Operations for each number of the table and feature that drawing a map takes; points of least energy take most.
_DRAW_OPERATIONS = 1e7
# Bytes that sums with targets move for each feature, beside reading it: a product with few columns takes as long.
_SUM_BYTES = 12
# Operations of a search of normal effort: three levels on samples of at most 8,000 rows, and so much for each column.
# Measured on synthetic tables of 28 and 90 columns; a table of real data takes between a half and twice of it.
_SEARCH_OPERATIONS, _SEARCH_OPERATIONS_A_COLUMN = 6e11, 1e10
# Operations of exact models of regions, for each number of the table; as uncertain.
_CORRECTION_OPERATIONS = 2e5
# Operations of eigenvectors in float64, times the order cubed: 9 at some 0.3 times the speed of products, with what is
# read from them.
_EIGENVECTORS = 33.0
# Factorisations that the search takes, Lanczos steps with each, and how much longer these take than their operations.
_WINDOWS, _STEPS, _OUTLYING_STEPS, _STEP_FACTOR = 1.5, 16, 4, 2.0
# Columns at which a product has half of the speed of wide ones: BLAS is made for these.
_HALF_SPEED = 12
# Columns for each target that a pass multiplies in a search: five regularisations with outlying rows and without.
_SEARCHED_COLUMNS = 10
# Operations in float64 of making a preconditioner of rank r for m features, over ``m r^2``: it is made twice. Bytes
# that applying it to a column moves, over ``m r``, and how often that is done.
_MAKING, _APPLYING_BYTES, _APPLIED = 2 * 30, 16, 200


@dataclass(frozen=True)
class StageCost:
    """Predicted cost of a stage, which has the name that it has in ``stages_``.

    Attributes
    ----------
    name : str
    parts : tuple of (str, float)
        What the stage does, and seconds of it: reading, computing, sending, scheduling.
    seconds : float
        Of all parts together, some of which are done at the same time.
    operations : float
        Multiplications and additions, on all workers.
    bytes_read : float
        Bytes of numbers that are read from files, as they stand in memory.
    bytes_moved : float
        Bytes between memory and cores.
    bytes_sent : float
        Bytes between workers.
    """

    name: str
    parts: tuple[tuple[str, float], ...]
    seconds: float
    operations: float = 0.0
    bytes_read: float = 0.0
    bytes_moved: float = 0.0
    bytes_sent: float = 0.0


@dataclass(frozen=True)
class Clock:
    """A workload on a machine, and what the stages of its fit cost there.

    Attributes
    ----------
    work : Workload
    machine : Machine
    feature_seconds : float
        Seconds in which a core forms one feature of one row.
    """

    work: Workload
    machine: Machine
    feature_seconds: float

    def stages(self) -> Iterator[StageCost]:
        """All stages in their order."""
        work = self.work
        if work.holdout is not None:
            yield self._pass_over_rows("checking the data", work.n_rows, _MOMENT_BYTES)
        if work.holdout is None or work.workers > 1:
            # In one process the learner makes its first pass while the command line checks the rows.
            yield self._pass_over_rows("scales", work.n_train, _MOMENT_BYTES)
        yield self._feature_map()
        if work.solver == "cholesky":
            yield self._gram()
            yield self._regularisation()
        else:
            yield self._passes()
        if work.corrects:
            yield self._corrections()
        if work.holdout:
            yield self._held_out_rows()

    def _pass_over_rows(self, name: str, n_rows: int, bytes_a_number: float) -> StageCost:
        """A pass that looks at each number of the table."""
        numbers = float(n_rows) * self.work.n_columns
        moved = bytes_a_number * numbers
        return self._stage(name, {"sums": self.machine.moves(moved)}, moved=moved)

    def _feature_map(self) -> StageCost:
        """The draw of the map, and the search before it; one process does both."""
        work, drawing = self.work, _DRAW_OPERATIONS * self.work.n_components
        parts = {"drawing": self.machine.products(drawing, 4)}
        searching = 0.0
        if work.search:
            searching = _SEARCH_OPERATIONS + _SEARCH_OPERATIONS_A_COLUMN * work.n_columns
            parts["search"] = self.machine.products(searching, 4) / work.threads
        return StageCost("feature map", tuple(parts.items()), sum(parts.values()), drawing + searching)

    def _features(self, n_rows: float) -> float:
        """Core seconds of the features of so many rows."""
        return n_rows * self.work.n_components * self.feature_seconds * self.work.itemsize / 4

    def _gram(self) -> StageCost:
        work, machine, n = self.work, self.machine, float(self.work.n_train)
        m, t, size = work.n_components, work.n_targets, work.itemsize
        operations = n * m**2
        # A batch reads and writes the sums, and the product that is added to them.
        triangles = n / work.batch_rows * work.triangle_bytes * (2 + 2 * size / 8)
        # The sums of the features and their products with the targets read a batch once.
        batches = n * m * (size + _SUM_BYTES) + n * work.n_columns * _MOMENT_BYTES
        core_seconds = {
            "features": self._features(n),
            "Gram matrix": machine.products(operations, size) + machine.moves(triangles),
            "sums": machine.moves(batches) + machine.products(2 * n * m * (t + _HALF_SPEED), size),
        }
        joined = 0.0
        if work.workers > 1:
            # Every thread of a cluster has sums of its own, which are joined two by two: others then wait.
            joined = (work.cores - 1) * work.triangle_bytes * 3.0
            levels = ceil(log2(work.cores))
            core_seconds["joining sums"] = work.cores * levels * machine.moves(3.0 * work.triangle_bytes)
        return self._stage(
            "features and Gram matrix",
            core_seconds,
            operations=operations + 2 * n * m * t,
            moved=triangles + batches + joined,
            tree=8.0 * m * t + work.triangle_bytes,
        )

    def _factorisation(self) -> float:
        """Operations of a factorisation, the inverses of its diagonal blocks included."""
        m = self.work.n_components
        return m**3 / 3 + 2 * min(m, BLOCK) * m**2

    def _regularisation(self) -> StageCost:
        """The search for alpha and the solution, which one process does."""
        work, machine = self.work, self.machine
        m, t, size, r = work.n_components, work.n_targets, work.itemsize, work.n_judges
        single = float(r) * m**2 + 2.0 * r * m * t * _STEPS
        exact = m <= EXACT_ORDER
        eigenvectors = _EIGENVECTORS * min(m, EXACT_ORDER) ** 3
        windows = 0.0 if exact else _WINDOWS
        steps = windows * (_STEPS * (t + 1) + _OUTLYING_STEPS * OUTLYING) * _STEP_FACTOR * 2.0 * m**2
        double = eigenvectors + (windows + 1) * self._factorisation() + steps
        moved = 3.0 * work.triangle_bytes + windows * _STEPS * 2 * (work.triangle_bytes + r * m * size)
        parts = {
            "rows that judge": (self._features(r) + machine.products(single, size)) / work.threads,
            "factorisations": (machine.products(double - eigenvectors, 8) + machine.moves(moved)) / work.threads,
            # One thread finds eigenvectors.
            "eigenvectors": machine.products(eigenvectors, 8),
        }
        return StageCost("regularisation", tuple(parts.items()), sum(parts.values()), single + double, 0.0, moved)

    def _corrections(self) -> StageCost:
        work = self.work
        operations = _CORRECTION_OPERATIONS * work.n_train * work.n_columns
        return self._stage("corrections", {"regions": self.machine.products(operations, 4)}, operations=operations)

    def _passes(self) -> StageCost:
        """All passes of a solver that holds no Gram matrix, and its preconditioner."""
        work, machine, n = self.work, self.machine, float(self.work.n_train)
        m, t, size, rank = work.n_components, work.n_targets, work.itemsize, work.rank
        n_passes = work.n_passes
        searching = SEARCHING_SHARE if work.solver == "cg" else 0.0
        columns = t * (1 + searching * (_SEARCHED_COLUMNS - 1))
        sketch, products = 4.0 * work.sketched_rows * m * rank, 4.0 * n * m * (n_passes - 1)
        share = 1 - work.kept_bytes / (n * m * size)
        formed = n * (1 + share * (n_passes - 1))
        preconditioner = _MAKING * float(m) * rank**2
        moved = n_passes * n * m * 2 * size
        parts = {
            "features": self._features(formed),
            "products": machine.products(sketch + products * (columns + _HALF_SPEED), size),
        }
        applied = machine.moves(_APPLYING_BYTES * _APPLIED * t * m * rank)
        alone = (machine.products(preconditioner, 8) + applied) / work.threads
        readings = 1 + (n_passes - 1) * share
        stage = self._stage(
            "passes over the features",
            parts,
            readings=readings,
            operations=sketch + products * columns + preconditioner,
            moved=moved,
            tree=8.0 * m * (rank + n_passes * columns) * 2,
            n_passes=n_passes,
        )
        return replace(stage, parts=(*stage.parts, ("preconditioner", alone)), seconds=stage.seconds + alone)

    def _held_out_rows(self) -> StageCost:
        work = self.work
        n, m, t = float(work.n_rows - work.n_train), work.n_components, work.n_targets
        seconds = self._features(n) + self.machine.products(2 * n * m * (t + _HALF_SPEED), work.itemsize)
        readings = 0.0 if work.held_out_bytes else 1.0
        return self._stage("held-out rows", {"features": seconds}, readings=readings, operations=2 * n * m * t)

    def _stage(
        self,
        name: str,
        core_seconds: dict[str, float],
        *,
        readings: float = 1.0,
        operations: float = 0.0,
        moved: float = 0.0,
        tree: float = 0.0,
        n_passes: int = 1,
    ) -> StageCost:
        """A stage that goes over rows: reading and computing share the cores, one thread of a process reads.

        `tree` are the bytes that every worker sends once, to another that joins them with its own.
        """
        work, machine = self.work, self.machine
        # Rows that are held out are read and passed over.
        numbers = work.n_rows * ((work.file_columns or work.n_columns) + 1.0) * readings
        reading = machine.reads(numbers, work.file_format)
        computing = sum(core_seconds.values())
        readers = work.cores if work.workers > 1 else 1
        parts = {"reading": reading / readers} if reading else {}
        parts |= {part: seconds / work.cores for part, seconds in core_seconds.items() if seconds}
        seconds = max(reading / readers, (reading + computing) / work.cores)
        sent = (work.workers - 1) * tree
        if work.workers > 1:
            # The tree has as many levels as halvings; on each, workers send at the same time.
            parts["sending"] = ceil(log2(work.workers)) * tree / machine.network
            tasks = work.n_partitions * _TASKS_A_PARTITION * n_passes
            parts["scheduling"] = tasks * _TASK_SECONDS
            # Tasks are placed while others run.
            seconds = max(seconds, parts["scheduling"]) + parts["sending"]
        read = numbers * work.itemsize if work.file_format != "memory" else 0.0
        return StageCost(name, tuple(parts.items()), seconds, operations, read, moved, sent)
