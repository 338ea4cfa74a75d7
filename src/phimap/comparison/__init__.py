"""Comparison of methods for tables on the same rows: errors, times, memory and model sizes.

`compare` fits each method to the same splits, and tests which differences are noise. `methods.py` lists the methods.
The comparison uses learners only through scikit-learn's estimator interface.
"""

from phimap.comparison.result import Comparison, ModelResult
from phimap.comparison.side_by_side import chosen_methods, compare

__all__ = ["Comparison", "ModelResult", "chosen_methods", "compare"]
