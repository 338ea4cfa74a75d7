"""The report of a fit: a self-contained HTML page with embedded figures."""

from phimap.report.curves import Curve, Curves, error_curves
from phimap.report.dependence import Dependence, Dependences, dependences
from phimap.report.page import Facts, render

__all__ = ["Curve", "Curves", "Dependence", "Dependences", "Facts", "dependences", "error_curves", "render"]
