"""The report of a fit: a self-contained HTML page with embedded figures."""

from phimap.report.axes import Axis, axis_of_encoded, axis_of_numbers
from phimap.report.certainty import HeldOutIntervals, HeldOutProbabilities, certainty
from phimap.report.curves import Curve, Curves, error_curves
from phimap.report.dependence import Dependence, Dependences, dependences
from phimap.report.page import Facts, render
from phimap.report.permutation import Permutations, permutation_importances

__all__ = [
    "Axis",
    "Curve",
    "Curves",
    "Dependence",
    "Dependences",
    "Facts",
    "HeldOutIntervals",
    "HeldOutProbabilities",
    "Permutations",
    "axis_of_encoded",
    "axis_of_numbers",
    "certainty",
    "dependences",
    "error_curves",
    "permutation_importances",
    "render",
]
