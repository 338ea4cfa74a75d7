"""The command line: ``phimap fit``, ``phimap predict``, ``phimap info``, ``phimap compare`` and others.

Each command is a module that reads options and calls the library. Start with `commands.py`, which lists them. The
library does not import this package.
"""

from __future__ import annotations

import signal
import sys
from importlib.util import find_spec
from typing import Any

__all__ = ["main"]

# Packages of the extra `cli`.
_NEEDED = ("jinja2", "matplotlib", "pyarrow", "rich", "typer")


def main() -> None:
    """Run the command line.

    OpenBLAS reads its core type when NumPy is imported, so the core type is chosen before all imports.
    """
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        install = f"Install: pip install {' '.join(missing)}."
        sys.stderr.write(f"error: the command phimap needs {', '.join(missing)}. {install}\n")
        sys.exit(2)
    signal.signal(signal.SIGTERM, _stop)
    try:
        from phimap.cli.blas import choose_core_type

        choose_core_type()
        from phimap.cli.commands import app

        app(prog_name="phimap")
    except KeyboardInterrupt:
        sys.stderr.write("error: interrupted. No half-written file is left.\n")
        sys.exit(130)


def _stop(number: int, frame: Any) -> None:
    """Exit as after Ctrl-C, so that half-written files are removed."""
    sys.stderr.write("error: terminated. No half-written file is left.\n")
    sys.exit(128 + number)
