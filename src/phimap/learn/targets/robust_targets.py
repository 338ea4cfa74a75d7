"""Where targets lie, whatever a few of them may be."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from phimap.records import Record, of_floats

# Median absolute deviation of a normal law with deviation 1.
_MEDIAN_DEVIATION = 0.6745


@dataclass(frozen=True)
class RobustTargets(Record):
    """Median and robust standard deviation of targets.

    Attributes
    ----------
    centre, spread : ndarray of shape (t,)
        The spread is the median absolute deviation over 0.6745, that of the rows beside the median where half of all
        rows lie on it, and 1 where all do.
    """

    centre: np.ndarray = field(metadata=of_floats("t"))
    spread: np.ndarray = field(metadata=of_floats("t"))

    @classmethod
    def of_sample(cls, y: np.ndarray, weights: np.ndarray | None = None) -> RobustTargets:
        """For random rows, targets (r,) or (r, t), with weights (r,)."""
        Y = y.reshape(len(y), -1)
        counted = np.ones(len(Y)) if weights is None else weights
        centre = np.array([_median(column, counted) for column in Y.T])
        spread = np.array([_spread(column, counted) for column in np.abs(Y - centre).T])
        return cls(centre, spread)

    def clipped(self, y: np.ndarray, most: float) -> np.ndarray:
        """Targets (t,) or (r, t), those farther than `most` spreads from the centre moved to there."""
        return np.clip(y, self.centre - most * self.spread, self.centre + most * self.spread)


def _spread(deviations: np.ndarray, weights: np.ndarray) -> float:
    """Robust standard deviation of targets (r,), from their distances to the median."""
    found = _median(deviations, weights)
    others = deviations > 0
    if found == 0 and others.any():
        found = _median(deviations[others], weights[others])
    return found / _MEDIAN_DEVIATION or 1.0


def _median(values: np.ndarray, weights: np.ndarray) -> float:
    """Weighted median: the least value that half of the weight does not exceed."""
    order = np.argsort(values, kind="stable")
    sums = np.cumsum(weights[order])
    return float(values[order[np.searchsorted(sums, 0.5 * sums[-1])]])
