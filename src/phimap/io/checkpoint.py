"""Checkpoints: what a fit has seen so far, in a folder, so that it goes on after it was stopped."""

from __future__ import annotations

import json
import os
import platform
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import IO, Any, NoReturn, Self

import numpy as np

from phimap._files import DataError
from phimap.config import memory_budget, parse_seconds
from phimap.io.checkpoint_files import CheckpointFolder, DamagedError, PassState, read_states, write_states
from phimap.io.encoding import Encoder
from phimap.io.tensors import checksum
from phimap.learn.rows.checkpoint import CheckpointStore, DataFingerprint, StoredPass

# Finished passes of which copies are held until it is time to write, so that many short passes make few files.
_MOST_PENDING = 2**24
# Facts that are longer are told apart by a hash, and not shown.
_LONGEST_FACT = 60
_HASHED = "sha256:"


class Checkpoint(CheckpointStore):
    """Keeps what a fit has summed in a folder: the same fit, begun again, goes on where it was.

    Every pass over the rows is a sum. The sums so far, and those of the passes before, are written at intervals. A fit
    that finds them takes them up and ends with the same bits as one that was never stopped.

    Parameters
    ----------
    folder : path-like
        Made where there is none; one that holds anything else is refused.
    every : float or str, default="5min"
        Seconds between two writes, or text such as ``"30s"``, ``"5min"`` or ``"1h"``. A fit that is killed loses no
        more than that.
    tell : callable, optional
        Takes a line that says where a fit goes on, such as `print`.

    Raises
    ------
    DataError
        If the folder holds something else, is in use, or was written for other rows, other parameters, another version
        or another processor.

    Notes
    -----
    As a context it removes the folder when the block ends without an error: save the model in it. Without one, the
    folder stays until `remove`.

    What lies between passes (the search for a kernel, the choice of alpha, factorisations, corrections) is computed
    again. That takes the same processor: others round differently.

    **Error.** None. A file that is damaged is found by its checksum and told in a warning; the fit then goes on from
    the passes before.

    **Cost.** A write takes the time that the sums take to hash and to write, and no memory: 0.27 GB for 8,192 features
    by Cholesky factorisation. On disk there are up to three times as many bytes. Taking up a fit reads the rows that
    are in the sums, and drops them.

    **Differs from the source in** writing sums alone: there is no optimiser state.

    Examples
    --------
    >>> import numpy as np, phimap as pm, tempfile, pathlib
    >>> X = np.random.default_rng(0).standard_normal((500, 2))
    >>> batches = [(X[i : i + 100], X[i : i + 100, 0] ** 2) for i in range(0, 500, 100)]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with pm.Checkpoint(pathlib.Path(folder) / "run", every="1min") as checkpoint:
    ...         model = pm.KernelRegressor("gaussian", 64, random_state=0).fit_batches(batches, checkpoint=checkpoint)
    ...         pm.save(model, pathlib.Path(folder) / "squares.phimap")
    """

    def __init__(
        self, folder: str | os.PathLike[str], every: float | str = "5min", tell: Callable[[str], None] | None = None
    ):
        self._folder = CheckpointFolder(Path(folder))
        self._every, self._teller = parse_seconds("`every`", every), tell
        self._lock: IO[bytes] | None = None
        self._busy = False
        self._stop: BaseException | None = None

    # The folder ------------------------------------------------------------------------------------------------

    def open(self) -> Self:
        """Take the folder and read what is in it; nothing if that was done."""
        if self._lock is not None:
            return self
        self._folder.make()
        self._lock = self._locked()
        try:
            self._begin()
        except BaseException:
            self.close()
            raise
        return self

    def _begin(self) -> None:
        """Read the folder."""
        self._folder.tidy()
        self._facts: dict[str, dict[str, str]] = {}
        self._contents = DataFingerprint()
        self._current: PassState | None = None
        self._files: dict[int, Path] = {}
        # Finished passes that are not written yet; pass, fold and batches of the one that is not over.
        self._pending: list[PassState] = []
        self._going_on: tuple[int, Any, int] | None = None
        self._read()
        self._written = time.monotonic()
        self.agree("version", _version())

    @contextmanager
    def session(self) -> Iterator[None]:
        opened = self._lock is None
        self.open()
        try:
            yield
            # A step after the fit, such as writing its model, may fail.
            self._write()
        finally:
            if opened:
                self.close()

    def _locked(self) -> IO[bytes]:
        file = self._folder.lock.open("wb")
        try:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.close()
            raise DataError(
                f"`{self._folder.path}` is in use by another fit. Wait for its end, or give another folder."
            ) from error
        except (ImportError, OSError):
            # Where the system or the disk has no such locks nobody is kept out.
            pass
        return file

    def _read(self) -> None:
        """Learn which passes are known; what is damaged, and all that came after, is removed."""
        about: dict[str, Any] | None = None
        files, n_known = self._folder.passes(), 0
        for place, file in enumerate(files):
            try:
                states, about = read_states(file)
                if [one.index for one in states] != list(range(n_known, n_known + len(states))):
                    raise DamagedError(f"`{file}` does not follow the file before it")
            except DamagedError as error:
                self._say_lost(error, n_known)
                for lost in (*files[place:], self._folder.current):
                    lost.unlink(missing_ok=True)
                break
            n_known += len(states)
            self._files |= {one.index: file for one in states}
        if self._folder.current.exists():
            try:
                (current,), known = read_states(self._folder.current)
            except DamagedError as error:
                self._say_lost(error, n_known)
                self._folder.current.unlink()
            else:
                # One that was written before its pass was over is of no use any more.
                if current.index == n_known:
                    self._current, about = current, known
        if about is not None:
            self._facts, self._contents = about["facts"], DataFingerprint.of_state(about["contents"])

    def _say_lost(self, error: DamagedError, n_known: int) -> None:
        goes_on = f"goes on with pass {n_known + 1}, from its first row" if n_known else "begins anew"
        warnings.warn(f"{error}: the fit {goes_on}.", UserWarning, stacklevel=4)

    def close(self) -> None:
        """Leave the folder to others."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def remove(self) -> None:
        """Remove the folder."""
        self.open()
        self._folder.remove()
        self.close()

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            self.remove()
        self.close()

    # What a fit asks -------------------------------------------------------------------------------------------

    def agree(self, part: str, values: Mapping[str, Any]) -> None:
        facts = _facts_of(values)
        before = self._facts.setdefault(part, facts)
        for name in {**before, **facts}:
            old, new = before.get(name), facts.get(name)
            if old != new:
                hashed = any((one or _HASHED).startswith(_HASHED) for one in (old, new))
                raise DataError(
                    f"`{self._folder.path}` is the checkpoint of another fit: {name} "
                    f"{'differs' if hashed else f'was {old}, is {new}'}. Give the same again, delete the folder, or "
                    "name another."
                )

    def budget(self, memory: int | str | None) -> int:
        name = "the byte budget"
        if memory is not None or "memory" not in self._facts:
            self.agree("memory", {name: memory_budget(memory)})
        return int(self._facts["memory"][name])

    @property
    def contents(self) -> DataFingerprint:
        return self._contents

    def recall(self, index: int) -> StoredPass | None:
        if index in self._files:
            states, _ = read_states(self._files[index])
            found = next(one for one in states if one.index == index)
            return StoredPass(found.state(), found.n_batches, True)
        if self._current is not None and self._current.index == index:
            found, self._current = self._current, None
            return StoredPass(found.state(), found.n_batches, False)
        return None

    def tell(self, message: str) -> None:
        if self._teller is not None:
            self._teller(f"{self._folder.path}: {message}")

    @contextmanager
    def unbroken(self) -> Iterator[None]:
        self._busy = True
        try:
            yield
        finally:
            self._busy = False
        if self._stop is not None:
            self._write_and_raise(self._stop)

    def note(self, index: int, fold: Any, n_batches: int) -> None:
        self._going_on = index, fold, n_batches
        if self._is_time:
            self._write()

    def finish(self, index: int, fold: Any, n_batches: int) -> None:
        self._going_on = None
        state = PassState.of(index, n_batches, fold.state)
        # The next batches may change the sums, so they are copied, or written at once.
        if self._is_time or sum(one.n_bytes for one in (*self._pending, state)) > _MOST_PENDING:
            self._pending.append(state)
            self._write()
        else:
            self._pending.append(state.copy())

    def stop(self, error: BaseException) -> None:
        """Write what is known and raise `error`: at once, or after the batch that is being added."""
        if self._busy:
            self._stop = error
        else:
            self._write_and_raise(error)

    # Writing ---------------------------------------------------------------------------------------------------

    @property
    def _is_time(self) -> bool:
        return time.monotonic() - self._written >= self._every

    def _write_and_raise(self, error: BaseException) -> NoReturn:
        self._stop, self._busy = None, True
        try:
            self._write()
        finally:
            self._busy = False
        raise error

    def _write(self) -> None:
        """Write the passes that are over, once, and the current one."""
        about = {"facts": self._facts, "contents": self._contents.state}
        if self._pending:
            write_states(self._folder.file_of(self._pending[0].index), self._pending, about)
            self._folder.current.unlink(missing_ok=True)
            self._pending = []
        if self._going_on is not None:
            index, fold, n_batches = self._going_on
            write_states(self._folder.current, [PassState.of(index, n_batches, fold.state)], about)
        self._written = time.monotonic()


def _facts_of(values: Mapping[str, Any]) -> dict[str, str]:
    """Values that a file may hold, as text to compare: others than short ones are hashed."""
    facts = {}
    for name, value in values.items():
        arrays: dict[str, np.ndarray] = {}
        text = json.dumps(Encoder(arrays, ()).encode(value, name))
        short = not arrays and len(text) <= _LONGEST_FACT and "{" not in text
        facts[name] = text if short else _HASHED + checksum(text, arrays)
    return facts


def _version() -> dict[str, Any]:
    """What decides the bits of a result beside parameters and rows."""
    import scipy.linalg  # noqa: F401 - SciPy may bring a BLAS of its own
    from threadpoolctl import threadpool_info

    simd: Any = np.show_config(mode="dicts")
    # That of torch is there only in processes that have loaded it.
    blas = [info for info in threadpool_info() if info["user_api"] == "blas" and "torch" not in info["filepath"]]
    kernels = sorted({f"{info['internal_api']} {info['version']} {info.get('architecture')}" for info in blas})
    versions = {f"the version of {name}": version(name) for name in ("phimap", "numpy", "scipy", "numba")}
    return versions | {"the processor": [platform.machine(), simd["SIMD Extensions"], kernels]}
