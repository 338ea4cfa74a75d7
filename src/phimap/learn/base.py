"""What the learners share: parameters, and training in two passes over batches."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from copy import copy
from numbers import Integral
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from phimap._dask import is_dask
from phimap._progress import Stage, Stages
from phimap.config import config
from phimap.kernels import Kernel
from phimap.learn.collections import fit_collection
from phimap.learn.frames import EncodedBatches, frames_in
from phimap.learn.html import FittedHTML
from phimap.learn.ridge.solver import RidgeSolver
from phimap.learn.rows.batches import ArrayBatches, Batch, CheckedBatches, RowShape, batch_rows, require_reiterable
from phimap.learn.rows.checkpoint import CheckpointedRows, CheckpointStore
from phimap.learn.rows.first_look import FirstLook
from phimap.learn.rows.first_pass import FirstPass
from phimap.learn.rows.weights import check_weights, rows_that_count
from phimap.learn.streamed import StreamedFit
from phimap.learn.targets.kinds import require_targets
from phimap.ops import Array, ops_for
from phimap.random_map import RandomMap
from phimap.records import equal_records
from phimap.tables import TableEncoder

# Parameters that no coefficient depends on, or that a journal compares by itself.
_CHANGE_NO_BIT = ("memory", "n_jobs", "verbose")


class KernelModel(StreamedFit, FittedHTML):
    """Ridge regression on the features of a kernel.

    Subclasses turn targets into numbers and scores into predictions.
    """

    stages_: list[Stage]
    _origin: str

    def __init__(
        self,
        kernel: str | Kernel | RandomMap = "auto",
        n_components: int | str = "auto",
        *,
        alpha: float | str = "auto",
        length_scale: float | str = "auto",
        metric: str | None = "auto",
        effort: str = "normal",
        corrections: str | None = "auto",
        standardize: str | bool | None = "auto",
        encode: str | TableEncoder | None = "auto",
        solver: str = "auto",
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
        self.metric = metric
        self.effort = effort
        self.corrections = corrections
        self.standardize = standardize
        self.encode = encode
        self.solver = solver
        self.device = device
        self.memory = memory
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def requirements(self) -> Iterator[tuple[bool, str]]:
        fitted, wanted = vars(self), {"_seed", "_sparse"}
        wanted |= {"classes_"} if self._has_labels else {"n_targets_", "_single_column"}
        if "solver_" in fitted:
            wanted |= {"_sample", "_outlying", "_origin"}
        yield wanted <= fitted.keys(), "all that was fitted"
        yield not fitted.keys().isdisjoint({"solution_", "solver_"}), "a solution, or statistics that give one"
        yield from super().requirements()
        if "solver_" in fitted:
            yield from self._requirements_to_solve()

    # Hooks -----------------------------------------------------------------------------------------------------

    @abstractmethod
    def _check_targets(self, y: Any, n_rows: int, *, reset: bool) -> np.ndarray:
        """`y` as an array of `n_rows` usable targets; `reset` says that no others came before."""

    @abstractmethod
    def _targets_in(self, y: np.ndarray) -> int:
        """Targets of the linear model for the checked targets `y`."""

    @abstractmethod
    def _same_targets(self, other: KernelModel) -> bool:
        """Whether the other model encodes targets as this one does."""

    # Training --------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit on rows in memory, or on a Dask collection, whose rows stay where they are.

        Parameters
        ----------
        X : array-like, data frame, CSR matrix, torch.Tensor or Dask collection of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or, for regression, (n_samples, n_targets)
            A Dask collection where `X` is one, cut into the same blocks of rows; so are weights.
        sample_weight : array-like of shape (n_samples,), optional
            A row of weight w counts like w equal rows, one of weight 0 is as if it were not there, its class included;
            where alpha is chosen, a row is left out with its whole weight.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If a parameter is out of range, the data are empty, of one row, or not finite, or weights are negative or
            all zero.
        MemoryError
            If what the solver keeps exceeds the byte budget.

        Warns
        -----
        ConvergenceWarning
            If a solution in passes is not reached; `solution_` has the numbers.

        Notes
        -----
        **Cost.** With n rows and m components: the features of all rows, n m^2 flops for the Gram matrix, and two
        Cholesky factorisations of order m, one of them to choose alpha (of order n, in the dual form, if n < m or n
        is at most 2,048). Memory: three packed triangles of 4 m^2 bytes and one batch of features; the n x m feature
        matrix is held in the dual form only. Solvers in passes form the features once a pass, or keep them where they
        fit half of the byte budget that is left.

        **Bits.** The number of threads changes none. Rows come in batches of 4,096; of up to 16,384, if the features
        of these take at most 64 MiB; of 256 or more, if those of 4,096 take over 256 MiB or the byte budget is small.
        Sums are rounded batch by batch. `fit_batches` gives the same bits if its batches are cut at the same rows;
        else draws, samples of the rows and classes are the same, and scales, sums and what follows differ by rounding.
        """
        if is_dask(X):
            return fit_collection(self, X, y, sample_weight)
        self._start_encoder([X], labels=self._has_labels)
        X, y, weights = self._check_training(X, y, sample_weight, reset=True, rows_wanted=True)
        return self._fit(self._batches_of(X, y, weights, X.shape[0]))._settled()

    def fit_batches(
        self,
        batches: Iterable[tuple[Any, ...]],
        encoder: TableEncoder | None = None,
        *,
        checkpoint: CheckpointStore | None = None,
    ) -> Self:
        """Fit on a stream of batches, in two passes: one for scales and classes, one for the statistics.

        Data frames take one more pass, which looks for more than complete numbers, and one for the encoder of these.
        Batches are taken as they come, so that no more rows are held than they have. Cut like those of `fit` (see its
        notes) they give its bits, else the same but for rounding.

        Parameters
        ----------
        batches : iterable of (X, y) or (X, y, sample_weight)
            Iterable more than once, the same each time: a list, or an object that opens its file anew.
        encoder : TableEncoder, optional
            What has encoded the rows of these batches, arrays; it becomes `encoder_`, so that the model takes frames.
        checkpoint : Checkpoint, optional
            Where the sums of the passes are written at intervals, and taken up by a fit that was stopped.

        Returns
        -------
        self : object

        Raises
        ------
        TypeError
            If `batches` is a one-shot iterator.
        ValueError, MemoryError
            As `fit`.
        DataError
            If the checkpoint is that of another fit.
        """
        require_reiterable(batches)
        self._start_encoder(frames_in(batches) if encoder is None else (), labels=self._has_labels)
        if encoder is not None:
            self._use_encoder(copy(encoder))
        elif self.encoder_ is not None:
            frames = CheckedBatches(self._check_rows, batches)
            self._use_encoder(self.encoder_.fit_batches((X, y) for X, y, _ in frames))
            return self._fit_noted(EncodedBatches(frames, self.encoder_), checkpoint)._settled()
        return self._fit_noted(CheckedBatches(self._check_training, batches), checkpoint)._settled()

    def _first_look(self, most_labels: int) -> FirstLook:
        """What sees rows of numbers before anybody knows whether their targets are numbers or labels."""
        with warnings.catch_warnings():
            # The learner that it is for says the same.
            warnings.simplefilter("ignore")
            return FirstLook(self._first_pass_start(labels=False), most_labels)

    def _fit_seen(
        self, batches: Iterable[tuple[Any, ...]], first_pass: FirstPass, checkpoint: CheckpointStore | None = None
    ) -> Self:
        """As `fit_batches` of arrays, of which somebody has made the first pass."""
        require_reiterable(batches)
        self._start_encoder((), labels=self._has_labels)
        self._first_pass_start(labels=self._has_labels)
        # The first batch says what all rows are.
        self._check_training(*next(iter(batches)), reset=True)
        return self._fit_noted(CheckedBatches(self._check_training, batches), checkpoint, first_pass)._settled()

    def _fit_noted(
        self, batches: Iterable[Batch], journal: CheckpointStore | None, first_pass: FirstPass | None = None
    ) -> Self:
        """Fit on checked batches, whose passes go into a journal if there is one."""
        if journal is None:
            return self._fit(batches, first_pass)
        if not isinstance(self.random_state, Integral) or isinstance(self.random_state, bool):
            raise ValueError(
                f"`random_state` must be an integer where a checkpoint is written, got {self.random_state!r}. Use for "
                "example 0: a fit that is taken up draws the same numbers again."
            )
        params = self.get_params(deep=False).items()
        with journal.session():
            journal.agree("parameters", {f"`{name}`": value for name, value in params if name not in _CHANGE_NO_BIT})
            with config(memory=journal.budget(self.memory)):
                rows = CheckpointedRows(
                    batches,
                    journal,
                    lambda: {"the scaling": self.scaling_, "the feature map": self.feature_map_.record_},
                )
                self._fit(rows, first_pass)
                rows.check_rest()
        return self

    def _add_rows(self, X: Any, y: Any, sample_weight: Any, classes: Any = None) -> Self:
        """What `partial_fit` does; `classes` are labels to come."""
        if self.solver == "cg" or self._loss != "squared":
            raise ValueError(
                f"rows cannot be added with solver={self.solver!r} and the {self._loss} loss, which keep no sums over "
                "rows. Call fit or fit_batches with all rows, or use the squared loss and solver='cholesky'."
            )
        first = not hasattr(self, "feature_map_")
        if first:
            self._start_encoder([X], labels=self._has_labels)
        X, y, weights = self._check_training(X, y, sample_weight, reset=first, rows_wanted=True)
        batches = self._batches_of(X, y, weights, None)
        if first:
            self._prepare(self._first_pass(batches, classes))
            solver = self._empty_solver(None)
        elif not hasattr(self, "solver_"):
            raise ValueError(
                "this model was saved without its statistics or solved in passes, so no rows can be added. "
                "Save it with save(model, path, statistics=True), or use solver='cholesky', to go on later."
            )
        else:
            solver = self.solver_
            self._sample.update(X, y, weights)
            if self._range is not None:
                self._range.update(X)
        self._gather(solver, batches, Stages(bool(self.verbose)), X.shape[0])
        return self._settled()

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
        self.solver_.merge(other.solver_, self.n_jobs)
        if shared is not None:
            self.solver_.merge(shared.solver_, self.n_jobs, sign=-1)
        self.n_samples_seen_ = self.solver_.n_rows
        self._sample.merge(other._sample, without=() if shared is None else shared._sample.keys)
        self._outlying.merge(other._outlying, without=() if shared is None else shared._outlying.keys)
        if self._range is not None and other._range is not None:
            self._range.merge(other._range)
        self._forget_solution()
        return self

    def _check_mergeable(self, name: str, model: KernelModel) -> None:
        for one in (self, model):
            check_is_fitted(one, "feature_map_")
            if not hasattr(one, "solver_"):
                raise ValueError(
                    f"`{name}` and this model must have statistics to be merged: one was saved without, or solved in "
                    "passes. Save with save(model, path, statistics=True), or use solver='cholesky'."
                )
        same = all(
            equal_records(one, other)
            for one, other in (
                (self.scaling_, model.scaling_),
                (self.feature_map_.record_, model.feature_map_.record_),
                (self._encodings(), model._encodings()),
            )
        )
        if not same or not self._same_targets(model):
            raise ValueError(
                f"`{name}` must share this model's scaling, feature map and targets, and its encoder. Copy one model "
                "(copy.deepcopy) after its first partial_fit, and train the copies."
            )

    # Shared small things ---------------------------------------------------------------------------------------

    def _check_training(
        self, X: Any, y: Any, sample_weight: Any = None, *, reset: bool, rows_wanted: bool = False
    ) -> Batch:
        """As `_check_rows`, frames being encoded."""
        X, y, weights = self._check_rows(X, y, sample_weight, reset=reset, rows_wanted=rows_wanted)
        return (self._encoded(X, y) if self._takes_frame(X) else X), y, weights

    def _check_rows(
        self, X: Any, y: Any, sample_weight: Any = None, *, reset: bool, rows_wanted: bool = False
    ) -> tuple[Any, np.ndarray, np.ndarray | None]:
        """Rows of positive weight, of which there must be one where `rows_wanted`, their targets and weights.

        A frame for the encoder stays one.
        """
        require_targets(self, y)
        X = X if self._takes_frame(X) else self._number_rows(X, reset=reset)
        y = self._check_targets(y, X.shape[0], reset=reset)
        return rows_that_count(X, y, check_weights(sample_weight, X.shape[0]), wanted=rows_wanted)

    def _number_rows(self, X: Any, *, reset: bool) -> Array:
        """Checked rows that are all dense or all CSR, as the first ones were."""
        X = self._rows_of(X, reset=reset)
        if reset:
            self._sparse = sparse.issparse(X)
        elif self._sparse != sparse.issparse(X):
            # The scaling was fixed for rows of one kind, and a sample of all is kept.
            X = X.toarray() if sparse.issparse(X) else sparse.csr_matrix(ops_for(X).to_host(X))
        return X

    def _batches_of(self, X: Array, y: np.ndarray, weights: np.ndarray | None, n_rows: int | None) -> ArrayBatches:
        """Rows in memory as batches that fit the byte budget; `n_rows` are all that are to come, None if unknown."""
        shape = RowShape.of(X, self._targets_in(y))
        return ArrayBatches(X, y, weights, self._batch_height(n_rows, X.shape[0], shape))

    def _batch_height(self, n_rows: int | None, n_given: int, shape: RowShape) -> int:
        """Rows of a batch of `n_given` rows, of the `n_rows` that are to come; None if that is not known."""
        # A fit begins anew, whatever was fitted before.
        m, t, itemsize = self._width() if n_rows is None else self._new_width(), shape.n_targets, shape.itemsize
        member = self._chosen(n_rows, m, shape).member
        kept = RidgeSolver.memory(n_rows, m, t) if member is None else member.memory(n_given, m, t)
        return batch_rows(m, itemsize, self.memory, kept + shape.kept(n_given, self.memory), shape)

    def _for_tasks(self) -> Self:
        """A copy without what is kept of the training rows, small enough to be sent elsewhere."""
        sent = copy(self)
        for name in ("_sample", "_outlying", "_predictive", "solver_", "search_"):
            vars(sent).pop(name, None)
        return sent

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "feature_map_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
