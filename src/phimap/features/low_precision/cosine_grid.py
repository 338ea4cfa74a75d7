"""Grids whose nearest points keep the most of a cosine of a uniform phase."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar


def cosine_grid(bits: int) -> tuple[float, float]:
    r"""The reach of the best even grid of ``2^bits`` points for a cosine, and the gain that makes up for the rounding.

    Parameters
    ----------
    bits : int

    Returns
    -------
    reach : float
        The grid goes from -reach to reach, of a cosine from -1 to 1.
    gain : float
        Times the nearest points the cosine comes back: see `harmonics`.

    Notes
    -----
    With q(c) the nearest point to c, ``q(cos t) = sum_k a_k cos(k t)`` over odd k. The gain is ``1 / a_1``. The reach
    is that of least ``sum_{k > 1} (a_k / a_1)^2``, which is the mean square of q(cos t) beyond what a cosine
    explains. For the law of a cosine of a uniform phase, this is at most 0.3 %, 3 % and 9 % above that of the
    quantiser of Lloyd and Max, whose points are not even, for 2, 4 and 8 bits; the one of 1 bit is the same.

    **Cost.** Some forty evaluations of a sum over the points.
    """

    def excess(reach: float) -> float:
        first = harmonics(reach, bits, 1)[0]
        return 2 * _mean_square(reach, bits) / first**2 - 1

    found: Any = minimize_scalar(excess, bounds=(0.5, 1.0), method="bounded")
    # At one bit every reach is as good.
    reach = 0.5 if bits == 1 else float(found.x)
    return reach, float(1 / harmonics(reach, bits, 1)[0])


def harmonics(reach: float, bits: int, last: int) -> np.ndarray:
    """Amplitudes of the odd harmonics 1, 3 ... `last` of the nearest points to a cosine on an even grid."""
    step, angles = _steps(reach, bits)
    k = np.arange(1, last + 1, 2)
    # The integral over a period is that over the jumps, each of one step.
    return 2 * step / (np.pi * k) * np.sin(k[:, None] * angles).sum(axis=1)


def _mean_square(reach: float, bits: int) -> float:
    step, angles = _steps(reach, bits)
    shares = -np.diff(angles, prepend=np.pi, append=0.0) / np.pi
    return float(shares @ np.square(step * np.arange(2**bits) - reach))


def _steps(reach: float, bits: int) -> tuple[float, np.ndarray]:
    """The distance of the points, and the phases in (0, pi) at which the nearest changes, from the lowest point on."""
    step = 2 * reach / (2**bits - 1)
    return step, np.arccos(step * (np.arange(2**bits - 1) + 0.5) - reach)
