"""How the error of a map depends on its width, from measurements at two widths."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, exp, log

import numpy as np

# Largest logarithm of a predicted growth in width. This limit prevents overflow. e^40 components would not fit into
# memory anyway.
_MOST_GROWTH = 40.0


@dataclass(frozen=True)
class ErrorLaw:
    """Error as a function of width m: interpolated in logarithms between two `widths`, m^-exponent outside."""

    widths: tuple[int, int]
    errors: tuple[float, float]
    exponent: float

    def needed_width(self, error: float) -> int:
        """Least width whose predicted error is at most `error`, but not less than the smaller of `widths`."""
        narrow, wide = self.widths
        if self.errors[0] <= error:
            return narrow
        if self.errors[1] <= error:
            inverse_rate = log(wide / narrow) / log(_ratio(*self.errors))
            return min(ceil(narrow * (self.errors[0] / error) ** inverse_rate), wide)
        return ceil(wide * exp(min(log(self.errors[1] / error) / self.exponent, _MOST_GROWTH)))

    def predicted_error(self, n_components: int) -> float:
        """Predicted error of a map with `n_components`."""
        narrow, wide = self.widths
        if n_components >= wide:
            return self.errors[1] * (wide / n_components) ** self.exponent
        if n_components <= narrow:
            return self.errors[0] * (narrow / n_components) ** self.exponent
        share = log(n_components / narrow) / log(wide / narrow)
        return self.errors[0] * _ratio(*self.errors) ** -share


def measured_rate(widths: tuple[int, int], errors: tuple[float, float]) -> float:
    """Exponent b of an error 1/m^b between two widths; 1/2, as for independent features, for equal widths."""
    return log(_ratio(*errors)) / log(widths[1] / widths[0]) if widths[1] > widths[0] else 0.5


def _ratio(larger: float, smaller: float) -> float:
    """Quotient of two errors. Each is raised to at least one rounding error, which avoids 0 / 0."""
    floor = float(np.finfo(np.float64).eps)
    return max(larger, floor) / max(smaller, floor)
