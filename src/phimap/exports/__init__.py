"""Exports of fitted models: ONNX files, folders that need NumPy alone, and smaller models.

`tracer.py` is a backend of `phimap.ops` that records the operations of a map on arrays. `program.py` records a whole
learner as a `Graph`. `onnx_model.py` and `numpy_source.py` write graphs. `compression.py` makes smaller models.
"""

from phimap.exports.compression import compress
from phimap.exports.exporting import export
from phimap.exports.graph import ExportError

__all__ = ["ExportError", "compress", "export"]
