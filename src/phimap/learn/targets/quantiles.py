"""Targets whose quantiles are predicted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.metrics import d2_pinball_score

from phimap._validation import check_real
from phimap.learn.targets.base import RobustTargets, TargetUnits
from phimap.learn.targets.numbers import FARTHEST, Numbers
from phimap.records import of_floats

if TYPE_CHECKING:
    from phimap.learn.rows.summary import RowSummary

# Least half distance between the outermost quantiles, as a share of the absolute value of their middle.
_LEAST_HALF = 1e-6


@dataclass(frozen=True, kw_only=True)
class Quantiles(Numbers):
    """Numeric targets; the model predicts one or several of their quantiles.

    The model has an output for each target and level, so encoded targets (r, t q) repeat each target q times.

    Attributes
    ----------
    levels : ndarray of shape (q,)
        Levels of the quantiles, ascending.
    single_level : bool
        Whether the level was given as one number, so that predictions have no axis of quantiles.
    """

    levels: np.ndarray = field(metadata=of_floats("q", least=0, most=1, ascending=True))
    single_level: bool

    scored_by_sums: ClassVar[bool] = False

    def requirements(self) -> Iterator[tuple[bool, str]]:
        yield from super().requirements()
        yield self.levels.size == 1 or not self.single_level, "one level of a single quantile"

    def learned(self, summary: RowSummary, *, loss: str, class_weight: Any) -> Self:
        assert summary.target_range is not None
        clip = RobustTargets.of_sample(summary.random_sample.y, summary.random_sample.weights)
        low, high = (self._repeated(clip.clipped(end, FARTHEST)[None])[0] for end in summary.target_range)
        units = TargetUnits.of_range(low, high)
        return replace(self, units=None if units.plain else units, clip=clip)

    @property
    def loss_parameters(self) -> dict[str, Any]:
        return {"levels": np.tile(self.levels, self.n_targets)}

    @property
    def n_outputs(self) -> int:
        return self.n_targets * self.levels.size

    def n_outputs_of(self, y: np.ndarray) -> int:
        return self.n_outputs

    @property
    def output_names(self) -> list[str] | None:
        if self.single_level or self.n_targets > 1:
            return None
        return [f"quantile {level:g}" for level in self.levels]

    @property
    def prediction_names(self) -> list[str]:
        names = super().prediction_names
        return names if self.single_level else [f"{name}_{level:g}" for name in names for level in self.levels]

    def decode(self, scores: np.ndarray) -> np.ndarray:
        """Return predicted quantiles (n,), (n, q), (n, t) or (n, t, q).

        The quantiles of a row and target are in ascending order.
        """
        found = np.sort(scores.reshape(len(scores), self.n_targets, self.levels.size), axis=2)
        found = found[:, :, 0] if self.single_level else found
        return found[:, 0] if self.single_column else found

    def per_target(self, encoded: np.ndarray) -> np.ndarray:
        return encoded[:, :: self.levels.size]

    def interval_centre(self, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the middle (n, t) of the outermost quantiles, and half of their distance.

        For a single quantile, return this quantile and None.
        """
        found = np.sort(scores.reshape(len(scores), self.n_targets, self.levels.size), axis=2)
        middle, half = (found[:, :, 0] + found[:, :, -1]) / 2, (found[:, :, -1] - found[:, :, 0]) / 2
        if self.levels.size == 1:
            return middle, None
        # The distance is 0 if the outermost quantiles are equal. It must be positive, because errors are divided by it.
        return middle, np.maximum(half, _LEAST_HALF * np.abs(middle) + np.finfo(scores.dtype).tiny)

    def for_search(self, Y: np.ndarray, weights: np.ndarray) -> np.ndarray:
        return super().for_search(self.per_target(Y), weights)

    def score(self, y: Any, predicted: np.ndarray, weights: Any) -> float:
        """Return the D2 of pinball losses, averaged over targets and levels."""
        y = np.asarray(y, dtype=np.float64).reshape(len(predicted), self.n_targets)
        found = predicted.reshape(len(y), self.n_targets, self.levels.size)
        scores = [
            d2_pinball_score(y, found[:, :, k], alpha=float(level), sample_weight=weights)
            for k, level in enumerate(self.levels)
        ]
        return float(np.mean(scores))

    def _repeated(self, y: np.ndarray) -> np.ndarray:
        return np.repeat(y, self.levels.size, axis=1)


def quantile_levels(quantile: float | Sequence[float] | np.ndarray) -> dict[str, Any]:
    """Return the parameters of `Quantiles` for one level or several, after checks."""
    single = np.ndim(quantile) == 0
    levels = np.array([check_real("quantile", q, above=0.0) for q in np.atleast_1d(np.asarray(quantile)).tolist()])
    if not levels.size or levels.max() >= 1 or (np.diff(levels) <= 0).any():
        raise ValueError(
            f"`quantile` must hold numbers between 0 and 1 that ascend, got {quantile!r}. Use for example "
            "(0.05, 0.5, 0.95)."
        )
    return {"levels": levels, "single_level": single}
