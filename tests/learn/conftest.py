"""What tests of learners share."""

from __future__ import annotations

import pytest


@pytest.fixture
def streamed(monkeypatch):
    """Send problems of a few hundred rows down the road of large ones: statistics and held-out rows."""
    for module in ("solver", "conjugate_gradients"):
        monkeypatch.setattr(f"phimap.learn.ridge.{module}.LEAVE_ONE_OUT_ROWS", 0)
