"""The file formats that can be read. Each format has one line with its suffixes and its reader."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any


@dataclass(frozen=True)
class Format:
    """A file format.

    Attributes
    ----------
    name : str
        Name of the files of this format in messages.
    suffixes : tuple of str
    reader : str
        Module and class of the reader: a `ColumnFile` that takes a `TableSource`. It is imported when first needed.
    is_text : bool
        Whether files may be compressed, as ``.gz`` or as the only file of a ``.zip``.
    """

    name: str
    suffixes: tuple[str, ...]
    reader: str
    is_text: bool = False

    def open(self, source: Any) -> Any:
        """The columns of a file."""
        module, name = self.reader.split(":")
        return getattr(import_module(f"phimap.io.{module}"), name)(source)


#: The format of arrays, which are read as rows, not as columns with names and types.
ARRAYS = Format("arrays", (".npy", ".npz"), "npy:ArrayTable")
FORMATS = (
    Format("text tables", (".csv", ".tsv", ".tab", ".txt", ".dat", ".data"), "csv_file:TextColumns", is_text=True),
    ARRAYS,
    Format("Parquet files", (".parquet",), "parquet:ParquetColumns"),
    Format("Arrow files", (".feather", ".arrow"), "ipc:ArrowColumns"),
    Format("JSON files", (".json", ".jsonl", ".ndjson"), "json_file:JsonColumns", is_text=True),
    Format("libsvm files", (".libsvm", ".svmlight", ".svm"), "libsvm:LibsvmColumns"),
)
#: Suffixes of all formats.
TABLES = tuple(suffix for one in FORMATS for suffix in one.suffixes)
#: Suffixes of images; the content of the files is not checked.
IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".pgm", ".ppm", ".tif", ".tiff", ".webp")
_PACKED = (".gz", ".zip")


def format_of(name: str) -> Format | None:
    """The format of an uncompressed file by its lower-case name; None if it is not a table."""
    return next((one for one in FORMATS if name.endswith(one.suffixes)), None)


def unpacked(name: str) -> str:
    """The lower-case name without the suffix of a compressed file."""
    name = name.lower()
    return next((name.removesuffix(suffix) for suffix in _PACKED if name.endswith(suffix)), name)
