"""Number and size of the trials of a search, by effort."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Effort:
    """Number and size of the trials of a search.

    Attributes
    ----------
    n_components, n_rows : tuple of int
        For each rung, the width of the maps and the number of rows; there are one or three rungs.
    survivors : int
        Number of candidates that go on to the second rung.
    rounds : int
        Maximum number of rounds in which the metric is learned at a rung.
    deciding_width : int or None
        Width of the maps on which the kinds of metric are compared at the end; None skips this comparison.
    combines : bool
        Whether sums and products of kernels are tried.
    steps, starts : int
        Maximum number of steps, and number of starts, of the fit of a spectral mixture.
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
