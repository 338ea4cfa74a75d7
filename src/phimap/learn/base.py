"""The base class of the learners, with their parameters, training methods and public attributes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from phimap._dask import is_dask, map_rows, typical_rows
from phimap._progress import Stage
from phimap._validation import MissingCellsError
from phimap.config import fixed_budget, stated_budget
from phimap.kernels import Kernel
from phimap.learn.collections import fit_collection, fit_parts, score_collection
from phimap.learn.conformal import Conformal
from phimap.learn.corrections.corrections import Corrections
from phimap.learn.deviations import Deviations
from phimap.learn.fit import FitResult, add_rows, array_batches, fit, new_summary, solve_state, start_state
from phimap.learn.fitted import Fitted, TrainingState, fitted_html, of_fitted
from phimap.learn.inputs import LearnerKind, RowChecks, training_batches, training_rows
from phimap.learn.ridge.solver import RidgeSolver
from phimap.learn.ridge.statistics import RidgeStatistics
from phimap.learn.rows.batches import require_reiterable
from phimap.learn.rows.checkpoint import CheckpointedRows, CheckpointStore
from phimap.learn.rows.scaling import Scaling
from phimap.learn.rows.summary import RowSummary
from phimap.learn.rows.units import check_groups, groups_that_count
from phimap.learn.scaled_map import ScaledMap
from phimap.learn.search.log import SearchLog
from phimap.learn.settings import Compute, FitSettings
from phimap.learn.solver import LinearSolution
from phimap.learn.targets.base import Targets, TargetsKind, TargetUnits
from phimap.learn.trees.ensemble import BoostedTrees
from phimap.ops import single_threaded_blas
from phimap.random_map import RandomMap
from phimap.tables import TableEncoder

# Parameters that may differ between the stopped and the continued fit. `n_jobs` and `verbose` do not affect the
# coefficients, and the checkpoint itself stores the budget set by `memory`.
_CHANGE_NO_BIT = ("memory", "n_jobs", "verbose")
# Largest number of constant columns that a note names.
_NAMED = 10


@dataclass(eq=False, repr=False)
class KernelModel(BaseEstimator):
    """A linear model on the features of a kernel.

    A subclass sets the class of its targets and the names of its losses.
    """

    _targets_type: ClassVar[type[Targets]]
    _losses: ClassVar[tuple[str, ...]]

    stages_: list[Stage] = field(init=False)
    _fitted: Fitted = field(init=False)
    _state: TrainingState = field(init=False)
    _deviations: Deviations = field(init=False)

    kernel: str | Kernel | RandomMap = "auto"
    n_components: int | str = "auto"
    _: KW_ONLY
    loss: str = "squared"
    scoring: str | None = None
    alpha: float | str = "auto"
    length_scale: float | str = "auto"
    metric: str | None = "auto"
    effort: str = "normal"
    time_limit: float | None = None
    corrections: str | None = "auto"
    trees: str | None = "auto"
    validation: str = "random"
    standardize: str | bool | None = "auto"
    encode: str | TableEncoder | None = "auto"
    solver: str = "auto"
    device: str = "auto"
    memory: int | str | None = None
    n_jobs: int | None = None
    random_state: Any = None
    verbose: bool | int = False

    # Training --------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None) -> Self:
        """Fit on rows in memory, or on a Dask collection, whose rows stay on their workers.

        Parameters
        ----------
        X : array-like, data frame, CSR matrix, torch.Tensor or Dask collection of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or, for regression, (n_samples, n_targets)
            A Dask collection if `X` is one, cut into the same blocks of rows; likewise `sample_weight`.
        sample_weight : array-like of shape (n_samples,), optional
            A row of weight w counts like w equal rows. A row of weight 0 is ignored, including its class. In the choice
            of alpha, a row is held out with its whole weight.
        groups : array-like of shape (n_samples,), optional
            Group of each row, such as the person or the machine that it belongs to. Every choice of the fit (search,
            alpha, corrections, calibration, conformal scores) holds out the rows of a group together. The choices then
            suit rows of new groups. With ``validation="last"``, groups are moments in time, and the latest are held
            out. They are numbers, dates, or texts of dates in one form with an unambiguous order of day and month. Not
            for Dask collections.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If a parameter is out of range, there are fewer than two rows or groups, the data are not finite, or weights
            are negative or all zero.
        MemoryError
            If the memory of the solver exceeds the byte budget.

        Warns
        -----
        ConvergenceWarning
            If a solver in passes does not converge; `solution_` has the numbers.

        Notes
        -----
        **Cost.** With n rows and m components, a fit forms the features of all rows. The Gram matrix takes n m^2 flops.
        Two Cholesky factorisations of order m follow; the first chooses alpha. If n < m or n is at most 2,048, the fit
        uses the dual form, whose factorisations have order n. Memory: three packed triangles of 4 m^2 bytes and one
        batch of features; only the dual form holds the n x m feature matrix. Solvers in passes keep the features that
        fit half of the remaining byte budget, and form the others again in each pass.

        **Bits.** The number of threads does not change the result. Batches have 4,096 rows; up to 16,384, if their
        features take at most 64 MiB; fewer, usually down to 256, if the features of 4,096 rows exceed 256 MiB or the
        byte budget is small. Sums are rounded batch by batch. `fit_batches` gives the same bits if its batches are cut
        at the same rows. With other cuts, the random draws, the samples of the rows and the classes are still the same,
        but scales, sums and everything computed from them differ by rounding.
        """
        with self._settings() as settings:
            if is_dask(X):
                return self._keep(fit_collection(X, y, sample_weight, groups, self._kind, settings))
            inputs, targets, rows = training_rows(X, y, sample_weight, self._kind)
            groups = groups_that_count(groups, sample_weight, rows[0].shape[0], in_time=settings.last)
            batches = array_batches(rows, targets, settings, settings.width_for(inputs.width), complete=True)
            return self._keep(fit(batches, inputs, targets, settings, groups=groups))

    def fit_batches(
        self,
        batches: Iterable[tuple[Any, ...]],
        encoder: TableEncoder | None = None,
        *,
        checkpoint: CheckpointStore | None = None,
        summary: RowSummary | None = None,
        feature_names: Iterable[str] | None = None,
        groups: Any = None,
    ) -> Self:
        """Fit on a stream of batches, in two passes: one for scales and classes, one for the sums.

        Data frames take up to two more passes: one looks for cells other than numbers, one fits their encoder. Apart
        from samples, memory holds the rows of one batch at a time. Batches cut like the batches of `fit` (see its
        notes) give the same bits as `fit`. Other batches give the same model up to rounding.

        Parameters
        ----------
        batches : iterable of (X, y) or (X, y, sample_weight)
            Must give the same batches at each iteration: a list, or an object that opens its file again.
        encoder : TableEncoder, optional
            The fitted encoder that made these batches, which are arrays, from data frames. It becomes `encoder_`, so
            that the model accepts data frames.
        checkpoint : Checkpoint, optional
            Store to which the sums of the passes are written at intervals. A stopped fit continues from these sums.
        summary : RowSummary, optional
            Summary started by `new_summary` and updated with all rows; it replaces the first pass.
        feature_names : iterable of str, optional
            Names of the columns of arrays.
        groups : array-like of shape (n_samples,), optional
            Group of each row of the stream, as in `fit`; no row may have weight 0. Rows are then summarised once more,
            and `summary` is not used. With ``validation="last"`` and without groups, the rows are counted first.

        Returns
        -------
        self : object

        Raises
        ------
        TypeError
            If `batches` is a one-shot iterator.
        ValueError, MemoryError
            As in `fit`.
        DataError
            If the checkpoint belongs to another fit.
        """
        require_reiterable(batches)
        if summary is not None:
            summary = summary.for_targets(labels=self._targets_type.has_labels)
        session = nullcontext() if checkpoint is None else checkpoint.session()
        if checkpoint is not None:
            self._check_repeatable()
        with session, self._settings(checkpoint) as settings:
            inputs, targets, rows = training_batches(batches, self._kind, encoder, feature_names)
            groups = None if groups is None else check_groups(groups, len(groups), in_time=settings.last)
            if checkpoint is None:
                try:
                    return self._keep(fit(rows, inputs, targets, settings, summary=summary, groups=groups))
                except MissingCellsError:
                    if self.encode is None or inputs.encoder is not None or summary is not None:
                        raise
                # A batch after the first has a missing cell, so the arrays are encoded.
                inputs, targets, rows = training_batches(batches, self._kind, missing=True)
                return self._keep(fit(rows, inputs, targets, settings, groups=groups))
            params = self.get_params(deep=False).items()
            checkpoint.agree("parameters", {f"`{name}`": value for name, value in params if name not in _CHANGE_NO_BIT})
            rows = CheckpointedRows(rows, checkpoint)
            prepared = partial(_check_same_map, checkpoint)
            result = fit(rows, inputs, targets, settings, summary=summary, groups=groups, prepared=prepared)
            rows.check_rest()
        return self._keep(result)

    def fit_parts(
        self,
        parts: Sequence[tuple[Any, ...]],
        first_rows: Sequence[int],
        read: Callable[..., Iterable[tuple[Any, np.ndarray]]],
        encoder: TableEncoder | None = None,
        *,
        feature_names: Sequence[str] | None = None,
    ) -> Self:
        """Fit on parts of rows that the workers of a Dask cluster read themselves.

        Parameters
        ----------
        parts : sequence of tuples
            Arguments of `read`.
        first_rows : sequence of int
            Number of rows that come before each part.
        read : callable
            ``read(*part)`` gives the batches (X, y) of a part; it is sent to the workers.
        encoder, feature_names : optional
            As for `fit_batches`.

        Returns
        -------
        self : object
        """
        with self._settings() as settings:
            return self._keep(fit_parts(parts, first_rows, read, encoder, self._kind, settings, feature_names))

    def new_summary(self, labels: bool | None = None) -> RowSummary:
        """Return an empty summary of training rows, for a program that reads all rows before it fits.

        Parameters
        ----------
        labels : bool, optional
            Whether targets are labels; None if not known yet.

        Returns
        -------
        RowSummary
            Summary to be updated with all rows and then given to `fit_batches` of this learner, or of a learner with
            the same parameters for the other kind of targets.
        """
        with self._settings(warn=False) as settings:
            return new_summary(settings, labels=labels)

    def merge(self, other: KernelModel, *, shared: KernelModel | None = None) -> Self:
        """Add the training data of another model with the same scaling and feature map.

        Parameters
        ----------
        other : KernelModel
            Typically a copy of the same model as this one, trained on other rows.
        shared : KernelModel, optional
            The model from which both were copied, in its state at that time. Its rows, which both models have seen,
            count once. None if the two models share no rows.

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
        if shared is None and self._state.origin == other._state.origin:
            raise ValueError(
                "`shared` must be the model that both are copies of, got None: both saw the same first rows, which "
                "would count twice. Keep a copy of it (copy.deepcopy) before training on."
            )
        self._state.merge(other._state, None if shared is None else shared._state, self.n_jobs)
        if self._fitted.map.range is not None and other._fitted.map.range is not None:
            self._fitted.map.range.merge(other._fitted.map.range)
        return self._with_more_rows()

    def _add_rows(self, X: Any, y: Any, sample_weight: Any, classes: Any = None) -> Self:
        """Add rows to the training data, as `partial_fit` does; `classes` are labels that may occur in later rows."""
        if self.solver == "cg" or self.loss not in ("auto", "squared"):
            raise ValueError(
                f"rows cannot be added with solver={self.solver!r} and the {self.loss} loss, which keep no sums over "
                "rows. Call fit or fit_batches with all rows, or use the squared loss and solver='cholesky'."
            )
        if self.validation != "random" or (hasattr(self, "_fitted") and self._fitted.has_units):
            raise ValueError(
                f"rows cannot be added with validation={self.validation!r} or after a fit with groups, which hold out "
                "rows by their place among all rows. Call fit with all rows."
            )
        if not hasattr(self, "_fitted"):
            with self._settings() as settings:
                inputs, targets, rows = training_rows(X, y, sample_weight, self._kind)
                batches = array_batches(rows, targets, settings, settings.width_for(inputs.width), complete=False)
                return self._keep(start_state(batches, inputs, targets, settings, classes))
        if not hasattr(self, "_state"):
            raise ValueError(
                "this model was saved without its statistics or solved in passes, so no rows can be added. "
                "Save it with save(model, path, statistics=True), or use solver='cholesky', to go on later."
            )
        fitted = self._fitted
        with self._settings(seed=fitted.seed) as settings:
            rows = RowChecks(fitted.inputs, fitted.targets, self._kind.name).encoded(X, y, sample_weight)
            batches = array_batches(rows, fitted.targets, settings, fitted.map.width, complete=False)
            add_rows(batches, fitted, self._state, settings)
        return self._with_more_rows()

    def _keep(self, result: FitResult) -> Self:
        """Store the result of a fit."""
        fitted, state, self.stages_ = result
        self._fitted = replace(fitted, inputs=fitted.inputs.settled())
        for name in ("_state", "_deviations"):
            vars(self).pop(name, None)
        if state is not None:
            self._state = state
        if self.verbose:
            _note_constant_columns(self._fitted)
        return self

    def _with_more_rows(self) -> Self:
        """Drop the solution, and all that belongs to it, after rows were added.

        The solution is computed when next needed.
        """
        self._fitted = replace(self._fitted.unsolved(), n_samples_seen=self._state.sums.n_rows)
        vars(self).pop("_deviations", None)
        return self

    @property
    def _kind(self) -> LearnerKind:
        return LearnerKind(type(self).__name__, self._targets_kind, self.encode)

    @property
    def _targets_kind(self) -> TargetsKind:
        """The factory of targets: it makes a `Targets` object from the targets of the first rows."""
        return self._targets_type

    @contextmanager
    def _settings(
        self,
        checkpoint: CheckpointStore | None = None,
        *,
        seed: np.random.SeedSequence | None = None,
        warn: bool = True,
    ) -> Iterator[FitSettings]:
        """Check the parameters and yield the settings; the byte budgets are fixed while the ``with`` block runs.

        With a `checkpoint` and without the parameter `memory`, the budget is that of the stopped fit. `seed` is the
        seed of a fit to which rows are added; None takes the parameter `random_state`.
        """
        stated = stated_budget(self.memory) if checkpoint is None else checkpoint.budget(self.memory)
        with fixed_budget():
            compute = Compute(self.device, self.n_jobs)
            settings = FitSettings.of(self.get_params(deep=False), self._losses, stated, compute, seed)
            if warn and seed is None:
                settings.warn_of_ignored()
            yield settings

    def _check_repeatable(self) -> None:
        """Raise unless a continued fit draws the same numbers and chooses the same kernel."""
        if self.time_limit is not None:
            raise ValueError(
                f"`time_limit` must be None where a checkpoint is written, got {self.time_limit!r}. A fit that is "
                "taken up searches again, and with a limit it could choose another kernel. Use effort='fast'."
            )
        if not isinstance(self.random_state, Integral) or isinstance(self.random_state, bool):
            raise ValueError(
                f"`random_state` must be an integer where a checkpoint is written, got {self.random_state!r}. Use for "
                "example 0: a fit that is taken up draws the same numbers again."
            )

    def _check_mergeable(self, name: str, model: KernelModel) -> None:
        for one in (self, model):
            check_is_fitted(one)
            if not hasattr(one, "_state"):
                raise ValueError(
                    f"`{name}` and this model must have statistics to be merged: one was saved without, or solved in "
                    "passes. Save with save(model, path, statistics=True), or use solver='cholesky'."
                )
        own, other = self._fitted, model._fitted
        if own.has_units or other.has_units:
            raise ValueError(
                f"`{name}` and this model must be fitted without groups and with validation='random' to be merged: "
                "rows are held out by their place among all rows. Call fit with all rows."
            )
        if not own.encodes_like(other):
            raise ValueError(
                f"`{name}` must share this model's scaling, feature map and targets, and its encoder. Copy one model "
                "(copy.deepcopy) after its first partial_fit, and train the copies."
            )

    # Prediction ------------------------------------------------------------------------------------------------

    def predict(self, X: Any) -> np.ndarray:
        """Predict targets.

        Parameters
        ----------
        X : array-like, data frame, CSR matrix, torch.Tensor or Dask collection of shape (n_samples, n_features)

        Returns
        -------
        ndarray, or Dask array if `X` is one, of shape (n_samples,) or, for regression, (n_samples, n_targets)
            Labels like those given to `fit`, or numbers: float32 for float32 input, else float64. Targets that are far
            from 0 relative to their range, such as times in seconds, or of extreme size are predicted in float64.

        Raises
        ------
        ValueError
            If `X` has a different number of columns than in `fit`, is empty or is not finite.

        Warns
        -----
        OutsideWarning
            If rows lie far outside of the training rows. One warning gives the share of such rows.

        Notes
        -----
        Far from the training rows, random features of a stationary kernel oscillate, whereas the exact kernel model
        returns to the mean. The outputs of far rows are therefore shrunk towards the mean output of the training rows.
        Let x' be the row nearest to x within the widened ranges of the training columns. The difference between output
        and mean is multiplied by ``min(1, 2 k(x, x') / k(x, x))``. Outputs for CSR rows, and of kernels that are not
        stationary, are not changed.
        """
        return self._apply(Fitted.predictions, X)

    def compile(self) -> Self:
        """Compile all loops that predictions of this model need, so that the first prediction is as fast as later ones.

        Returns
        -------
        self : object

        Raises
        ------
        sklearn.exceptions.NotFittedError

        Notes
        -----
        A row is predicted in float64 and in float32. This compiles loops, or reads them from the cache, and prepares
        the coefficients. A model with an encoder also encodes a row of missing cells. No fitted number changes.
        `pm.load` calls this method for models on the CPU. Users must call it for models that joblib loaded, and for
        models on another device.

        **Cost.** Seconds if no loop is cached for this machine (``phimap info --compile`` caches all loops), else less
        than a second.
        """
        fitted = self._solved()
        encoder = fitted.inputs.encoder
        _outputs(Fitted.warm, self.device, self.n_jobs, {}, fitted, None if encoder is None else encoder.missing_row())
        return self

    def _apply(self, method: Callable[..., np.ndarray], X: Any, **named: Any) -> Any:
        """Return ``method(fitted, X, compute)`` of the solved model; the result is lazy if `X` is a Dask collection."""
        fitted = self._solved()
        work = partial(_outputs, method, self.device, self.n_jobs, named, fitted)
        return map_rows(work, X, fitted.inputs.typical_rows(typical_rows(X))) if is_dask(X) else work(X)

    def _score_collection(self, X: Any, y: Any, sample_weight: Any) -> float:
        """Return the score on Dask collections."""
        # `predict` returns a lazy result here. The call raises an error at once if the rows do not suit the model.
        self.predict(X)
        predict = partial(_outputs, Fitted.predictions, self.device, self.n_jobs, {})
        return score_collection(self._solved(), predict, X, y, sample_weight)

    def _solved(self) -> Fitted:
        """Return the fitted model, solved for all rows seen so far."""
        check_is_fitted(self)
        if self._fitted.solution is None:
            with self._settings(seed=self._fitted.seed) as settings:
                self._fitted = solve_state(self._fitted, self._state, settings)
        return self._fitted

    # Fitted attributes -----------------------------------------------------------------------------------------

    loss_: ClassVar[str | None] = of_fitted("loss", "Loss of the fitted model; None for files of earlier versions.")
    n_features_in_: ClassVar[int] = of_fitted("inputs.n_features", "Columns of the rows in `fit`.")
    image_shape_: ClassVar[tuple[int, int, int] | None] = of_fitted("inputs.image_shape", "Shape of images in `fit`.")
    encoder_: ClassVar[TableEncoder | None] = of_fitted("inputs.encoder", "Encoder of data frames; None for numbers.")
    target_units_: ClassVar[TargetUnits | None] = of_fitted("targets.units", "Units of the encoded targets, or None.")
    n_samples_seen_: ClassVar[int] = of_fitted("n_samples_seen", "Training rows of positive weight.")
    scaling_: ClassVar[Scaling] = of_fitted("map.scaling", "Shift and factor of each column, and root of the metric.")
    feature_map_: ClassVar[RandomMap] = of_fitted("map.feature_map", "The fitted map, on scaled inputs.")
    metric_: ClassVar[np.ndarray] = of_fitted("map.metric", "Metric (d,) or (d, d) of the standardised columns.")
    search_: ClassVar[SearchLog | None] = of_fitted("search", "Trials of the search; None without a choice.")
    corrections_: ClassVar[Corrections | None] = of_fitted("corrections", "Corrections of the linear model, or None.")
    trees_: ClassVar[BoostedTrees | None] = of_fitted("trees", "Trees averaged with the kernel model, or None.")
    kernel_: ClassVar[Kernel] = of_fitted("map.kernel", "The exact kernel that the features estimate.")
    feature_names_in_: ClassVar[np.ndarray] = of_fitted("inputs.given_names", "Names of the columns, if they have any.")
    relevances_: ClassVar[np.ndarray] = of_fitted(
        "relevances", "Shares (n_features,) of the columns in the metric, which sum to 1."
    )

    @property
    def conformal_(self) -> Conformal | None:
        """Scores of rows that took part in no choice, for intervals and sets; None without such rows."""
        return self._solved().conformal

    @property
    def solver_(self) -> RidgeSolver:
        """Sums over the training rows, or the features of the rows in dual form.

        The attribute is absent after a solver that makes passes.
        """
        return self._state.sums

    @property
    def statistics_(self) -> RidgeStatistics | None:
        """Sums over all rows seen; None in dual form, and after a solver that makes passes."""
        return self._state.sums.statistics if hasattr(self, "_state") else None

    @property
    def solution_(self) -> LinearSolution:
        """The linear model, the alphas that were tried with their scores, and the status of the solver."""
        return self._solved().solved

    @property
    def alpha_(self) -> float:
        """The regularisation, given or chosen; `solution_.criterion` names the criterion."""
        return self._solved().solved.alpha

    @property
    def coef_(self) -> np.ndarray:
        """Coefficients (m,), or (t, m) for several targets."""
        coef = self._solved().solved.coef
        return coef[:, 0] if coef.shape[1] == 1 else coef.T

    @property
    def constant_(self) -> Any:
        """Constant of the linear model, a float or (t,) for several targets.

        The name is not `intercept_`, because tools such as ``shap.Explainer`` assume that a model with `coef_` and
        `intercept_` is linear in the columns.
        """
        intercept = self._solved().solved.intercept
        return float(intercept[0]) if intercept.shape[0] == 1 else intercept

    # scikit-learn ----------------------------------------------------------------------------------------------

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_fitted")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self.encode is not None
        return tags

    def __getstate__(self) -> Any:
        # The factor for standard deviations is not stored. It takes as much memory as the sums, and can be computed
        # from them in seconds.
        state: Any = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_deviations"}

    def _repr_html_inner(self) -> str:
        return super()._repr_html_inner() + fitted_html(vars(self).get("_fitted"))

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle = super()._repr_mimebundle_(**kwargs)
        if "text/html" in bundle:
            bundle["text/html"] += fitted_html(vars(self).get("_fitted"))
        return bundle


def _outputs(
    method: Callable[..., Any], device: str, n_jobs: int | None, named: dict[str, Any], fitted: Fitted, X: Any
) -> Any:
    """Return ``method(fitted, X, compute, **named)``, computed within the byte budget, with one thread of BLAS.

    The byte budget and the thread limit are set once, for all steps of the prediction.
    """
    with fixed_budget(), single_threaded_blas():
        return method(fitted, X, Compute(device, n_jobs), **named)


def _check_same_map(checkpoint: CheckpointStore, mapped: ScaledMap) -> None:
    """Raise unless the fit that wrote a checkpoint had the same scaling and feature map."""
    checkpoint.agree("prepared", {"the scaling": mapped.scaling, "the feature map": mapped.record})


def _note_constant_columns(fitted: Fitted) -> None:
    """Write the names of constant columns to standard error; not for encoded frames, whose encoder has a summary."""
    constant = np.flatnonzero(fitted.map.scaling.factor == 0)
    if fitted.inputs.encoder is None and constant.size:
        named = fitted.inputs.column_names.tolist()
        names = ", ".join(repr(named[column]) for column in constant[:_NAMED])
        more = f" and {constant.size - _NAMED} more" if constant.size > _NAMED else ""
        sys.stderr.write(f"note: left out as columns: {names}{more} (constant).\n")
