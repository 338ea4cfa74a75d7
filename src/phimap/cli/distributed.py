"""``phimap fit --scheduler``: the training rows of a file are read by the workers of a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from phimap._dask import on_cluster
from phimap.cli.options import FitOptions
from phimap.cli.rows import SplitRows
from phimap.cli.standard_input import MARK

# Number of parts of a file. A worker reads the file from the beginning to the end of its part, so with more parts the
# file is read more often. Each part is a whole number of batches. Sums do not depend on the number of workers.
_PARTS = 8


def check_scheduler(options: FitOptions) -> None:
    """Refuse standard input, which workers cannot read, and checkpoints, which store only passes of this process."""
    if options.scheduler is not None and options.checkpoint is not None:
        raise ValueError(
            "--checkpoint works without --scheduler, got both. Leave one out: workers that die are replaced."
        )
    if options.scheduler is not None and options.data == MARK:
        raise ValueError("--scheduler needs a file that the workers can read, got standard input. Store it first.")


def fit_on_workers(
    model: Any, split: SplitRows, n_rows: int, address: str, feature_names: Sequence[str] | None
) -> None:
    """Fit a learner on the `n_rows` training rows of `split`, in parts that workers read."""
    n_batches = -(-n_rows // split.batch_rows)
    each = -(-n_batches // _PARTS)
    parts = [(start, min(start + each, n_batches)) for start in range(0, n_batches, each)]
    first_rows = [start * split.batch_rows for start, _ in parts]
    with on_cluster(address):
        model.fit_parts(parts, first_rows, split.between, split.encoder, feature_names=feature_names)
