"""``phimap export``: a saved model as ONNX, or as a folder that NumPy alone can run."""

from __future__ import annotations

from pathlib import Path

from phimap.cli.options import ExportOptions
from phimap.cli.output import Fact, write
from phimap.cli.outputs import check_replaceable, check_writable
from phimap.exports import export
from phimap.io.model import load

# The first bytes of a model in ONNX: the field of the version of the format.
_ONNX = b"\x08"
_RUNTIME = b'"""Predictions of a '


def run(options: ExportOptions) -> None:
    """Run the command."""
    target, file = options.target, options.model
    if options.numpy:
        if target.exists() and not target.is_dir():
            raise NotADirectoryError(f"OUT {target}: is a file. With --numpy, give the name of a folder.")
        source = target / "predict.py"
        written, start, kind = [target / "model.safetensors", source], _RUNTIME, "exported model"
    else:
        if target.suffix != ".onnx":
            raise ValueError(f"OUT must end in .onnx, got {target}. Rename it, or write a folder with --numpy.")
        source, written, start, kind = target, [target], _ONNX, "ONNX model"
    if source.parent != target:
        check_writable("OUT", source, [str(file)])
    if not options.force:
        check_replaceable("OUT", source, lambda path: _starts_with(path, start), kind)
    export(load(file), target, format="numpy" if options.numpy else "onnx")
    facts = [Fact(path.name, path.stat().st_size) for path in written]
    write([Fact("model bytes", file.stat().st_size), *facts], as_json=options.json)


def _starts_with(path: Path, start: bytes) -> bool:
    with path.open("rb") as file:
        return file.read(len(start)) == start
