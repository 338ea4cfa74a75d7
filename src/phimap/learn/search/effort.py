"""How much a search tries."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Effort:
    """How much is tried.

    Attributes
    ----------
    n_components, n_rows : tuple of int
        Width of the maps and rows at each level, of which there are one or three.
    survivors : int
        Paths that go on to the second level.
    rounds : int
        Rounds of the metric at a level at the most.
    decides : int or None
        Width at which the best of each kind of metric are compared in the end; None compares none.
    combines : bool
        Whether sums and products of kernels are tried.
    steps, starts : int
        Steps and starts of the fit of a spectral mixture, at the most.
    """

    n_components: tuple[int, ...]
    n_rows: tuple[int, ...]
    survivors: int
    rounds: int
    decides: int | None
    combines: bool = False
    steps: int = 100
    starts: int = 4


EFFORTS = {
    "fast": Effort((256,), (2500,), 1, 3, None, steps=30, starts=2),
    "normal": Effort((256, 512, 1024), (2500, 5000, 8000), 2, 8, 2048),
    "thorough": Effort((512, 1024, 2048), (5000, 8000, 16_000), 4, 8, 4096, combines=True, steps=200, starts=8),
}
