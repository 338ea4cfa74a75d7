"""Sketches: random linear dimension reductions of vectors and of their tensor products.

A sketch preserves inner products in expectation, for all vectors.
"""

from phimap.sketches.base import Sketch
from phimap.sketches.countsketch import OSNAP, CountSketch
from phimap.sketches.polysketch import PolySketch
from phimap.sketches.srht import SRHT, TensorSRHT
from phimap.sketches.tensorsketch import TensorSketch

__all__ = ["OSNAP", "SRHT", "CountSketch", "PolySketch", "Sketch", "TensorSRHT", "TensorSketch"]
