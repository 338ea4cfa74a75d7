"""Angles in [0, pi / 2] computed from sqrt(1 - cos) and sqrt(1 + cos), in vectors.

The quotient of the angle and sqrt(1 - cos) is a smooth function of sqrt(1 + cos). Multiplying it by sqrt(1 - cos)
gives small angles to full relative accuracy.
"""

from __future__ import annotations

from phimap.ops.compiled.jit import inlined
from phimap.ops.compiled.vectors import multiply, multiply_add, spread, subtract

# The polynomial in sqrt(1 + cos) - _MIDDLE that interpolates the quotient at Chebyshev nodes of [1, sqrt(2)], computed
# with 40 digits. Each further degree reduces its error 25-fold.
_MIDDLE = 1.2071067811865475
_SERIES = (
    1.4875646807009635,
    -0.37641027625818246,
    0.11462888598456535,
    -0.037437702568599136,
    0.012685517377184574,
    -0.004397123914213292,
    0.001547821086834448,
    -0.0005509482611635865,
    0.00019774878822306506,
    -7.145475340510729e-05,
    2.6411161699095443e-05,
    -9.637335307205847e-06,
)


@inlined
def _line(u, k):
    return multiply_add(u, spread(u, _SERIES[k + 1]), spread(u, _SERIES[k]))


@inlined
def acute_angle(short, long):
    """Return the angles with ``short = sqrt(1 - cos)``, at most 1, and ``long = sqrt(1 + cos)``."""
    u = subtract(long, spread(long, _MIDDLE))
    # The series is split into three cubics of two linear terms each. They are independent, so the processor can overlap
    # their computation.
    square = multiply(u, u)
    fourth = multiply(square, square)
    low = multiply_add(_line(u, 2), square, _line(u, 0))
    middle = multiply_add(_line(u, 6), square, _line(u, 4))
    high = multiply_add(_line(u, 10), square, _line(u, 8))
    return multiply(short, multiply_add(multiply_add(high, fourth, middle), fourth, low))
