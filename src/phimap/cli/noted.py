"""The checkpoint of ``phimap fit``: when it is written, and what has to be the same where a fit goes on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

from phimap.cli.errors import complain
from phimap.cli.first_pass import ColumnFacts, Overview
from phimap.cli.options import FitOptions
from phimap.cli.signals import stopping
from phimap.io.checkpoint import Checkpoint

_EVERY = "5min"
# Options that no bit of the model depends on, and those that are compared by themselves: the data by what they hold.
_FREE = ("data", "model", "report", "memory", "n_jobs", "json", "force", "quiet", "checkpoint", "every")


@contextmanager
def checkpoint_of(options: FitOptions) -> Iterator[Checkpoint | None]:
    """The checkpoint that is asked for; its folder is removed once the block has ended well."""
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


def data_facts(overview: Overview) -> dict[str, Any]:
    """Names and values of what tells a table from others."""
    encoder = overview.encoder
    return {
        "the number of rows": overview.n_rows,
        "the list of columns": overview.features.names if encoder is None else [c.name for c in encoder.columns_],
        "what the columns hold": [_values(overview.features), None if encoder is None else encoder.columns_],
        "what the target holds": [overview.labels, None if overview.target is None else _values(overview.target)],
    }


def _values(columns: ColumnFacts) -> tuple[Any, ...]:
    return columns.low, columns.high, columns.mean, columns.standard_deviation


def _compared(options: FitOptions) -> Mapping[str, Any]:
    return {
        f"--{field.name.replace('_', '-')}": getattr(options, field.name)
        for field in fields(options)
        if field.name not in _FREE
    }
