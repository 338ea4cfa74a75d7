"""Checkpoints: folders with the sums of an unfinished fit, from which the fit can be resumed."""

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
from phimap.config import parse_seconds, stated_budget
from phimap.io.checkpoint_files import CheckpointFolder, DamagedError, PassState, read_states, write_states
from phimap.io.encoding import Encoder
from phimap.io.tensors import checksum
from phimap.learn.rows.checkpoint import CheckpointStore, DataFingerprint, StoredPass

# Largest number of bytes of finished passes that wait in memory for the next write. The states of short passes then
# share a file.
_MOST_PENDING = 2**24
# Largest number of characters of a fact that is stored as text; longer facts are hashed, and messages do not show them.
_LONGEST_FACT = 60
_HASHED = "sha256:"


class Checkpoint(CheckpointStore):
    """Stores the sums of a fit in a folder, from which the same fit can be resumed after a stop.

    The result of a pass over the rows is a sum. The sums of the current pass and of finished passes are written at
    intervals. A resumed fit gives the same bits as a fit without interruption.

    Parameters
    ----------
    folder : path-like
        Created if it does not exist. A folder with other files raises an error.
    every : float or str, default="5min"
        Seconds between two writes, or text such as ``"30s"``, ``"5min"`` or ``"1h"``. A fit that is killed loses the
        work since the latest write.
    tell : callable, optional
        Function such as `print`, called with a line that states where a fit is resumed.

    Raises
    ------
    DataError
        If the folder holds other files, is in use, or was written for other rows, other parameters, another version or
        another processor.

    Notes
    -----
    Used as a context manager, it removes the folder when the block ends without an error, so save the model within the
    block. Otherwise the folder stays until `remove` is called.

    The steps between the passes (search for a kernel, choice of alpha, factorisations, corrections) are not stored but
    computed again. This requires the same kind of processor, because other processors round differently.

    **Error.** None. A damaged file is recognised by its checksum; the fit warns and goes on after the undamaged passes.

    **Cost.** A write hashes and writes the sums, 0.27 GB for 8,192 features and Cholesky factorisation, without further
    memory. The folder takes up to three times as many bytes. A resumed fit reads all rows of the current pass, and
    leaves out those that the sums already include.

    **Differs from the source in** the content: only sums are stored, because there is no optimiser state.

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
        """Lock the folder and read its files, unless it is already open."""
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
        # `_pending` holds finished passes that are not written yet. `_going_on` holds the index, the accumulator and
        # the number of batches of the current pass.
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
            # The checkpoint is kept, because it is needed if a later step fails, such as writing the model.
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
            # Some systems and disks do not support locks. Concurrent fits are not prevented there.
            pass
        return file

    def _read(self) -> None:
        """Read all files; remove a damaged file and all later files."""
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
                # The file of a current pass is obsolete if this pass was finished later.
                if current.index == n_known:
                    self._current, about = current, known
        if about is not None:
            self._facts, self._contents = about["facts"], DataFingerprint.of_state(about["contents"])

    def _say_lost(self, error: DamagedError, n_known: int) -> None:
        goes_on = f"goes on with pass {n_known + 1}, from its first row" if n_known else "begins anew"
        warnings.warn(f"{error}: the fit {goes_on}.", UserWarning, stacklevel=4)

    def close(self) -> None:
        """Unlock the folder."""
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

    # The interface of CheckpointStore --------------------------------------------------------------------------------

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
            self.agree("memory", {name: stated_budget(memory)})
        return int(self._facts["memory"][name])

    @property
    def fingerprint(self) -> DataFingerprint:
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

    def report(self, message: str) -> None:
        if self._teller is not None:
            self._teller(f"{self._folder.path}: {message}")

    @contextmanager
    def uninterrupted(self) -> Iterator[None]:
        self._busy = True
        try:
            yield
        finally:
            self._busy = False
        if self._stop is not None:
            self._write_and_raise(self._stop)

    def record(self, index: int, accumulator: Any, n_batches: int) -> None:
        self._going_on = index, accumulator, n_batches
        if self._is_time:
            self._write()

    def finish(self, index: int, accumulator: Any, n_batches: int) -> None:
        self._going_on = None
        state = PassState.of(index, n_batches, accumulator.state)
        # The sums of the accumulator change with further batches, so they are either written now or copied.
        if self._is_time or sum(one.n_bytes for one in (*self._pending, state)) > _MOST_PENDING:
            self._pending.append(state)
            self._write()
        else:
            self._pending.append(state.copy())

    def stop(self, error: BaseException) -> None:
        """Write a checkpoint and raise `error`, but first finish adding the current batch, if any."""
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
        """Write the finished passes that are not written yet, and the current pass."""
        about = {"facts": self._facts, "contents": self._contents.state}
        if self._pending:
            write_states(self._folder.file_of(self._pending[0].index), self._pending, about)
            self._folder.current.unlink(missing_ok=True)
            self._pending = []
        if self._going_on is not None:
            index, accumulator, n_batches = self._going_on
            write_states(self._folder.current, [PassState.of(index, n_batches, accumulator.state)], about)
        self._written = time.monotonic()


def _facts_of(values: Mapping[str, Any]) -> dict[str, str]:
    """Convert values to text, by which they are compared; long texts and arrays are hashed."""
    facts = {}
    for name, value in values.items():
        arrays: dict[str, np.ndarray] = {}
        text = json.dumps(Encoder(arrays, ()).encode(value, name))
        short = not arrays and len(text) <= _LONGEST_FACT and "{" not in text
        facts[name] = text if short else _HASHED + checksum(text, arrays)
    return facts


def _version() -> dict[str, Any]:
    """Versions and hardware on which the bits of a result depend."""
    import scipy.linalg  # noqa: F401 - SciPy may bring a BLAS of its own
    from threadpoolctl import threadpool_info

    simd: Any = np.show_config(mode="dicts")
    # The BLAS of torch is not included, because only processes that have imported torch have it.
    blas = [info for info in threadpool_info() if info["user_api"] == "blas" and "torch" not in info["filepath"]]
    kernels = sorted({f"{info['internal_api']} {info['version']} {info.get('architecture')}" for info in blas})
    versions = {f"the version of {name}": version(name) for name in ("phimap", "numpy", "scipy", "numba")}
    return versions | {"the processor": [platform.machine(), simd["SIMD Extensions"], kernels]}
