"""Sketches: random linear reductions of vectors and of their tensor products.

They keep inner products in the mean, whatever the vectors are. Each sketch has a file of its own.
"""

from phimap.sketches.base import Sketch
from phimap.sketches.countsketch import OSNAP, CountSketch
from phimap.sketches.polysketch import PolySketch
from phimap.sketches.srht import SRHT, TensorSRHT
from phimap.sketches.tensorsketch import TensorSketch

__all__ = ["OSNAP", "SRHT", "CountSketch", "PolySketch", "Sketch", "TensorSRHT", "TensorSketch"]
