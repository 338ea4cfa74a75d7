"""The options of an experiment."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from phimap._options import Option, Quiet, numbers, seeds, words


@dataclass(frozen=True)
class BenchOptions:
    """The options of ``phimap bench``. An option that is None is chosen by the experiment."""

    name: Annotated[str, Option("An experiment, or list, which shows them.", positional=True)]
    data: Annotated[Path | None, Option("Folder of the data sets. Default: PHIMAP_DATA.")] = None
    sets: Annotated[
        Sequence[str] | None, Option("Data sets, separated by commas; digits needs no folder.", read=words)
    ] = None
    projections: Annotated[
        Sequence[str] | None, Option("Projections, separated by commas. Default: all.", read=words)
    ] = None
    kernels: Annotated[Sequence[str] | None, Option("Kernels, separated by commas. Default: gaussian.", read=words)] = (
        None
    )
    methods: Annotated[Sequence[str] | None, Option("Methods, separated by commas. Default: all.", read=words)] = None
    depths: Annotated[Sequence[int] | None, Option("Depths of networks, separated by commas.", read=numbers)] = None
    widths: Annotated[
        Sequence[int] | None, Option("Numbers of features, separated by commas.", ("--features",), read=numbers)
    ] = None
    rows: Annotated[int | None, Option("Most rows of a data set.")] = None
    repeats: Annotated[int | None, Option("Draws of each map.")] = None
    splits: Annotated[
        Sequence[int] | None, Option("Splits of tables, by their seeds, separated by commas.", read=seeds)
    ] = None
    seed: Annotated[int, Option("Seed of the first draw and of the splits.")] = 0
    json: Annotated[
        Path | None, Option("File of fits to tables, a line each (JSON), that is read first: no fit in it is repeated.")
    ] = None
    output: Annotated[Path | None, Option("Folder for results (JSON) and figures (PNG).")] = None
    quiet: Quiet = False

    def seeds(self, default: int, *, least: int = 1) -> range:
        """Return one seed per draw: as many as requested, or `default`. Raise if there are fewer than `least`."""
        repeats = default if self.repeats is None else self.repeats
        if repeats < least:
            why = ": a deviation needs two draws" if least == 2 else ""
            raise ValueError(f"--repeats must be at least {least}, got {repeats}{why}.")
        return range(self.seed, self.seed + repeats)

    def chosen(self, methods: Iterable[str]) -> list[str]:
        """Return the requested methods, or all of `methods` if none was requested; raise for other names."""
        known = list(methods)
        for method in self.methods or ():
            if method not in known:
                raise ValueError(f"--methods must be among {', '.join(known)}, got {method!r}.")
        return list(self.methods or known)
