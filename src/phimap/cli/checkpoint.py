"""The checkpoint of ``phimap fit``: when it is written, and what must be unchanged to resume a fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

from phimap._options import flag
from phimap.cli.errors import complain
from phimap.cli.first_pass import Overview, mean_and_deviation
from phimap.cli.options import FitOptions
from phimap.cli.signals import stopping
from phimap.io import Rows
from phimap.io.checkpoint import Checkpoint

_EVERY = "5min"
# Options that may differ when a fit is resumed. They do not affect the model; `data` may differ because its content is
# compared instead.
_FREE = ("data", "model", "report", "memory", "n_jobs", "json", "force", "quiet", "checkpoint", "every")


@contextmanager
def checkpoint_of(options: FitOptions) -> Iterator[Checkpoint | None]:
    """Yield the requested checkpoint, or None. Its folder is removed after the block, unless the block fails."""
    if options.checkpoint is None:
        yield None
        return

    def tell(message: str) -> None:
        if not options.quiet:
            complain(message, "note")

    every = _EVERY if options.every is None else options.every
    with Checkpoint(options.checkpoint, every, tell) as checkpoint, stopping(checkpoint.stop, options.checkpoint):
        checkpoint.agree("options", _compared(options))
        yield checkpoint


def data_facts(table: Rows, overview: Overview) -> dict[str, Any]:
    """Named facts about the data; equal tables have equal facts."""
    columns, encoder = overview.summary.columns, overview.encoder
    moments = mean_and_deviation(overview.summary.moments) if overview.summary.n_rows else None
    return {
        "the number of rows": overview.n_rows,
        "the list of columns": table.feature_names,
        "what the columns hold": [columns.low, columns.high, moments] if encoder is None else encoder.columns_,
        "what the target holds": [overview.labels, overview.target],
    }


def _compared(options: FitOptions) -> Mapping[str, Any]:
    return {flag(field.name): getattr(options, field.name) for field in fields(options) if field.name not in _FREE}
