"""The base of the parts of a model that store their errors at validation rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np


class ValidatedPart:
    """A part of a model, with the validation errors of the model that consists of this part and all earlier parts.

    Attributes
    ----------
    keys : ndarray of shape (r,)
        Keys of the validation rows, ascending. Model files without statistics hold neither keys nor errors.
    errors : ndarray of shape (r, t)
        Errors at the validation rows, of a model that was fitted without these rows.
    """

    keys: np.ndarray
    errors: np.ndarray

    def for_prediction(self) -> Self:
        part: Any = self
        return replace(part, keys=self.keys[:0], errors=self.errors[:0])

    def validation_errors(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return a mask (n,) of the validation rows among rows with the given keys, and the errors at these rows."""
        place = np.minimum(np.searchsorted(self.keys, keys), self.keys.size - 1)
        validates = self.keys[place] == keys
        return validates, self.errors[place[validates]]
