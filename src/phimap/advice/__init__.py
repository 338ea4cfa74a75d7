"""Advice beforehand: which map and how many features, by measurement; and how fast this machine is."""

from phimap.advice.candidate import Candidate
from phimap.advice.machine import measure_machine
from phimap.advice.suggestion import Suggestion, suggest

__all__ = ["Candidate", "Suggestion", "measure_machine", "suggest"]
