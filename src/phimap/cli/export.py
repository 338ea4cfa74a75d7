"""``phimap export``: a saved model as ONNX, or as a folder that NumPy alone can run."""

from __future__ import annotations

from pathlib import Path

from phimap.cli.options import ExportOptions
from phimap.cli.output import Fact, write
from phimap.cli.outputs import check_replaceable, check_writable
from phimap.exports import export
from phimap.io.model import load

# The first bytes of the files that are written. A model in ONNX begins with the field of the version of its format, and
# the header of a safetensors file follows the eight bytes of its length.
_ONNX, _SOURCE, _NUMBERS, _LENGTH_BYTES = b"\x08", b'"""Predictions of a ', b'{"__metadata__":{"phimap":', 8


def run(options: ExportOptions) -> None:
    """Run the command."""
    target, file = options.target, options.model
    if options.numpy:
        if target.exists() and not target.is_dir():
            raise NotADirectoryError(f"OUT {target}: is a file. With --numpy, give the name of a folder.")
        written = [target / "model.safetensors", target / "predict.py"]
    else:
        if target.suffix != ".onnx":
            raise ValueError(f"OUT must end in .onnx, got {target}. Rename it, or write a folder with --numpy.")
        written = [target]
    for path in written:
        # The export makes the folder if there is none.
        if path.parent.is_dir() or not options.numpy:
            check_writable("OUT", path, [str(file)])
        if not options.force:
            check_replaceable("OUT", path, _is_ours, "exported model" if options.numpy else "ONNX model")
    export(load(file), target, format="numpy" if options.numpy else "onnx")
    facts = [Fact(path.name, path.stat().st_size) for path in written]
    write([Fact("model bytes", file.stat().st_size), *facts], as_json=options.json)


def _is_ours(path: Path) -> bool:
    """Whether a file begins as an export begins the file of this name."""
    with path.open("rb") as file:
        if path.name == "model.safetensors":
            file.seek(_LENGTH_BYTES)
            return file.read(len(_NUMBERS)) == _NUMBERS
        start = _SOURCE if path.name == "predict.py" else _ONNX
        return file.read(len(start)) == start
