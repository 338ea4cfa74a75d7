"""The encoder that converts data frames with columns of any kind to numbers for kernels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from functools import partial
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from phimap._dask import blocks_of, by_blocks, chained, is_dask
from phimap._validation import check_choice, check_integer, check_unmasked
from phimap.tables.encoding import ColumnSummary, EncodedColumn, Encoding, warn_of_unread
from phimap.tables.frames import cells_of, check_frame, is_frame, n_rows_of, slices
from phimap.tables.table_pass import PassOptions, TablePass, checked_types, found_in
from phimap.tables.tallies import training_folds


class TableEncoder(TransformerMixin, BaseEstimator):
    r"""Encodes the columns of a data frame as numbers whose distances are meaningful to kernels.

    A kernel depends on distances, so the scale of a column is part of its encoding: the output columns of one column of
    the table have a total variance of 1,

    .. math:: \sum_{j \in \text{column}} \operatorname{var}(z_j) = 1,

    not counting the indicators of missing cells.

    Parameters
    ----------
    types : dict of str to {"number", "category", "date", "text", "drop"}, optional
        Kinds of columns by name; the kinds of other columns are detected.
    max_levels : int or "auto", default="auto"
        A category with more levels than this is encoded by the mean of the target. Without a target, it gets columns
        for its 32 most frequent levels and 8 columns into which the other levels are hashed. ``"auto"`` means 40, but
        all categories have a column for each level if those with more than 40 levels have at most 150 together.
    n_text_components : int, default=30
        Number of dense columns for a column of text.
    sparse_output : bool or "auto", default="auto"
        True keeps text as CSR rows of hashed n-grams and gives a CSR matrix. ``"auto"`` does so if all encoded columns
        are text.
    target_type : {"auto", "continuous", "classes"}, default="auto"
        The kind of the targets. ``"auto"`` treats text, Booleans and up to 20 distinct whole numbers as classes.

    Attributes
    ----------
    columns_ : tuple of EncodedColumn
        How each column is encoded.
    summary_ : tuple of ColumnSummary
        Name, kind, number of output columns, missing cells and a note for each column.
    groups_ : ndarray of shape (n_columns_out,)
        For each output column, the position of its input column.
    parts_ : ndarray of shape (n_columns_out,)
        Output columns with the same number share a scale, and a weight in a learned metric: all levels of a category,
        all directions of a text, sine and cosine of one cycle.
    variances_ : ndarray of shape (n_columns_out,)
        Variances of the output columns on the training rows.
    n_columns_out_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the columns, only for data frames.
    n_features_in_ : int
    n_rows_ : int
        Number of training rows.

    Notes
    -----
    **Numbers** and Booleans are standardised; missing values are replaced by the median, with an indicator column if
    there were any in training. Text is read as numbers if 95 % of its cells are numbers, including decimal commas and
    thousands separators, a currency such as ``$1,234``, a unit such as ``0.71 ct`` or parentheses around negative
    numbers; other cells are then missing. Amounts in several currencies are numbers only if `types` says so.
    **Categories** have one column for each level (one column for two levels), scaled by a common factor; missing is a
    level. Levels with fewer than 5 rows, or fewer in small tables, are merged. **Many levels** are encoded by means of
    the target, shrunk towards the mean of all rows; a training row gets the mean over the other four of five folds.
    **Dates** have a trend and points on circles for the hour of the day, the day of the week and the day of the year,
    as far as these vary, in the time zone of the training rows. **Text** of several words is encoded by the leading
    directions of hashed n-grams of 3 and 4 characters, weighted by inverse document frequencies. Columns that are
    constant, number the rows, or hold a different text in each row are **left out**, which `summary_` reports.

    New rows may have unknown levels and missing cells. An unknown level is treated as one of the merged rare levels. If
    no levels were merged, it differs from all levels. Columns are found by name, in any order and among other columns.

    **Error.** For numbers, dates and categories, only rounding to float32. Means of the target cover the 20,000 most
    frequent levels. The median is estimated from 16,384 random rows, and directions of texts from 5,000.

    **Cost.** One pass over the rows in bounded memory. Hashing of texts runs in Python and takes about a microsecond
    for each character of the distinct words of 8,192 texts. All other steps run in Arrow and NumPy.

    **Differs from the source in** the folds. They are determined by the row numbers, so that batches can be used.

    References
    ----------
    Micci-Barreca (2001), *A preprocessing scheme for high-cardinality categorical attributes in classification and
    prediction problems*, Section 3; Cerda, Varoquaux (2020), *Encoding high-cardinality string categorical variables*,
    Section 3 (n-grams of characters).

    Examples
    --------
    >>> import pandas as pd, phimap as pm
    >>> rooms = pd.DataFrame({"area": [50, 70, None, 60], "heating": ["gas", "oil", "gas", "oil"]})
    >>> encoder = pm.TableEncoder().fit(rooms)
    >>> [(column.name, column.kind, column.n_columns) for column in encoder.summary_]
    [('area', 'number', 2), ('heating', 'category', 1)]
    >>> encoder.transform(rooms).shape
    (4, 3)
    """

    _columns: tuple[EncodedColumn, ...]
    n_rows_: int
    n_features_in_: int
    feature_names_in_: np.ndarray

    def __init__(
        self,
        types: Mapping[str, str] | None = None,
        *,
        max_levels: int | str = "auto",
        n_text_components: int = 30,
        sparse_output: bool | str = "auto",
        target_type: str = "auto",
    ):
        self.types = types
        self.max_levels = max_levels
        self.n_text_components = n_text_components
        self.sparse_output = sparse_output
        self.target_type = target_type

    # Fitting ---------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn kinds and encodings of the columns from rows in memory.

        Parameters
        ----------
        X : data frame of n rows
            Frame of pandas, polars, Arrow or any library that exports Arrow; or a two-dimensional array; or a Dask
            collection, whose blocks are read one after the other by the workers that hold them.
        y : array-like of shape (n,) or (n, t), optional
            Targets, used to encode categories with many levels.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            If a parameter is out of range, there are no rows or no columns, two columns have one name, a number is
            infinite, or all columns would be left out.
        ImportError
            If pyarrow is not installed.
        """
        if is_dask(X):
            parts = [blocks_of(one, name) for one, name in ((X, "X"), (y, "y")) if one is not None]
            return self._fit_parts(list(zip(*parts, strict=True)), _whole_block)
        return self.fit_batches([(X, y)])

    def fit_batches(self, batches: Iterable[Any]) -> Self:
        """Learn kinds and encodings of the columns from one pass over batches.

        Parameters
        ----------
        batches : iterable of (X, y) or data frames
            As for `fit`. A one-shot iterator is sufficient.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError, ImportError
            As `fit`, or if a batch lacks a column of the first one.
        """
        self._pass = TablePass(self._options())
        for batch in batches:
            X, y = batch if isinstance(batch, tuple | list) else (batch, None)
            self._update(X, y)
        self._finish()
        return self

    def _fit_parts(self, parts: list[tuple[Any, ...]], read: Callable[..., Iterable[Any]]) -> Self:
        """Learn from consecutive parts of the rows, each in a task; ``read(*part)`` gives its batches (X, y)."""
        self._pass = chained(partial(_passed, read), TablePass(self._options()), parts)
        self._finish()
        return self

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Learn from one more batch of rows.

        Parameters
        ----------
        X, y
            As for `fit`. Either all batches have targets, or none.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError, ImportError
            As `fit`, or if the batch lacks a column of the first one, or if the statistics of earlier rows were
            dropped. Encoders from files lack these statistics.

        Notes
        -----
        Every call chooses the kinds of columns again, so the number of output columns may change. `fit_batches` chooses
        them once.
        """
        if not hasattr(self, "_pass"):
            if hasattr(self, "_columns"):
                raise ValueError(
                    "`partial_fit` cannot go on: nothing is kept of the rows seen. Fit a clone on all rows."
                )
            self._pass = TablePass(self._options())
        self._update(X, y)
        self._finish()
        return self

    def forget_rows(self) -> Self:
        """Drop the statistics of the training rows, about 100 kB a column. Only `partial_fit` needs them.

        Returns
        -------
        self : object
        """
        vars(self).pop("_pass", None)
        return self

    def forget_folds(self) -> Self:
        """Drop the tables that encode training rows; `transform_training` then does the same as `transform`.

        Returns
        -------
        self : object
        """
        self._columns = tuple(column.without_folds() for column in self.columns_)
        return self

    def _options(self) -> PassOptions:
        if self.sparse_output not in (True, False, "auto"):
            raise ValueError(f"`sparse_output` must be True, False or 'auto', got {self.sparse_output!r}.")
        if isinstance(self.max_levels, str) and self.max_levels != "auto":
            raise ValueError(f"`max_levels` must be an integer or 'auto', got {self.max_levels!r}. Use for example 40.")
        return PassOptions(
            checked_types(self.types),
            None if self.max_levels == "auto" else check_integer("max_levels", self.max_levels, least=2),
            check_integer("n_text_components", self.n_text_components, least=1),
            self.sparse_output,
            check_choice("target_type", self.target_type, ("auto", "continuous", "classes")),
        )

    def _update(self, X: Any, y: Any) -> None:
        X = _checked(X, len(self._pass.names) or None)
        if not n_rows_of(X):
            return
        self._pass.update(X, None if y is None else np.asarray(y))

    def _finish(self) -> None:
        if (n_rows := self._pass.n_rows) < 2:
            raise ValueError(
                f"a fit needs at least 2 rows, got {n_rows} sample{'' if n_rows else 's'}. Give more rows."
            )
        self._columns = self._pass.finish()
        self.n_rows_ = n_rows
        self.n_features_in_ = len(self._columns)
        vars(self).pop("feature_names_in_", None)
        if self._pass.has_names:
            self.feature_names_in_ = np.array(self._pass.names, dtype=object)

    # Encoding --------------------------------------------------------------------------------------------------

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Any:
        """Learn from rows and encode them, each with targets of other rows only.

        Parameters
        ----------
        X, y
            As for `fit`.

        Returns
        -------
        ndarray of shape (n, n_columns_out), float32; or CSR matrix
            As returned by `transform_training`.
        """
        if is_dask(X) and y is not None:
            raise ValueError(
                "`fit_transform` needs the numbers of the rows of a Dask collection, got targets with one. Use "
                "fit(X, y).transform(X), or give the frame to a learner, which encodes it."
            )
        self.fit(X, y, **fit_params)
        return self.transform(X) if is_dask(X) else self.transform_training(X)

    @by_blocks
    def transform(self, X: Any) -> Any:
        """Encode rows.

        Parameters
        ----------
        X : data frame of n rows
            Frame with the encoded columns in any order; other columns are ignored. A Dask collection gives a Dask
            array.

        Returns
        -------
        ndarray of shape (n, n_columns_out), float32; or CSR matrix

        Raises
        ------
        sklearn.exceptions.NotFittedError
        ValueError
            If a column is missing, a cell is infinite, or a cell is text although the training cells were numbers. The
            message names the column and the row.
        """
        return self._encoded(X, None)

    def transform_training(self, X: Any, first_row: int = 0) -> Any:
        """Encode rows that the encoder was fitted on, each with targets of other rows only.

        Parameters
        ----------
        X : data frame of n rows
            Consecutive training rows in the order of the fit.
        first_row : int, default=0
            Number of training rows before `X`.

        Returns
        -------
        ndarray of shape (n, n_columns_out), float32; or CSR matrix
            Like `transform`, except for categories with many levels: their means exclude the fold of the row. After
            `pm.load`, which restores no folds, exactly like `transform`.
        """
        return self._encoded(X, first_row)

    def _encoded(self, X: Any, first_row: int | None) -> Any:
        check_is_fitted(self)
        X = _checked(X, getattr(self, "n_features_in_", None))
        used = [column for column in self._columns if column.encoding is not None]
        seen = [column.name for column in self._columns]
        n_rows = n_rows_of(X)
        sparse_parts, first, unread = [], first_row or 0, Counter[str]()
        first_unread: dict[str, str] = {}
        out = None if self.is_sparse_ else np.empty((n_rows, self.n_columns_out_), np.float32)
        for part, rows in slices(X):
            columns = cells_of(rows)
            folds = None if first_row is None else training_folds(first_row + part.start, part.stop - part.start)
            found = [
                column.encoding.apply(found_in(columns, column.name, seen), first + part.start, folds)  # pyright: ignore
                for column in used
            ]
            unread.update({column.name: columns[column.name].n_unread for column in used})
            for column in used:
                if (cell := columns[column.name].first_unread) is not None:
                    first_unread.setdefault(column.name, cell)
            if out is None:
                sparse_parts.append(sparse.hstack([sparse.csr_matrix(one) for one in found], "csr", np.float32))
            else:
                np.concatenate(found, axis=1, out=out[part], casting="same_kind")
        for column in used:
            # The fit has already warned of unread cells of training rows.
            if unread[column.name] and first_row is None:
                what, like = "dates" if column.kind == "date" else "numbers", column.encoding.example()  # pyright: ignore
                warn_of_unread(column.name, unread[column.name], what, first_unread.get(column.name), like)
        if out is not None:
            return out
        return sparse.vstack(sparse_parts, "csr") if sparse_parts else sparse.csr_matrix((0, self.n_columns_out_))

    # The fitted columns ----------------------------------------------------------------------------------------

    def requirements(self) -> Iterator[tuple[bool, str]]:
        """Conditions that an encoder from a file must meet; see `Record.requirements`."""
        names = [column.name for column in self._columns]
        yield len(names) == self.n_features_in_ == len(set(names)), "a name of its own for each column"
        given = getattr(self, "feature_names_in_", None)
        yield given is None or given.tolist() == names, "the names of its columns"

    def missing_row(self) -> Any:
        """Return a row of missing cells: an Arrow table, or an array if the training rows had no names."""
        names = [column.name for column in self.columns_]
        if not hasattr(self, "feature_names_in_"):
            return np.full((1, len(names)), None, dtype=object)
        from phimap.tables.cells import missing_cells

        return missing_cells(names)

    @property
    def columns_(self) -> tuple[EncodedColumn, ...]:
        """How each column is encoded."""
        check_is_fitted(self)
        return self._columns

    @property
    def _encodings(self) -> list[Encoding]:
        return [column.encoding for column in self.columns_ if column.encoding is not None]

    @property
    def summary_(self) -> tuple[ColumnSummary, ...]:
        """Name, kind, number of output columns, missing cells and a note for each column."""
        return tuple(
            ColumnSummary(column.name, column.kind, len(column.names()), column.n_missing, column.note)
            for column in self.columns_
        )

    @property
    def n_columns_out_(self) -> int:
        """Number of output columns."""
        return sum(encoding.variances.size for encoding in self._encodings)

    @property
    def groups_(self) -> np.ndarray:
        """For each output column, the position of its input column."""
        return np.repeat(np.arange(len(self.columns_)), [len(column.names()) for column in self.columns_])

    @property
    def parts_(self) -> np.ndarray:
        """For each output column, the number of its part. Columns of one part share a scale and a weight."""
        parts: list[np.ndarray] = []
        for encoding in self._encodings:
            parts.append(encoding.parts() + (parts[-1].max() + 1 if parts else 0))
        return np.concatenate(parts)

    @property
    def variances_(self) -> np.ndarray:
        """Variances of the output columns on the training rows."""
        return np.concatenate([encoding.variances for encoding in self._encodings])

    @property
    def amounts_(self) -> np.ndarray:
        """Whether each output column (n_columns_out,) is an amount, which may have a heavy tail."""
        return np.concatenate([encoding.amounts() for encoding in self._encodings])

    @property
    def is_sparse_(self) -> bool:
        """Whether encoded rows are CSR."""
        return any(encoding.is_sparse for encoding in self._encodings)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the output columns, each the name of the input column and a suffix.

        Parameters
        ----------
        input_features : array-like of str, optional
            Names of the input columns, which must be the names in the fit.

        Returns
        -------
        ndarray of str, shape (n_columns_out,)
        """
        known = [column.name for column in self.columns_]
        if input_features is not None and list(input_features) != known:
            raise ValueError(
                f"`input_features` must be those seen in fit (input_features is not equal to feature_names_in_), "
                f"{known}, got {list(input_features)}. Leave it out."
            )
        return np.array([name for column in self.columns_ for name in column.names()], dtype=object)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_columns")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags


def _whole_block(X: Any, y: Any = None) -> list[tuple[Any, Any]]:
    """The rows of a block as a list of one batch; empty if there are no rows."""
    return [(X, None if y is None else np.asarray(y))] if n_rows_of(X) else []


def _passed(read: Callable[..., Iterable[Any]], begun: TablePass, *part: Any) -> TablePass:
    """Add one more part to a copy of the pass `begun`. It must be a copy, because Dask may use `begun` again."""
    table = deepcopy(begun)
    for X, y in read(*part):
        table.update(_checked(X, len(table.names) or None), y)
    return table


def _checked(X: Any, n_columns: int | None = None) -> Any:
    """Check rows, and return a frame unchanged and other input as a NumPy array."""
    check_unmasked(X)
    if sparse.issparse(X):
        raise TypeError("`X` must be a data frame or a dense array, got a sparse matrix. Use X.toarray().")
    check_frame(X)
    if is_frame(X):
        return X
    X = np.asarray(X)
    if X.ndim == 2 and not X.shape[1]:
        raise ValueError(f"Found array with 0 feature(s) (shape={X.shape}) while a minimum of 1 is required.")
    if X.ndim == 2 and n_columns not in (None, X.shape[1]):
        raise ValueError(f"X has {X.shape[1]} features, but TableEncoder is expecting {n_columns} features as input.")
    return X
