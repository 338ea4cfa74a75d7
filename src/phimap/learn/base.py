"""What the learners share: two passes over batches, ridge statistics, streamed prediction."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from phimap._progress import Stage, Stages
from phimap._random import named_streams, seed_sequence
from phimap._validation import check_choice, check_integer, check_real, check_samples
from phimap.features.defaults import with_image_shape
from phimap.kernels import Kernel
from phimap.learn.data.batches import ArrayBatches, CheckedBatches, batch_rows, feature_rows, require_reiterable
from phimap.learn.data.far import FarRows
from phimap.learn.data.first_pass import Survey
from phimap.learn.data.reservoir import Reservoir
from phimap.learn.data.scaling import Scaling
from phimap.learn.data.stream import FeatureStream
from phimap.learn.ridge.solve import LEAVE_ONE_OUT_ROWS, RidgeSolution, solve_ridge, solve_ridge_dual
from phimap.learn.ridge.statistics import RidgeStatistics
from phimap.learn.search.kernel import choose_map
from phimap.ops import Array, ops_for
from phimap.packed import PackedArray
from phimap.random_map import RandomMap
from phimap.records import equal_records

FeaturesAndTargets = tuple[Array | PackedArray, np.ndarray]

_ROLES = ("sample", "map", "probes")
# Rows on which the length scale is estimated: a median of half a million distances is known to a fraction of a
# percent, less than any error depends on it.
_LENGTH_SCALE_ROWS = 1000
# Shares of the rows on which alpha is chosen: at random, and at most of those farthest out.
_HELD_OUT_SHARE = 10
_FAR_SHARE = 16


class KernelModel(BaseEstimator, ABC):
    """Ridge regression on the features of a kernel.

    Subclasses turn targets into numbers and scores into predictions.
    """

    scaling_: Scaling
    feature_map_: RandomMap
    statistics_: RidgeStatistics | None
    solution_: RidgeSolution
    n_features_in_: int
    n_samples_seen_: int
    _sample: Reservoir
    _far: FarRows
    _seed: np.random.SeedSequence

    def __init__(
        self,
        kernel: str | Kernel | RandomMap = "gaussian",
        n_components: int = 4096,
        *,
        alpha: float | str = "auto",
        length_scale: float | str = "auto",
        standardize: str | bool = "columns",
        device: str = "auto",
        memory: int | str | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ):
        self.kernel = kernel
        self.n_components = n_components
        self.alpha = alpha
        self.length_scale = length_scale
        self.standardize = standardize
        self.device = device
        self.memory = memory
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # Hooks -----------------------------------------------------------------------------------------------------

    @abstractmethod
    def _check_targets(self, y: Any, n_rows: int, *, reset: bool) -> np.ndarray:
        """`y` as an array of `n_rows` usable targets; `reset` says that no others came before."""

    @abstractmethod
    def _learn_targets(self, survey: Survey) -> None:
        """Store what the whole training set tells about the targets."""

    @abstractmethod
    def _encode(self, y: np.ndarray) -> np.ndarray:
        """Checked targets as numbers (r, t)."""

    @property
    @abstractmethod
    def _has_labels(self) -> bool:
        """Whether targets are labels."""

    # Training --------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any) -> Self:
        """Fit on rows in memory.

        Parameters
        ----------
        X : array-like, CSR matrix or torch.Tensor of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or, for regression, (n_samples, n_targets)

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If a parameter is out of range, or the data are empty, of one row, or not finite.
        MemoryError
            If the ridge statistics exceed the byte budget.

        Notes
        -----
        **Cost.** With n rows and m components: the features of all rows, n m^2 flops for the Gram matrix, and two
        Cholesky factorisations of order m, one of them to choose alpha (of order n, in the dual form, if n < m or n
        is at most 2,048). Memory: three packed triangles of 4 m^2 bytes and one batch of features; the n x m feature
        matrix is held in the dual form only.
        """
        X, y = self._check_training(X, y, reset=True)
        rows = batch_rows(self._width(), X.dtype.itemsize, self.memory)
        return self._fit(ArrayBatches(X, y, rows))

    def fit_batches(self, batches: Iterable[tuple[Any, Any]]) -> Self:
        """Fit on a stream of batches, in two passes: one for scales and classes, one for the statistics.

        Parameters
        ----------
        batches : iterable of (X, y)
            Iterable more than once, the same each time: a list, or an object that opens its file anew.

        Returns
        -------
        self : object

        Raises
        ------
        TypeError
            If `batches` is a one-shot iterator.
        ValueError, MemoryError
            As `fit`.
        """
        require_reiterable(batches)
        return self._fit(CheckedBatches(self._check_training, batches))

    def partial_fit(self, X: Any, y: Any, **hints: Any) -> Self:
        """Add rows to the training data.

        The first call fixes the scaling, the length scale and the feature map from its rows, so they should be
        typical; after `fit` the map stays as it is. The coefficients are computed when they are next needed.

        Parameters
        ----------
        X : array-like, CSR matrix or torch.Tensor of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or, for regression, (n_samples, n_targets)
        **hints
            For classifiers `classes`, all labels to come; required in the first call unless its rows have all.

        Returns
        -------
        self : object
        """
        first = not hasattr(self, "feature_map_")
        X, y = self._check_training(X, y, reset=first)
        rows = batch_rows(self._width(), X.dtype.itemsize, self.memory)
        batches = ArrayBatches(X, y, rows)
        if first:
            self._prepare(self._survey(batches, hints.get("classes")))
        elif not hasattr(self, "statistics_"):
            raise ValueError(
                "this model was saved without its statistics, so no rows can be added. "
                "Save it with save(model, path, statistics=True) to go on later."
            )
        else:
            self._sample.update(X, y)
        self._accumulate(batches, Stages(self.verbose), X.shape[0])
        return self

    def merge(self, other: KernelModel, *, shared: KernelModel | None = None) -> Self:
        """Add the training data of another model with the same scaling and feature map.

        Parameters
        ----------
        other : KernelModel
            Typically a copy of the same model as this one, trained elsewhere.
        shared : KernelModel, optional
            The model that both are copies of, as it was when they were made: its rows, which both have seen, count
            once. None where they share no rows.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If the models map or encode their data differently, or both saw the same first rows and `shared` is None.
        """
        for name, model in (("other", other), ("shared", shared)):
            if model is not None:
                self._check_mergeable(name, model)
        if shared is None and self._origin == other._origin:
            raise ValueError(
                "`shared` must be the model that both are copies of, got None: both saw the same first rows, which "
                "would count twice. Keep a copy of it (copy.deepcopy) before training on."
            )
        statistics = self._statistics().merge(other._statistics())
        if shared is not None:
            statistics = statistics.merge(shared._statistics(), sign=-1)
        self.statistics_ = statistics
        self._sample.merge(other._sample, without=() if shared is None else shared._sample.keys)
        self._far.merge(other._far, without=() if shared is None else shared._far.keys)
        self.n_samples_seen_ = self.statistics_.n
        self._forget_solution()
        return self

    def _check_mergeable(self, name: str, model: KernelModel) -> None:
        check_is_fitted(self, "statistics_")
        check_is_fitted(model, "statistics_")
        same = equal_records(self.scaling_, model.scaling_) and equal_records(
            self.feature_map_.record_, model.feature_map_.record_
        )
        if not same or not self._same_targets(model):
            raise ValueError(
                f"`{name}` must share this model's scaling, feature map and targets. Copy one model (copy.deepcopy) "
                "after its first partial_fit, and train the copies."
            )

    def _fit(self, batches: Iterable[tuple[Array, np.ndarray]]) -> Self:
        stages = Stages(bool(self.verbose))
        with stages.stage("scales"):
            survey = self._survey(batches)
        with stages.stage("feature map"):
            self._prepare(survey, complete=True)
        n, m = survey.n_rows, self._width()
        if n < m or n <= LEAVE_ONE_OUT_ROWS:
            self._fit_dual(batches, stages, n)
        else:
            self._accumulate(batches, stages, n)
            self._solve(stages)
        self.stages_: list[Stage] = stages.finished
        return self

    def _survey(self, batches: Iterable[tuple[Array, np.ndarray]], classes: Any = None) -> Survey:
        self._seed = seed_sequence(self.random_state)
        seed = int(self._streams()["sample"].integers(2**63))
        survey = Survey(batches, seed, collect_labels=self._has_labels)
        if classes is not None:
            survey.add_labels(classes)
        return survey

    def _prepare(self, survey: Survey, *, complete: bool = False) -> None:
        """Fix scaling, targets and feature map; `complete` says that no rows but the survey's are to come."""
        if survey.n_rows < 2:
            raise ValueError(
                f"Found array with n_samples={survey.n_rows}, 1 sample: a fit needs at least 2. Give more rows."
            )
        self._forget_solution()
        vars(self).pop("statistics_", None)
        self._learn_targets(survey)
        self.scaling_ = survey.moments.scaling(self._standardisation())
        self._sample = survey.sample
        self._far = FarRows(survey.sample.seed, survey.moments.mean, self.scaling_.factor)
        rows, targets = survey.sample.first(_LENGTH_SCALE_ROWS)
        self._origin = _fingerprint(rows, targets)
        ops = ops_for(rows)
        rows = self.scaling_.bind(ops).apply(ops, rows)
        chosen = choose_map(
            self.kernel,
            self.n_components,
            self.length_scale,
            rows,
            random_state=self._streams()["map"],
            n_jobs=self.n_jobs,
            complete=complete and rows.shape[0] == survey.n_rows,
        )
        self.feature_map_ = with_image_shape(chosen, getattr(self, "image_shape_", None)).fit(rows)
        self.n_samples_seen_ = 0

    def _accumulate(self, batches: Iterable[tuple[Array, np.ndarray]], stages: Stages, n_rows: int) -> None:
        """Add the statistics of all batches."""
        statistics = self._statistics() if hasattr(self, "statistics_") else None
        with stages.stage("features and Gram matrix", n_rows) as advance:
            features = self._features()
            for X, y in batches:
                targets = self._encode(y)
                if statistics is None:
                    statistics = RidgeStatistics.empty(self._width(), targets.shape[1])
                statistics.update(features(X), targets, self.n_jobs)
                self._far.update(X, y)
                advance(X.shape[0])
        self.statistics_ = statistics
        self.n_samples_seen_ = statistics.n if statistics else 0
        self._forget_solution()

    def _fit_dual(self, batches: Iterable[tuple[Array, np.ndarray]], stages: Stages, n_rows: int) -> None:
        """Fit from the n x n Gram matrix of the rows: where they are fewer than features, or few altogether."""
        with stages.stage("features", n_rows) as advance:
            features = self._features()
            rows: list[Any] = []
            targets: list[np.ndarray] = []
            for X, y in batches:
                Z = features(X)
                rows.append(Z if isinstance(Z, PackedArray) else np.array(ops_for(Z).to_host(Z)))
                targets.append(self._encode(y))
                self._far.update(X, y)
                advance(X.shape[0])
            join = PackedArray.concatenate if isinstance(rows[0], PackedArray) else np.concatenate
            Z, Y = join(rows), np.concatenate(targets)
        with stages.stage("regularisation"):
            self.solution_ = solve_ridge_dual(
                Z, Y, alpha=self._alpha(), rng=self._streams()["probes"], n_jobs=self.n_jobs
            )
        # Kept in place of the m x m statistics, and turned into them if more rows come.
        self._dual_rows = (Z, Y)
        self.statistics_ = None
        self.n_samples_seen_ = n_rows

    def _solve(self, stages: Stages) -> None:
        with stages.stage("regularisation"):
            statistics, alpha = self._statistics(), self._alpha()
            held_out, far = self._judging_rows(statistics.n) if alpha == "auto" else (None, None)
            self.solution_ = solve_ridge(
                statistics, alpha, held_out=held_out, far=far, rng=self._streams()["probes"], n_jobs=self.n_jobs
            )

    def _judging_rows(self, n: int) -> tuple[FeaturesAndTargets | None, FeaturesAndTargets | None]:
        """Random rows and those farthest out, of n in all; None where they are too few."""
        X_far, y_far, keys = self._far.first(n // _FAR_SHARE)
        X, y = self._sample.first(n // _HELD_OUT_SHARE, without=keys)
        if len(y) < 2:
            return None, None
        far = (self._features()(X_far), self._encode(y_far)) if len(y_far) else None
        return (self._features()(X), self._encode(y)), far

    def _statistics(self) -> RidgeStatistics:
        """The sums over all rows seen; formed from kept rows after a dual fit."""
        if self.statistics_ is None:
            Z, Y = vars(self).pop("_dual_rows")
            self.statistics_ = RidgeStatistics.empty(Z.shape[1], Y.shape[1])
            self.statistics_.update(Z, Y, self.n_jobs)
        return self.statistics_

    # Prediction ------------------------------------------------------------------------------------------------

    def _scores(self, X: Any) -> np.ndarray:
        """Outputs (n, t) of the linear model, batch by batch."""
        check_is_fitted(self, "feature_map_")
        X = check_samples(self, X, reset=False)
        solution = self._current_solution()
        rows = feature_rows(self._width(), X.dtype.itemsize)
        features = self._features()
        scores = np.empty((X.shape[0], solution.coef.shape[1]), ops_for(X).dtype)
        coef = solution.coef.astype(scores.dtype)
        for start in range(0, X.shape[0], rows):
            part = slice(start, start + rows)
            scores[part] = features.times(X[part], coef)
        scores += solution.intercept.astype(scores.dtype)
        return scores

    def _current_solution(self) -> RidgeSolution:
        if not hasattr(self, "solution_"):
            self._solve(Stages(bool(self.verbose)))
        return self.solution_

    def _forget_solution(self) -> None:
        vars(self).pop("solution_", None)

    # Shared small things ---------------------------------------------------------------------------------------

    def _check_training(self, X: Any, y: Any, *, reset: bool) -> tuple[Array, np.ndarray]:
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None. Pass the targets."
            )
        X = check_samples(self, X, reset=reset)
        if reset:
            self._sparse = sparse.issparse(X)
        elif self._sparse != sparse.issparse(X):
            # The scaling was fixed for rows of one kind, and a sample of all is kept.
            X = X.toarray() if sparse.issparse(X) else sparse.csr_matrix(ops_for(X).to_host(X))
        return X, self._check_targets(y, X.shape[0], reset=reset)

    def _features(self) -> FeatureStream:
        return FeatureStream(self.scaling_, self.feature_map_.record_, self.device, self.n_jobs)

    def _same_targets(self, other: KernelModel) -> bool:
        return type(self) is type(other)

    def _alpha(self) -> float | str:
        if isinstance(self.alpha, str):
            return check_choice("alpha", self.alpha, ("auto",))
        return check_real("alpha", self.alpha, above=0.0)

    def _standardisation(self) -> str | bool:
        if self.standardize not in ("columns", "global") and self.standardize is not False:
            raise ValueError(
                f"`standardize` must be one of 'columns', 'global' or False, got {self.standardize!r}. "
                "Use 'columns' to scale each column."
            )
        return self.standardize

    def _width(self) -> int:
        """Width m of the features: the fitted map's, else the one asked for."""
        if hasattr(self, "feature_map_"):
            return self.feature_map_.record_.n_components
        if isinstance(self.kernel, RandomMap):
            return self.kernel.output_width(self.n_features_in_)
        return check_integer("n_components", self.n_components, least=1)

    def _streams(self) -> dict[str, np.random.Generator]:
        return named_streams(self._seed, *_ROLES)

    @property
    def kernel_(self) -> Kernel:
        """The exact kernel that the features estimate."""
        check_is_fitted(self, "feature_map_")
        return self.feature_map_.kernel_

    @property
    def alpha_(self) -> float:
        """The regularisation: as given, or as chosen; `solution_.criterion` says by what."""
        check_is_fitted(self, "feature_map_")
        return self._current_solution().alpha

    @property
    def coef_(self) -> np.ndarray:
        """Coefficients (m,), or (t, m) for several targets."""
        check_is_fitted(self, "feature_map_")
        coef = self._current_solution().coef
        return coef[:, 0] if coef.shape[1] == 1 else coef.T

    @property
    def intercept_(self) -> Any:
        """Intercept, a float or (t,) for several targets."""
        check_is_fitted(self, "feature_map_")
        intercept = self._current_solution().intercept
        return float(intercept[0]) if intercept.shape[0] == 1 else intercept

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "feature_map_")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _fingerprint(X: Array, y: np.ndarray) -> str:
    """A hash of rows and their targets."""
    digest = hashlib.sha256()
    for part in (X.data, X.indices, X.indptr) if sparse.issparse(X) else (X,):
        digest.update(np.ascontiguousarray(part).data)
    digest.update("\n".join(map(str, y.ravel().tolist())).encode())
    return digest.hexdigest()
