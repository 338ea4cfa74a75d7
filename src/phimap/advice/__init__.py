"""Advice before a fit: which map to take, how many features, and how fast this machine is.

`suggest` draws small maps and measures their errors; start with `suggestion.py`. `measure_machine` measures the
constants that `theory.cost` needs. Nothing here is needed to fit.
"""

from phimap.advice.candidate import Candidate
from phimap.advice.machine import measure_machine
from phimap.advice.suggestion import Suggestion, suggest

__all__ = ["Candidate", "Suggestion", "measure_machine", "suggest"]
