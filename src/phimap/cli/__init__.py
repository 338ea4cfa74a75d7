"""The command line: ``phimap fit``, ``phimap predict``, ``phimap info`` and ``phimap bench``."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line.

    The core type of BLAS is settled first: it is read when NumPy is imported, so nothing heavy comes before.
    """
    try:
        from phimap.cli.blas import choose_core_type

        choose_core_type()
        from phimap.cli.commands import app

        app()
    except KeyboardInterrupt:
        sys.stderr.write("error: interrupted. No half-written file is left.\n")
        sys.exit(130)
