"""A campaign: damaged files of one kind are met one after the other, and what comes of them is counted."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.fuzz.workers import Worker

#: Writes a file at a path.
Writer = Callable[[Path], object]


@dataclass(frozen=True)
class Campaign:
    """Files to damage, and what may come of them.

    Attributes
    ----------
    right : tuple of str
        Outcomes that are right; all others are faults.
    whole : callable
        ``whole()`` gives writers of undamaged files by file name.
    damaged : callable
        ``damaged(rng)`` gives the name of a damaged file and its writer.
    meet : callable
        ``meet(path)`` gives the outcome of a file, and what was said.
    """

    right: tuple[str, ...]
    whole: Callable[[], dict[str, Writer]]
    damaged: Callable[[np.random.Generator], tuple[str, Writer]]
    meet: Callable[[str], tuple[str, str]]

    def run(
        self, n: int, seed: int, *, first: int = 0, keep: Path | None = None, seconds: float = np.inf
    ) -> Counter[str]:
        """Meet damaged files `first` to ``first + n``, fewer where the seconds are spent; counts of outcomes."""
        counts: Counter[str] = Counter()
        end = time.monotonic() + seconds
        with tempfile.TemporaryDirectory() as folder:
            for name, write in self.whole().items():
                # What is compiled before the worker starts is compiled once.
                path = Path(folder) / name
                write(path)
                if (outcome := self.meet(str(path)))[0] != "works":
                    raise RuntimeError(f"{name} as it was written: {outcome}")
            worker = Worker(self.meet)
            for name in self.whole():
                # Servers load a model, predict, and fork: a lock of the parent's threads would never be opened.
                if (outcome := worker(str(Path(folder) / name)))[0] != "works":
                    raise RuntimeError(f"{name} in a forked process: {outcome}")
            for i in range(first, first + n):
                name, write = self.damaged(np.random.default_rng([seed, i]))
                path = Path(folder) / name
                write(path)
                outcome, words = worker(str(path))
                counts[outcome] += 1
                if outcome not in self.right:
                    sys.stderr.write(f"{outcome}: number {i}, {name}: {words}\n")
                    if keep is not None:
                        keep.mkdir(parents=True, exist_ok=True)
                        (keep / f"{seed}-{i}-{outcome.replace(' ', '-')}-{name}").write_bytes(path.read_bytes())
                if time.monotonic() > end:
                    break
            worker.stop()
        return counts

    def main(self, description: str | None) -> None:
        """Run as a program says, print the counts, and end with 1 where there was a fault."""
        parser = argparse.ArgumentParser(description=description)
        parser.add_argument("--n", type=int, default=1000)
        parser.add_argument("--seed", type=int, default=0)
        parser.add_argument("--first", type=int, default=0)
        parser.add_argument("--keep", type=Path)
        given = parser.parse_args()
        counts = self.run(given.n, given.seed, first=given.first, keep=given.keep)
        sys.stdout.write(", ".join(f"{outcome} {count:,}" for outcome, count in counts.most_common()) + "\n")
        sys.exit(any(outcome not in self.right for outcome in counts))
