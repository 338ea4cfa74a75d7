"""The memory that this process may still allocate within the limits of the machine, control groups and process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

# Bytes of free memory that are assumed if the system reports nothing.
_GUESS = 4 * 2**30
# Limits of a process, on its address space and on its data. Each pair has the name of the resource, and the line of
# `/proc/self/status` with the amount in use.
_LIMITS = (("RLIMIT_AS", "VmSize:"), ("RLIMIT_DATA", "VmData:"))
# Limits of at least this number of bytes mean "no limit". Version 1 of control groups reports a huge number if there is
# none.
_NO_LIMIT = 2**60
# For each version of control groups: the file with the limit, the file with the memory in use, and the line of the
# statistics with the size of the file cache. The cache counts as memory in use, but can be reclaimed.
_FILES = {
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    2: ("memory.max", "memory.current", "inactive_file"),
}


def free_memory(proc: Path = Path("/proc"), groups: Path = Path("/sys/fs/cgroup")) -> int:
    """Bytes that can be allocated without swapping or exceeding a limit; 4 GB if the system reports nothing.

    Parameters
    ----------
    proc, groups : Path
        Folders of the process file system and of the control groups.
    """
    known = [*_of_machine(proc), *_of_groups(proc, groups), *_of_process(proc)]
    return max(0, min(known)) if known else _GUESS


def _of_machine(proc: Path) -> Iterator[int]:
    """Available memory of the machine; half of the physical memory if only that is known."""
    found = _number(proc / "meminfo", "MemAvailable:")
    if found is not None:
        yield found * 1024
        return
    try:
        yield os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    except (AttributeError, ValueError, OSError):
        return


def _of_groups(proc: Path, groups: Path) -> Iterator[int]:
    """Memory left in each control group that contains the process; containers and job schedulers set such limits."""
    for line in _lines(proc / "self" / "cgroup"):
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if controllers == "":
            version, root = 2, groups
        elif "memory" in controllers.split(","):
            version, root = 1, groups / "memory"
        else:
            continue
        for folder in _folders(root, path.strip().lstrip("/")):
            yield from _left(folder, *_FILES[version])


@cache
def _folders(root: Path, inner: str) -> set[Path]:
    """The folders of the control group `inner` below `root`, and of all groups that contain it."""
    # In a container the path may refer to the host. The root folder is then the container's own group.
    return {root, *(root / part for part in (Path(inner), *Path(inner).parents))}


def _left(folder: Path, limit_file: str, usage_file: str, cache: str) -> Iterator[int]:
    # Most groups have no limit. Their other files are not read, because a prediction of one row waits for each file.
    limit = _number(folder / limit_file)
    if limit is not None and limit < _NO_LIMIT and (usage := _number(folder / usage_file)) is not None:
        yield limit - usage + (_number(folder / "memory.stat", cache) or 0)


def _of_process(proc: Path) -> Iterator[int]:
    """Memory left within the limits of the process, such as those set by ``ulimit -v``."""
    try:
        import resource
    except ImportError:
        return
    for name, line in _LIMITS:
        limit = resource.getrlimit(getattr(resource, name))[0] if hasattr(resource, name) else resource.RLIM_INFINITY
        if limit != resource.RLIM_INFINITY and (taken := _number(proc / "self" / "status", line)) is not None:
            yield limit - taken * 1024


def _number(file: Path, name: str = "") -> int | None:
    """The number in the line of a file that begins with `name`; None if there is no such line or number."""
    for line in _lines(file):
        words = line.split()
        if words and (not name or words[0] == name):
            value = words[1 if name else 0] if len(words) > bool(name) else ""
            return int(value) if value.isdigit() else None
    return None


def _lines(file: Path) -> list[str]:
    try:
        # Without a buffer and a decoder, reading a file takes half of the time.
        with open(file, "rb", buffering=0) as opened:
            return opened.read().decode("ascii", "replace").splitlines()
    except OSError:
        return []
