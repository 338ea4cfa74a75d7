"""LightGBM on the original columns of a data frame, with its own treatment of categories."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, clone

from phimap.tables.frames import cells_of


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

    def _numbers(self, columns: Mapping[str, Any]) -> np.ndarray:
        """Return the cells as numbers (n, d): text as level indices, missing cells and levels unseen in fit as NaN."""
        return np.column_stack([self._codes(cells) if cells.is_text else cells.numbers() for cells in columns.values()])

    def _codes(self, cells: Any) -> np.ndarray:
        levels = self.levels_[cells.name]
        places = cells.places_in(levels)
        return np.where(places < len(levels), places, np.nan)
