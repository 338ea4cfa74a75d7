"""Training in two passes over batches: one for scales and map, one for the solver."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any, Self

import numpy as np

from phimap._progress import Stage, Stages
from phimap._random import named_streams, seed_sequence
from phimap._validation import check_integer
from phimap.features.defaults import with_image_shape
from phimap.kernels import Kernel
from phimap.learn.data.batches import Batch
from phimap.learn.data.first_pass import FirstPass
from phimap.learn.data.outlying import OutlyingRows
from phimap.learn.data.reservoir import Reservoir, fingerprint
from phimap.learn.data.scaling import check_standardisation
from phimap.learn.data.weights import check_mean_weight
from phimap.learn.linear import LinearOutputs
from phimap.learn.ridge.alpha import check_alpha
from phimap.learn.ridge.criteria import Rows
from phimap.learn.ridge.judges import Judges
from phimap.learn.ridge.solve import RidgeSolution
from phimap.learn.ridge.solver import RidgeSolver
from phimap.learn.ridge.statistics import RidgeStatistics
from phimap.learn.search.kernel import choose_map
from phimap.ops import Array, ops_for
from phimap.random_map import RandomMap

_ROLES = ("sample", "map", "probes")
# Rows on which the length scale is estimated: a median of half a million distances is known to a fraction of a
# percent, less than any error depends on it.
_LENGTH_SCALE_ROWS = 1000


class StreamedFit(LinearOutputs):
    """The training half of a learner: what it makes of checked batches, with the parameters of `KernelModel`."""

    solver_: RidgeSolver
    solution_: RidgeSolution
    n_samples_seen_: int
    kernel: str | Kernel | RandomMap
    n_components: int
    alpha: float | str
    length_scale: float | str
    standardize: str | bool
    random_state: Any
    verbose: bool
    _sample: Reservoir
    _outlying: OutlyingRows
    _seed: np.random.SeedSequence

    @abstractmethod
    def _learn_targets(self, first_pass: FirstPass) -> None:
        """Store what the whole training set tells about the targets."""

    @abstractmethod
    def _encode(self, y: np.ndarray) -> np.ndarray:
        """Checked targets as numbers (r, t)."""

    @abstractmethod
    def _row_weights(self, y: np.ndarray, weights: np.ndarray | None) -> np.ndarray | None:
        """What rows with these targets count in the fit, for their own weights (r,); None where all count one."""

    @property
    @abstractmethod
    def _has_labels(self) -> bool:
        """Whether targets are labels."""

    @property
    def statistics_(self) -> RidgeStatistics | None:
        """Sums over all rows seen; None where the solver keeps the rows themselves."""
        return self.solver_.statistics

    def _fit(self, batches: Iterable[Batch]) -> Self:
        stages = Stages(bool(self.verbose))
        with stages.stage("scales"):
            first_pass = self._first_pass(batches)
        with stages.stage("feature map"):
            solver = self._prepare(first_pass, complete=True)
        self._gather(solver, batches, stages, first_pass.n_rows)
        self._solve(stages)
        self.stages_: list[Stage] = stages.finished
        return self

    def _first_pass(self, batches: Iterable[Batch], classes: Any = None) -> FirstPass:
        self._seed = seed_sequence(self.random_state)
        seed = int(self._streams()["sample"].integers(2**63))
        first_pass = FirstPass(batches, seed, collect_labels=self._has_labels)
        if classes is not None:
            first_pass.add_labels(classes)
        return first_pass

    def _prepare(self, first_pass: FirstPass, *, complete: bool = False) -> RidgeSolver:
        """Fix scaling, targets and feature map; `complete` says that no rows but those of the pass are to come."""
        n_rows = first_pass.n_rows
        if n_rows < 2:
            raise ValueError(f"Found array with n_samples={n_rows}, 1 sample: a fit needs at least 2. Give more rows.")
        check_mean_weight(first_pass.moments.n, n_rows)
        self._forget_solution()
        vars(self).pop("solver_", None)
        self._learn_targets(first_pass)
        self.scaling_ = first_pass.moments.scaling(check_standardisation(self.standardize))
        self._sample = first_pass.sample
        self._outlying = OutlyingRows(self._sample.seed, centre=first_pass.moments.mean, factor=self.scaling_.factor)
        rows, targets, weights = self._sample.first(_LENGTH_SCALE_ROWS)
        self._origin = fingerprint(rows, targets)
        ops = ops_for(rows)
        rows = self.scaling_.bind(ops).apply(ops, rows)
        chosen = choose_map(
            self.kernel,
            self.n_components,
            self.length_scale,
            rows,
            random_state=self._streams()["map"],
            n_jobs=self.n_jobs,
            complete=complete and rows.shape[0] == n_rows,
            weights=weights,
        )
        self.feature_map_ = with_image_shape(chosen, getattr(self, "image_shape_", None)).fit(rows)
        n_targets = self._encode(targets[:1]).shape[1]
        return RidgeSolver.start(self._width(), n_targets, n_rows if complete else None)

    def _gather(self, solver: RidgeSolver, batches: Iterable[Batch], stages: Stages, n_rows: int) -> None:
        """Give the solver the features of all batches."""
        work = "features" if solver.form == "dual" else "features and Gram matrix"
        with stages.stage(work, n_rows) as advance:
            features = self._features()
            for X, y, weights in batches:
                solver.update(features(X), self._encode(y), self.n_jobs, self._row_weights(y, weights))
                self._outlying.update(X, y, weights)
                advance(X.shape[0])
        self.solver_ = solver
        self.n_samples_seen_ = solver.n_rows
        self._forget_solution()

    def _solve(self, stages: Stages) -> None:
        with stages.stage("regularisation"):
            judges = Judges(self._sample, self._outlying, self._mapped)
            rng = self._streams()["probes"]
            solution = self.solver_.finish(check_alpha(self.alpha), judges, rng, self.n_jobs)
            self.solution_ = solution if self.target_units_ is None else self.target_units_.restore(solution)

    def _mapped(self, X: Array, y: np.ndarray, weights: np.ndarray | None) -> Rows:
        """What the solver sees of some rows."""
        return Rows(self._features()(X), self._encode(y), self._row_weights(y, weights))

    def _current_solution(self) -> RidgeSolution:
        if not hasattr(self, "solution_"):
            self._solve(Stages(bool(self.verbose)))
        return self.solution_

    def _forget_solution(self) -> None:
        vars(self).pop("solution_", None)

    def _width(self) -> int:
        """Width m of the features: the fitted map's, else the one asked for."""
        if hasattr(self, "feature_map_"):
            return self.feature_map_.record_.n_components
        if isinstance(self.kernel, RandomMap):
            return self.kernel.output_width(self.n_features_in_)
        return check_integer("n_components", self.n_components, least=1)

    def _streams(self) -> dict[str, np.random.Generator]:
        return named_streams(self._seed, *_ROLES)
