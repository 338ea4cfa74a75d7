"""The memory that this process may still take: of the machine, of its control groups, and of its own limits."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

# Where the system tells nothing.
_GUESS = 4 * 2**30
# Limits of the process that count its address space or its data, by the name of the resource, and the line of
# `/proc/self/status` that says how much of each it has taken.
_LIMITS = (("RLIMIT_AS", "VmSize:"), ("RLIMIT_DATA", "VmData:"))
# Version 1 of control groups says by a huge number that there is no limit.
_NO_LIMIT = 2**60
# Files of a control group by version: its limit, what it has taken, and the line of its statistics that says how much
# of that is a cache of files, which the system gives back.
_FILES = {
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    2: ("memory.max", "memory.current", "inactive_file"),
}


def free_memory(proc: Path = Path("/proc"), groups: Path = Path("/sys/fs/cgroup")) -> int:
    """Bytes that can be taken without swapping and without passing a limit; a modest guess where nothing tells.

    Parameters
    ----------
    proc, groups : Path
        Where the system shows its state, and its control groups.
    """
    known = [*_of_machine(proc), *_of_groups(proc, groups), *_of_process(proc)]
    return max(0, min(known)) if known else _GUESS


def _of_machine(proc: Path) -> Iterator[int]:
    """What the machine has left."""
    found = _number(proc / "meminfo", "MemAvailable:")
    if found is not None:
        yield found * 1024
        return
    try:
        yield os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    except (AttributeError, ValueError, OSError):
        return


def _of_groups(proc: Path, groups: Path) -> Iterator[int]:
    """What each control group around the process has left, which containers and job schedulers limit."""
    for line in _lines(proc / "self" / "cgroup"):
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if controllers == "":
            version, root = 2, groups
        elif "memory" in controllers.split(","):
            version, root = 1, groups / "memory"
        else:
            continue
        inner = path.strip().lstrip("/")
        # In a container the path may be that of the machine outside: the root shows the container's own group then.
        for folder in {root, *(root / part for part in (Path(inner), *Path(inner).parents))}:
            yield from _left(folder, *_FILES[version])


def _left(folder: Path, limit_file: str, usage_file: str, cache: str) -> Iterator[int]:
    limit, usage = _number(folder / limit_file), _number(folder / usage_file)
    if limit is not None and usage is not None and limit < _NO_LIMIT:
        yield limit - usage + (_number(folder / "memory.stat", cache) or 0)


def _of_process(proc: Path) -> Iterator[int]:
    """What the limits of the process leave, as ``ulimit -v`` sets them."""
    try:
        import resource
    except ImportError:
        return
    for name, line in _LIMITS:
        limit = resource.getrlimit(getattr(resource, name))[0] if hasattr(resource, name) else resource.RLIM_INFINITY
        taken = _number(proc / "self" / "status", line)
        if limit != resource.RLIM_INFINITY and taken is not None:
            yield limit - taken * 1024


def _number(file: Path, name: str = "") -> int | None:
    """The number in the line of a file that begins with `name`; None where there is none."""
    for line in _lines(file):
        words = line.split()
        if words and (not name or words[0] == name):
            value = words[1 if name else 0] if len(words) > bool(name) else ""
            return int(value) if value.isdigit() else None
    return None


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return []
