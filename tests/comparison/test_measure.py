"""What a measured fit tells."""

from __future__ import annotations

import numpy as np
import pytest

from phimap.comparison.measure import PeakMemory


def test_memory_is_the_rise_of_this_fit_alone():
    memory = PeakMemory()
    if memory.before is None:
        pytest.skip("the system tells no peak memory")
    block = np.ones(16 * 2**20)
    assert memory.rise() > 120 * 2**20
    del block
    # A mark that is not set back would still show the block.
    assert PeakMemory().rise() < 60 * 2**20
