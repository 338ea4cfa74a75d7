"""Compilation of loops with numba, and the cache of compiled code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from numba import njit

try:
    from phimap.ops.compiled.checked_cache import CheckedCache, PackageFolder, cache_of
except ImportError:
    # This version of numba lacks private classes that `checked_cache` uses, so numba's own cache is used.
    cache_of = None

#: Decorator for small functions that are inlined into their callers.
inlined = njit(nogil=True, forceinline=True)


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a loop at its first call; the code is cached for later processes if a folder is writable."""
    if cache_of is None:
        return _with_own_cache(function)
    dispatcher = njit(nogil=True, error_model="numpy")(function)
    dispatcher._cache = cache_of(function)  # pyright: ignore[reportAttributeAccessIssue]
    return dispatcher


def _with_own_cache(function: Callable[..., Any]) -> Any:
    """Compile a loop with numba's own cache, or without a cache if numba finds no writable folder."""
    try:
        return njit(nogil=True, error_model="numpy", cache=True)(function)
    except RuntimeError:
        return njit(nogil=True, error_model="numpy")(function)


class Kept(NamedTuple):
    """The cache folder or None, the number of cached loops, and whether further loops can be cached."""

    folder: Path | None
    n_loops: int
    can_grow: bool


def kept() -> Kept:
    """Return which compiled code is cached for later processes; the contents of numba's own cache are not known."""
    cache: Any = None if cache_of is None else cache_of(kept)
    if not isinstance(cache, CheckedCache):
        return Kept(None, 0, can_grow=False)
    loops = {file.name for folder in cache.folders for file in folder.glob("*.nbi")}
    return Kept(cache.folders[0], len(loops), can_grow=not isinstance(cache.locator, PackageFolder))
