"""Counts and other nonnegative numbers. The model predicts the logarithm of their mean."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import numpy as np
from sklearn.metrics import d2_tweedie_score

from phimap.learn.targets.numbers import Numbers
from phimap.learn.weights import weighted_mean
from phimap.records import of_number

if TYPE_CHECKING:
    from phimap.learn.rows.summary import RowSummary

# Smallest and largest positive target. Powers of targets within these bounds, and of their means, neither overflow nor
# underflow.
_LEAST, _MOST = 2.0**-64, 2.0**64


@dataclass(frozen=True, kw_only=True)
class LogMeans(Numbers):
    """Targets of at least 0 whose mean is predicted; the outputs are logarithms of means.

    Attributes
    ----------
    power : float
        Power p of the Tweedie deviance, from 1 to 2; targets must be positive if p is 2.
    """

    power: float = field(metadata=of_number(least=1, most=2))

    scored_by_sums: ClassVar[bool] = False
    least: ClassVar[float] = 0.0

    @classmethod
    def of_first(cls, y: Any, n_rows: int, **params: Any) -> Self:
        found = super().of_first(y, n_rows, **params)
        found.check(y, n_rows)
        return found

    def learned(self, summary: RowSummary, *, loss: str, class_weight: Any) -> Self:
        assert summary.target_range is not None
        if not (summary.target_range[1] > 0).all():
            raise ValueError("`y` must hold a number above 0, got zeros alone. Their mean has no logarithm.")
        return self

    @property
    def loss_parameters(self) -> dict[str, Any]:
        return {"power": self.power}

    def check(self, y: Any, n_rows: int) -> np.ndarray:
        y = super().check(y, n_rows)
        if (found := outside(y, self.power)) is not None:
            row, rule = found
            raise ValueError(f"`y` {rule} at row {row}. Leave out such rows, or use loss='squared'.")
        return y

    def decode(self, scores: np.ndarray) -> np.ndarray:
        """Return the means (n,) or (n, t), which are positive and finite."""
        return super().decode(_means(scores))

    def interval_centre(self, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the means (n, t), and the standard deviations that the loss implies, up to a common factor."""
        means = _means(scores)
        return means, means ** (self.power / 2)

    def for_search(self, Y: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Return transformed targets, whose variance hardly depends on their mean."""
        scaled = Y / np.maximum(weighted_mean(Y, weights), _LEAST)
        return np.log(scaled) if self.power == 2 else scaled ** (1 - self.power / 2)

    def score(self, y: Any, predicted: np.ndarray, weights: Any) -> float:
        """Return the D2 of deviances, averaged over targets."""
        y = np.asarray(y, dtype=np.float64).reshape(len(predicted), self.n_targets)
        # The annotation of scikit-learn's parameter is int.
        found, power = predicted.reshape(y.shape), cast(int, self.power)
        scores = [
            d2_tweedie_score(y[:, k], found[:, k], power=power, sample_weight=weights) for k in range(self.n_targets)
        ]
        return float(np.mean(scores))


def _means(scores: np.ndarray) -> np.ndarray:
    """Exponentials of outputs, within the range of their dtype."""
    limits = np.finfo(scores.dtype)
    return np.exp(np.clip(scores, np.log(limits.tiny), np.log(limits.max)))


def outside(y: np.ndarray, power: float) -> tuple[int, str] | None:
    """Return the first row whose targets, in `y` (r,) or (r, t), lie outside of the domain of a deviance, and the rule.

    Returns
    -------
    row : int
    rule : str
        The rule and the value, in words. Instead of the pair, the result is None if all targets are in the domain.
    """
    valid = (y >= _LEAST) & (y <= _MOST)
    valid = valid | (y == 0) if power < 2 else valid
    if valid.all():
        return None
    place = tuple(int(i) for i in np.argwhere(~valid)[0])
    value = y[place]
    if value < 0 or value == 0:
        rule = "must be at least 0 for this loss" if power < 2 else "must be positive for the gamma loss"
    else:
        rule = f"must lie within {_LEAST:.3g} to {_MOST:.3g} for this loss"
    return place[0], f"{rule}, got {value:g}"
