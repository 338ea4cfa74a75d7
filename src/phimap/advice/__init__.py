"""Advice before a fit: which map to take, how many features, what the fit costs, and how fast this machine is.

`suggest` draws small maps and measures their errors; start with `suggestion.py`. `cost` predicts seconds and memory;
`measure_machine` measures the rates that it needs. Nothing here is needed to fit.
"""

from phimap.advice.candidate import Candidate
from phimap.advice.cost import Cost, StageCost, cost
from phimap.advice.machine import measure_machine
from phimap.advice.suggestion import Suggestion, suggest
from phimap.advice.workload import Workload

__all__ = ["Candidate", "Cost", "StageCost", "Suggestion", "Workload", "cost", "measure_machine", "suggest"]
