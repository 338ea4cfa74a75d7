"""The files of a checkpoint: states of passes in safetensors format, written atomically and with a checksum."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from phimap._files import DataError, write_whole
from phimap.io.decoding import Decoder
from phimap.io.encoding import Encoder
from phimap.io.tensors import checksum, read_tensors, write_tensors

_FORMATS = "phimap-checkpoint-"
_FORMAT = f"{_FORMATS}1"
_PASSES, _CURRENT, _LOCK = "passes-{:06d}.safetensors", "current.safetensors", "lock"
# Pattern of the names of temporary files that `write_whole` makes.
_UNFINISHED = ".phimap.*.part"
# Suffix of the keys of arrays that are stored transposed; no field name contains it.
_TRANSPOSED = ".T"


class DamagedError(DataError):
    """A file of a checkpoint is damaged."""


@dataclass(frozen=True)
class PassState:
    """The state of the accumulator of a pass, in a form that can be written.

    Attributes
    ----------
    index : int
        Number of the pass in the fit, from 0.
    n_batches : int
        Number of batches that the state includes.
    tree : object
        JSON in which arrays are represented by their keys.
    arrays : dict of str to ndarray
    """

    index: int
    n_batches: int
    tree: Any
    arrays: dict[str, np.ndarray]

    @classmethod
    def of(cls, index: int, n_batches: int, state: Any) -> PassState:
        """Convert a `state`, without copying its arrays."""
        arrays: dict[str, np.ndarray] = {}
        tree = _Encoder(arrays, ()).encode(state, f"pass{index}")
        return cls(index, n_batches, tree, arrays)

    @property
    def n_bytes(self) -> int:
        """Bytes of the arrays."""
        return sum(array.nbytes for array in self.arrays.values())

    def copy(self) -> PassState:
        """A copy with its own arrays."""
        arrays = {key: array.copy() for key, array in self.arrays.items()}
        return PassState(self.index, self.n_batches, self.tree, arrays)

    def state(self) -> Any:
        """The state of the accumulator."""
        arrays = {key: array.T if key.endswith(_TRANSPOSED) else array for key, array in self.arrays.items()}
        return Decoder(arrays, len(json.dumps(self.tree))).decode(self.tree)


class _Encoder(Encoder):
    """Stores Fortran-ordered arrays transposed. This preserves the memory order, which may affect rounding."""

    def _array(self, value: np.ndarray, path: str) -> dict[str, Any]:
        if value.ndim > 1 and value.flags.f_contiguous and not value.flags.c_contiguous:
            return super()._array(value.T, path + _TRANSPOSED)
        return super()._array(value, path)


class CheckpointFolder:
    """The folder of a checkpoint.

    Finished passes are written once. Passes that end within one interval share a file. The file of the current pass is
    replaced at each write.
    """

    def __init__(self, path: Path):
        self.path = path

    def make(self) -> None:
        """Create the folder if it does not exist; raise if it holds files that do not belong to a checkpoint."""
        if self.path.exists() and not self.path.is_dir():
            raise NotADirectoryError(f"`{self.path}` is a file. Give a folder for checkpoints.")
        if not self.path.parent.is_dir():
            raise FileNotFoundError(f"there is no folder `{self.path.parent}`. Make it first.")
        self.path.mkdir(exist_ok=True)
        ours = {self.current, self.lock, *self.passes(), *self._unfinished()}
        if other := sorted({*self.path.iterdir()} - ours):
            raise DataError(
                f"`{self.path}` holds {other[0].name!r}, which is no part of a checkpoint. Give an empty folder."
            )

    def tidy(self) -> None:
        """Remove the temporary files that a killed process has left."""
        for file in self._unfinished():
            file.unlink(missing_ok=True)

    def _unfinished(self) -> list[Path]:
        return list(self.path.glob(_UNFINISHED))

    @property
    def lock(self) -> Path:
        """The lock file."""
        return self.path / _LOCK

    def passes(self) -> list[Path]:
        """Files of finished passes, in order."""
        return sorted(self.path.glob("passes-*.safetensors"))

    @property
    def current(self) -> Path:
        """File of the current pass."""
        return self.path / _CURRENT

    def file_of(self, index: int) -> Path:
        """The path of the file whose first finished pass has number `index`."""
        return self.path / _PASSES.format(index)

    def remove(self) -> None:
        """Remove the files of the checkpoint, and the folder unless it holds other files."""
        self.tidy()
        # Later passes are removed first, so that the files left after an interrupt are a valid checkpoint.
        for file in [self.current, *reversed(self.passes()), self.lock]:
            file.unlink(missing_ok=True)
        # A folder with other files cannot be removed, and is kept.
        with suppress(OSError):
            self.path.rmdir()


def write_states(path: Path, states: list[PassState], about: Mapping[str, Any]) -> None:
    """Write the states of passes to a file, together with the facts `about` the fit."""
    arrays: dict[str, np.ndarray] = {}
    known = Encoder(arrays, ()).encode(dict(about), "about")
    passes = [{"index": one.index, "n_batches": one.n_batches, "tree": one.tree} for one in states]
    for one in states:
        arrays |= one.arrays
    text = json.dumps({"about": known, "passes": passes}, separators=(",", ":"))
    metadata = {"format": _FORMAT, "content": text, "sha256": checksum(text, arrays)}
    write_whole(path, lambda file: write_tensors(file, arrays, metadata))


def read_states(path: Path) -> tuple[list[PassState], dict[str, Any]]:
    """Read the states and facts from a file written by `write_states`.

    Raises
    ------
    DamagedError
        If the file is damaged.
    DataError
        If the file has another format.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            arrays = read_tensors(file)
    except (SafetensorError, ValueError) as error:
        raise DamagedError(f"`{path}` is damaged") from error
    text, written_as = metadata.get("content", ""), metadata.get("format", "")
    if written_as.startswith(_FORMATS) and written_as != _FORMAT:
        raise DataError(f"`{path}` has the format {written_as}, of another phimap. Use that, or give another folder.")
    if written_as != _FORMAT or checksum(text, arrays) != metadata.get("sha256"):
        raise DamagedError(f"`{path}` is damaged")
    content = json.loads(text)
    about = Decoder(arrays, len(text)).decode(content["about"])
    return list(_states(content["passes"], arrays)), about


def _states(passes: list[dict[str, Any]], arrays: dict[str, np.ndarray]) -> Iterator[PassState]:
    for one in passes:
        own = {key: array for key, array in arrays.items() if key.split(".", 1)[0] == f"pass{one['index']}"}
        yield PassState(one["index"], one["n_batches"], one["tree"], own)
