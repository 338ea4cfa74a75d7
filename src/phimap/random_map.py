"""The scikit-learn transformer and the frozen record on which all feature maps and sketches are built."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from phimap._dask import by_blocks, is_dask, sampled_rows, sampled_targets
from phimap._random import named_streams
from phimap._validation import check_integer, check_samples
from phimap.config import fits_budget, memory_budget, size_text, thread_count
from phimap.ops import Array, Ops, ops_for, run_tasks
from phimap.records import Record

if TYPE_CHECKING:
    from phimap.kernels import Kernel

#: Number of rows that a learner passes to a map's `fit` by default. They are enough to estimate moments of the data.
FIT_ROWS = 1000
# Maximum number of rows of a tile. Taller tiles are not faster, because matrix products already reach full speed.
_MOST_TILE_ROWS = 4096
# Numbers of rows of a tile above this step are rounded down to a multiple of the step.
_TILE_ROWS_STEP = 64
# If the scratch memory of a tile takes at least this number of bytes, the byte budget limits the number of threads. For
# smaller tiles the free memory is not read, because it always suffices for the tiles of all threads.
_LARGE_TILE = 2**24
# Maximum number of bytes of the features of a tile if several threads can work on tiles.
_MOST_TILE_OUTPUT = 32 * 2**20


class MapRecord(Record, ABC):
    """The frozen randomness of a map from `n_features` inputs to `n_components` outputs."""

    n_features: int
    n_components: int

    #: Whether features are bounded for every input, so that tiles are not checked for overflow.
    bounded: ClassVar[bool] = False

    @abstractmethod
    def apply(self, ops: Ops, X: Array, out: Array, first: int = 0) -> None:
        """Write the features of the rows of `X` (r, n_features) into columns `first` to ``first + n_components``.

        The record must be bound to `ops`; the result depends only on the record and `X`. `out` is a C-contiguous
        block of rows, wider than the map if several maps write side by side.
        """

    def linear_outputs(self, ops: Ops, X: Array, coefs: np.ndarray) -> Array:
        """``phi(x)^T coefs`` (r, t) for rows `X` and `coefs` (n_components, t); the record must be bound to `ops`."""
        features = ops.empty((X.shape[0], self.n_components))
        self.apply(ops, X, features)
        return ops.matmul(features, ops.constant(coefs))

    def unwhitened(self, coefs: np.ndarray) -> tuple[MapRecord, np.ndarray]:
        """Return a record and float64 coefficients with the same linear outputs.

        The new record may have cheaper features, which are not whitened. These are nearly linearly dependent, so their
        products with the coefficients must be summed in float64. The record must not be bound.
        """
        return self, coefs

    def for_outputs(self, coefs: np.ndarray) -> tuple[MapRecord, np.ndarray]:
        """Return the record without arrays that only its features need, and coefficients with the same linear outputs.

        `unwhitened` of the result gives the same bits as `unwhitened` of this record. The record must not be bound.
        """
        return self, coefs

    def compact_features(self, ops: Ops, X: Array, n_jobs: int | None) -> Any:
        """Features of all rows of `X` in the compact form that learners should store; None if they should be dense.

        The record must be bound to `ops`. The form is a `PackedArray` or a CSR matrix, on the host.
        """
        return None

    def output_gradients(self, X: np.ndarray, coefs: np.ndarray) -> np.ndarray | None:
        """Gradients (n, d, t) of ``phi(x)^T coefs`` at float64 rows `X` (n, d); None if not implemented for this map.

        The record must not be bound; `coefs` is float64 (n_components, t).
        """
        return None

    def truncated(self, n_components: int) -> tuple[np.ndarray, float] | None:
        """Indices of columns, and a factor: these features times the factor are a map of the same kernel and method.

        The smaller map has `n_components` features. None if no choice of columns gives such a map.
        """
        return None

    @property
    def signature(self) -> np.ndarray | None:
        """Signs of the components, int8 (n_components,), or None if all signs are positive."""
        return None

    @property
    def n_flops(self) -> int | None:
        """Additions and multiplications for one dense row, without the nonlinearity; None if not known."""
        return None

    @property
    def least_tile_rows(self) -> int | None:
        """Least number of rows of a tile; None uses the number of the backend."""
        return None

    @property
    def scratch_width(self) -> int:
        """Floats of scratch memory that `apply` needs per row, without `out`; determines the height of a tile."""
        return self.n_features + self.n_components

    def most_threads(self, tile_bytes: int) -> int:
        """Maximum number of threads: the number of tiles that half of the byte budget holds.

        A tile takes `tile_bytes` of scratch memory.
        """
        return memory_budget() // (2 * tile_bytes)


def evaluate(record: MapRecord, ops: Ops, X: Array, out: Array, n_jobs: int | None = None) -> None:
    """Apply a bound record to all rows of `X`, tile by tile, into `out`.

    Tiles depend only on the row index and the sizes of the map, so that results do not depend on the number of threads.
    """

    def apply(tile: slice) -> None:
        record.apply(ops, ops.rows(X, tile.start, tile.stop), out[tile])
        if not (record.bounded or ops.is_finite(out[tile])):
            raise ValueError(
                f"`X` is too large: in rows {tile.start} to {min(tile.stop, X.shape[0]) - 1} features overflow "
                f"{ops.dtype}. Scale X down, or pass float64."
            )

    run_tiles(apply, record, ops, X.shape[0], n_jobs)


def run_tiles(work: Callable[[slice], None], record: MapRecord, ops: Ops, n_rows: int, n_jobs: int | None) -> None:
    """Call `work` on every tile of rows; the slice of the last tile may extend past the last row."""
    height = ops.tile_bytes // (ops.dtype.itemsize * max(1, record.scratch_width))
    height = int(np.clip(height, record.least_tile_rows or ops.least_tile_rows, _MOST_TILE_ROWS))
    if ops.threaded:
        # Batches of very wide maps have few rows. With smaller tiles, every thread gets some of the rows.
        height = min(height, max(1, _MOST_TILE_OUTPUT // (ops.dtype.itemsize * record.n_components)))
    # Matrix products process rows in groups. Leftover rows are slower and are rounded differently.
    height -= height % _TILE_ROWS_STEP if height > _TILE_ROWS_STEP else 0
    starts = range(0, n_rows, height)
    n_threads = thread_count(n_jobs) if ops.threaded else 1
    tile_bytes = height * ops.dtype.itemsize * record.scratch_width
    if n_threads > 1 and tile_bytes > _LARGE_TILE:
        n_threads = max(1, min(n_threads, record.most_threads(tile_bytes)))
    run_tasks(lambda start: work(slice(start, start + height)), starts, n_threads)


class RandomMap(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, ABC):
    """Base of the transformers: `fit` draws a record, `transform` applies it.

    Subclasses store their parameters in ``__init__``, name the roles of their random draws in ``_roles`` and
    implement ``_draw``. This class does everything else: validation, exact width, tiles, threads, the byte budget.
    """

    n_components: int
    random_state: Any
    n_jobs: int | None
    record_: MapRecord
    kernel_: Kernel
    n_features_in_: int
    feature_names_in_: np.ndarray
    image_shape_: tuple[int, int, int] | None

    # Roles of the random draws, see `named_streams`.
    _roles: tuple[str, ...] = ()

    def requirements(self) -> Iterator[tuple[bool, str]]:
        """Conditions that a map read from a file must satisfy, see `Record.requirements`."""
        if hasattr(self, "record_"):
            yield self.record_.n_features == self.n_features_in_, "a record of its inputs"
            shape = getattr(self, "image_shape_", None)
            yield shape is None or prod(shape) == self.n_features_in_, "images of its inputs"

    def output_width(self, n_features: int) -> int:
        """Width of the features for inputs with `n_features` columns; can be called before `fit`."""
        return self.n_components

    def fit_rows(self) -> int:
        """Number of rows that `fit` can use; learners pass that many if they have them."""
        return FIT_ROWS

    def _check_width(self) -> None:
        """Check `n_components`. Maps whose width follows from other parameters check these parameters instead."""
        check_integer("n_components", self.n_components, least=1)

    @property
    def wants_targets(self) -> bool:
        """Whether `fit` also uses targets; learners then pass the targets of the sampled rows."""
        return False

    @abstractmethod
    def _draw(self, X: Array, streams: dict[str, np.random.Generator]) -> MapRecord:
        """Check the parameters, then draw the record for inputs like `X` (n, d)."""

    def _draw_from(self, X: Array, y: Any, streams: dict[str, np.random.Generator]) -> MapRecord:
        """`_draw` with the unchecked targets `y` of the rows; overridden by maps that use targets."""
        return self._draw(X, streams)

    def fit(self, X: Any, y: Any = None) -> Self:
        """Draw the map for the width of `X`.

        Parameters
        ----------
        X : array-like, CSR matrix, torch.Tensor or Dask collection of shape (n_samples, n_features)
            Only the shape is used, except by maps whose documentation says that they depend on the data. From a Dask
            collection about `fit_rows` rows (1,000 for most maps) are computed, spread over up to 32 of its blocks.
        y : array-like of shape (n_samples,) or (n_samples, n_targets), or a Dask collection in the blocks of `X`
            Targets: floats are numbers, everything else is labels. Used only by maps whose `wants_targets` is true.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If a parameter is out of range, or `X` is empty, not two-dimensional, complex or not finite.
        """
        self._check_width()
        thread_count(self.n_jobs)
        if is_dask(X):
            y = sampled_targets(X, y, self.fit_rows()) if self.wants_targets else None
            X = sampled_rows(X, self.fit_rows())
        X = check_samples(self, X, reset=True)
        self.record_ = self._draw_from(X, y, named_streams(self.random_state, *self._roles))
        return self

    @by_blocks
    def transform(self, X: Any) -> Array:
        """Map the rows of `X`.

        Parameters
        ----------
        X : array-like, CSR matrix, torch.Tensor or Dask collection of shape (n_samples, n_features)

        Returns
        -------
        Z : array of shape (n_samples, n_components)
            float32 for float32 input, else float64; a tensor on the device of `X` for a tensor, a Dask array with the
            chunks of `X` for a Dask array or data frame. Maps with a ``packed`` parameter document there what they
            return instead.

        Raises
        ------
        MemoryError
            If the result exceeds the byte budget, before it is allocated.
        ValueError
            If the width of `X` differs from the width in `fit`, or `X` is empty or not finite.
        """
        check_is_fitted(self)
        X = check_samples(self, X, reset=False)
        ops = ops_for(X)
        n_bytes = X.shape[0] * self._row_bits(ops) // 8
        if not fits_budget(n_bytes):
            raise MemoryError(
                f"the features of {X.shape[0]} rows x {self.record_.n_components} components take "
                f"{size_text(n_bytes)}, over the budget of {size_text(memory_budget())}. "
                "Use transform_batches(X), or raise the budget with phimap.config(memory=...)."
            )
        return self._features(self.record_.bind(ops), ops, X)

    def transform_batches(self, X: Any, batch_rows: int | None = None) -> Iterator[Array]:
        """Map the rows of `X` batch by batch, in order, within the byte budget.

        Parameters
        ----------
        X : array-like, CSR matrix or torch.Tensor of shape (n_samples, n_features)
        batch_rows : int, optional
            Rows of each batch except the last; by default as many as fit into a quarter of the byte budget.

        Yields
        ------
        Z : array of shape (batch_rows, n_components)
        """
        check_is_fitted(self)
        X = check_samples(self, X, reset=False)
        ops = ops_for(X)
        if batch_rows is None:
            batch_rows = max(1, 8 * memory_budget() // (4 * self._row_bits(ops)))
        check_integer("batch_rows", batch_rows, least=1)
        bound = self.record_.bind(ops)
        for start in range(0, X.shape[0], batch_rows):
            yield self._features(bound, ops, X[start : start + batch_rows])

    def _row_bits(self, ops: Ops) -> int:
        """Size of the features of one row, in bits."""
        return 8 * self.record_.n_components * ops.dtype.itemsize

    def _features(self, record: MapRecord, ops: Ops, X: Array) -> Array:
        """Features of the rows of `X`, in the form that `transform` returns; `record` is bound to `ops`."""
        out = ops.empty((X.shape[0], record.n_components))
        evaluate(record, ops, X, out, self.n_jobs)
        return out

    @property
    def _n_features_out(self) -> int:
        return self.record_.n_components

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = self.wants_targets
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
