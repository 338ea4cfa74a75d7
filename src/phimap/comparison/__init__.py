"""Methods for tables side by side on the same rows: errors, times, memory and sizes.

`compare` fits each method to the same splits, and says which differences are noise. `methods.py` lists the methods.
It knows learners by their estimator contract alone.
"""

from phimap.comparison.result import Comparison, ModelResult
from phimap.comparison.side_by_side import chosen_methods, compare

__all__ = ["Comparison", "ModelResult", "chosen_methods", "compare"]
