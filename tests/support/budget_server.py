"""Loads, in the process whose forks are measured, what every fit loads. See `budget_cases.peak`."""

from __future__ import annotations

import phimap as pm
from tests.support.budget_cases import SMALL, regressor

# On one thread, because a fork has only the thread that forks.
with pm.config(n_jobs=1):
    regressor(**SMALL)()
