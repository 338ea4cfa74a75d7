"""The file formats that can be read, each in one line, and the files that a path stands for.

A path stands for one file, for a folder of images, or for the parts of a table.
"""

from __future__ import annotations

import glob
import os
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from phimap._files import WILD, DataError, is_pattern
from phimap.io.archive import stored_name
from phimap.io.source import check_file


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
        Whether files may be compressed, as ``.gz`` or ``.bz2``, or as the only file of a ``.zip``.
    """

    name: str
    suffixes: tuple[str, ...]
    reader: str
    is_text: bool = False

    def open(self, source: Any) -> Any:
        """The columns of a file."""
        module, name = self.reader.split(":")
        return getattr(import_module(f"phimap.io.{module}"), name)(source)


#: The format of arrays. They are read as rows, and not as columns with names and types.
ARRAYS = Format("arrays", (".npy", ".npz"), "npy:ArrayTable")
FORMATS = (
    Format("text tables", (".csv", ".tsv", ".tab", ".txt", ".dat", ".data"), "csv_file:TextColumns", is_text=True),
    ARRAYS,
    Format("Parquet files", (".parquet",), "parquet:ParquetColumns"),
    Format("Arrow files", (".feather", ".arrow"), "ipc:ArrowColumns"),
    Format("JSON files", (".json", ".jsonl", ".ndjson"), "json_file:JsonColumns", is_text=True),
    Format("Excel files", (".xlsx",), "excel:SheetColumns"),
    Format("libsvm files", (".libsvm", ".svmlight", ".svm"), "libsvm:LibsvmColumns"),
)
#: Suffixes of all formats.
TABLES = tuple(suffix for one in FORMATS for suffix in one.suffixes)
#: Suffixes of images. The content of the files is not checked.
IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".pgm", ".ppm", ".tif", ".tiff", ".webp")
PACKED = (".gz", ".bz2", ".zip")
# Files with these suffixes count as notes or licences if the folder also contains other tables.
_PROSE = (".txt", ".dat", ".data")


def format_of(name: str) -> Format | None:
    """The format of an uncompressed file by its lower-case name; None if it is not a table."""
    return next((one for one in FORMATS if name.endswith(one.suffixes)), None)


def unpacked(name: str) -> str:
    """The lower-case name without the suffix of a compressed file."""
    name = name.lower()
    return next((name.removesuffix(suffix) for suffix in PACKED if name.endswith(suffix)), name)


def checked_format(file: Path) -> Format:
    """The format of a readable file, compressed or not."""
    check_file(file)
    name = stored_name(file)
    found = format_of(name)
    if found is None:
        inside = "" if file.name.lower().endswith(name) else f" {Path(name).suffix!r} in"
        raise DataError(
            f"{file}: unknown kind of file{inside} {file.suffix!r}. Convert it to one of {', '.join(TABLES)}; text "
            "and JSON may be .gz, .bz2 or .zip."
        )
    if not found.is_text and not file.name.lower().endswith(name):
        raise DataError(f"{file}: holds a packed {Path(name).suffix} file. Unpack it first.")
    return found


def is_image_folder(path: Path) -> bool:
    """Whether a path is a folder to be read as images: it contains images, or it does not contain tables."""
    if not path.is_dir():
        return False
    names = files_below(path)
    images = next((name for name in names if name.lower().endswith(IMAGES)), None)
    table = next(iter(_tables_among(names)), None)
    if images is not None and table is not None:
        raise DataError(
            f"{path}: holds images ({images}) and tables ({table}). Give a folder of one kind, or the path of a file."
        )
    # A folder with the suffix of a table holds the parts of a table; it may be empty.
    return table is None and not path.name.lower().endswith(TABLES)


def parts_of(path: Path) -> tuple[Path, ...] | None:
    """The sorted files of one format that are the parts of a table; None if `path` is one file.

    In folders, names that begin with a dot or an underscore are ignored, because other programs use such names.
    """
    if path.is_dir():
        files = [path / name for name in _tables_among(files_below(path))]
        if not files:
            raise DataError(f"{path}: is a folder without tables. Give the path of a file, or a folder of its parts.")
    elif is_pattern(path):
        files = sorted(Path(name) for name in glob.glob(str(path), recursive=True))
        files = [file for file in files if file.is_file()]
        if not files:
            raise FileNotFoundError(f"{path}: no file is named like this. Check the pattern.")
        if (other := next((file for file in files if format_of(unpacked(file.name)) is None), None)) is not None:
            raise DataError(f"{path}: names {other}, which is no table. Give a pattern that names tables alone.")
    else:
        return None
    formats: dict[str, Path] = {}
    for file in files:
        formats.setdefault(format_of(unpacked(file.name)).name, file)  # pyright: ignore[reportOptionalMemberAccess]
    if len(formats) > 1:
        listed = " and ".join(f"{kind} ({file})" for kind, file in formats.items())
        raise DataError(f"{path}: holds {listed}. Name those of one format by a pattern, such as '*{files[0].suffix}'.")
    if ARRAYS.name in formats and len(files) > 1:
        raise DataError(f"{path}: holds {len(files)} arrays, which are not joined. Save them as one, or as Parquet.")
    return tuple(files)


def fixed_folder(path: Path) -> Path:
    """The folder that holds all parts of a table: `path` itself, or the part of a pattern before the first wildcard."""
    if path.is_dir():
        return path
    plain: list[str] = []
    for part in path.parts[:-1]:
        if any(mark in part for mark in WILD):
            break
        plain.append(part)
    return Path(*plain)


def files_below(folder: Path) -> list[str]:
    """Relative paths of all files below a folder except hidden files, sorted folder by folder.

    Links to folders raise an error, because they may form cycles.
    """
    found: list[tuple[str, ...]] = []
    for place, folders, files in os.walk(folder, onerror=_refuse_folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for link in filter(os.path.islink, (os.path.join(place, name) for name in folders)):
            raise DataError(
                f"{link}: is a link to a folder, which is not followed. Copy the folder, or remove the link."
            )
        parts = Path(place).relative_to(folder).parts
        found += [(*parts, name) for name in files if not name.startswith(".")]
    return ["/".join(parts) for parts in sorted(found)]


def _tables_among(names: list[str]) -> list[str]:
    """The names of tables. Files with the suffixes in `_PROSE` count only if there are no other tables or images."""
    tables = [
        name
        for name in names
        if format_of(unpacked(name)) and not any(part.startswith("_") for part in name.split("/"))
    ]
    others = [name for name in tables if not unpacked(name).endswith(_PROSE)]
    prose_alone = not others and not any(name.lower().endswith(IMAGES) for name in names)
    return tables if prose_alone else others


def _refuse_folder(error: OSError) -> NoReturn:
    raise DataError(f"{error.filename}: cannot be listed ({error.strerror}). Check its permissions.") from None
