"""The estimated cost of evaluating a kernel."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class KernelCost:
    """The estimated cost of evaluating a kernel.

    Attributes
    ----------
    n_pairs : int
        Number of kernel values to compute.
    seconds : float
        Wall time on the configured threads or on the device, extrapolated from the measured time of a few pairs.
    bytes : int
        Size of the result in bytes.
    """

    n_pairs: int
    seconds: float
    bytes: int

    def __str__(self) -> str:
        return f"{self.n_pairs} pairs of images, about {self.seconds:.3g} s, {self.bytes / 2**30:.3g} GiB"
