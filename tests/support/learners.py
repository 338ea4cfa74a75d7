"""Settings of learners for tests that are not about the search of kernel, width and metric."""

from __future__ import annotations

from typing import Any

#: A kernel of the median width as it is, whichever it may be.
FIXED: dict[str, Any] = {"length_scale": "median", "metric": None}
#: The Gaussian one.
GAUSSIAN: dict[str, Any] = {"kernel": "gaussian", **FIXED}
