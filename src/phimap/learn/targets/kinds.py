"""The kinds of targets of regression, by loss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from phimap._validation import check_real
from phimap.learn.targets.base import Targets, TargetsKind
from phimap.learn.targets.means import LogMeans
from phimap.learn.targets.numbers import Numbers
from phimap.learn.targets.quantiles import Quantiles, quantile_levels

# Powers of the Tweedie deviance, by the name of the loss.
_POWERS = {"poisson": 1.0, "gamma": 2.0}


@dataclass(frozen=True)
class TargetsWithParameters:
    """A class of numeric targets, with the parameters of its loss."""

    targets: type[Numbers]
    params: dict[str, Any]

    has_labels = False

    def of_first(self, y: Any, n_rows: int) -> Targets:
        """Return the targets object for the targets `y` of the first `n_rows` rows."""
        return self.targets.of_first(y, n_rows, **self.params)


def targets_kind(loss: str, quantile: float | Sequence[float] | np.ndarray, power: float) -> TargetsKind:
    """Return the kind of targets of a loss of regression; raise if its parameter is out of range."""
    if loss == "quantile":
        return TargetsWithParameters(Quantiles, quantile_levels(quantile))
    deviance = deviance_power(loss, power)
    return Numbers if deviance is None else TargetsWithParameters(LogMeans, {"power": deviance})


def deviance_power(loss: str, power: float) -> float | None:
    """Return the power of the Tweedie deviance of a loss, which is `power` for the loss ``"tweedie"``.

    None for other losses.
    """
    if loss == "tweedie" and not 1 <= check_real("power", power) <= 2:
        raise ValueError(f"`power` must lie between 1 (Poisson) and 2 (gamma), got {power}. Use for example 1.5.")
    return float(power) if loss == "tweedie" else _POWERS.get(loss)
