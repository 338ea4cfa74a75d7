"""Training in two passes over batches: one for scales and map, one for the solver."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from phimap._progress import Stage, Stages
from phimap._random import named_streams, seed_sequence
from phimap._validation import check_choice, check_integer, is_none
from phimap.config import memory_budget
from phimap.features.defaults import with_image_shape
from phimap.kernels import Kernel
from phimap.learn.blocks.blocks import FeatureRows, WeightedBlock
from phimap.learn.blocks.lazy_block import LazyFeatureBlock
from phimap.learn.corrections.fit import corrections_memory, learn_corrections
from phimap.learn.corrections.residuals import Outputs, Residuals
from phimap.learn.gathered import GatheredFit, TrainingRows
from phimap.learn.registry import Chosen, Member, choose
from phimap.learn.ridge.alpha import check_alpha
from phimap.learn.ridge.sketch_rows import rows_in_passes
from phimap.learn.ridge.solver import RidgeSolver
from phimap.learn.ridge.statistics import RidgeStatistics
from phimap.learn.rows.accumulator import CountingAccumulator, accumulate
from phimap.learn.rows.batches import Batch, RowShape, batch_rows, smallest_batch
from phimap.learn.rows.extreme_rows import ExtremeRows
from phimap.learn.rows.feature_stream import FeatureStream
from phimap.learn.rows.first_pass import FirstPass
from phimap.learn.rows.mapped_rows import Mapped
from phimap.learn.rows.reservoir import CAPACITY, Reservoir, fingerprint
from phimap.learn.rows.validation import n_held_out
from phimap.learn.rows.weights import check_mean_weight
from phimap.learn.search.effort import EFFORTS
from phimap.learn.search.kernel import map_of_family
from phimap.learn.search.metric import inverse_root
from phimap.learn.search.search import SearchLog
from phimap.learn.search.width import choose_width, most_components
from phimap.learn.solver import HeldOutScores, LinearSolution, Problem
from phimap.ops import Array, ops_for, single_threaded_blas
from phimap.random_map import FIT_ROWS, RandomMap

_ROLES = ("sample", "map", "probes", "solver", "variance", "search")
# Rows on which the length scale is estimated: a median of half a million distances is known to a fraction of a
# percent, less than any error depends on it.
_LENGTH_SCALE_ROWS = 1000
# With fewer rows the features leave little to correct.
_LEAST_ROWS_TO_CORRECT = 8000
# Less than an eighth of the features are not kept between passes: they save little, and their memory is left to others.
_LEAST_KEPT = 8


class StreamedFit(GatheredFit):
    """The training half of a learner: what it makes of checked batches, with the parameters of `KernelModel`."""

    solver_: RidgeSolver
    solution_: LinearSolution
    n_samples_seen_: int
    kernel: str | Kernel | RandomMap
    n_components: int | str
    alpha: float | str
    length_scale: float | str
    metric: str | None
    effort: str
    corrections: str | None
    standardize: str | bool | None
    solver: str
    search_: SearchLog | None
    memory: int | str | None
    random_state: Any
    verbose: bool
    _sample: Reservoir
    _outlying: ExtremeRows
    _seed: np.random.SeedSequence
    _sparse: bool

    @abstractmethod
    def _learn_targets(self, first_pass: FirstPass) -> None:
        """Store what the whole training set tells about the targets."""

    @property
    @abstractmethod
    def _has_labels(self) -> bool:
        """Whether targets are labels."""

    @property
    def statistics_(self) -> RidgeStatistics | None:
        """Sums over all rows seen; None where the solver keeps the rows themselves, or nothing."""
        return self.solver_.statistics if hasattr(self, "solver_") else None

    @property
    def _loss(self) -> str:
        """The loss that is minimised."""
        return "squared"

    @property
    def _calibrates(self) -> bool:
        """Whether held-out scores are of use beyond the choice of alpha."""
        return False

    def _fit(self, batches: TrainingRows, first_pass: FirstPass | None = None) -> Self:
        """Fit on checked rows, of which somebody else may have made the first pass."""
        stages = Stages(bool(self.verbose))
        if first_pass is None:
            with stages.stage("scales", getattr(batches, "n_rows", None), "rows") as advance:
                first_pass = self._first_pass(batches, advance=advance)
        with stages.stage("feature map"):
            self._prepare(first_pass, complete=True)
        shape, n_flops = RowShape.of(first_pass.sample.X, self._n_outputs), self.feature_map_.record_.n_flops
        chosen = self._chosen(first_pass.n_rows, self._width(), shape, n_flops=n_flops)
        stages.tell(f"solver: {chosen.name}, {chosen.reason}")
        rows = self._rows_that_fit(chosen.member, first_pass.n_rows, shape)
        if chosen.member is None:
            held_out = self._holds_out(first_pass.n_rows)
            self._gather(None, batches, stages, first_pass.n_rows, held_out=held_out)
            self._solve(stages, held_out_in_sums=not held_out)
            self._correct(batches, stages)
        else:
            self._solve_in_passes(chosen.member, batches, stages, first_pass, rows)
        self.solution_ = replace(self.solution_, choice=chosen.reason)
        self.stages_: list[Stage] = stages.finished
        return self

    def _first_pass_start(self, *, labels: bool) -> Callable[[int], FirstPass]:
        """What starts the first pass: what no data could make right is refused before they are gone through."""
        self._seed = seed_sequence(self.random_state)
        seed = int(self._streams()["sample"].integers(2**63))
        effort = EFFORTS[check_choice("effort", self.effort, tuple(EFFORTS))]
        if not is_none(self.corrections):
            check_choice("corrections", self.corrections, ("auto",))
        wish = self._wish()
        if (ignored := wish.ignored()) is not None:
            warnings.warn(ignored, UserWarning, stacklevel=5)
        width = self._most_width()
        map_rows = wish.rows_to_fit(width)
        map_rows += CAPACITY if map_rows > FIT_ROWS else 0
        map_rows = max(map_rows, rows_in_passes(self._loss, self.solver, self.kernel, width))
        if wish.may_search() or self.n_components == "auto":
            map_rows = max(map_rows, effort.n_rows[-1])
        settings = {"seed": seed, "collect_labels": labels, "map_rows": map_rows}
        return partial(FirstPass.start, budget=memory_budget(self.memory), **settings)

    def _first_pass(
        self, batches: TrainingRows, classes: Any = None, advance: Callable[[int], None] = lambda rows: None
    ) -> FirstPass:
        start = self._first_pass_start(labels=self._has_labels)
        first_pass = accumulate(batches, lambda first_row: CountingAccumulator(start(first_row), advance)).fold
        if not first_pass.n_rows:
            raise ValueError("the training data are empty: no batch of rows was given. Give at least 2 rows.")
        if classes is not None and first_pass.labels is not None:
            first_pass.labels.expect(classes)
        return first_pass

    def _prepare(self, first_pass: FirstPass, *, complete: bool = False) -> None:
        """Fix scaling, targets and feature map; `complete` says that no rows but those of the pass are to come."""
        n_rows, moments = first_pass.n_rows, first_pass.moments
        assert moments is not None
        if n_rows < 2:
            raise ValueError(f"Found array with n_samples={n_rows}, 1 sample: a fit needs at least 2. Give more rows.")
        check_mean_weight(moments.n, n_rows)
        self._forget_solution()
        vars(self).pop("solver_", None)
        self._learn_targets(first_pass)
        self.scaling_ = moments.scaling(self._standardisation(), complete=complete)
        self._sample = first_pass.sample
        self._outlying = ExtremeRows(self._sample.seed, centre=moments.mean, factor=self.scaling_.factor)
        rows, targets, weights = self._sample.first(_LENGTH_SCALE_ROWS)
        self._origin = fingerprint(rows, targets)
        rows = self._scaled(rows)
        most = self._most_width()
        # Products outside of tasks have one thread, too: what is chosen does not depend on their number.
        with single_threaded_blas():
            found = self._choose_kernel(first_pass, rows, weights)
        if isinstance(self.kernel, RandomMap):
            chosen = self.kernel
        else:
            n_ever = n_rows if complete else None
            if self.n_components == "auto":
                with single_threaded_blas():
                    most = choose_width(found, self._search_sample(first_pass), n_ever, most)
            chosen = map_of_family(
                found.family, found.kernel, most, n_ever, random_state=self._streams()["map"], n_jobs=self.n_jobs
            )
        self._range = first_pass.columns.settled(moments, self._scaled(self._sample.first(_LENGTH_SCALE_ROWS).X))
        # A landmark knows more of itself than of new rows, so that those that are to judge are no landmarks.
        sample = first_pass.map_sample.skipping(CAPACITY, max(chosen.fit_rows(), _LENGTH_SCALE_ROWS))
        targets = self._encode(sample.y) if chosen.wants_targets else None
        unfitted = with_image_shape(chosen, getattr(self, "image_shape_", None))
        self.feature_map_ = unfitted.fit(self._scaled(sample.X), targets)

    def _empty_solver(self, n_rows: int | None) -> RidgeSolver:
        """A solver for the prepared map that has seen nothing; `n_rows` are to come, None if that is not known."""
        return RidgeSolver.start(self._width(), self._n_outputs, n_rows)

    def _chosen(self, n_rows: int | None, m: int, shape: RowShape, *, n_flops: int | None = None) -> Chosen:
        """What solves for `m` features of a map of `n_flops` a row, None where it is to come, and why."""
        kept = shape.kept(0 if n_rows is None else n_rows, self.memory)
        memory = memory_budget(self.memory) - smallest_batch(m, shape.itemsize, shape) - kept
        solver = check_choice("solver", self.solver, ("auto", "cholesky", "cg"))
        free = {"t": shape.n_targets, "n_flops": n_flops, "chosen": self.alpha == "auto"}
        return choose(self._loss, solver, n_rows, m, memory, **free)

    def _rows_that_fit(self, member: Member | None, n_rows: int, shape: RowShape) -> int:
        """Rows of a batch that the byte budget holds beside what solves; MemoryError where there are none."""
        m = self._width()
        needed = (RidgeSolver if member is None else member).memory(n_rows, m, shape.n_targets)
        return batch_rows(m, shape.itemsize, self.memory, needed, shape)

    def _correct(self, batches: TrainingRows, stages: Stages) -> None:
        """Learn region by region what the solution leaves of the targets, where that lowers the error."""
        kernel, n_rows = self.kernel_, self.n_samples_seen_
        if not isinstance(batches, Iterable) or not kernel.is_stationary or not self._may_correct(n_rows):
            return
        held_out = self._sample.first(n_held_out(n_rows))
        keys = np.sort(self._sample.keys)[: len(held_out.y)]
        with stages.stage("corrections", n_rows, "rows") as advance:
            solution = self.solution_ if self.target_units_ is None else self.target_units_.apply_to(self.solution_)
            blind = self.solver_.without(self._mapped(*held_out), solution.alpha, self.n_jobs)
            if blind is None:
                return
            outputs = Outputs((solution, blind), self.feature_map_.record_, self.n_jobs)

            def errors_of(batch: Batch) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]:
                X, y, weights = batch
                rows, targets = self._scaled_on_host(X), self._encode(y)
                fitted, unseen = outputs(rows)
                advance(len(rows))
                return rows, targets - fitted, targets - unseen, self._row_weights(y, weights)

            remainder = Residuals.of_batches(batches, errors_of, keys, self._sample.seed)
            # Columns that a metric hides may tell neighbours apart.
            roots = [None] if (back := inverse_root(self.metric_)) is None else [None, back]
            corrections = learn_corrections(kernel, remainder, roots, self.n_jobs)
        if corrections is not None:
            self.corrections_ = corrections
            targets = self._encode(held_out.y)
            self._learn_held_out(
                HeldOutScores(targets - corrections.errors, targets, self._row_weights(held_out.y, held_out.weights))
            )

    def _may_correct(self, n_rows: int) -> bool:
        """Whether corrections are wanted, there are sums to take rows from, and the rows are enough and fit."""
        wanted = not is_none(self.corrections) and isinstance(self.kernel, str) and self.kernel == "auto"
        image = getattr(self, "image_shape_", None) is not None
        if not wanted or self.statistics_ is None or self._sparse or image:
            return False
        m, budget = self._width(), memory_budget(self.memory)
        spare = budget - RidgeSolver.memory(None, m) - corrections_memory(m, self.n_jobs)
        n_bytes = n_rows * (self._row_width * 8 + self._n_outputs * 48)
        return n_rows >= max(_LEAST_ROWS_TO_CORRECT, 2 * m) and n_bytes <= min(spare, budget // 4)

    def _solve_in_passes(
        self, member: Member, batches: TrainingRows, stages: Stages, first_pass: FirstPass, rows: int
    ) -> None:
        """Solve by going through the batches several times, the features of `rows` rows at a time; none are kept."""
        m, t, dtype, n_rows = self._width(), self._n_outputs, ops_for(self._sample.X).dtype, first_pass.n_rows
        kept = member.memory(n_rows, m, t)
        spare = max(memory_budget(self.memory) - kept - rows * m * dtype.itemsize, 0) // 2
        features = self._features()

        mapping_of_rows, takes_signs = self._for_tasks()._mapping, member.takes_signs

        def mapping() -> Mapped:
            mapped = mapping_of_rows()

            def with_signs(X: Array, y: np.ndarray, weights: np.ndarray | None) -> WeightedBlock:
                block, targets, counted = mapped(X, y, weights)
                signs = np.where(targets > 0, 1.0, -1.0) if takes_signs else targets
                return block, signs, np.ones(len(targets)) if counted is None else counted

            return with_signs

        def formed(X: Array, y: np.ndarray, weights: np.ndarray | None) -> FeatureRows:
            return FeatureRows(LazyFeatureBlock(X, features, m, rows), self._encode(y), self._row_weights(y, weights))

        validation = replace(self._validation_rows(n_rows), lazy_features=formed, wider_sample=first_pass.map_sample)
        few = spare < n_rows * m * dtype.itemsize // _LEAST_KEPT
        eps, alpha, rng = float(np.finfo(dtype).eps), check_alpha(self.alpha), self._streams()["solver"]
        settings = eps, alpha, validation, kept + spare, rng, self.n_jobs, self._calibrates
        with stages.stage("passes over the features", None, "rows") as advance:
            stream = FeatureStream(batches, mapping, 0 if few else spare, self._outlying, advance)
            self._keep_solution(member(Problem(stream, n_rows, m, t, *settings)))
        self.n_samples_seen_ = n_rows
        if self.solution_.status != "solved":
            warnings.warn(
                f"the solution was not reached in {self.solution_.n_passes} passes over the rows: its residual is "
                f"{self.solution_.residual:.1e} at alpha={self.solution_.alpha:.3g}. Raise `alpha`, or accept it.",
                ConvergenceWarning,
                stacklevel=4,
            )

    def _width(self) -> int:
        """Width m of the features: the fitted map's, else the one asked for."""
        if hasattr(self, "feature_map_"):
            return self.feature_map_.record_.n_components
        return self._new_width()

    def _new_width(self) -> int:
        """Width of the features of a fit that is to come."""
        if isinstance(self.kernel, RandomMap):
            return self.kernel.output_width(self._row_width)
        return self._most_width()

    def _most_width(self) -> int:
        """The width that is asked for, or the most that may be chosen; a map brings its own."""
        if isinstance(self.n_components, str):
            check_choice("n_components", self.n_components, ("auto",))
            return most_components(self.memory)
        return check_integer("n_components", self.n_components, least=1)

    def _streams(self) -> dict[str, np.random.Generator]:
        return named_streams(self._seed, *_ROLES)
