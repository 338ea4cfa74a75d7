"""How many trials a search makes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Effort:
    """How many trials a search makes, and how large they are.

    Attributes
    ----------
    n_components, n_rows : tuple of int
        Width of the maps and number of rows at each rung, of which there are one or three.
    survivors : int
        Candidates that go on to the second rung.
    rounds : int
        Most rounds of the metric at a rung.
    deciding_width : int or None
        Width of the maps that compare the kinds of metric at the end; None leaves the comparison out.
    combines : bool
        Whether sums and products of kernels are tried.
    steps, starts : int
        Most steps and starts of the fit of a spectral mixture.
    """

    n_components: tuple[int, ...]
    n_rows: tuple[int, ...]
    survivors: int
    rounds: int
    deciding_width: int | None
    combines: bool = False
    steps: int = 100
    starts: int = 4


EFFORTS = {
    "fast": Effort((256,), (2500,), 1, 3, None, steps=30, starts=2),
    "normal": Effort((256, 512, 1024), (2500, 5000, 8000), 2, 8, 2048),
    "thorough": Effort((512, 1024, 2048), (5000, 8000, 16_000), 4, 8, 4096, combines=True, steps=200, starts=8),
}
