"""The cache of compiled code, with checksums and a choice of folders. Only this file uses numba's private classes.

`jit` falls back to numba's own cache if a version of numba lacks one of these classes.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from numba.core.caching import (
    CompileResultCacheImpl,
    FunctionCache,
    IndexDataCacheFile,
    InTreeCacheLocator,
    NullCache,
    UserProvidedCacheLocator,
    UserWideCacheLocator,
)

_DIGEST_BYTES = 32


class CheckedFiles(IndexDataCacheFile):
    """Files of compiled code that end with a checksum. A file with a wrong checksum is deleted and written anew."""

    def _load_index(self) -> Any:
        return super()._load_index() if self._whole(self._index_path) else {}

    def _load_data(self, name: str) -> Any:
        path = self._data_path(name)
        if not self._whole(path):
            # The caller treats the file as missing: it compiles the loop and writes the file again.
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


class PackageFolder(InTreeCacheLocator):
    """The package's folder, even if it is read-only: the user who installed the package may have cached code there."""

    @classmethod
    def from_function(cls, py_func: Callable[..., Any], py_file: str) -> PackageFolder | None:
        return cls(py_func, py_file) if Path(py_file).exists() else None


class Places(CompileResultCacheImpl):
    """Cache folders in order of preference.

    They are NUMBA_CACHE_DIR, the package's folder, the user's folder, and the package's folder if it is read-only.
    """

    _locator_classes = (UserProvidedCacheLocator, InTreeCacheLocator, UserWideCacheLocator, PackageFolder)


class CheckedCache(FunctionCache):
    """The cache of one function. If the disk is full or the folder read-only, code is compiled but not cached."""

    _impl_class = Places

    def __init__(self, function: Callable[..., Any]):
        super().__init__(function)
        self.locator = self._impl.locator
        self.folders = [Path(self._cache_path)]
        if isinstance(self.locator, UserWideCacheLocator):
            # The package's folder may be read-only for this user, but its cached code can be read.
            self.folders.append(Path(PackageFolder(function, function.__code__.co_filename).get_cache_path()))
        self._cache_file, *self._others = (
            CheckedFiles(cache_path=str(folder), filename_base=self._impl.filename_base, source_stamp=_source_stamp())
            for folder in self.folders
        )

    def _load_overload(self, sig: Any, target_context: Any) -> Any:
        found = super()._load_overload(sig, target_context)
        for files in self._others if found is None else ():
            data = files.load(self._index_key(sig, target_context.codegen()))
            found = None if data is None else self._impl.rebuild(target_context, data)
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except OSError as error:
            self.disable()
            _warn_once(f"{error.strerror or error}: {self._cache_path}")


@cache
def _source_stamp() -> bytes:
    """Return a hash of all files of this folder, because loops inline functions of other files.

    Cached code with another hash is compiled again.
    """
    digest = hashlib.sha256()
    for file in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(file.read_bytes())
    return digest.digest()


def cache_of(function: Callable[..., Any]) -> CheckedCache | NullCache:
    """Return the cache of one function. If no folder is writable, warn and return a cache that stores nothing."""
    try:
        return CheckedCache(function)
    except RuntimeError:
        # numba raises RuntimeError if it finds no writable folder.
        _warn_once("neither the package's folder nor one of the user can be written")
        return NullCache()


def _warn_once(reason: str) -> None:
    """Warn, once in a process, that compiled code is not cached."""
    if not _warned:
        _warned.append(reason)
        warnings.warn(
            f"compiled code is not kept for the next process ({reason}). Set NUMBA_CACHE_DIR to a folder that can be "
            "written.",
            stacklevel=2,
        )


_warned: list[str] = []
