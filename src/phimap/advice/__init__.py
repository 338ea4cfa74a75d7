"""Which map, how many features, what error, time and memory: measured at small widths on a sample of the data."""

from phimap.advice.candidate import Candidate
from phimap.advice.suggestion import Suggestion, suggest

__all__ = ["Candidate", "Suggestion", "suggest"]
