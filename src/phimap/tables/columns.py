"""The encoded columns of a fitted encoder."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from phimap.tables.encoding import EncodedColumn, Encoding


class ColumnSummary(NamedTuple):
    """A readable summary of how a column is encoded."""

    name: str
    kind: str
    n_columns: int
    n_missing: int
    note: str


class EncodedColumns:
    """Base class with the fitted attributes of an encoder, which describe its columns and its output columns."""

    _columns: tuple[EncodedColumn, ...]
    n_features_in_: int

    def requirements(self) -> Iterator[tuple[bool, str]]:
        """Conditions that an encoder from a file must meet; see `Record.requirements`."""
        names = [column.name for column in self._columns]
        yield len(names) == self.n_features_in_ == len(set(names)), "a name of its own for each column"
        given = getattr(self, "feature_names_in_", None)
        yield given is None or given.tolist() == names, "the names of its columns"

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
        return self.groups_.size

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
            Names of the input columns, which must be those of the fit.

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
