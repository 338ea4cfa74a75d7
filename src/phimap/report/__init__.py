"""The report of a fit: one HTML page with its figures inside, readable without a network."""

from phimap.report.curves import Curve, Curves, error_curves
from phimap.report.dependence import Dependence, Dependences, dependences
from phimap.report.page import Facts, render

__all__ = ["Curve", "Curves", "Dependence", "Dependences", "Facts", "dependences", "error_curves", "render"]
