"""What evaluating a kernel will take."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class KernelCost:
    """What evaluating a kernel will take.

    Attributes
    ----------
    n_pairs : int
        Kernel values to compute.
    seconds : float
        Wall time on the configured threads or on the device, extrapolated from a few pairs measured just now.
    bytes : int
        Size of the result.
    """

    n_pairs: int
    seconds: float
    bytes: int

    def __str__(self) -> str:
        return f"{self.n_pairs} pairs of images, about {self.seconds:.3g} s, {self.bytes / 2**30:.3g} GiB"
