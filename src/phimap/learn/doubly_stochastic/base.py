"""What the doubly stochastic learners share: parameters, training over batches, and outputs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import clone

from phimap._progress import Stages
from phimap._random import named_streams, seed_sequence
from phimap._validation import check_integer, check_real, check_samples
from phimap.config import memory_budget, size_text, thread_count
from phimap.kernels import StationaryKernel
from phimap.learn.doubly_stochastic.blocks import WIDTH, BlockedMap
from phimap.learn.doubly_stochastic.outputs import ROWS_AT_A_TIME, BlockedModel
from phimap.learn.doubly_stochastic.preconditioner import ROWS, SamplePreconditioner
from phimap.learn.doubly_stochastic.rows import in_order_of_stream, in_random_order, rows_of_batch
from phimap.learn.rows.accumulator import accumulate
from phimap.learn.rows.batches import ArrayBatches, Batch, CheckedBatches, require_reiterable
from phimap.learn.rows.first_pass import FirstPass
from phimap.learn.rows.reservoir import Reservoir
from phimap.learn.rows.scaling import check_standardisation
from phimap.learn.rows.weights import check_mean_weight, check_weights, rows_that_count, total_weight
from phimap.learn.search.kernel import STATIONARY
from phimap.learn.search.length_scale import median_length_scale
from phimap.learn.search.names import kernel_name
from phimap.learn.targets.kinds import require_targets
from phimap.ops import Array, ops_for

_ROLES = ("sample", "blocks", "order", "norm")
# Rows on which the length scale is estimated.
_LENGTH_SCALE_ROWS = 1000
# Steps of `partial_fit`, whose end nobody knows, before they are shortened like 1 / sqrt(step).
_FULL_STEPS = 20


class DoublyStochasticModel(BlockedModel):
    """A linear model on random features of which nothing but the coefficients is stored.

    Subclasses turn targets into numbers and scores into predictions.
    """

    solver_: SamplePreconditioner
    n_features_in_: int
    feature_names_in_: np.ndarray
    image_shape_: tuple[int, int, int] | None
    losses_: np.ndarray
    n_samples_seen_: int
    weight_seen_: float
    n_steps_: int
    _seed: np.random.SeedSequence

    def requirements(self) -> Iterator[tuple[bool, str]]:
        """What must be true of a model from a file: see `Record.requirements`."""
        blocks, coef = self.blocks_, self._coef
        width = self.n_features_in_
        yield blocks.n_features == width == self.scaling_.shift.size, "blocks and a scaling of its rows"
        yield self.scaling_.root is None and self.scaling_.squash is None, "a scaling by columns alone"
        solver: SamplePreconditioner | None = vars(self).get("solver_")
        yield solver is None or solver.rows.shape[1] == width, "sample rows as wide as its rows"
        yield coef.ndim == 2 and coef.shape[0] == blocks.n_components, "a coefficient for each feature"
        yield self._intercept.shape == (coef.shape[1],), "an intercept for each output"
        yield self._serves(coef.shape[1]), "an output for each target or class"

    @abstractmethod
    def _serves(self, n_outputs: int) -> bool:
        """Whether so many outputs are those of the targets."""

    def __init__(
        self,
        kernel: str | StationaryKernel = "gaussian",
        n_components: int = 8192,
        *,
        loss: str = "squared",
        alpha: float = 1e-4,
        length_scale: float | str = "median",
        projection: str = "auto",
        standardize: str | bool | None = "auto",
        n_epochs: int = 10,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: bool = False,
    ):
        self.kernel = kernel
        self.n_components = n_components
        self.loss = loss
        self.alpha = alpha
        self.length_scale = length_scale
        self.projection = projection
        self.standardize = standardize
        self.n_epochs = n_epochs
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # Hooks -----------------------------------------------------------------------------------------------------

    @abstractmethod
    def _check_loss(self) -> str:
        """The loss, one of those of the learner."""

    @abstractmethod
    def _check_targets(self, y: Any, n_rows: int, *, reset: bool) -> np.ndarray:
        """`y` as an array of `n_rows` usable targets; `reset` says that no others came before."""

    @abstractmethod
    def _learn_targets(self, first_pass: FirstPass) -> np.ndarray:
        """Store what the first pass tells about the targets; the intercepts (t,) to start from."""

    @abstractmethod
    def _encode(self, y: np.ndarray) -> np.ndarray:
        """Checked targets as numbers (r, t)."""

    @property
    @abstractmethod
    def _has_labels(self) -> bool:
        """Whether targets are labels."""

    # Training --------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit on rows in memory, `n_epochs` times all of them in random order.

        Parameters
        ----------
        X : array-like, CSR matrix or torch.Tensor of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or, for regression, (n_samples, n_targets)
        sample_weight : array-like of shape (n_samples,), optional
            A row of weight w counts like w equal rows, one of weight 0 is as if it were not there.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If a parameter is out of range, the data are empty, of one row, or not finite, or weights are negative or
            all zero.
        MemoryError
            If coefficients and blocks exceed the byte budget.
        """
        rows, targets, weights = self._check_rows(X, y, sample_weight, reset=True)
        first_pass = self._first_pass(ArrayBatches(rows, targets, weights, ROWS_AT_A_TIME))
        order = self._streams()["order"]
        batch = rows_of_batch(rows.shape[0])
        return self._fit(first_pass, lambda: in_random_order(rows, targets, weights, batch, order))

    def fit_batches(self, batches: Iterable[tuple[Any, ...]]) -> Self:
        """Fit on a stream of batches: once for scales and sample, then `n_epochs` times.

        Parameters
        ----------
        batches : iterable of (X, y) or (X, y, sample_weight)
            Iterable more than once, the same each time. Rows are taken as they come: in random order, or at least not
            sorted by their targets.

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
        checked = CheckedBatches(self._check_rows, batches)
        first_pass = self._first_pass(checked)
        return self._fit(first_pass, partial(in_order_of_stream, checked, rows_of_batch(first_pass.n_rows)))

    def _add_rows(self, X: Any, y: Any, sample_weight: Any, classes: Any = None) -> Self:
        """What `partial_fit` does; `classes` are labels to come."""
        first = not hasattr(self, "blocks_")
        rows, targets, weights = self._check_rows(X, y, sample_weight, reset=first)
        if first:
            self._prepare(
                self._first_pass(ArrayBatches(rows, targets, weights, ROWS_AT_A_TIME), classes), complete=False
            )
            self.n_samples_seen_, self.weight_seen_, self.n_steps_ = 0, 0.0, 0
        self.n_samples_seen_ += rows.shape[0]
        self.weight_seen_ += total_weight(weights, rows.shape[0])
        if not hasattr(self, "solver_"):
            # Model files do not keep it: it is made of the rows at hand.
            self.solver_ = self._preconditioner(self._scaled(rows[:ROWS]))
        mean_weight = self.weight_seen_ / self.n_samples_seen_
        for batch in in_order_of_stream([(rows, targets, weights)], rows_of_batch(rows.shape[0])):
            damping = min(1.0, (_FULL_STEPS / (self.n_steps_ + 1)) ** 0.5)
            self._step(batch, mean_weight, damping)
            self.n_steps_ += 1
        return self

    def _fit(self, first_pass: FirstPass, epoch: Callable[[], Iterable[Batch]]) -> Self:
        n_epochs = check_integer("n_epochs", self.n_epochs, least=1)
        self._prepare(first_pass, complete=True)
        self.n_steps_ = 0
        mean_weight = self.weight_seen_ / self.n_samples_seen_
        stages, losses, done = Stages(bool(self.verbose)), [], 0
        with stages.stage("epochs", n_epochs * first_pass.n_rows) as advance:
            for _ in range(n_epochs):
                total = 0.0
                for batch in epoch():
                    size = batch[0].shape[0]
                    # The last half of the way with ever shorter steps: what single batches say averages out.
                    damping = min(1.0, 2 * (1 - done / (n_epochs * first_pass.n_rows)))
                    total += size * self._step(batch, mean_weight, damping)
                    done += size
                    self.n_steps_ += 1
                    advance(size)
                losses.append(total / first_pass.n_rows)
        self.losses_ = np.array(losses)
        return self

    def _first_pass(self, batches: Iterable[Batch], classes: Any = None) -> FirstPass:
        # Parameters that no data could make right are refused before the data are gone through.
        self._check_parameters()
        self._seed = seed_sequence(self.random_state)
        seed = int(self._streams()["sample"].integers(2**63))
        first_pass = accumulate(batches, partial(FirstPass.start, seed=seed, collect_labels=self._has_labels))
        if not first_pass.n_rows:
            raise ValueError("the training data are empty: no batch of rows was given. Give at least 2 rows.")
        if classes is not None and first_pass.labels is not None:
            first_pass.labels.expect(classes)
        return first_pass

    def _prepare(self, first_pass: FirstPass, *, complete: bool) -> None:
        """Fix scaling, kernel and preconditioner; coefficients are zero. `complete`: no rows but these are to come."""
        if first_pass.n_rows < 2:
            raise ValueError(
                f"Found array with n_samples={first_pass.n_rows}, 1 sample: a fit needs at least 2. Give more rows."
            )
        moments = first_pass.moments
        assert moments is not None
        check_mean_weight(moments.n, first_pass.n_rows)
        self.scaling_ = moments.scaling(check_standardisation(self.standardize), complete=complete)
        self._intercept = self._learn_targets(first_pass)
        sample: Reservoir = first_pass.sample
        rows, _, weights = sample.first(ROWS)
        scaled = self._scaled(rows)
        d, m = self.n_features_in_, self.n_components
        few = None if weights is None else weights[:_LENGTH_SCALE_ROWS]
        kernel = self._chosen_kernel(scaled[:_LENGTH_SCALE_ROWS], few)
        self._check_memory(m, self._intercept.size, ops_for(scaled).dtype.itemsize)
        seed: Any = self._streams()["blocks"].bit_generator.seed_seq
        self.blocks_ = BlockedMap.of(kernel, d, m, self.projection, seed)
        self._coef = np.zeros((m, self._intercept.size))
        self.n_samples_seen_, self.weight_seen_ = first_pass.n_rows, float(moments.n)
        self.solver_ = self._preconditioner(scaled)

    def _preconditioner(self, scaled: Array) -> SamplePreconditioner:
        return SamplePreconditioner.of_sample(
            self.blocks_, scaled, self.alpha / self.weight_seen_, self._streams()["norm"], self.n_jobs
        )

    def _step(self, batch: Batch, mean_weight: float, damping: float) -> float:
        X, y, weights = batch
        counted = np.ones(X.shape[0]) if weights is None else weights / mean_weight
        return self._problem().step(
            self._scaled(X),
            self._encode(y),
            counted,
            self._coef,
            self._intercept,
            self.solver_,
            penalty=self.alpha / self.weight_seen_,
            damping=damping,
        )

    # Parameters ------------------------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        check_integer("n_components", self.n_components, least=1)
        check_integer("n_epochs", self.n_epochs, least=1)
        check_real("alpha", self.alpha, least=0.0)
        self._check_loss()
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

    def _chosen_kernel(self, rows: Array, weights: np.ndarray | None) -> StationaryKernel:
        if not isinstance(self.kernel, str):
            copied: Any = clone(self.kernel)
            return copied
        make = STATIONARY[kernel_name(self.kernel, STATIONARY)]
        scale = self.length_scale
        return make(median_length_scale(rows, make(1.0), weights) if isinstance(scale, str) else float(scale))

    def _check_memory(self, m: int, t: int, itemsize: int) -> None:
        needed = 16 * m * t + 24 * ROWS**2 + itemsize * (ROWS + ROWS_AT_A_TIME) * (WIDTH + self.n_features_in_)
        if needed > memory_budget():
            raise MemoryError(
                f"a fit of `n_components`={m} with {t} targets needs {size_text(needed)}, over the budget of "
                f"{size_text(memory_budget())}. Use fewer components, or raise the budget with "
                "phimap.config(memory=...)."
            )

    # Shared small things ---------------------------------------------------------------------------------------

    def _check_rows(
        self, X: Any, y: Any, sample_weight: Any = None, *, reset: bool
    ) -> tuple[Array, np.ndarray, np.ndarray | None]:
        """Rows of positive weight, their targets and weights."""
        require_targets(self, y)
        X = check_samples(self, X, reset=reset)
        if reset:
            self._sparse = sparse.issparse(X)
        X = self._alike(X)
        y = self._check_targets(y, X.shape[0], reset=reset)
        return rows_that_count(X, y, check_weights(sample_weight, X.shape[0]), wanted=True)

    def _streams(self) -> dict[str, np.random.Generator]:
        return named_streams(self._seed, *_ROLES)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
