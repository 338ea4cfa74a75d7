"""Errors and widths on the line through two measurements."""

from __future__ import annotations

import pytest

from phimap.advice.error_law import ErrorLaw


def test_widths_and_errors_agree():
    law = ErrorLaw((128, 512), (0.2, 0.1), 0.5)
    assert law.needed_width(0.5) == 128
    assert law.needed_width(0.05) == 2048
    between = law.needed_width(0.15)
    assert 128 < between < 512
    assert law.predicted_error(between) <= 0.15 < law.predicted_error(between - 1)
    assert law.predicted_error(2048) == pytest.approx(0.05)
    assert law.predicted_error(32) == pytest.approx(0.4)
    # An error of zero takes no logarithm of it.
    assert ErrorLaw((128, 512), (0.2, 0.0), 0.5).needed_width(0.01) <= 512
    # Nor does an error too small for any width overflow.
    assert law.needed_width(1e-300) > 10**15
    assert ErrorLaw((128, 512), (0.2, 0.1), 0.25).needed_width(0.05) == 512 * 16
