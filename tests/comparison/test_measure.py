"""What a measured fit tells."""

from __future__ import annotations

from mmap import mmap

import numpy as np
import pytest

from phimap.comparison.measure import PeakMemory


def test_memory_is_the_rise_of_this_fit_alone():
    memory = PeakMemory()
    if memory.before is None:
        pytest.skip("the system tells no peak memory")
    # Pages of their own: an array may get memory that the allocator keeps from earlier tests.
    with mmap(-1, 2**27) as block:
        np.frombuffer(block, np.uint8)[:] = 1
        assert memory.rise() > 120 * 2**20
    # A mark that is not set back would still show the block.
    assert PeakMemory().rise() < 60 * 2**20
