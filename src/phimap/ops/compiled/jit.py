"""How loops are compiled: their options, and the files that keep them for the next process."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from numba import njit
from numba.core.caching import FunctionCache, IndexDataCacheFile, NullCache

_DIGEST_BYTES = 32

#: For small functions that become part of those that call them.
inlined = njit(nogil=True, forceinline=True)


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a loop when it is first called; the code is kept for the next process where a folder can be written."""
    dispatcher = njit(nogil=True, error_model="numpy")(function)
    dispatcher._cache = _cache_of(function)  # pyright: ignore[reportAttributeAccessIssue]
    return dispatcher


def kept() -> tuple[Path, int] | None:
    """The folder of code for later processes and how many loops it holds; None where no folder can be written."""
    cache = _cache_of(kept)
    if isinstance(cache, NullCache):
        return None
    folder = Path(cache.cache_path)
    return folder, len(list(folder.glob("*.nbi")))


class CheckedFiles(IndexDataCacheFile):
    """Files of compiled code that end with their checksum; those that do not are removed and made again."""

    def _load_index(self) -> Any:
        return super()._load_index() if self._whole(self._index_path) else {}

    def _load_data(self, name: str) -> Any:
        path = self._data_path(name)
        if not self._whole(path):
            # The caller takes this file for none, compiles, and writes it again.
            raise FileNotFoundError(path)
        return super()._load_data(name)

    @contextmanager
    def _open_for_write(self, filepath: str) -> Iterator[Any]:
        with super()._open_for_write(filepath) as file:
            yield file
            file.flush()
            file.write(hashlib.sha256(Path(file.name).read_bytes()).digest())

    def _whole(self, path: str) -> bool:
        try:
            content = Path(path).read_bytes()
        except OSError:
            return False
        if hashlib.sha256(content[:-_DIGEST_BYTES]).digest() == content[-_DIGEST_BYTES:]:
            return True
        with suppress(OSError):
            Path(path).unlink()
        return False


class CheckedCache(FunctionCache):
    """The cache of one function, of which a full disk or a folder that cannot be written costs time alone."""

    def __init__(self, function: Callable[..., Any]):
        super().__init__(function)
        base = self._impl.filename_base
        self._cache_file = CheckedFiles(cache_path=self._cache_path, filename_base=base, source_stamp=_source_stamp())

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except OSError as error:
            self.disable()
            _tell(f"{error.strerror or error}: {self._cache_path}")


@cache
def _source_stamp() -> list[tuple[str, int, int]]:
    """What tells whether code must be compiled anew: loops contain the functions of other files of this folder."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    return [(file.name, file.stat().st_mtime_ns, file.stat().st_size) for file in files]


def _cache_of(function: Callable[..., Any]) -> Any:
    try:
        return CheckedCache(function)
    except RuntimeError:
        # How numba says that it has found no folder.
        _tell("neither the package's folder nor one of the user can be written")
        return NullCache()


def _tell(reason: str) -> None:
    """Warn, once a process, that compiled code is not kept."""
    if not _told:
        _told.append(reason)
        warnings.warn(
            f"compiled code is not kept for the next process ({reason}). Set NUMBA_CACHE_DIR to a folder that can be "
            "written.",
            stacklevel=2,
        )


_told: list[str] = []
