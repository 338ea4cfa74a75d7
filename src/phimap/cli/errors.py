"""What a command says when it cannot do its work: one line, and an exit code."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperGroup

from phimap.cli.signals import STOPPED, Stopped, terminable

BAD_INPUT = 2
INTERRUPTED = 130

# What bad data, bad arguments, a full disk, a small memory and a missing extra raise. Everything else is a fault of
# the program's, and shows its traceback.
_EXPECTED = (ValueError, TypeError, MemoryError, OSError, ImportError)
# Set to see the traceback of these as well.
_TRACEBACK = "PHIMAP_TRACEBACK"
# The library names parameters in its messages; here they are options.
_OPTIONS = {
    "`n_components`": "--features",
    "`length_scale`": "--length-scale",
    "`n_jobs`": "--n-jobs",
    "`filter_size`": "--filter-size",
    "size=...": "--size",
    "channels=": "--channels ",
    "columns=...": "--columns",
    "drop=...": "--drop",
    "types=...": "--types",
    "dtype=float64": "--dtype float64",
    "phimap.config(memory=...)": "--memory",
} | {
    f"`{name}`": f"--{name}"
    for name in (
        "alpha",
        "channels",
        "checkpoint",
        "columns",
        "corrections",
        "depth",
        "device",
        "drop",
        "effort",
        "kernel",
        "memory",
        "metric",
        "models",
        "size",
        "splits",
        "standardize",
        "target",
        "types",
    )
}
# Typer does not export the class of all errors in the use of a command.
_UsageError: Any = typer.BadParameter.__base__


class OneLineGroup(TyperGroup):
    """A group of commands that reports misuse on one line, like every other error."""

    def main(self, *args: Any, standalone_mode: bool = True, **extra: Any) -> Any:
        if not standalone_mode:
            return super().main(*args, standalone_mode=False, **extra)
        try:
            code = super().main(*args, standalone_mode=False, **extra)
        except _UsageError as error:
            path = error.ctx.command_path if error.ctx else "phimap"
            complain(f"{error.format_message().rstrip('.')}. See {path} --help.")
            code = BAD_INPUT
        except typer.Abort:
            complain("interrupted. No half-written file is left.")
            code = INTERRUPTED
        sys.exit(code if isinstance(code, int) else 0)


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Turn what bad input raises into one line on standard error and an exit code."""
    try:
        with terminable(), _one_line_warnings():
            yield
    except BrokenPipeError:
        # The reader of our output has left, as `head` does; Python would complain once more when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(0) from None
    except KeyboardInterrupt as error:
        complain(str(error) or "interrupted. No half-written file is left.")
        raise typer.Exit(INTERRUPTED) from None
    except Stopped as error:
        complain(str(error))
        raise typer.Exit(STOPPED) from None
    except _EXPECTED as error:
        # A module of this package that is missing is a fault of the program's.
        own = isinstance(error, ImportError) and (error.name or "").startswith("phimap")
        if own or os.environ.get(_TRACEBACK):
            raise
        complain(_message(error))
        raise typer.Exit(BAD_INPUT) from None


@contextmanager
def _one_line_warnings() -> Iterator[None]:
    """Show warnings like errors, each once and without the place in the code that issued it."""
    shown: set[str] = set()

    def show(message: Any, *place: Any, **more: Any) -> None:
        if str(message) not in shown:
            shown.add(str(message))
            complain(str(message), "warning")

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


def complain(message: str, kind: str = "error") -> None:
    """Write an error, or what else one should know, as one line."""
    for name, option in _OPTIONS.items():
        message = message.replace(name, option)
    typer.echo(f"{kind}: {' '.join(message.split())}", err=True)


def _message(error: BaseException) -> str:
    if isinstance(error, MemoryError) and not str(error):
        return "memory ran out. Use fewer --features, or a smaller --memory budget."
    if isinstance(error, ImportError) and error.name:
        return f"{error}. Install the package {error.name}."
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename}: {error.strerror}. Check the path and its permissions."
    return str(error) or type(error).__name__
