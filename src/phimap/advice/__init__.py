"""Advice before a fit: which map to take, with how many features, the cost of the fit, and the speed of this machine.

`suggest` draws small maps and measures their errors; start with `suggestion.py`. `cost` predicts seconds and memory.
`measure_machine` measures the rates that `cost` needs. A fit needs none of these functions.
"""

from phimap.advice.candidate import Candidate
from phimap.advice.cost import Cost, StageCost, cost
from phimap.advice.machine import measure_machine
from phimap.advice.suggestion import Suggestion, suggest
from phimap.advice.workload import Workload

__all__ = ["Candidate", "Cost", "StageCost", "Suggestion", "Workload", "cost", "measure_machine", "suggest"]
