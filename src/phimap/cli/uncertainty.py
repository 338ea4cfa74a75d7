"""Probabilities, standard deviations and intervals, as further columns of a table of predictions."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from phimap._number_text import label_text
from phimap.cli.describe import loss_of
from phimap.cli.output import Fact
from phimap.learn.conformal import CoverageWarning
from phimap.learn.extrapolation import OutsideWarning


class Uncertainty:
    """Makes the columns for ``--probabilities``, ``--std`` and ``--interval``.

    Parameters
    ----------
    model : KernelRegressor or KernelClassifier
    file : str
        Name of the model file, for messages.
    probabilities, std : bool
    interval : float or None
        Share of new targets that are to lie between the columns ``lower`` and ``upper``.

    Raises
    ------
    ValueError
        If the model does not support an option.

    Attributes
    ----------
    note : str or None
        Text for the user if all bounds are infinite.
    """

    def __init__(self, model: Any, file: str, probabilities: bool, std: bool, interval: float | None):
        self._model = model
        self._probabilities, self._std, self._interval = probabilities, std, interval
        self.note: str | None = None
        self._n_inside = self._n_known = 0
        asked = "--std" if std else "--interval"
        if interval is not None and not 0 < interval < 1:
            raise ValueError(f"--interval must lie between 0 and 1, got {interval:g}. Use for example 0.9.")
        if probabilities and not is_classifier(model):
            raise ValueError(f"{file}: --probabilities needs classes, the model predicts numbers. Use --interval 0.9.")
        if probabilities and loss_of(model) != "logistic" and model.calibration_ is None:
            raise ValueError(f"{file}: --probabilities needs calibrated scores, which the model lacks. Fit it again.")
        if not std and interval is None:
            return
        if is_classifier(model):
            raise ValueError(f"{file}: {asked} needs numbers, the model predicts classes. Use --probabilities.")
        if std and not hasattr(model, "solver_"):
            raise ValueError(
                f"{file}: --std needs the sums over the training rows, which the model lacks. "
                "Fit it again with --statistics."
            )
        if interval is not None and getattr(model, "conformal_", None) is None:
            raise ValueError(
                f"{file}: --interval needs errors of rows that took part in no choice, which the model lacks. "
                "Fit it again."
            )
        if interval is not None and not model.conformal_.reaches(interval):
            self.note = (
                f"--interval {interval:g} needs more conformal rows than {file} has, so all bounds are infinite. The "
                f"largest coverage that it gives is {model.conformal_.most_coverage:g}."
            )

    def count_inside(self, columns: dict[str, np.ndarray], known: np.ndarray, y: np.ndarray) -> None:
        """Count the rows of the mask `known` (r,) whose targets `y` lie inside their intervals."""
        if self._interval is not None:
            self._n_inside += int(((columns["lower"][known] <= y) & (y <= columns["upper"][known])).sum())
            self._n_known += len(y)

    def facts(self) -> list[Fact]:
        """The share of the counted rows whose targets lie inside their intervals."""
        return [Fact("inside_intervals", self._n_inside / self._n_known, ".4f")] if self._n_known else []

    def columns(self, X: np.ndarray) -> dict[str, np.ndarray]:
        """Return the columns (r,) for the rows `X` (r, d), by name."""
        found: dict[str, np.ndarray] = {}
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="X does not have valid feature names", category=UserWarning)
            # Predictions for the same rows have already caused this warning.
            warnings.simplefilter("ignore", OutsideWarning)
            # `note` replaces the warnings of all batches.
            warnings.simplefilter("ignore", CoverageWarning)
            if self._probabilities:
                shares = self._model.predict_proba(X)
                found |= {
                    f"probability_{label_text(label)}": shares[:, k] for k, label in enumerate(self._model.classes_)
                }
            if self._std:
                found["std"] = self._model.predict(X, return_std=True)[1].reshape(X.shape[0])
            if self._interval is not None:
                bounds = self._model.predict_interval(X, self._interval)
                found |= {"lower": bounds[:, 0], "upper": bounds[:, 1]}
        return found
