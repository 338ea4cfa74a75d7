"""The base class of the doubly stochastic learners, with parameters, training over batches and public attributes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from phimap._dask import is_dask, map_rows
from phimap._progress import Stages
from phimap._random import named_streams, seed_sequence
from phimap._validation import check_choice, check_integer, check_real
from phimap.config import fixed_budget, memory_budget, size_text, thread_count
from phimap.kernels import Kernel, StationaryKernel
from phimap.learn.doubly_stochastic.model import (
    ROWS,
    ROWS_AT_A_TIME,
    WIDTH,
    BlockedMap,
    BlockProblem,
    SamplePreconditioner,
    StochasticModel,
    in_order_of_stream,
    in_random_order,
    rows_of_batch,
)
from phimap.learn.doubly_stochastic.published import PublishedSteps
from phimap.learn.fitted import of_fitted
from phimap.learn.inputs import InputEncoding, LearnerKind, RowChecks, training_batches, training_rows
from phimap.learn.rows.accumulator import accumulate
from phimap.learn.rows.batches import ArrayBatches, Batch, require_reiterable
from phimap.learn.rows.scaling import Scaling, check_standardisation
from phimap.learn.rows.summary import RowSummary
from phimap.learn.scaled_map import scaled
from phimap.learn.search.families import median_length_scale
from phimap.learn.search.kernel import STATIONARY, kernel_name
from phimap.learn.targets.base import Targets, TargetUnits
from phimap.learn.weights import total_weight, weighted_mean
from phimap.ops import Array, ops_for

CONSTRUCTIONS = ("preconditioned", "published")
# Names of the random streams. Each is used for one purpose.
_ROLES = ("sample", "blocks", "order", "norm")
# Number of rows from which the length scale is estimated.
_LENGTH_SCALE_ROWS = 1000
# Number of steps of full length in `partial_fit`. Later steps shrink like 1 / sqrt(step), because the total number of
# rows is unknown.
_FULL_STEPS = 20


def takes_batches(model: DoublyStochasticModel) -> bool:
    """Return True if a model can be trained on rows in parts; else raise an error that names the parameter."""
    if model.construction == "published":
        raise AttributeError(
            "`construction` must be 'preconditioned' for rows in parts, got 'published'. Give all rows to `fit`."
        )
    return True


@dataclass(eq=False, repr=False)
class DoublyStochasticModel(BaseEstimator):
    """A linear model on random features, which stores only its coefficients.

    A subclass sets the class of its targets and the names of its losses.
    """

    _targets_type: ClassVar[type[Targets]]
    _losses: ClassVar[tuple[str, ...]]

    losses_: np.ndarray = field(init=False)
    _fitted: StochasticModel = field(init=False)
    _preconditioner: SamplePreconditioner = field(init=False)

    kernel: str | StationaryKernel = "gaussian"
    n_components: int = 8192
    _: KW_ONLY
    loss: str = "squared"
    alpha: float = 1e-4
    length_scale: float | str = "median"
    projection: str = "auto"
    standardize: str | bool | None = "auto"
    n_epochs: int = 10
    construction: str = "preconditioned"
    step_size: float = 4.0
    block_components: int = 64
    n_jobs: int | None = None
    random_state: Any = None
    verbose: bool = False

    # Training --------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit on rows in memory, in `n_epochs` passes over the rows in random order.

        Parameters
        ----------
        X : array-like, CSR matrix or torch.Tensor of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or, for regression, (n_samples, n_targets)
        sample_weight : array-like of shape (n_samples,), optional
            A row of weight w counts like w equal rows, and a row of weight 0 is ignored.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If a parameter is out of range, there are fewer than two rows, the data are not finite, or weights are
            negative or all zero.
        MemoryError
            If coefficients and blocks exceed the byte budget.
        """
        with self._budget() as memory:
            inputs, targets, (rows, y, weights) = training_rows(X, y, sample_weight, self._kind)
            model, sample = self._start(ArrayBatches(rows, y, weights, ROWS_AT_A_TIME), inputs, targets, memory)
            order = named_streams(model.seed, *_ROLES)["order"]
            if self._is_published:
                steps = PublishedSteps(self.loss, self.step_size, self.alpha / model.weight_seen, self.n_epochs)
                self.losses_ = steps.take(model, (rows, y, weights), order, self.n_jobs, bool(self.verbose))
                self._fitted = model
                return self
            preconditioner = self._preconditioner_of(model, sample)
            height = rows_of_batch(rows.shape[0])
            return self._fit(model, preconditioner, lambda: in_random_order(rows, y, weights, height, order))

    @available_if(takes_batches)
    def fit_batches(self, batches: Iterable[tuple[Any, ...]]) -> Self:
        """Fit on a stream of batches, in one pass for the scales and a sample, and `n_epochs` passes for the steps.

        Parameters
        ----------
        batches : iterable of (X, y) or (X, y, sample_weight)
            Must give the same batches each time it is iterated. Rows are used in the order of the stream, which should
            be random, or at least not sorted by the targets.

        Returns
        -------
        self : object

        Raises
        ------
        TypeError
            If `batches` is a one-shot iterator.
        AttributeError
            For ``construction="published"``, which needs all rows in memory.
        ValueError, MemoryError
            As in `fit`.
        """
        require_reiterable(batches)
        with self._budget() as memory:
            inputs, targets, checked = training_batches(batches, self._kind)
            model, sample = self._start(checked, inputs, targets, memory)
            preconditioner = self._preconditioner_of(model, sample)
            height = rows_of_batch(model.n_samples_seen)
            return self._fit(model, preconditioner, partial(in_order_of_stream, checked, height))

    def _add_rows(self, X: Any, y: Any, sample_weight: Any, classes: Any = None) -> Self:
        """Take steps on further rows, as `partial_fit` does; `classes` are labels that may occur in later rows."""
        with self._budget() as memory:
            if hasattr(self, "_fitted"):
                model = self._fitted
                X, y, weights = RowChecks(model.inputs, model.targets, self._kind.name).encoded(X, y, sample_weight)
            else:
                inputs, targets, (X, y, weights) = training_rows(X, y, sample_weight, self._kind)
                rows = ArrayBatches(X, y, weights, ROWS_AT_A_TIME)
                model, sample = self._start(rows, inputs, targets, memory, classes, complete=False)
                self._preconditioner = self._preconditioner_of(model, sample)
                model.n_samples_seen, model.weight_seen, self._fitted = 0, 0.0, model
            model.n_samples_seen += X.shape[0]
            model.weight_seen += total_weight(weights, X.shape[0])
            if not hasattr(self, "_preconditioner"):
                # A model file may lack the preconditioner, which is then made from the given rows.
                self._preconditioner = self._preconditioner_of(model, scaled(model.scaling, X[:ROWS]))
            problem = self._problem(model, self._preconditioner)
            for batch in in_order_of_stream([(X, y, weights)], rows_of_batch(X.shape[0])):
                damping = min(1.0, (_FULL_STEPS / (model.n_steps + 1)) ** 0.5)
                model.step(batch, problem, damping)
        return self

    def _fit(
        self, model: StochasticModel, preconditioner: SamplePreconditioner, epoch: Callable[[], Iterable[Batch]]
    ) -> Self:
        """Take the steps of all epochs."""
        n_epochs, n_rows = self.n_epochs, model.n_samples_seen
        problem, losses, done = self._problem(model, preconditioner), [], 0
        with Stages(bool(self.verbose)).stage("epochs", n_epochs * n_rows) as advance:
            for _ in range(n_epochs):
                total = 0.0
                for batch in epoch():
                    size = batch[0].shape[0]
                    # Steps become shorter in the second half, so that the noise of single batches averages out.
                    damping = min(1.0, 2 * (1 - done / (n_epochs * n_rows)))
                    total += size * model.step(batch, problem, damping)
                    done += size
                    advance(size)
                losses.append(total / n_rows)
        self._fitted, self._preconditioner, self.losses_ = model, preconditioner, np.array(losses)
        return self

    def _start(
        self,
        rows: Iterable[Batch],
        inputs: InputEncoding,
        targets: Targets,
        memory: int,
        classes: Any = None,
        *,
        complete: bool = True,
    ) -> tuple[StochasticModel, Array]:
        """Return a model with zero coefficients, and a sample of scaled rows.

        `complete` states that no further rows will be added.
        """
        seed = seed_sequence(self.random_state)
        streams = named_streams(seed, *_ROLES)
        sample_seed = int(streams["sample"].integers(2**63))
        summary = accumulate(rows, partial(RowSummary.start, seed=sample_seed, labels=targets.has_labels))
        summary.require_rows()
        summary.expect(classes)
        if targets.has_labels:
            targets = targets.learned(summary, loss=self.loss, class_weight=None)
        kind = check_standardisation(self.standardize)
        scaling = summary.moments.scaling(kind, complete=complete, columns=summary.columns)
        first_rows, _, weights = summary.sample.first(ROWS)
        first_rows = scaled(scaling, first_rows)
        few = None if weights is None else weights[:_LENGTH_SCALE_ROWS]
        kernel = self._chosen_kernel(first_rows[:_LENGTH_SCALE_ROWS], few)
        m, t = self.n_components, targets.n_outputs
        itemsize = ops_for(first_rows).dtype.itemsize
        width = self.block_components if self._is_published else None
        # Memory in addition to the model: the published steps hold the scores of all rows, the preconditioned steps
        # hold products of the sample rows.
        held = 8 * summary.n_rows * t if self._is_published else 24 * ROWS**2
        needed = 16 * m * t + held + itemsize * (ROWS + ROWS_AT_A_TIME) * ((width or WIDTH) + inputs.n_features)
        if needed > memory:
            raise MemoryError(
                f"a fit of `n_components`={m} with {t} targets needs {size_text(needed)}, over the budget of "
                f"{size_text(memory)}. Use fewer components, or raise the budget with phimap.config(memory=...)."
            )
        # Each block appends its number to the spawn key of this seed.
        blocks_seed: Any = streams["blocks"].bit_generator.seed_seq
        # The published algorithm draws independent directions.
        projection = "gaussian" if self._is_published and self.projection == "auto" else self.projection
        blocks = BlockedMap.of(kernel, inputs.n_features, m, projection, blocks_seed, width)
        model = StochasticModel(
            inputs,
            targets,
            scaling,
            blocks,
            np.zeros((m, t)),
            np.zeros(t),
            seed,
            summary.n_rows,
            float(summary.moments.n),
        )
        if not targets.has_labels:
            assert summary.target_range is not None
            model.exponent = TargetUnits.of_range(*summary.target_range).exponent
            model.intercept = weighted_mean(model.encode(summary.sample.y), summary.sample.weights)
        return model, first_rows

    def _problem(self, model: StochasticModel, preconditioner: SamplePreconditioner) -> BlockProblem:
        return BlockProblem(model.blocks, self.loss, self.n_jobs, self.alpha / model.weight_seen, preconditioner)

    def _preconditioner_of(self, model: StochasticModel, scaled_rows: Array) -> SamplePreconditioner:
        """Return the preconditioner made from a sample of scaled rows."""
        norm = named_streams(model.seed, *_ROLES)["norm"]
        return SamplePreconditioner.of_sample(
            model.blocks, scaled_rows, self.alpha / model.weight_seen, norm, self.n_jobs
        )

    # Parameters ------------------------------------------------------------------------------------------------

    @contextmanager
    def _budget(self) -> Iterator[int]:
        """Check the parameters, and yield the byte budget, which is fixed while the ``with`` block runs."""
        check_integer("n_components", self.n_components, least=1)
        check_integer("n_epochs", self.n_epochs, least=1)
        check_real("alpha", self.alpha, least=0.0)
        check_choice("loss", self.loss, self._losses)
        check_choice("construction", self.construction, CONSTRUCTIONS)
        check_real("step_size", self.step_size, above=0.0)
        check_integer("block_components", self.block_components, least=1)
        thread_count(self.n_jobs)
        check_standardisation(self.standardize)
        if isinstance(self.kernel, str):
            kernel_name(self.kernel, STATIONARY)
        elif not isinstance(self.kernel, StationaryKernel):
            raise TypeError(
                f"`kernel` must be a stationary kernel or the name of one, got {self.kernel!r}. Use KernelRegressor or "
                "KernelClassifier for others."
            )
        if self.length_scale != "median":
            if isinstance(self.length_scale, str):
                raise ValueError(f"`length_scale` must be a positive number or 'median', got {self.length_scale!r}.")
            check_real("length_scale", self.length_scale, above=0.0)
        with fixed_budget():
            yield memory_budget()

    def _chosen_kernel(self, rows: Array, weights: np.ndarray | None) -> StationaryKernel:
        if not isinstance(self.kernel, str):
            copied: Any = clone(self.kernel)
            return copied
        make = STATIONARY[kernel_name(self.kernel, STATIONARY)]
        scale = self.length_scale
        return make(median_length_scale(rows, make(1.0), weights) if isinstance(scale, str) else float(scale))

    @property
    def _is_published(self) -> bool:
        return self.construction == "published"

    @property
    def _kind(self) -> LearnerKind:
        return LearnerKind(type(self).__name__, self._targets_type, None)

    # Prediction ------------------------------------------------------------------------------------------------

    def predict(self, X: Any) -> np.ndarray:
        """Predict targets.

        Parameters
        ----------
        X : array-like, CSR matrix, torch.Tensor or Dask collection of shape (n_samples, n_features)

        Returns
        -------
        ndarray, or Dask array if `X` is one, of shape (n_samples,) or, for regression, (n_samples, n_targets)
            Labels like those given to `fit`, or numbers: float32 for float32 input, else float64.

        Raises
        ------
        ValueError
            If `X` has another width than in `fit`, is empty or is not finite.
        """
        return self._apply(StochasticModel.predictions, X)

    def _apply(self, method: Callable[..., np.ndarray], X: Any) -> Any:
        """Return ``method(model, X)`` of the fitted model; the result is lazy if `X` is a Dask collection."""
        check_is_fitted(self)
        work = partial(method, self._fitted, n_jobs=self.n_jobs)
        return map_rows(work, X) if is_dask(X) else work(X)

    # Fitted attributes -----------------------------------------------------------------------------------------

    n_features_in_: ClassVar[int] = of_fitted("inputs.n_features", "Columns of the rows in `fit`.")
    image_shape_: ClassVar[tuple[int, int, int] | None] = of_fitted("inputs.image_shape", "Shape of images in `fit`.")
    scaling_: ClassVar[Scaling] = of_fitted("scaling", "Shift and factor of each column.")
    blocks_: ClassVar[BlockedMap] = of_fitted("blocks", "Kernel and seed, of which every block of features is made.")
    n_samples_seen_: ClassVar[int] = of_fitted("n_samples_seen", "Rows of positive weight, each counted once.")
    weight_seen_: ClassVar[float] = of_fitted("weight_seen", "Sum of the weights of the rows seen.")
    n_steps_: ClassVar[int] = of_fitted("n_steps", "Steps taken.")

    kernel_: ClassVar[Kernel] = of_fitted("blocks.kernel", "The exact kernel that the features estimate.")
    feature_names_in_: ClassVar[np.ndarray] = of_fitted("inputs.given_names", "Names of the columns, if they have any.")

    @property
    def solver_(self) -> SamplePreconditioner:
        """The sample of rows that preconditions the steps."""
        return self._preconditioner

    @property
    def coef_(self) -> np.ndarray:
        """Coefficients (m,), or (t, m) for several targets."""
        check_is_fitted(self)
        coef = self._fitted.coef
        return coef[:, 0] if coef.shape[1] == 1 else coef.T

    @property
    def constant_(self) -> Any:
        """Constant of the linear model, a float or (t,) for several targets, see `KernelModel.constant_`."""
        check_is_fitted(self)
        intercept = self._fitted.intercept
        return float(intercept[0]) if intercept.size == 1 else intercept

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_fitted")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
