"""What a fit will cost: seconds, memory and traffic, before it is begun."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from phimap._validation import check_choice, check_integer, check_real
from phimap.config import parse_bytes, size_text
from phimap.theory.machine import REFERENCE, Machine
from phimap.theory.stages import Clock, StageCost
from phimap.theory.workload import BLOCK, OUTLYING, STRIP, Workload

# Which constant of a machine serves the map of a kernel. Nystroem features, which no constant serves, are products
# with landmarks and a root: their cost is given in seconds.
_MAPS = {
    "auto": "dense",
    "gaussian": "dense",
    "laplacian": "dense",
    "matern": "dense",
    "cauchy": "dense",
    "arccosine": "dense",
    "dense": "dense",
    "structured": "structured",
    "ntk": "ntk",
    "nngp": "ntk",
}
#: Columns from which on learners draw directions with structure.
WIDEST_DENSE = 48
# Bytes that a search of normal effort holds: maps of 2,048 features on 8,000 rows, and two copies of some.
_SEARCH_BYTES = 1.5e8
# Bytes of what reads tables: pyarrow and its buffers.
_READER_BYTES = {"csv": 6e7, "parquet": 6e7}


@dataclass(frozen=True)
class Cost:
    """Predicted cost of a fit.

    Attributes
    ----------
    workload : Workload
    machine : Machine
    stages : tuple of StageCost
        In their order, with the names of ``stages_``.
    worker_memory, driver_memory : float
        Bytes of a process that sees rows, and of the one that solves; the same process where there is one worker.
    n_tasks : int
        Parts of the table that a cluster works on, one after the other; 0 for one process.
    """

    workload: Workload
    machine: Machine
    stages: tuple[StageCost, ...]
    worker_memory: float
    driver_memory: float
    n_tasks: int

    @property
    def seconds(self) -> float:
        """Of all stages."""
        return sum(stage.seconds for stage in self.stages)

    @property
    def rows_per_second(self) -> float:
        """Rows of the table over `seconds`."""
        return self.workload.n_rows / self.seconds

    @property
    def solver(self) -> str:
        """``"cholesky"``, ``"cg"`` or ``"passes"``."""
        return self.workload.solver

    @property
    def bytes_read(self) -> float:
        """Numbers read from files, in bytes of memory, all stages together."""
        return sum(stage.bytes_read for stage in self.stages)

    @property
    def bytes_moved(self) -> float:
        """Bytes between memory and cores."""
        return sum(stage.bytes_moved for stage in self.stages)

    @property
    def bytes_sent(self) -> float:
        """Bytes between workers."""
        return sum(stage.bytes_sent for stage in self.stages)

    def seconds_of(self, part: str) -> float:
        """Seconds of a part such as ``"reading"``, ``"features"`` or ``"sending"``, in all stages."""
        return sum(seconds for stage in self.stages for name, seconds in stage.parts if name == part)

    def to_dict(self) -> dict[str, Any]:
        """Everything that is predicted, as plain numbers and texts."""
        return {
            "workload": asdict(self.workload),
            "machine": self.machine.to_dict(),
            "stages": [asdict(stage) | {"parts": dict(stage.parts)} for stage in self.stages],
            "solver": self.solver,
            "seconds": self.seconds,
            "rows_per_second": self.rows_per_second,
            "bytes_read": self.bytes_read,
            "bytes_moved": self.bytes_moved,
            "bytes_sent": self.bytes_sent,
            "worker_memory": self.worker_memory,
            "driver_memory": self.driver_memory,
            "n_tasks": self.n_tasks,
        }

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
    """Predict what a fit costs, from sizes and a few measured constants of a machine.

    Parameters
    ----------
    n_rows, n_columns, n_components : int
        Rows n, columns d as numbers (after categories are encoded), and features m.
    n_targets : int, default=1
        Targets, or classes t.
    kernel : str or float, default="gaussian"
        Name of the kernel, or ``"dense"``, ``"structured"`` or ``"ntk"`` for the kind of its map; or the seconds in
        which one core forms one feature of one row: of a map, `chosen.seconds` of ``pm.suggest(X, map, n_jobs=1)``
        over the rows and features that it tells. ``"auto"`` searches.
    dtype : {"float32", "float64"}, default="float32"
    solver : {"auto", "cholesky", "cg", "passes"}, default="auto"
        ``"passes"`` are the losses that are not squared errors. ``"auto"`` is the factorisation where its three
        triangles fit `memory`, else conjugate gradients.
    file_format : {"memory", "csv", "parquet", "npy"}, default="memory"
        Where the rows come from.
    search : bool, optional
        Whether kernel and metric are searched for; None is what `kernel` says.
    holdout : float, optional
        Share of the rows that ``phimap fit`` holds out; it checks the file in a pass of its own. None is a fit in
        Python.
    workers, threads : int, default=1
        Processes, and threads of each.
    memory : int or str, optional
        Byte budget of each process, such as ``"4GB"``; None sets no limit.
    passes : int, optional
        Passes over the features of a solver that holds no Gram matrix, which its convergence decides; None is 20.
    file_columns : int, optional
        Numbers of a row in the file, where categories become more columns when they are encoded.
    machine : Machine, optional
        By default the machine of the documentation; ``pm.measure_machine()`` gives this one.

    Returns
    -------
    Cost

    Raises
    ------
    ValueError
        If a size is not positive, a word is not known, or the budget holds neither solver.

    Notes
    -----
    The parts of a pass are decoding, ``c_f n d``; features, ``c_m n m``; the Gram matrix, ``n m^2`` operations in the
    dtype of the features and ``4 m (m + 512)`` bytes of sums that each batch reads and writes; sums, ``32 n m`` bytes.
    The solution takes ``m^3 / 3 + 1024 m^2`` operations in float64 for each of two factorisations or some more.
    Conjugate gradients take ``4 n m (k + 12)`` operations in a pass with k columns, narrow products being slower, and
    a sketch of 1,024 directions.
    Stages that go over rows are divided by the cores; one thread of a process reads, while the others compute.

    A cluster adds a tree: every worker sends its triangle once, ``4 m (m + 512)`` bytes on each of ``log2(workers)``
    levels, and a scheduler places three tasks for each part of 128 MB of the table, at a millisecond each.

    **Error.** Fits by factorisation on one thread took 1.0 to 1.25 times the seconds that are predicted, and 0.87 to 1
    times the bytes (``benchmarks/cost.py --scale 0.3``, a busy machine, 22 November 2026; sizes that took part in the
    making of the model and others alike). Conjugate gradients took up to 2.5 times the seconds where the preconditioner
    had to grow. A search is known within a factor of two. What a cluster adds is arithmetic.

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
    budget = None if memory is None else parse_bytes(memory)
    if isinstance(kernel, str):
        kind = _MAPS[check_choice("kernel", kernel, tuple(_MAPS))]
        if kind == "dense" and kernel != "dense" and check_integer("n_columns", n_columns, least=1) > WIDEST_DENSE:
            kind = "structured"
        feature_seconds, searches = getattr(machine, kind), kernel == "auto"
    else:
        feature_seconds, searches = check_real("kernel", kernel, above=0.0), False
    work = Workload(
        n_rows,
        n_columns,
        n_components,
        n_targets,
        dtype=dtype,
        solver=solver,
        file_format=file_format,
        search=searches if search is None else bool(search),
        holdout=holdout,
        workers=workers,
        threads=threads,
        memory=budget,
        passes=passes,
        file_columns=file_columns,
    )
    return predict(work, machine, feature_seconds)


def predict(work: Workload, machine: Machine, feature_seconds: float) -> Cost:
    """The cost of a workload, whose map takes that many seconds of a core for a feature of a row."""
    worker, driver = _memory(work, machine)
    return Cost(work, machine, tuple(Clock(work, machine, feature_seconds).stages()), worker, driver, work.n_partitions)


def _memory(work: Workload, machine: Machine) -> tuple[float, float]:
    """Bytes of a worker and of the driver at their highest."""
    m, size = work.n_components, work.itemsize
    table = work.n_rows * work.row_bytes if work.file_format == "memory" else 0
    # A batch of rows, and the next that is being read.
    rows = table if work.workers == 1 and table else 2 * work.batch_rows * work.row_bytes
    features = work.batch_rows * m * size
    products = work.threads * size * min(m, BLOCK) * min(m, STRIP)
    searching = _SEARCH_BYTES if work.search else 0.0
    process = machine.process + _READER_BYTES.get(work.file_format, 0.0) + work.held_out_bytes
    solving = work.solver_bytes + work.kept_bytes / work.workers
    judging = OUTLYING * m * 8
    if work.solver == "cholesky":
        # The batch is let go before the rows that judge are mapped.
        summing = work.triangle_bytes + features + products
        solving += judging
    else:
        summing = solving = solving + features
    if work.workers == 1:
        own = process + rows + max(summing, solving, searching)
        return own, own
    if work.solver == "cholesky":
        # Every thread has a batch and sums of its own, and one triangle more is being received.
        worker = (work.threads + 1) * work.triangle_bytes + work.threads * (features + products)
    else:
        worker = work.kept_bytes / work.workers + work.threads * features + 8 * m * 2 * work.rank
    return process + rows + worker, process + max(solving - work.kept_bytes / work.workers, searching)


def sums_rounding(n_rows: float, batch_rows: int = 4096) -> tuple[float, float]:
    """Predict how far rounding moves a sum over rows of numbers that do not change sign.

    Parameters
    ----------
    n_rows : float
    batch_rows : int, default=4096
        Rows whose products are summed in float32 by themselves.

    Returns
    -------
    products, sums : float
        Relative standard deviations: what products in float32 leave, and what their sum in float64 adds.

    Notes
    -----
    With u the unit roundoff and B batches. A product of a batch of r rows is a sum of r terms in float32. Its
    roundings are as good as independent, each is at most ``u`` of the sum so far, and has a variance of a third of
    that squared; the sum grows evenly, so the squares of the sums so far add up to ``r / 3`` times the last one. The
    relative standard deviation is ``u r^(1/2) / 3``. Errors of B batches are independent, too, and their mean has
    ``u32 r^(1/2) / (3 B^(1/2))``. The sum in float64 over batches adds ``u64 B^(1/2) / 3``; its bound is ``u64 B / 2``.

    **Error.** Products in float32 err less than this where a library sums in several registers at a time.

    **Cost** none. **Differs from the source in** the factor 1 / 3, which the rule of thumb ``u n^(1/2)`` leaves out.

    References
    ----------
    Higham, Mary (2019), *A new approach to probabilistic rounding error analysis*, Theorem 2.4.

    Examples
    --------
    >>> products, sums = sums_rounding(1e12)
    >>> bool(products < 1e-10 and sums < 1e-12)
    True
    """
    check_integer("batch_rows", batch_rows, least=1)
    batches = check_real("n_rows", n_rows, above=0.0) / batch_rows
    products = 2.0**-24 * batch_rows**0.5 / 3 / max(batches, 1.0) ** 0.5
    return products, 2.0**-53 * batches**0.5 / 3
