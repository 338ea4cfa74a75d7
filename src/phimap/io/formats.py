"""The kinds of files that are read: a line for each, with its suffixes and its reader."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any


@dataclass(frozen=True)
class Format:
    """A kind of file.

    Attributes
    ----------
    name : str
        The name of several such files in messages.
    suffixes : tuple of str
    reader : str
        Module and class: a `ColumnFile` that is made of a `TableSource`. It is loaded when first needed.
    is_text : bool
        Whether files may be compressed, as ``.gz`` or alone in ``.zip``.
    """

    name: str
    suffixes: tuple[str, ...]
    reader: str
    is_text: bool = False

    def open(self, source: Any) -> Any:
        """The columns of a file."""
        module, name = self.reader.split(":")
        return getattr(import_module(f"phimap.io.{module}"), name)(source)


#: Arrays are read as rows, not as columns with names and types.
ARRAYS = Format("arrays", (".npy", ".npz"), "npy:ArrayTable")
FORMATS = (
    Format("text tables", (".csv", ".tsv", ".tab", ".txt", ".dat", ".data"), "text_columns:TextColumns", is_text=True),
    ARRAYS,
    Format("Parquet files", (".parquet",), "parquet:ParquetColumns"),
    Format("Arrow files", (".feather", ".arrow"), "ipc:ArrowColumns"),
    Format("JSON files", (".json", ".jsonl", ".ndjson"), "json_file:JsonColumns", is_text=True),
    Format("libsvm files", (".libsvm", ".svmlight", ".svm"), "libsvm:LibsvmColumns"),
)
#: Suffixes of all formats.
TABLES = tuple(suffix for one in FORMATS for suffix in one.suffixes)
#: Suffixes of images, whatever they hold.
IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".pgm", ".ppm", ".tif", ".tiff", ".webp")
_PACKED = (".gz", ".zip")


def format_of(name: str) -> Format | None:
    """The format of an uncompressed file by its name in small letters; None if it is not a table."""
    return next((one for one in FORMATS if name.endswith(one.suffixes)), None)


def unpacked(name: str) -> str:
    """A name in small letters, without the suffix of a compressed file."""
    name = name.lower()
    return next((name.removesuffix(suffix) for suffix in _PACKED if name.endswith(suffix)), name)
