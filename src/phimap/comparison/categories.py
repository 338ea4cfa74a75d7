"""LightGBM and CatBoost on the original columns of a data frame, with their own treatment of categories."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils.metaestimators import available_if

from phimap.tables.frames import cells_of

# The category that CatBoost gets for a missing text.
_MISSING = ""


class NativeCategories(BaseEstimator):
    """A LightGBM model whose input has text as categories, times as seconds and missing cells as NaN.

    Parameters
    ----------
    model : LGBMRegressor or LGBMClassifier
        Unfitted model, which is cloned.
    """

    def __init__(self, model: Any):
        self.model = model

    def fit(self, X: Any, y: np.ndarray) -> Self:
        columns = cells_of(X)
        texts = {name: cells for name, cells in columns.items() if cells.is_text}
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
        return np.column_stack([self._codes(cells) if cells.is_text else cells.numbers() for cells in columns.values()])

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
        texts = None if isinstance(X, np.ndarray) else [n for n, c in enumerate(cells_of(X).values()) if c.is_text]
        self.model_: Any = model.fit(_table(X), y, cat_features=texts)
        return self

    @property
    def classes_(self) -> np.ndarray:
        return self.model_.classes_

    def predict(self, X: Any) -> np.ndarray:
        return np.ravel(self.model_.predict(_table(X)))

    @available_if(lambda self: self.task == "classification")
    def predict_proba(self, X: Any) -> np.ndarray:
        return self.model_.predict_proba(_table(X))


def _table(X: Any) -> Any:
    """Return an array unchanged, and the cells of a frame as an array of objects (n, d): texts and numbers."""
    if isinstance(X, np.ndarray):
        return X
    columns = list(cells_of(X).values())
    table = np.empty((len(X), len(columns)), dtype=object)
    for place, cells in enumerate(columns):
        if cells.is_text:
            texts = np.array([*cells.texts, _MISSING], dtype=object)
            # The code of a missing cell is -1, which selects the last entry.
            table[:, place] = texts[cells.codes]
        else:
            table[:, place] = cells.numbers()
    return table
