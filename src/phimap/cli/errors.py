"""Errors of commands: one line on standard error, and an exit code."""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

import typer
from typer.core import TyperGroup

from phimap._options import flag
from phimap._printable import printable
from phimap.cli.options import CompareOptions, FitOptions
from phimap.cli.signals import STOPPED, Stopped, terminable

BAD_INPUT = 2
INTERRUPTED = 130

# Exceptions for bad data, bad arguments, a full disk, too little memory and missing packages. Any other exception is a
# bug of this program, and its traceback is shown.
_EXPECTED = (ValueError, TypeError, MemoryError, OSError, ImportError)
# If this environment variable is set, expected exceptions show their tracebacks as well.
_TRACEBACK = "PHIMAP_TRACEBACK"
# Options whose names differ from the names of the library's parameters. Messages of the library write parameters as
# `alpha` or drop=...; the command line writes its options instead.
_OTHER_NAMES = {"n_components": "features", "random_state": "seed"}
_NAMES = {field.name for kind in (FitOptions, CompareOptions) for field in fields(kind)} | _OTHER_NAMES.keys()
_PARAMETER = re.compile(r"`(\w+)`|\b(size|channels|columns|drop|types|dtype)=(\.\.\.|\w+)")
# The form in which messages of the library state a byte budget.
_MEMORY = re.compile(r"`?memory='(\w+)'`?")
# The base class of all usage errors, which Typer does not export.
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
            # Some versions of Typer put the kind of the exception before its message.
            message = error.format_message().rstrip(".").replace(": Value error, ", ": ")
            if message.startswith("No such command 'report'"):
                message = "No such command 'report'. Reports are the option --report of fit, compare and explain"
            complain(f"{message if message.endswith('?') else f'{message}.'} See {path} --help.")
            code = BAD_INPUT
        except typer.Abort:
            complain("interrupted. No half-written file is left.")
            code = INTERRUPTED
        sys.exit(code if isinstance(code, int) else 0)

    # Typer loads pydantic when it reads arguments, which takes a while. Of an interrupt there it says nothing.
    def make_context(self, *args: Any, **extra: Any) -> Any:
        with _interrupts_aborted():
            return super().make_context(*args, **extra)

    def invoke(self, *args: Any, **extra: Any) -> Any:
        with _interrupts_aborted():
            return super().invoke(*args, **extra)


@contextmanager
def _interrupts_aborted() -> Iterator[None]:
    """Turn Ctrl-C into the exception that Typer passes on."""
    try:
        yield
    except KeyboardInterrupt:
        raise typer.Abort from None


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Turn expected exceptions into one line on standard error and an exit code."""
    try:
        with terminable(), _one_line_warnings():
            yield
    except BrokenPipeError:
        # The program that reads our output, such as `head`, has ended. Python would raise again when it flushes the
        # output.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(0) from None
    except KeyboardInterrupt as error:
        complain(str(error) or "interrupted. No half-written file is left.")
        raise typer.Exit(INTERRUPTED) from None
    except Stopped as error:
        complain(str(error))
        raise typer.Exit(STOPPED) from None
    except _EXPECTED as error:
        # A missing module of this package is a bug.
        own = isinstance(error, ImportError) and (error.name or "").startswith("phimap")
        if own or os.environ.get(_TRACEBACK):
            raise
        complain(_message(error))
        raise typer.Exit(BAD_INPUT) from None


@contextmanager
def _one_line_warnings() -> Iterator[None]:
    """Show each warning once, on one line and without its place in the code."""
    shown: set[str] = set()

    def show(message: Any, *place: Any, **more: Any) -> None:
        if str(message) not in shown:
            shown.add(str(message))
            complain(str(message), "warning")

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


def complain(message: str, kind: str = "error") -> None:
    """Write an error, a warning or a note as one line on standard error."""
    # A message may end with a parameter, as in columns=..., without a full stop. Its dots are removed below.
    message += "." * message.endswith("=...")
    message = _PARAMETER.sub(_as_option, message.replace("phimap.config(memory=...)", "--memory"))
    typer.echo(f"{kind}: {printable(' '.join(message.split()))}", err=True)


def _as_option(found: re.Match[str]) -> str:
    """The name of the option for a parameter that a message mentions."""
    name = found[1] or found[2]
    if name not in _NAMES:
        return found[0]
    option = flag(_OTHER_NAMES.get(name, name))
    return option if found[3] in (None, "...") else f"{option} {found[3]}"


def _message(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        if not str(error):
            return "memory ran out. Use fewer --features, or a smaller --memory budget."
        # The command chooses the solver, which is `auto` already.
        said = str(error).replace("solver='auto', ", "").replace("fewer components", "fewer --features")
        return _MEMORY.sub(r"--memory \1", said)
    if isinstance(error, ImportError) and error.name:
        return f"{error}. Install the package {error.name}."
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename}: {error.strerror}. Check the path and its permissions."
    return str(error) or type(error).__name__
