"""Methods for tables side by side on the same rows: errors, times, memory and sizes, and what of it is noise."""

from phimap.comparison.result import Comparison, ModelResult
from phimap.comparison.side_by_side import chosen_methods, compare

__all__ = ["Comparison", "ModelResult", "chosen_methods", "compare"]
