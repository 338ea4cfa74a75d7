"""The sizes of a fit, from which its cost follows."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np

from phimap._validation import check_choice, check_integer, check_real
from phimap.theory.machine import FORMATS

#: What solves a problem: see `phimap.learn.registry`. "passes" is any other loss than the squared one.
SOLVERS = ("auto", "cholesky", "cg", "passes")
# What learners hold; `tests/theory/test_cost.py` compares each with theirs. Rows of a batch of features and bytes that
# it may take, more rows where these bytes are few, the side of a block of the Gram matrix, and the widest strip of it
# that is multiplied at a time.
_ROWS, _LEAST_ROWS, _BATCH_BYTES = 4096, 256, 256 * 2**20
_MOST_ROWS, _FEW_BYTES = 16384, 64 * 2**20
BLOCK, STRIP = 512, 4096
# Rows that choose the regularisation, at random and far out, and the share of all rows that the former may be.
HELD_OUT, OUTLYING, _HELD_OUT_SHARE = 4096, 128, 10
# Order of the problem that begins the search for the regularisation.
EXACT_ORDER = 768
# Directions of the preconditioner of conjugate gradients, arrays for each; solutions that are followed at once, arrays
# for each.
RANK, LEAST_RANK, MOST_RANK, SKETCH_ARRAYS, FOLLOWED, COLUMN_ARRAYS = 1024, 256, 2048, 4, 20, 6
# Rows from which on a sketch is that of some, and how many these are.
_MANY_ROWS, _SKETCHED_ROWS = 65_536, 16_384
# Passes of a solver in passes where nobody says how many, of which so many search with ten columns for each target:
# conjugate gradients took 4 to 24 on the cases of `benchmarks/cost.py`.
_PASSES, SEARCHING_SHARE = 20, 0.4
# Rows that corrections of a searched kernel need at the least, and bytes of a target that they hold beside the columns.
_LEAST_CORRECTED, _CORRECTED_BYTES = 8000, 48
# Share of the memory that is left for which the command line keeps held-out rows.
_SHARE_KEPT = 4
# Bytes of the rows of a part of a table that is one task of a cluster: what Dask's readers take by themselves.
PARTITION_BYTES = 128 * 2**20


@dataclass(frozen=True)
class Workload:
    """What is to be fitted, where, and with what.

    Attributes
    ----------
    n_rows, n_columns, n_components, n_targets : int
        n, d, m and t.
    dtype : {"float32", "float64"}
        Of the features.
    solver : {"cholesky", "cg", "passes"}
    file_format : {"memory", "csv", "parquet", "npy"}
    search : bool
        Whether kernel, width and metric are searched for.
    holdout : float or None
        Share of the rows that the command line holds out for the score; None is a fit in Python, without its checks.
    workers, threads : int
        Processes, and threads of each.
    memory : int or None
        Byte budget of a process; None is no limit.
    passes : int or None
        Passes of a solver that holds no Gram matrix; None is 20.
    file_columns : int or None
        Numbers of a row in the file, its target not counted, where categories become more columns; None is n_columns.
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
        check_choice("file_format", self.file_format, tuple(FORMATS))
        if self.holdout is not None and not check_real("holdout", self.holdout, least=0.0) < 1:
            raise ValueError(f"`holdout` must be below 1, got {self.holdout:g}. Use for example 0.1.")
        for name in ("memory", "passes", "file_columns"):
            if getattr(self, name) is not None:
                check_integer(name, getattr(self, name), least=1)
        if self.solver == "auto":
            object.__setattr__(self, "solver", self._fitting_solver())

    def _fitting_solver(self) -> str:
        """The factorisation where its triangles fit the budget beside the smallest batch."""
        least_batch = _LEAST_ROWS * self.n_components * self.itemsize
        fits = self.memory is None or 12 * self.n_components**2 <= self.memory - least_batch
        return "cholesky" if fits else "cg"

    @property
    def itemsize(self) -> int:
        """Bytes of a feature."""
        return np.dtype(self.dtype).itemsize

    @property
    def cores(self) -> int:
        """Threads of all workers."""
        return self.workers * self.threads

    @property
    def n_train(self) -> int:
        """Rows that are trained on."""
        return max(2, round(self.n_rows * (1 - (self.holdout or 0.0))))

    @property
    def row_bytes(self) -> int:
        """Bytes of a row of the table in memory, the target being one number."""
        return self.n_columns * self.itemsize + 8

    @property
    def corrects(self) -> bool:
        """Whether corrections are tried: of a searched kernel, where the rows fit a quarter of the budget."""
        n_bytes = self.n_train * (8 * self.n_columns + _CORRECTED_BYTES * self.n_targets)
        fits = self.workers == 1 and (self.memory is None or n_bytes <= self.memory // 4)
        enough = self.n_train >= max(_LEAST_CORRECTED, 2 * self.n_components)
        return self.search and self.solver == "cholesky" and fits and enough

    @property
    def batch_rows(self) -> int:
        """Rows whose features are held at a time; fewer where the byte budget asks for it."""
        m, size = self.n_components, self.itemsize
        rows = int(np.clip(_FEW_BYTES // (m * size), _ROWS, _MOST_ROWS))
        rows = max(_LEAST_ROWS, min(rows, _BATCH_BYTES // (m * size)))
        kept = 12 * m**2 if self.solver == "cholesky" else 0
        while self.memory is not None and rows > _LEAST_ROWS and kept + rows * m * size > self.memory:
            rows //= 2
        return min(rows, self.n_train)

    @property
    def held_out_bytes(self) -> int:
        """Bytes of the rows that are held out, with their numbers, where the command line keeps them; else 0."""
        n_bytes = 0 if self.holdout is None else (self.n_rows - self.n_train) * (self.row_bytes + 8)
        m = self.n_components
        kept = 12 * m**2 + self.batch_rows * m * self.itemsize
        return n_bytes if self.memory is None or n_bytes <= (self.memory - kept) // _SHARE_KEPT else 0

    @property
    def n_judges(self) -> int:
        """Rows that choose the regularisation."""
        return min(self.n_train // _HELD_OUT_SHARE, HELD_OUT) + min(OUTLYING, self.n_train // 16)

    @property
    def triangle_bytes(self) -> int:
        """Bytes of the upper half of the Gram matrix, whose blocks on the diagonal are whole."""
        m = self.n_components
        return 4 * m * (m + min(m, BLOCK))

    @property
    def rank(self) -> int:
        """Directions of the preconditioner to begin with."""
        return min(self.n_components, RANK)

    @property
    def sketched_rows(self) -> int:
        """Rows with which the directions of the preconditioner are multiplied."""
        return self.n_train if self.n_train < _MANY_ROWS else _SKETCHED_ROWS

    @property
    def n_passes(self) -> int:
        """Passes over the features."""
        return 1 if self.solver == "cholesky" else (self.passes or _PASSES)

    @property
    def solver_bytes(self) -> int:
        """Bytes that the solver holds at the most, a batch of features not counted."""
        m, t = self.n_components, self.n_targets
        judges = self.itemsize * m * self.n_judges
        if self.solver == "cholesky":
            # Sums, those without the rows that judge, and a factor; the images of some 24 Lanczos steps.
            factored = 3 * self.triangle_bytes + 8 * 24 * t * self.n_judges + 6 * 8 * m * (t + OUTLYING)
            # Before it eigenvectors of a smaller problem, beside two triangles, and images for the rows that judge.
            order = min(m, EXACT_ORDER)
            exact = 2 * self.triangle_bytes + 3 * 8 * order**2 + (8 + self.itemsize) * order * self.n_judges
            return judges + max(factored, exact)
        followed = 8 * m * COLUMN_ARRAYS * t * (FOLLOWED if self.solver == "cg" else 3)
        sketch = 8 * m * SKETCH_ARRAYS * min(m, MOST_RANK)
        if self.memory is not None:
            # A sketch has as many directions as the budget leaves room for beside a batch.
            batch = self.batch_rows * m * self.itemsize
            sketch = max(
                8 * m * SKETCH_ARRAYS * min(m, LEAST_RANK), min(sketch, self.memory - judges - followed - batch)
            )
        return sketch + judges + followed

    @property
    def kept_bytes(self) -> int:
        """Bytes of features that are kept between passes, in all workers: those that half of the spare budget holds."""
        if self.solver == "cholesky":
            return 0
        whole = self.n_train * self.n_components * self.itemsize
        if self.memory is None:
            return whole
        spare = self.memory - self.solver_bytes - self.batch_rows * self.n_components * self.itemsize
        return min(whole, self.workers * max(0, spare // 2))

    @property
    def n_partitions(self) -> int:
        """Parts of the table that a cluster works on one by one; one process has none."""
        return 0 if self.workers == 1 else max(self.cores, ceil(self.n_rows * self.row_bytes / PARTITION_BYTES))
