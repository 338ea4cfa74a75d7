"""The settings of a fit: the parameters of a learner, checked once, and the byte budget, read once."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from phimap._random import named_streams, seed_sequence
from phimap._validation import check_choice, check_integer, check_real, is_none
from phimap._warnings import caller_level
from phimap.config import is_budget_stated, memory_budget, size_text
from phimap.learn.criterion import check_scoring
from phimap.learn.ridge.alpha import check_alpha
from phimap.learn.ridge.nystroem_preconditioner import rows_in_passes
from phimap.learn.rows.samples import CAPACITY
from phimap.learn.rows.scaling import check_standardisation
from phimap.learn.search.effort import EFFORTS, Effort
from phimap.learn.search.kernel import KernelSpec
from phimap.learn.search.width import most_components
from phimap.random_map import FIT_ROWS, RandomMap

# Names of the random streams. Each is used for one purpose.
_ROLES = ("sample", "map", "probes", "solver", "variance", "search", "monotone", "trees", "corrections")


class Compute(NamedTuple):
    """Device and threads of the computations; outputs do not depend on `n_jobs`.

    Attributes
    ----------
    device : str
    n_jobs : int or None
    """

    device: str
    n_jobs: int | None


@dataclass(frozen=True)
class FitSettings:
    """The settings of one fit.

    Attributes
    ----------
    kernel : KernelSpec
    n_components : int or "auto"
    loss : str
        ``"auto"`` leaves the choice to the fit of a classifier whose kernel is searched.
    scoring : str or None
        Name of the scorer by which losses and shares of the trees are compared; None for the defaults.
    alpha : float or "auto"
    effort : Effort
    deadline : float
        Time of `time.monotonic` after which the search does not start further trials; infinite without a limit.
    corrections, trees : bool
        Whether corrections, and whether trees, may be tried.
    last : bool
        Whether the last rows validate every choice, instead of random rows.
    standardize : str or bool
        As in `ColumnMoments.scaling`; False for no scaling.
    fills_missing : bool
        Whether a model fitted to complete numbers replaces missing cells of later rows by medians; false with
        ``encode=None``.
    solver : {"auto", "cholesky", "cg"}
    class_weight : object
        `class_weight` of a classifier; checked against the classes once they are known.
    monotonic_cst : object
        `monotonic_cst` of a regressor; checked against the columns once they are known.
    memory : int
        Byte budget on which all choices are based, so that choices do not depend on the machine.
    states_memory : bool
        Whether `memory` comes from the parameter or the configuration; if not, it is the default.
    compute : Compute
    seed : SeedSequence
    verbose : int
    """

    kernel: KernelSpec
    n_components: int | str
    loss: str
    scoring: str | None
    alpha: float | str
    effort: Effort
    deadline: float
    corrections: bool
    trees: bool
    last: bool
    standardize: str | bool
    fills_missing: bool
    solver: str
    class_weight: Any
    monotonic_cst: Any
    memory: int
    states_memory: bool
    compute: Compute
    seed: np.random.SeedSequence
    verbose: int

    @classmethod
    def of(
        cls,
        params: Mapping[str, Any],
        losses: tuple[str, ...],
        memory: int,
        compute: Compute,
        seed: np.random.SeedSequence | None = None,
    ) -> FitSettings:
        """Check the parameters of a learner, and return the settings of its fit.

        Parameters
        ----------
        params : mapping
        losses : tuple of str
            Losses that the learner accepts.
        memory : int
            Byte budget on which choices are based.
        compute : Compute
        seed : SeedSequence, optional
            Seed of a fit that continues; None takes ``params["random_state"]``.
        """
        for name in ("corrections", "trees"):
            if not is_none(params[name]):
                check_choice(name, params[name], ("auto", None))
        kernel = KernelSpec.of(params["kernel"], params["length_scale"], params["metric"])
        n_components, limit = params["n_components"], params["time_limit"]
        if not isinstance(n_components, str):
            n_components = check_integer("n_components", n_components, least=1)
        elif n_components != "auto":
            raise ValueError(
                f"`n_components` must be a whole number or 'auto', got {n_components!r}. Use for example 1024."
            )
        if isinstance(limit, str):
            raise TypeError(
                f"`time_limit` must be a number of seconds or None, got {limit!r}. Use for example time_limit=60."
            )
        loss = check_choice("loss", params["loss"], losses)
        scoring = check_scoring(params["scoring"], labels="class_weight" in params)
        if scoring is not None and "class_weight" not in params and loss != "squared":
            raise ValueError(
                f"`scoring` must be None with loss={loss!r}, whose own loss is minimised, got {scoring!r}. Leave it "
                "out, or use loss='squared'."
            )
        solver = check_choice("solver", params["solver"], ("auto", "cholesky", "cg"))
        if (monotonic_cst := params.get("monotonic_cst")) is not None:
            if loss != "squared" or solver == "cg":
                raise ValueError(
                    f"`monotonic_cst` applies to loss='squared' and solver='cholesky', got {loss!r} and {solver!r}. "
                    "Leave it out."
                )
            solver = "cholesky"
        if loss == "auto" and not (isinstance(kernel.kernel, str) and kernel.kernel == "auto"):
            loss = "squared"
        return cls(
            kernel,
            n_components,
            loss,
            scoring,
            check_alpha(params["alpha"]),
            EFFORTS[check_choice("effort", params["effort"], tuple(EFFORTS))].within(memory),
            np.inf if limit is None else time.monotonic() + check_real("time_limit", limit, above=0.0),
            not is_none(params["corrections"]) and monotonic_cst is None,
            not is_none(params["trees"]) and monotonic_cst is None,
            check_choice("validation", params["validation"], ("random", "last")) == "last",
            check_standardisation(params["standardize"]),
            params["encode"] is not None,
            solver,
            params.get("class_weight"),
            monotonic_cst,
            memory,
            params["memory"] is not None or is_budget_stated(),
            compute,
            seed_sequence(params["random_state"]) if seed is None else seed,
            int(params["verbose"]),
        )

    @property
    def is_over(self) -> bool:
        """Whether the time limit has passed."""
        return time.monotonic() >= self.deadline

    @property
    def first_loss(self) -> str:
        """The loss that is minimised first: the squared loss if the loss is to be chosen."""
        return "squared" if self.loss == "auto" else self.loss

    @property
    def n_jobs(self) -> int | None:
        """Number of threads; None for the configured number."""
        return self.compute.n_jobs

    def check_free_memory(self, needed: int) -> None:
        """Raise MemoryError if no budget was stated and `needed` bytes exceed the free memory.

        Without a stated budget, the budget of the process is half of the free memory.
        """
        budget = memory_budget()
        if not self.states_memory and needed > 2 * budget:
            raise MemoryError(
                f"this fit needs {size_text(needed)}, and {size_text(2 * budget)} are free. Free memory, use fewer "
                f"components, or give a smaller budget, such as memory='{budget >> 20}MB'."
            )

    def stream(self, role: str) -> np.random.Generator:
        """Return a generator at the start of the random stream of a role."""
        return named_streams(self.seed, *_ROLES)[role]

    @property
    def searches_kernel(self) -> bool:
        """Whether the kernel itself is to be chosen."""
        return isinstance(self.kernel.kernel, str) and self.kernel.kernel == "auto"

    @property
    def most_width(self) -> int:
        """The given number of features, or the largest number that may be chosen; not used if the kernel is a map."""
        return most_components(self.memory) if isinstance(self.n_components, str) else int(self.n_components)

    def width_for(self, n_columns: int) -> int:
        """Return the largest number of features for rows with `n_columns` columns."""
        kernel = self.kernel.kernel
        return kernel.output_width(n_columns) if isinstance(kernel, RandomMap) else self.most_width

    @property
    def map_rows(self) -> int:
        """Number of rows that the first pass samples for the map and the search."""
        width = self.most_width
        rows = self.kernel.rows_to_fit(width)
        rows += CAPACITY if rows > FIT_ROWS else 0
        rows = max(rows, rows_in_passes(self.first_loss, self.solver, self.kernel.kernel, width))
        if self.kernel.may_search() or self.n_components == "auto":
            # The search leaves out the conformal rows, which are at most a quarter of the sample.
            rows = max(rows, self.effort.n_rows[-1] + CAPACITY // 4)
        return rows

    def warn_of_ignored(self) -> None:
        """Warn of a parameter that has no effect."""
        if (ignored := self.kernel.ignored()) is not None:
            warnings.warn(ignored, UserWarning, stacklevel=caller_level())
