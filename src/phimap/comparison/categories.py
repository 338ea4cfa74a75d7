"""LightGBM and CatBoost on the original columns of a data frame, with their own treatment of categories."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils.metaestimators import available_if

from phimap.tables import TableEncoder
from phimap.tables.dates import DateEncoding
from phimap.tables.frames import cells_of
from phimap.tables.numbers import NumberEncoding
from phimap.tables.tallies import likely_form

if TYPE_CHECKING:
    from phimap.tables.cells import Cells

# The category that CatBoost gets for a missing text.
_MISSING = ""


class _Readings:
    """How the columns of a frame are read: numbers and times as numbers, other text as categories.

    Texts of amounts, numbers with a unit, and dates are read in the same way as by `TableEncoder`.
    """

    def __init__(self, X: Any) -> None:
        self._encodings: dict[str, Any] = {}
        if any(cells.is_text for cells in cells_of(X).values()):
            self._encodings = {column.name: column.encoding for column in TableEncoder().fit(X).columns_}

    def are_categories(self, cells: Cells) -> bool:
        """Whether the cells of a column are categories."""
        return cells.is_text and not isinstance(self._encodings.get(cells.name), NumberEncoding | DateEncoding)

    def numbers(self, cells: Cells) -> np.ndarray:
        """Return cells that are not categories as numbers (n,), with NaN for missing cells."""
        encoding = self._encodings.get(cells.name)
        if cells.is_text and isinstance(encoding, NumberEncoding):
            return cells.numbers(encoding.decimal)
        if cells.is_text and isinstance(encoding, DateEncoding):
            return cells.seconds(encoding.form or likely_form(cells), encoding.zone)
        return cells.numbers()


class NativeCategories(BaseEstimator):
    """A LightGBM model whose input has text as categories, times as seconds and missing cells as NaN.

    Texts that are numbers or dates are read as numbers, see `_Readings`.

    Parameters
    ----------
    model : LGBMRegressor or LGBMClassifier
        Unfitted model, which is cloned.
    """

    def __init__(self, model: Any):
        self.model = model

    def fit(self, X: Any, y: np.ndarray) -> Self:
        columns, self.readings_ = cells_of(X), _Readings(X)
        texts = {name: cells for name, cells in columns.items() if self.readings_.are_categories(cells)}
        self.levels_ = {
            name: tuple(cells.texts[code] for code in np.unique(cells.codes) if code >= 0)
            for name, cells in texts.items()
        }
        places = [place for place, name in enumerate(columns) if name in texts]
        model: Any = clone(self.model)
        self.model_ = model.fit(self._numbers(columns), y, categorical_feature=places)
        return self

    def predict(self, X: Any) -> np.ndarray:
        return np.asarray(self.model_.predict(self._numbers(cells_of(X))))

    @property
    def classes_(self) -> np.ndarray:
        return self.model_.classes_

    @available_if(lambda self: hasattr(self.model, "predict_proba"))
    def predict_proba(self, X: Any) -> np.ndarray:
        return np.asarray(self.model_.predict_proba(self._numbers(cells_of(X))))

    def _numbers(self, columns: Mapping[str, Any]) -> np.ndarray:
        """Return the cells as numbers (n, d): text as level indices, missing cells and levels unseen in fit as NaN."""
        return np.column_stack(
            [
                self._codes(cells) if name in self.levels_ else self.readings_.numbers(cells)
                for name, cells in columns.items()
            ]
        )

    def _codes(self, cells: Any) -> np.ndarray:
        levels = self.levels_[cells.name]
        places = cells.places_in(levels)
        return np.where(places < len(levels), places, np.nan)


class CatBoost(BaseEstimator):
    """CatBoost with default settings; text is a category, times are seconds and missing numbers NaN.

    Parameters
    ----------
    task : {"regression", "classification"}
    seed : int
    n_jobs : int, optional
        Threads; all if it is None.
    """

    def __init__(self, task: str, seed: int, n_jobs: int | None = None):
        self.task = task
        self.seed = seed
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: np.ndarray) -> Self:
        import catboost

        kind: Any = catboost.CatBoostRegressor if self.task == "regression" else catboost.CatBoostClassifier
        # The last option prevents a fit from writing files into the working directory.
        model = kind(random_seed=self.seed, thread_count=self.n_jobs or -1, verbose=False, allow_writing_files=False)
        self.readings_ = None if isinstance(X, np.ndarray) else _Readings(X)
        texts = None
        if self.readings_ is not None:
            texts = [n for n, cells in enumerate(cells_of(X).values()) if self.readings_.are_categories(cells)]
        self.model_: Any = model.fit(self._table(X), y, cat_features=texts)
        return self

    @property
    def classes_(self) -> np.ndarray:
        return self.model_.classes_

    def predict(self, X: Any) -> np.ndarray:
        return np.ravel(self.model_.predict(self._table(X)))

    @available_if(lambda self: self.task == "classification")
    def predict_proba(self, X: Any) -> np.ndarray:
        return self.model_.predict_proba(self._table(X))

    def _table(self, X: Any) -> np.ndarray:
        """Return an array unchanged, and the cells of a frame as an array of objects (n, d): texts and numbers."""
        if self.readings_ is None:
            return X
        columns = list(cells_of(X).values())
        table = np.empty((len(X), len(columns)), dtype=object)
        for place, cells in enumerate(columns):
            if self.readings_.are_categories(cells):
                texts = np.array([*cells.texts, _MISSING], dtype=object)
                # The code of a missing cell is -1, which selects the last entry.
                table[:, place] = texts[cells.codes]
            else:
                table[:, place] = self.readings_.numbers(cells)
        return table
