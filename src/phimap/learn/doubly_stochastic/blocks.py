"""A feature map whose directions are never stored: each block is drawn from the seed and the number of the block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from phimap.features.fourier import FourierFeatures, FourierRecord
from phimap.kernels import StationaryKernel
from phimap.ops import Array, Ops
from phimap.random_map import evaluate
from phimap.records import Record, of_number

#: Number of features of a block. The directions of a block and its features of a batch take only megabytes, and matrix
#: products run at full speed.
WIDTH = 1024


@dataclass(frozen=True)
class BlockedMap(Record):
    """Random Fourier features, divided into blocks of columns.

    Attributes
    ----------
    kernel : StationaryKernel
    n_features, n_components : int
    projection : str
    seed : SeedSequence
        Block b is a `FourierFeatures` whose seed has b appended to its spawn key.
    """

    kernel: StationaryKernel
    n_features: int = field(metadata=of_number(least=1))
    n_components: int = field(metadata=of_number(least=1))
    projection: str
    seed: np.random.SeedSequence

    @classmethod
    def of(
        cls, kernel: StationaryKernel, n_features: int, n_components: int, projection: str, seed: np.random.SeedSequence
    ) -> BlockedMap:
        """Return a map; choose the projection if it is ``"auto"``."""
        if projection == "auto":
            invariant = kernel.spectral_law(n_features).is_rotation_invariant
            projection = "orthogonal" if invariant else "gaussian"
        return cls(kernel, n_features, n_components, projection, seed)

    @property
    def columns(self) -> list[slice]:
        """The columns of each block."""
        return [slice(first, min(first + WIDTH, self.n_components)) for first in range(0, self.n_components, WIDTH)]

    def record(self, number: int) -> FourierRecord:
        """Draw one block; the features of all blocks together estimate the kernel."""
        columns = self.columns[number]
        width = columns.stop - columns.start
        seed = np.random.SeedSequence(self.seed.entropy, spawn_key=(*self.seed.spawn_key, number))
        block = FourierFeatures(self.kernel, width, projection=self.projection, random_state=seed)
        record = block.fit(np.zeros((1, self.n_features))).record_
        assert isinstance(record, FourierRecord)
        return replace(record, scale=record.scale * (width / self.n_components) ** 0.5)

    def features(self, ops: Ops, parts: Sequence[Array], n_jobs: int | None) -> Iterator[tuple[slice, list[Array]]]:
        """Yield, for each block, its columns and a list of its features of each of the `parts`.

        A part is an array of rows (r, d); all parts are of one backend.
        """
        for number, columns in enumerate(self.columns):
            record = self.record(number).bind(ops)
            found = []
            for rows in parts:
                out = ops.empty((rows.shape[0], columns.stop - columns.start))
                evaluate(record, ops, rows, out, n_jobs)
                found.append(out)
            yield columns, found
