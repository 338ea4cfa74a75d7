"""Runs that pages of the documentation show: made once, kept in a JSON file, made again on request."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

from phimap._files import write_whole
from phimap.comparison.measure import machine


def recorded(path: Path) -> list[dict[str, Any]]:
    """The runs of a file, in the order of the commands; none if there is no file."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else []


def record(
    path: Path, commands: Sequence[str], run: Callable[[str], dict[str, Any]], again: Callable[[str], bool]
) -> None:
    """Run the commands that the file has no result of, and those to run `again`; drop those no longer asked for.

    The file is written after each run, so that a run that is stopped loses one command. Beside what `run` found it
    holds when, where, with which version and for how long the command ran.
    """
    kept = {one["command"]: one for one in recorded(path)}
    for command in commands:
        if command not in kept or again(command):
            print(command, flush=True)
            start = time.perf_counter()
            found = run(command)
            kept[command] = {
                "command": command,
                "date": date.today().isoformat(),
                "version": version("phimap"),
                "machine": machine(),
                "seconds": round(time.perf_counter() - start),
                **found,
            }
        runs = [kept[one] for one in commands if one in kept]
        write_whole(path, lambda file, runs=runs: file.write(json.dumps(runs, indent=1).encode()))


def heading(run: dict[str, Any]) -> str:
    """When, with which version, where and how long: the line above what a run found."""
    return f"{run['date']}, version {run['version']}, {run['machine']}, {run['seconds']:,} s."
