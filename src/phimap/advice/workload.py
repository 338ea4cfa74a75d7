"""The sizes of a fit, and what the learner derives from them: solver, bytes, and number of rows of a batch."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np

from phimap._validation import check_choice, check_integer, check_real
from phimap.learn.blocks.triangle import packed_entries
from phimap.learn.registry import MEMBERS, choose
from phimap.learn.ridge.conjugate_gradients import ConjugateGradients
from phimap.learn.ridge.solver import RidgeSolver
from phimap.learn.rows.batches import RowShape, batch_rows, smallest_batch
from phimap.learn.rows.samples import CAPACITY
from phimap.theory.machine import FORMATS

# The solvers of learners. "passes" stands for the solver of losses that are not squared errors.
SOLVERS = ("auto", "cholesky", "cg", "passes")
# Number of passes that is assumed if the user gives none. In a fit, the passes end when the solver has converged. 4 to
# 24 passes were counted.
_PASSES = 20
# Bytes of a part of a table that is one task of a cluster: the default of Dask's readers.
_PART_BYTES = 128 * 2**20
# A memory budget so large that it does not limit anything.
_UNLIMITED = 2**62


@dataclass(frozen=True)
class Workload:
    """The checked arguments of `cost`.

    Attributes
    ----------
    n_rows, n_columns, n_components, n_targets : int
    dtype : {"float32", "float64"}
    solver : {"cholesky", "cg", "passes"}
    file_format : {"memory", "csv", "parquet", "npy"}
    search : bool
    holdout : float or None
    workers, threads : int
    memory : int or None
        Byte budget of a process.
    passes, file_columns : int or None
    """

    n_rows: int
    n_columns: int
    n_components: int
    n_targets: int = 1
    dtype: str = "float32"
    solver: str = "auto"
    file_format: str = "memory"
    search: bool = False
    holdout: float | None = None
    workers: int = 1
    threads: int = 1
    memory: int | None = None
    passes: int | None = None
    file_columns: int | None = None

    def __post_init__(self) -> None:
        check_integer("n_rows", self.n_rows, least=2)
        for name in ("n_columns", "n_components", "n_targets", "workers", "threads"):
            check_integer(name, getattr(self, name), least=1)
        check_choice("dtype", self.dtype, ("float32", "float64"))
        check_choice("solver", self.solver, SOLVERS)
        check_choice("file_format", self.file_format, FORMATS)
        if self.holdout is not None and not check_real("holdout", self.holdout, least=0.0) < 1:
            raise ValueError(f"`holdout` must be below 1, got {self.holdout:g}. Use for example 0.1.")
        for name in ("memory", "passes", "file_columns"):
            if getattr(self, name) is not None:
                check_integer(name, getattr(self, name), least=1)
        if self.solver == "auto":
            object.__setattr__(self, "solver", self._chosen())

    def _chosen(self) -> str:
        """The solver that a learner chooses for squared errors."""
        m = self.n_components
        spare = self.budget - smallest_batch(m, self.itemsize)
        # These are the flops of a product with a dense matrix. Structured maps take fewer.
        n_flops = 2 * self.n_columns * m
        return choose("squared", "auto", self.n_train, m, spare, t=self.n_targets, n_flops=n_flops).name

    @property
    def budget(self) -> int:
        """Bytes that a process may hold."""
        return _UNLIMITED if self.memory is None else self.memory

    @property
    def itemsize(self) -> int:
        """Bytes of a feature."""
        return np.dtype(self.dtype).itemsize

    @property
    def n_train(self) -> int:
        """Number of rows to which the model is fitted."""
        return max(2, round(self.n_rows * (1 - (self.holdout or 0.0))))

    @property
    def row_bytes(self) -> int:
        """Bytes of a row in memory, with one target."""
        return self.n_columns * self.itemsize + 8

    @property
    def solver_bytes(self) -> int:
        """Number of bytes that the solver needs by its own estimate."""
        if self.solver == "cholesky":
            return RidgeSolver.memory(self.n_train, self.n_components, self.n_targets)
        member = MEMBERS[("squared", "cg") if self.solver == "cg" else ("logistic", "quasi-newton")]
        return member.memory(self.n_train, self.n_components, self.n_targets)

    @property
    def triangle_bytes(self) -> int:
        """Bytes of the sums of products of features, which are stored as a triangle of blocks."""
        return 8 * packed_entries(self.n_components)

    @property
    def batch_rows(self) -> int:
        """Number of rows whose features are held at a time."""
        m, shape = self.n_components, RowShape(self.n_columns, self.itemsize, self.n_targets)
        try:
            rows = batch_rows(m, self.itemsize, self.budget, self.solver_bytes, shape)
        except MemoryError:
            rows = smallest_batch(m, self.itemsize) // (m * self.itemsize)
        return min(rows, self.n_train)

    @property
    def batch_bytes(self) -> int:
        """Bytes of the features of a batch."""
        return self.batch_rows * self.n_components * self.itemsize

    @property
    def n_passes(self) -> int:
        """Number of passes over the features."""
        return 1 if self.solver == "cholesky" else self.passes or _PASSES

    @property
    def kept_bytes(self) -> int:
        """Bytes of the features that all workers keep between passes.

        The workers keep as many features as fit half of the spare budget.
        """
        if self.solver == "cholesky":
            return 0
        spare = max(0, self.budget - self.solver_bytes - self.batch_bytes) // 2
        return min(self.n_train * self.n_components * self.itemsize, self.workers * spare)

    @property
    def grown_bytes(self) -> int:
        """Bytes of the solver after the preconditioner of conjugate gradients has grown into the spare budget."""
        if self.solver != "cg":
            return self.solver_bytes
        most = ConjugateGradients().memory(self.n_train, self.n_components, self.n_targets)
        return max(self.solver_bytes, min(most, self.budget - self.batch_bytes - self.kept_bytes // self.workers))

    @property
    def held_out_bytes(self) -> int:
        """Bytes of the rows that the command line holds out; 0 if they exceed a quarter of the spare budget."""
        n_bytes = (self.n_rows - self.n_train) * (self.row_bytes + 8)
        return n_bytes if n_bytes <= (self.budget - self.solver_bytes - self.batch_bytes) // 4 else 0

    @property
    def corrects(self) -> bool:
        """Whether corrections are tried: after a search, with Cholesky on one worker, for enough rows."""
        # The learners' module is imported only for a plan that needs it.
        from phimap.learn.correct import suffice_for_corrections

        sizes = self.n_train, self.n_columns, self.n_targets, self.n_components
        enough = suffice_for_corrections(*sizes, self.budget)
        return self.search and self.solver == "cholesky" and self.workers == 1 and enough

    @property
    def grows_trees(self) -> bool:
        """Whether trees are tried: after a search, with Cholesky on one worker, for enough rows.

        The memory of the trees must fit a quarter of the budget.
        """
        from phimap.learn.average import LEAST_ROWS, trees_memory

        n_bytes = trees_memory(self.n_train, self.n_columns, self.n_targets)
        enough = self.n_train >= LEAST_ROWS and n_bytes <= self.budget // 4
        return self.search and self.solver == "cholesky" and self.workers == 1 and enough

    @property
    def trees_in_folds(self) -> bool:
        """Whether trees are validated on all rows, in folds."""
        from phimap.learn.average import FOLDED_ROWS

        return self.n_train < FOLDED_ROWS

    @property
    def n_growths(self) -> int:
        """Number of times that all trees are grown, in units of a growth on all rows.

        They are grown on two thirds of the rows for each of three folds, or on the training part; then on all rows,
        unless few rows were left out.
        """
        from phimap.learn.average import FEW_LEFT_OUT

        return 3 if self.trees_in_folds else 1 + (self.n_train < CAPACITY * FEW_LEFT_OUT)

    @property
    def tree_threads(self) -> int:
        """Number of threads that grow trees: a thread grows the trees of a fold."""
        from phimap.learn.average import FOLDS

        return min(self.threads, FOLDS) if self.trees_in_folds else 1

    @property
    def n_parts(self) -> int:
        """Number of parts into which a cluster divides the table; 0 for one process."""
        if self.workers == 1:
            return 0
        return max(self.workers * self.threads, ceil(self.n_rows * self.row_bytes / _PART_BYTES))
